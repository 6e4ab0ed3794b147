//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain makes the test program the proxies that are in this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		fmt.Fprintln(os.Stderr, runProgram(os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestBench has mixes of few requests.
func TestBench(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	b, err := newBench(&selection{dir: t.TempDir(), big: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for _, m := range b.mixes {
		m.requests = min(m.requests, 2*len(m.files))
	}
	t.Run("compare", func(t *testing.T) { testCompare(t, b) })
	t.Run("archive differs", func(t *testing.T) { testArchiveDiffers(t, b) })
	t.Run("content differs", func(t *testing.T) { testContentDiffers(t, b) })
	t.Run("growth", func(t *testing.T) { testGrowth(t, b) })
	t.Run("selection", func(t *testing.T) { testSelection(t, b.mixes) })
}

func testCompare(t *testing.T, b *bench) {
	s := &selection{}
	chosen, err := s.chosen()
	if err != nil {
		t.Fatal(err)
	}
	loads := []load{{b.mixes["page"], "https", 3}, {b.mixes["revisit"], "http", 2}, {b.mixes["big"], "http", 1}}
	r := newReport(chosen, loads)
	for _, l := range loads {
		if err := b.round(r, 1, l); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	for _, l := range r.firstLoads {
		if err := b.firstBytes(chosen, l, 5, r.firsts[l]); err != nil {
			t.Fatalf("first bytes, %s: %v", l, err)
		}
	}
	for _, l := range loads {
		for _, s := range chosen {
			for _, got := range r.results[l][s.name] {
				if got.requests != l.mix.requests || got.octets < 1000 || got.delivered <= 0 || got.written < got.delivered || got.durable < got.written || got.p99 < got.p50 ||
					s.start != nil && got.allocated < 1000 {
					t.Errorf("%s, %s: %+v", l, s.name, got)
				}
			}
		}
	}
	for _, l := range r.firstLoads {
		if n := len(r.firsts[l]["warctee"]); n != 5 {
			t.Errorf("%s: %d first bytes were timed, want 5", l, n)
		}
	}
	if text := r.String(); !strings.Contains(text, "| page, https, 3 clients ") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("the report is\n%s", text)
	}
}

// testArchiveDiffers has the archive of a run compared with other traffic.
func testArchiveDiffers(t *testing.T, b *bench) {
	dir := filepath.Join(t.TempDir(), "warcs")
	p, err := b.startWarctee(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	_, all, err := b.run(p, true, load{b.mixes["revisit"], "http", 2}, traffic{})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkArchive(dir, all); err != nil {
		t.Error(err)
	}
	for _, more := range []traffic{{responses: 1}, {revisits: -1}, {octets: 1}} {
		other := all
		other.add(more)
		if err := checkArchive(dir, other); err == nil {
			t.Errorf("%+v is not missed in an archive of %+v", more, all)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	if err := os.Truncate(names[0], 1000); err != nil {
		t.Fatal(err)
	}
	if err := checkArchive(dir, all); err == nil {
		t.Error("a file that was cut is not noticed")
	}
}

// testContentDiffers lets a client expect something else than the origin has.
func testContentDiffers(t *testing.T, b *bench) {
	for _, name := range []string{"page", "big"} {
		m := b.mixes[name]
		c, err := dial("https", b.origin.host("https"), "", b.roots)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if _, _, err := c.get(m, 7, 0); err != nil {
			t.Error(err)
		}
		other := *m
		other.files = slices.Clone(m.files)
		other.files[0].from = slices.Clone(m.files[0].from)
		content := m.content(8, 0)
		last := &other.files[0].from[(content.at+int(content.size)-len(content.label)-1)%len(content.from)]
		*last ^= 1
		if _, _, err := c.get(&other, 8, 0); err == nil {
			t.Errorf("%s: an octet that differs is not noticed", name)
		}
		c, err = dial("https", b.origin.host("https"), "", b.roots)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		other.files[0].from = m.files[0].from
		other.files[0].size++
		if _, _, err := c.get(&other, 9, 0); err == nil {
			t.Errorf("%s: an octet that is missing is not noticed", name)
		}
	}
}

func testGrowth(t *testing.T, b *bench) {
	for _, make := range []func(int) (stage, error){b.files, b.index, b.connections} {
		s, err := make(101)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // what the first leaves does not disturb the second
			if _, err := b.stage(s); err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
		}
	}
	if names, _ := filepath.Glob(filepath.Join(b.tmp, "files-101", "*")); len(names) != 101 {
		t.Errorf("%d files are left, want 101", len(names))
	}
}

func testSelection(t *testing.T, mixes map[string]*mix) {
	for _, test := range []struct {
		args  string
		loads int
	}{
		{"", 9},
		{"-mixes page", 1},
		{"-mixes page,big -clients 1,16 -schemes http,https", 6},
		{"-clients 4", 6},
	} {
		s, err := parse(strings.Fields(test.args))
		if err != nil {
			t.Fatal(err)
		}
		if loads, err := s.loads(mixes); err != nil || len(loads) != test.loads {
			t.Errorf("%q selects %v, %v; want %d", test.args, loads, err, test.loads)
		}
	}
	for _, args := range []string{"-mixes pages", "-schemes ftp"} {
		s, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.loads(mixes); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	for _, args := range []string{"-clients 0", "page", "-rounds 0"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// BenchmarkCompare is what the clients do with what they get.
func BenchmarkCompare(b *testing.B) {
	m := newMixes(1<<20, 1)["big"]
	c, content := &client{}, m.content(1, 0)
	b.SetBytes(content.size)
	all := make([]byte, 0, content.size)
	for int64(len(all)) < content.size {
		all = append(all, content.piece(int64(len(all)))...)
	}
	for b.Loop() {
		if err := c.compare(bytes.NewReader(all), &content); err != nil {
			b.Fatal(err)
		}
	}
}
