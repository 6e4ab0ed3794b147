package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// writeResources writes a file with a warcinfo and n resources, whose headers change sees.
func writeResources(t *testing.T, path string, n int, change func(i int, h *warc.Header)) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := warc.NewWriter(f, warc.WriterOptions{})
	for i := range n + 1 {
		h := warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "WARC-Record-ID", Value: warc.NewRecordID()}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
		if i == 0 {
			h.Set("WARC-Type", "warcinfo")
			h.Add("WARC-Filename", filepath.Base(path))
		} else {
			h.Add("WARC-Target-URI", "http://example.org/")
			change(i, &h)
		}
		if err := w.WriteRecord(h, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	good, bad, mixed := filepath.Join(dir, "good"), filepath.Join(dir, "bad"), filepath.Join(dir, "mixed")
	for _, d := range []string{good, bad, mixed} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	as := func(name, value string) func(int, *warc.Header) {
		return func(_ int, h *warc.Header) { h.Set(name, value) }
	}
	writeResources(t, filepath.Join(good, "a.warc.gz"), 2, as("X", "y"))
	writeResources(t, filepath.Join(bad, "b.warc.gz"), 5, as("WARC-IP-Address", "example.org"))
	writeResources(t, filepath.Join(mixed, "c.warc.gz"), 1, as("WARC-Concurrent-To", warc.NewRecordID()))
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no WARC\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // expressions, for all of it
	}{
		{good, 0, `^$`, `^warctee: 3 records in 1 file \(2 resource, 1 warcinfo\), 0 errors, 0 warnings; .* in .*/s\n$`},
		{bad, 3, `^(\S+/bad/b\.warc\.gz: offset \d+: error: ip-address: "example\.org" is not an IP address \(WARC 1\.1 §5\.10\) resource <urn:uuid:\S+>\n){5}$`, `, 5 errors, 0 warnings; .*\nwarctee: 5 errors found: see above\n$`},
		{"--max-findings 2 " + bad, 3, `^(.*ip-address: "example.*\n){2}\S+b\.warc\.gz: error: ip-address: 3 more findings are not shown \(--max-findings\)\n$`, `5 errors found`},
		{"--max-findings 0 " + bad, 3, `^(.*ip-address.*\n){5}$`, ``},
		{good + " " + mixed, 0, `^\S+c\.warc\.gz: offset \d+: warning: concurrent-missing: .*\n$`, `5 records in 2 files \(3 resource, 2 warcinfo\), 0 errors, 1 warning; `},
		{"--complete " + mixed, 3, `error: concurrent-missing: `, `1 error found`},
		{"--profile warctee --jobs 1 " + good, 3, `error: warcinfo-place: `, `2 errors found`},
		{text, 3, `: offset 0: error: version: it starts with "no WARC\\n"`, ``},
		{"--json " + bad, 3, `^(\{"kind":"finding","file":.*\}\n){5}\{"kind":"file",.*\}\n\{"kind":"all",.*\}\n$`, ``},
		{filepath.Join(dir, "none"), 1, `^$`, `none: no such file`},
		{"", 2, `^$`, `which files\?`},
		{"--jobs 0 " + good, 2, `^$`, `--jobs 0: it must be at least 1`},
		{"--max-findings -1 " + good, 2, `^$`, `cannot be negative`},
		{"--profile other " + good, 2, `^$`, `"other" is not one of standard, warctee`},
		{"--rules", 0, `^RULE +STANDARD .*\n(.*\n)*concurrent-missing +warning\* +error +WARC 1\.1 §5\.7 `, `^$`},
		{"--rules --json", 0, `^(\{"rule":.*\}\n)+$`, `^$`},
		{"--rules " + good, 2, `^$`, `--rules takes no files`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"check"}, strings.Fields(c.args)...), &stdout, &stderr)
		if code != c.code || !regexp.MustCompile(c.stdout).Match(stdout.Bytes()) || !regexp.MustCompile(c.stderr).Match(stderr.Bytes()) {
			t.Errorf("%s: exit status %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, &stdout, &stderr)
		}
	}
	checkJSON(t, bad, good)
}

// checkJSON compares what --json says with docs/check.md.
func checkJSON(t *testing.T, bad, good string) {
	docs, err := os.ReadFile("../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	run(t.Context(), []string{"check", "--json", "--max-findings", "1", bad, good}, &stdout, new(bytes.Buffer))
	var kinds []string
	for line := range strings.Lines(stdout.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fmt.Sprint(object["kind"]))
		for name := range object {
			if !strings.Contains(string(docs), "`"+name+"`") {
				t.Errorf("docs/check.md does not tell of the field %s", name)
			}
		}
		if object["kind"] == "all" && (object["records"] != 9.0 || object["errors"] != 5.0 || !strings.Contains(line, `"findings":5,"hidden":4`)) {
			t.Errorf("%s", line)
		}
	}
	if got := strings.Join(kinds, " "); got != "finding file file all" {
		t.Errorf("lines of the kinds %s", got)
	}
}
