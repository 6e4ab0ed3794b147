package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A package beside the files of which it was made has copies of their records: it does
// not count in their directory, and does in one of its own.
func TestPackageInDirectory(t *testing.T) {
	dir := t.TempDir()
	writeArchive(t, filepath.Join(dir, "a.warc.gz"), [2]string{"http://origin.example/1", "HTTP/1.1 200 OK\r\n\r\none"})
	if code, _, stderr := inProcess(t, "pack", dir, "--out", filepath.Join(dir, "site.wacz")); code != exitOK {
		t.Fatal(stderr)
	}
	if code, stdout, _ := inProcess(t, "check", dir); code != exitOK || strings.Contains(stdout, "unique-id") {
		t.Errorf("check: exit code %d, %s", code, stdout)
	}
	for _, want := range []string{"/a.warc.gz", "/site.wacz!archive/a.warc.gz"} {
		for _, args := range [][]string{{"ls", dir}, {"grep", "one", "--payload", dir}} {
			code, stdout, stderr := inProcess(t, args...)
			if code != exitOK || strings.Count(stdout, "a.warc.gz") != 1 || !strings.Contains(stdout, want) {
				t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
			}
		}
		if code, stdout, stderr := inProcess(t, "index", dir); code != exitOK || strings.Count(stdout, "\n") != 1 {
			t.Errorf("index: exit code %d, %q, %q", code, stdout, stderr)
		}
		os.Remove(filepath.Join(dir, "a.warc.gz"))
	}
}

// Originals are taken from a package, named or in a directory, as from a file.
func TestOriginalsInPackage(t *testing.T) {
	dir := t.TempDir()
	original := filepath.Join(dir, "o.warc")
	digest := "WARC-Payload-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n"
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := func(kind, id, fields, text string) string {
		const response = "Content-Type: application/http; msgtype=response\r\n"
		return "WARC/1.1\r\nWARC-Type: " + kind + "\r\nWARC-Record-ID: <urn:x:" + id + ">\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.org/o\r\n" +
			response + digest + fields + "Content-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text + "\r\n\r\n"
	}
	write(original, record("response", "o", "", "HTTP/1.1 200 OK\r\n\r\nit"))
	revisit := filepath.Join(t.TempDir(), "v.warc")
	write(revisit, record("revisit", "v", "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"+
		"WARC-Refers-To: <urn:x:o>\r\nWARC-Refers-To-Target-URI: http://example.org/o\r\nWARC-Refers-To-Date: 2026-01-01T00:00:00Z\r\n", "HTTP/1.1 200 OK\r\n\r\n"))
	packages := t.TempDir()
	pkg := filepath.Join(packages, "o.wacz")
	if code, _, stderr := inProcess(t, "pack", original, "--out", pkg); code != exitOK {
		t.Fatal(stderr)
	}
	for _, from := range []string{pkg, packages, pkg + "!archive/o.warc"} {
		code, _, stderr := inProcess(t, "pack", revisit, "--add-originals", from, "--out", filepath.Join(t.TempDir(), "x.wacz"))
		if code != exitOK || !strings.Contains(stderr, "1 original taken along") || strings.Contains(stderr, "left out") {
			t.Errorf("%s: exit code %d, %s", from, code, stderr)
		}
	}
}
