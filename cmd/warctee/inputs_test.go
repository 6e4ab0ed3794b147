package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/schollz/progressbar/v3"
)

func TestArchiveFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.warc.gz", "a.warc", "c.warc.zst", "d.warc.gz.open", "dedup.bolt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty", "x.warc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"below/e.warc", "below/f.warc/g.warc.gz", "below/.h.warc.gz", ".git/i.warc", "below/j.warc.gz.open"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../a.warc", filepath.Join(dir, "below", "link.warc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "below", "loop.warc")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "live"), 0o755), os.WriteFile(filepath.Join(dir, "live", "y.warc.gz.open"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	for _, test := range []struct {
		args, want []string
		err        string
	}{
		{in(""), in("a.warc", "b.warc.gz", "below/e.warc", "below/f.warc/g.warc.gz", "below/link.warc", "c.warc.zst"), ""},
		{in("below/loop.warc/below/f.warc"), in("below/loop.warc/below/f.warc/g.warc.gz"), ""},
		{in("dedup.bolt", "a.warc"), in("dedup.bolt", "a.warc"), ""},
		{in("", "a.warc"), nil, "named twice"},
		{in("none"), nil, "none"},
		{in("empty"), nil, "no WARC files"},
		{in("live"), nil, "live/y.warc.gz.open, which is being written"},
		{nil, nil, "which files"},
	} {
		got, size, err := archiveFiles(test.args)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: error %v", test.args, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, test.want) || size != int64(5*len(got)) {
			t.Errorf("%q: %q, %d, %v", test.args, got, size, err)
		}
	}
	var usage usageError
	if _, _, err := archiveFiles(nil); !errors.As(err, &usage) {
		t.Error("no files are no usage error")
	}
}

// What is written after the bar is gone stays.
func TestProgressIsDoneOnce(t *testing.T) {
	var b bytes.Buffer
	p := &progress{bar: progressbar.NewOptions64(100, progressbar.OptionSetWriter(&b))}
	p.add(50)
	p.done()
	b.Reset()
	if p.done(); b.Len() > 0 {
		t.Errorf("done again writes %q", b.String())
	}
}

// The bar shows no rate before it can know one.
func TestProgressStartsWithoutARate(t *testing.T) {
	var b bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := &progress{bar: newBar(&b, 100e6, "checking")}
		p.add(10e6)
		if shown := b.String(); !strings.Contains(shown, "checking") || strings.Contains(shown, "/s") {
			t.Errorf("at the start it shows %q", shown)
		}
		time.Sleep(2 * time.Second)
		p.add(10e6)
		if shown := b.String(); !strings.Contains(shown, "10 MB/s") {
			t.Errorf("after 2 s it shows %q", shown)
		}
		p.done()
	})
}

// What is not a terminal gets no bar.
func TestProgressOnATerminalOnly(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, 100, "checking")
	p.add(50)
	p.clear()
	p.done()
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
	if got := rate(3_000_000, 2*time.Second); got != "3.0 MB in 2s, 1.5 MB/s" {
		t.Error(got)
	}
}
