package main

import (
	"archive/zip"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// A page as tools store it that decode the body and keep the head of the answer:
// Content-Length is that of the gzip.
var (
	decodedBody = "<!doctype html><title>A page</title>\n" + strings.Repeat("<p>words and more words\n", 50) + "<p>the last words"
	decodedPage = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 648\r\n\r\n" + decodedBody
)

func writeDecodedPage(t *testing.T) (path, digest string) {
	t.Helper()
	sum := sha1.Sum([]byte(decodedBody))
	digest = base32.StdEncoding.EncodeToString(sum[:])
	path = filepath.Join(t.TempDir(), "a.warc.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := warc.NewWriter(f, warc.WriterOptions{})
	for _, r := range []struct {
		h     warc.Header
		block string
	}{
		{warc.Header{{Name: "WARC-Type", Value: "warcinfo"}, {Name: "Content-Type", Value: "application/warc-fields"}}, "software: x\r\n"},
		{warc.Header{{Name: "WARC-Type", Value: "response"}, {Name: "WARC-Target-URI", Value: "http://origin.example/"}, {Name: "Content-Type", Value: "application/http; msgtype=response"},
			{Name: "WARC-Payload-Digest", Value: "sha1:" + digest}}, decodedPage},
		{warc.Header{{Name: "WARC-Type", Value: "response"}, {Name: "WARC-Target-URI", Value: "http://origin.example/none"}, {Name: "Content-Type", Value: "application/http; msgtype=response"}}, decodedPage},
	} {
		id := warc.Header{{Name: "WARC-Record-ID", Value: warc.NewRecordID()}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
		if err := w.WriteRecord(append(id, r.h...), strings.NewReader(r.block), int64(len(r.block))); err != nil {
			t.Fatal(err)
		}
	}
	return path, digest
}

// TestBodyLongerThanItSays: every command takes the whole body of a record whose
// Content-Length is too small, and says so.
func TestBodyLongerThanItSays(t *testing.T) {
	path, digest := writeDecodedPage(t)
	long := fmt.Sprintf("Content-Length is 648, but the body in the record has %d octets", len(decodedBody))
	coded := `Content-Encoding is "gzip", but the payload is not encoded so`
	for _, c := range []struct {
		args                   []string
		stdout, stderr, absent string
	}{
		{[]string{"cat", "--payload", "--url", "http://origin.example/", path}, "=" + decodedBody, long, coded},
		{[]string{"cat", "--decoded", "--url", "http://origin.example/", path}, "=" + decodedBody, coded, "\x00"},
		{[]string{"grep", "--payload", "the last words", path}, "the last words", long, "\x00"},
		{[]string{"show", "--lines", "1", "--url", "http://origin.example/", path}, "payload digest: ✓ right", "", "\x00"},
		{[]string{"show", "--lines", "1", "--url", "http://origin.example/none", path}, "Note: " + long, "", "\x00"},
		{[]string{"check", path}, "http-body: " + long, "0 errors, 4 warnings", "framing"},
		{[]string{"check", path}, "content-encoding: ", "", "payload-digest"},
		{[]string{"index", path}, digest, "", "\x00"},
	} {
		code, stdout, stderr := inProcess(t, c.args...)
		whole, exact := strings.CutPrefix(c.stdout, "=")
		if code != exitOK || exact && stdout != whole || !exact && !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || strings.Contains(stdout+stderr, c.absent) {
			t.Errorf("%v: %d\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
	if _, stdout, _ := inProcess(t, "index", path); strings.Count(stdout, digest) != 2 {
		t.Errorf("the record without a digest has another in the index:\n%s", stdout)
	}
	out := filepath.Join(t.TempDir(), "a.wacz")
	if code, _, stderr := inProcess(t, "pack", "-o", out, path); code != exitOK {
		t.Fatal(stderr)
	}
	z, err := zip.OpenReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	pages, err := z.Open("pages/pages.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(pages); err != nil || strings.Count(string(b), "the last words") != 2 || strings.Count(string(b), "A page") < 2 {
		t.Errorf("pages: %v\n%s", err, b)
	}
}

// TestSampleOfOthers reads a record of another writer, from the folder in
// WARCTEE_SAMPLES.
func TestSampleOfOthers(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	code, stdout, stderr := inProcess(t, "cat", "--decoded", "--url", "http://example.com/", "--type", "response", filepath.Join(dir, "warcio/example.warc.gz"))
	if code != exitOK || !strings.HasSuffix(stdout, "</html>\n") || stderr != "" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}
