package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

// writeArchive writes a file of responses with these messages, by URL.
func writeArchive(t *testing.T, path string, messages ...[2]string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := warc.NewWriter(f, warc.WriterOptions{})
	for i, m := range messages {
		h := warc.Header{{Name: "WARC-Type", Value: "response"}, {Name: "WARC-Record-ID", Value: fmt.Sprintf("<urn:uuid:00000000-0000-4000-8000-%012d>", i)}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}, {Name: "WARC-Target-URI", Value: m[0]}, {Name: "Content-Type", Value: "application/http;msgtype=response"}}
		if err := w.WriteRecord(h, strings.NewReader(m[1]), int64(len(m[1]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// inProcess runs a command line.
func inProcess(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// What an origin sends does no harm to a terminal.
func TestLookIsHarmless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	evil := "\x1b]0;title\x07\x1b[2J\u009b31m\u202etxt.exe\x9b\xff"
	writeArchive(t, path,
		[2]string{"http://origin.example/\u202e\u2066", "HTTP/1.1 200 " + evil + "\r\nContent-Type: text/plain; x=" + evil + "\r\nX-" + evil + ": y\r\n\r\nfind me " + evil + "\nand more\n"},
		[2]string{"http://origin.example/long", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 500) + "\r\n" + strings.Repeat("é", 300_000)},
		[2]string{"http://origin.example/bad", evil + "\r\n\r\n"})
	ids := []string{"000000000000", "000000000001", "000000000002"}
	lines := [][]string{{"ls", "--long", path}, {"grep", ".", path}, {"grep", "--payload", "find|é", path}, {"grep", "--headers", ".", path}, {"ls", "--json", path}, {"grep", "--json", "--payload", ".", path}}
	for _, id := range ids {
		lines = append(lines, []string{"show", "--id", "00000000-0000-4000-8000-" + id, path})
	}
	for _, args := range lines {
		code, stdout, stderr := inProcess(t, args...)
		if code != exitOK || len(stdout) < 20 {
			t.Errorf("%v: exit code %d, %d octets, %q", args, code, len(stdout), stderr)
		}
		for _, c := range stdout + stderr {
			if c != '\n' && !unicode.IsPrint(c) && !(strings.Contains(strings.Join(args, " "), "--json") && c >= 0x80 && c != '\u009b') || c == utf8.RuneError && args[0] == "show" {
				t.Errorf("%v writes %q", args, c)
				break
			}
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 2000 && args[1] != "--json" {
				t.Errorf("%v writes a line of %d octets", args, len(line))
			}
		}
	}
}

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"plain é 漢字":           "plain é 漢字",
		"\x1b[31m":             `\x1b[31m`,
		"a\tb\r\nc\x00\x7f":    `a\tb\r\nc\x00\x7f`,
		"\x9b1m \xff":          `\x9b1m \xff`,
		"\u009b1m":             `\u009b1m`,
		"\u202egpj.\u2069":     `\u202egpj.\u2069`,
		"\U000e0001":           `\U000e0001`,
		"\ufffd":               `\ufffd`,
		"back\\slash":          `back\slash`,
		"no-break\u00a0space!": `no-break\u00a0space!`,
	} {
		if got := harmless(text); got != want && text != "\ufffd" {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestCopyText(t *testing.T) {
	for text, want := range map[string]string{
		"all\tof it\r\né\n":    "all\tof it\r\né\n",
		"head\n\x1b[31m":       "head\n",
		"\x00":                 "",
		"a\xff":                "a",
		"a\u009b":              "a",
		"replaced \ufffd fine": "replaced \ufffd fine",
	} {
		var b bytes.Buffer
		if err := copyText(&b, strings.NewReader(text)); b.String() != want || (err == nil) != (text == want) {
			t.Errorf("%q: %q, %v", text, b.String(), err)
		}
	}
}

// A payload that is decompressed to far more than it was is not searched without
// end.
func TestGrepBomb(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(bytes.Repeat([]byte("x"), 3<<20))
	io.WriteString(z, "\nneedle\n")
	z.Close()
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	writeArchive(t, path, [2]string{"http://origin.example/", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb.String()},
		[2]string{"http://origin.example/broken", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb.String()[:100]},
		[2]string{"http://origin.example/unknown", "HTTP/1.1 200 OK\r\nContent-Encoding: x-y\r\n\r\nneedle"},
		[2]string{"http://origin.example/2", "HTTP/1.1 200 OK\r\n\r\nneedle"})
	f, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, most := range []int64{1 << 20, grepPayload} {
		var out, errs bytes.Buffer
		g := &grepping{flags: &grepFlags{payload: true}, pattern: regexp.MustCompile("needle"), filter: &archive.Filter{}, out: bufio.NewWriter(&out), stderr: &errs, most: most}
		if err := archive.Scan(f, g.record); err != nil {
			t.Fatal(err)
		}
		g.out.Flush()
		said := strings.Contains(errs.String(), "only the first 1.0 MiB of the payload were searched")
		if found := strings.Count(out.String(), "needle"); most == grepPayload && (found != 2 || said) || most < grepPayload && (found != 1 || !said) {
			t.Errorf("%d: found %q, said %q", most, out.String(), errs.String())
		}
		for _, said := range []string{"/broken: ", "/unknown: content-coding \"x-y\": unknown content-coding"} {
			if !strings.Contains(errs.String(), said) {
				t.Errorf("%d: %q does not tell %q", most, errs.String(), said)
			}
		}
	}
}

func TestGrepAround(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for _, line := range []string{"needle" + long, long + "needle", long + "needle" + long} {
		at := regexp.MustCompile("needle").FindStringIndex(line)
		got := around([]byte(line), at[0], at[1])
		if !strings.Contains(got, "needle") || len(got) > grepShown+10 || strings.Contains(got, `\x`) {
			t.Errorf("%q", got)
		}
	}
	if got := around([]byte(long), 0, len(long)); len(got) > grepShown+10 {
		t.Errorf("a long find: %q", got)
	}
}

// Whoever reads the output may stop at any time.
func TestReaderOfOutputStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	writeArchive(t, path, [2]string{"http://origin.example/", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("body\n", 100_000)})
	for _, args := range [][]string{{"ls", path}, {"cat", path + "@0"}, {"show", path + "@0"}, {"grep", "--payload", "body", path}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var errs bytes.Buffer
		if code := run(t.Context(), args, w, &errs); code != exitOK || errs.Len() > 0 {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
		w.Close()
	}
}

// An output that cannot be written is told once.
func TestLookWithoutRoom(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	writeArchive(t, path, [2]string{"http://origin.example/", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("body\n", 10_000)})
	for _, args := range [][]string{{"ls", path}, {"cat", path + "@0"}, {"show", path + "@0"}, {"grep", "--payload", "body", path}} {
		var errs bytes.Buffer
		if code := run(t.Context(), args, full, &errs); code != exitError || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "no space") {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}

// What is told of damage does no harm to a terminal.
func TestIndexIsHarmless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	writeArchive(t, path, [2]string{"http://origin.example/\u202e" + strings.Repeat("x", 70_000), "HTTP/1.1 200 OK\r\n\r\nx"})
	for _, args := range [][]string{{"index", path}, {"pack", path, "--out", filepath.Join(t.TempDir(), "a.wacz")}} {
		code, _, stderr := inProcess(t, args...)
		if code != exitFound || strings.ContainsAny(stderr, "\u202e") || !strings.Contains(stderr, `\u202e`) {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

// A file that is damaged does not keep the others from being looked at.
func TestLookAtDamaged(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.warc.gz"), filepath.Join(dir, "b.warc.gz")
	for _, path := range []string{a, b} {
		writeArchive(t, path, [2]string{"http://origin.example/1", "HTTP/1.1 200 OK\r\n\r\none"}, [2]string{"http://origin.example/2", "HTTP/1.1 200 OK\r\n\r\ntwo"})
	}
	content, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a, content[:len(content)*6/10], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", dir}, {"grep", "origin", dir}, {"grep", "--payload", "t?", dir}} {
		code, stdout, stderr := inProcess(t, args...)
		if code != exitFound || strings.Count(stdout, "/1") != 2 || strings.Count(stderr, damageHint) != 1 || !strings.Contains(stderr, "a.warc.gz: ") || !strings.Contains(stderr, damageHint) {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	code, stdout, stderr := inProcess(t, "cat", "--payload", "--url", "http://origin.example/2", dir)
	if code != exitOK || stdout != "two" || !strings.Contains(stderr, "left out from there on") {
		t.Errorf("cat: exit code %d, %q, %q", code, stdout, stderr)
	}
	if err := os.WriteFile(a, content[:len(content)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = inProcess(t, "cat", "--payload", "--id", "00000000-0000-4000-8000-000000000001", a)
	if code != exitFound || stdout != "two" || !strings.Contains(stderr, "gzip member is damaged") || strings.Contains(stderr, "framing") {
		t.Errorf("cat: exit code %d, %q, %q", code, stdout, stderr)
	}
	if err := os.WriteFile(a, content[:len(content)*6/10], 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = inProcess(t, "show", "--url", "http://origin.example/2", a)
	if code != exitFound || !strings.Contains(stderr, "a capture of http://origin.example/2 is not in "+a+"\n") || strings.Contains(stderr, `\n`) || !strings.Contains(stderr, "gzip member is damaged") {
		t.Errorf("show: exit code %d, %q", code, stderr)
	}
}

// What is whole behind damage is looked at too.
func TestLookBehindDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	writeArchive(t, path, [2]string{"http://origin.example/1", "HTTP/1.1 200 OK\r\n\r\none"}, [2]string{"http://origin.example/2", "HTTP/1.1 200 OK\r\n\r\ntwo"}, [2]string{"http://origin.example/3", "HTTP/1.1 200 OK\r\n\r\nthree"})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	middle := len(content) / 2
	clear(content[middle-40 : middle+40])
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", path}, {"grep", "origin", path}, {"grep", "--headers", "origin", path}, {"grep", "--payload", "one|three", path}} {
		code, stdout, stderr := inProcess(t, args...)
		if code != exitFound || !strings.Contains(stdout, "origin.example/3") || !strings.Contains(stderr, "left out up to offset") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		if first, _, _ := strings.Cut(stdout, "example/1"); args[0] == "ls" && !strings.Contains(first, " ? response") {
			t.Errorf("the record before the damage has a length, though nobody knows where it ends: %q", stdout)
		}
	}
	if code, stdout, stderr := inProcess(t, "cat", "--payload", "--url", "http://origin.example/3", path); code != exitOK || stdout != "three" {
		t.Errorf("cat: exit code %d, %q, %q", code, stdout, stderr)
	}
}

// Whether a payload is what its head says tells the exit status, and JSON has what
// was found as it is.
func TestLookAtPayload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("text ", 20000))
	z.Close()
	packed.Bytes()[packed.Len()-6] ^= 1
	writeArchive(t, path, [2]string{"http://origin.example/odd", "HTTP/1.1 200 OK\r\nContent-Encoding: x-y\r\n\r\nx"},
		[2]string{"http://origin.example/none", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx"},
		[2]string{"http://origin.example/sum", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed.String()},
		[2]string{"http://origin.example/short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"},
		[2]string{"http://origin.example/esc", "HTTP/1.1 200 OK\r\n\r\nfind \x1b[31m"})
	for name, want := range map[string]int{"odd": exitError, "none": exitOK, "sum": exitFound, "short": exitFound, "esc": exitOK} {
		code, _, stderr := inProcess(t, "cat", "--decoded", "--url", "http://origin.example/"+name, path)
		if code != want || code != exitOK && !strings.Contains(stderr, path+"@") {
			t.Errorf("%s: exit code %d, want %d: %q", name, code, want, stderr)
		}
	}
	if _, stdout, _ := inProcess(t, "grep", "--json", "--payload", "find", path); !strings.Contains(stdout, `"line":"find \u001b[31m"`) {
		t.Errorf("%q", stdout)
	}
}

// A digest that is wrong is said to be.
func TestShowWrongDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := warc.NewWriter(f, warc.WriterOptions{})
	h := warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "WARC-Record-ID", Value: "<x:1>"}, {Name: "WARC-Date", Value: "2026"}, {Name: "WARC-Target-URI", Value: "x:1"}, {Name: "WARC-Block-Digest", Value: "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, {Name: "WARC-Payload-Digest", Value: "crc:12"}}
	if err := w.WriteRecord(h, strings.NewReader("text\n"), 5); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := inProcess(t, "show", path+"@0")
	if code != exitFound || !strings.Contains(stdout, "block digest: ✗ wrong: of the 5 octets it is sha1:") || !strings.Contains(stdout, "payload digest: cannot be checked: ") || !strings.HasSuffix(stdout, "\ntext\n") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
