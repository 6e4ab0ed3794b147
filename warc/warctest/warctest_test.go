package warctest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

func write(t *testing.T, dir, name, filename string) {
	t.Helper()
	var buf bytes.Buffer
	h := warc.Header{{Name: "WARC-Type", Value: "warcinfo"}, {Name: "WARC-Record-ID", Value: warc.NewRecordID()}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
	h.Add("WARC-Filename", filename)
	h.Add("Content-Type", "application/warc-fields")
	opts := warc.WriterOptions{Compression: warc.Plain}
	if strings.Contains(name, ".gz") {
		opts = warc.WriterOptions{}
	}
	if err := warc.NewWriter(&buf, opts).WriteRecord(h, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.warc", "b.warc")
	write(t, dir, "a.warc.gz", "a.warc.gz")
	write(t, dir, "a.warc.gz.tail", "not looked at")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range Check(t, dir) {
		names = append(names, r.Header.Get("WARC-Filename"))
	}
	if !slices.Equal(names, []string{"a.warc.gz", "b.warc"}) {
		t.Errorf("records of %q", names)
	}
}

func TestCheckFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.warc.gz.open", "a.warc.gz")
	write(t, dir, "b.warc", "x.warc")
	r := &recorder{TB: t}
	Check(r, dir)
	if len(r.errors) != 2 || !strings.Contains(r.errors[0], "open-file") || !strings.Contains(r.errors[1], "WARC-Filename") {
		t.Errorf("%q", r.errors)
	}
}
