package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// The conformance suite: every store goes through all of it. open opens the
// store of a test; a second time it opens the same one again.
var stores = []struct {
	name    string
	durable bool
	open    func(t *testing.T, dir string) Index
}{
	{"memory", false, func(*testing.T, string) Index { return NewMemory() }},
	{"bolt", true, func(t *testing.T, dir string) Index {
		x, err := OpenBolt(filepath.Join(dir, "sub", "dedup.bolt"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}},
}

func entry(i int) Entry {
	return Entry{
		Digest: fmt.Sprintf("sha256:%064x", i*7919),
		Capture: Capture{
			RecordID:  fmt.Sprintf("<urn:uuid:00000000-0000-4000-8000-%012d>", i),
			TargetURI: fmt.Sprintf("https://example.com/%s?q=%d", strings.Repeat("p", i%300), i),
			Date:      "2026-01-02T03:04:05.678Z",
			File:      "warctee-20260102030405678-00000-host.warc.gz",
			Offset:    int64(i) << 33,
			Length:    int64(i),
			Method:    "GET",
		},
	}
}

func want(t *testing.T, x Index, e Entry) {
	t.Helper()
	c, ok, err := x.Lookup(e.Digest)
	if err != nil || !ok || c != e.Capture {
		t.Fatalf("Lookup(%q) = %+v, %v, %v, want %+v", e.Digest, c, ok, err, e.Capture)
	}
}

func wantNone(t *testing.T, x Index, digest string) {
	t.Helper()
	if c, ok, err := x.Lookup(digest); err != nil || ok || c != (Capture{}) {
		t.Fatalf("Lookup(%q) = %+v, %v, %v, want nothing", digest, c, ok, err)
	}
}

func commit(t *testing.T, x Index, entries ...Entry) {
	t.Helper()
	if err := x.Commit(entries); err != nil {
		t.Fatal(err)
	}
}

func closeIndex(t *testing.T, x Index) {
	t.Helper()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestIndex(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			run := func(name string, f func(t *testing.T, x Index)) {
				t.Run(name, func(t *testing.T) {
					x := s.open(t, t.TempDir())
					defer closeIndex(t, x)
					f(t, x)
				})
			}
			run("empty", func(t *testing.T, x Index) {
				wantNone(t, x, entry(1).Digest)
				wantNone(t, x, "")
				wantNone(t, x, strings.Repeat("x", 100_000))
				commit(t, x)
			})
			run("fields", testFields)
			run("replace", testReplace)
			run("refused", testRefused)
			run("batch", testBatch)
			run("concurrent", testConcurrent)
			t.Run("closed", func(t *testing.T) { testClosed(t, s.open(t, t.TempDir())) })
			if s.durable {
				t.Run("reopen", func(t *testing.T) {
					dir := t.TempDir()
					testReopen(t, func() Index { return s.open(t, dir) })
				})
			}
		})
	}
}

func testFields(t *testing.T, x Index) {
	entries := []Entry{
		{Digest: "d"},
		{Digest: strings.Repeat("d", MaxDigest), Capture: Capture{TargetURI: strings.Repeat("u", 70_000), Offset: 1<<63 - 1, Length: 1<<63 - 1}},
		{Digest: "sha1:\x00\xff", Capture: Capture{RecordID: "\x00", TargetURI: "ü\xff", Date: "d", File: "f", Offset: 1, Length: 127}},
		entry(300),
	}
	commit(t, x, entries...)
	for _, e := range entries {
		want(t, x, e)
	}
	wantNone(t, x, "dd")
}

func testReplace(t *testing.T, x Index) {
	a, b, c := entry(1), entry(2), entry(3)
	b.Digest, c.Digest = a.Digest, a.Digest
	commit(t, x, a)
	commit(t, x, b)
	want(t, x, b)
	commit(t, x, a, c) // the last one of a batch stays
	want(t, x, c)
}

func testRefused(t *testing.T, x Index) {
	bad := []Entry{
		{Digest: ""},
		{Digest: strings.Repeat("d", MaxDigest+1)},
		{Digest: "d", Capture: Capture{Offset: -1}},
		{Digest: "d", Capture: Capture{Length: -1}},
	}
	for _, e := range bad {
		good := entry(1)
		if err := x.Commit([]Entry{good, e}); err == nil {
			t.Errorf("Commit of %.20q, %+v succeeded", e.Digest, e.Capture)
		}
		wantNone(t, x, good.Digest) // all or none
	}
}

func testBatch(t *testing.T, x Index) {
	const n = 20_000
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = entry(i)
	}
	commit(t, x, entries...)
	for _, e := range entries {
		want(t, x, e)
	}
	wantNone(t, x, entry(n).Digest)
}

// testConcurrent has readers see each commit whole or not at all.
func testConcurrent(t *testing.T, x Index) {
	const writers, rounds = 3, 12
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() { // ends after its rounds
			for r := range rounds {
				n := w*rounds + r
				if err := x.Commit([]Entry{entry(2 * n), entry(2*n + 1)}); err != nil {
					t.Error(err)
				}
				if _, ok, err := x.Lookup(entry(2 * n).Digest); !ok || err != nil {
					t.Errorf("not there after its commit: %v, %v", ok, err)
				}
			}
		})
		all.Go(func() { // ends after the same number of rounds
			for r := range rounds * 20 {
				n := w*rounds + r%rounds
				_, second, err := x.Lookup(entry(2*n + 1).Digest)
				c, first, err2 := x.Lookup(entry(2 * n).Digest)
				if err != nil || err2 != nil {
					t.Error(err, err2)
				}
				if second && !first || first && c != entry(2*n).Capture {
					t.Errorf("half of a commit: %v, %v, %+v", first, second, c)
				}
			}
		})
	}
	all.Wait()
	for n := range writers * rounds * 2 {
		want(t, x, entry(n))
	}
}

func testClosed(t *testing.T, x Index) {
	commit(t, x, entry(1))
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { // ends when the index is closed
			for {
				c, ok, err := x.Lookup(entry(1).Digest)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil || !ok || c != entry(1).Capture {
					t.Errorf("%+v, %v, %v while it is being closed", c, ok, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	closeIndex(t, x)
	readers.Wait()
	closeIndex(t, x)
	if err := x.Commit([]Entry{entry(2)}); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close: %v", err)
	}
	if _, _, err := x.Lookup("d"); !errors.Is(err, ErrClosed) {
		t.Errorf("Lookup after Close: %v", err)
	}
}

func testReopen(t *testing.T, open func() Index) {
	for round := range 3 {
		x := open()
		for i := range round * 10 {
			want(t, x, entry(i))
		}
		for i := range 10 {
			commit(t, x, entry(round*10+i))
		}
		closeIndex(t, x)
	}
}

// What only the bbolt store has.

func openBolt(t *testing.T, path string) (Index, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	x, err := OpenBolt(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return x, &log
}

// filled returns the path of a file with n entries.
func filled(t *testing.T, n int) string {
	path := filepath.Join(t.TempDir(), "dedup.bolt")
	x, log := openBolt(t, path)
	var entries []Entry
	for i := range n {
		entries = append(entries, entry(i))
	}
	commit(t, x, entries...)
	closeIndex(t, x)
	if log.Len() > 0 {
		t.Errorf("said of an ordinary file: %s", log)
	}
	return path
}

// A commit that has returned is in the file, Close or not.
func TestBoltCommitIsDurable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "dedup.bolt")
	x, _ := openBolt(t, path)
	defer closeIndex(t, x)
	commit(t, x, entry(1), entry(2))
	content, err := os.ReadFile(path) // as a process finds it that starts after a kill
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy.bolt")
	if err := os.WriteFile(copied, content, 0o600); err != nil {
		t.Fatal(err)
	}
	y, _ := openBolt(t, copied)
	defer closeIndex(t, y)
	want(t, y, entry(1))
	want(t, y, entry(2))
}

// Entries of the first release end with the file.
func TestBoltEntryWithoutMethod(t *testing.T) {
	e := entry(3)
	older := encode(e)
	older = older[:len(older)-len("\x03GET")]
	binary.BigEndian.PutUint32(older, checksum(e.Digest, older[4:]))
	c, ok := decode(e.Digest, older)
	if e.Capture.Method = ""; !ok || c != e.Capture {
		t.Errorf("it is read as %+v, %v, want %+v", c, ok, e.Capture)
	}
}

// A mistyped path must not cost anybody a file.
func TestBoltOfSomebodyElse(t *testing.T) {
	for _, content := range []string{"this is no index\n", strings.Repeat("this is no index\n", 10_000), "x"} {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if x, err := OpenBolt(path, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: opened as %v, %v", content, x, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("%.20q: is now %.20q, %v", content, b, err)
		}
		if all, _ := filepath.Glob(path + "*"); len(all) != 1 {
			t.Errorf("%.20q: there are %q", content, all)
		}
	}
}

func TestBoltCorruptAtOpen(t *testing.T) {
	whole, err := os.ReadFile(filled(t, 2000))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for name, content := range map[string][]byte{
		"zeros":        make([]byte, 8*page),
		"one byte":     whole[:1],
		"half a page":  whole[:page/2],
		"one page":     whole[:page],
		"two pages":    whole[:2*page],
		"three pages":  whole[:3*page],
		"no meta data": append(make([]byte, 2*page), whole[2*page:]...),
		"no content":   append(bytes.Clone(whole[:2*page]), make([]byte, len(whole)-2*page)...),
		"noise": append(bytes.Clone(whole[:2*page]),
			bytes.Repeat([]byte{0xa5, 1, 0xff}, (len(whole)-2*page)/3)...),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dedup.bolt")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			x, log := openBolt(t, path)
			wantNone(t, x, entry(1).Digest)
			commit(t, x, entry(1))
			want(t, x, entry(1))
			closeIndex(t, x)
			aside(t, path, content)
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path) {
				t.Errorf("the log says %q", log)
			}
			x, log = openBolt(t, path)
			want(t, x, entry(1))
			closeIndex(t, x)
			if log.Len() > 0 {
				t.Errorf("said of the new file: %s", log)
			}
		})
	}
}

// aside checks that exactly one file was set aside, with that content; nil
// means any.
func aside(t *testing.T, path string, content []byte) {
	t.Helper()
	names, _ := filepath.Glob(path + ".corrupt-*")
	if len(names) != 1 {
		t.Fatalf("set aside: %q, want one", names)
	}
	if b, err := os.ReadFile(names[0]); err != nil || content != nil && !bytes.Equal(b, content) {
		t.Errorf("%s does not hold what was damaged (%v)", names[0], err)
	}
}

// Any byte of the file may be wrong: no entry that is found is.
func TestBoltDamagedBytes(t *testing.T) {
	const n = 60
	original, err := os.ReadFile(filled(t, n))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found, lost := 0, 0
	for at := 0; at < len(original); at += 331 {
		content := bytes.Clone(original)
		for i := range min(7, len(content)-at) {
			content[at+i] ^= 0x55
		}
		path := filepath.Join(dir, fmt.Sprint(at))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		x, _ := openBolt(t, path)
		for i := range n {
			e := entry(i)
			c, ok, err := x.Lookup(e.Digest)
			switch {
			case err != nil:
				t.Fatalf("damage at %d: %v", at, err)
			case ok && c != e.Capture:
				t.Fatalf("damage at %d: %q is %+v", at, e.Digest, c)
			case ok:
				found++
			default:
				lost++
			}
		}
		commit(t, x, entry(n)) // may not be found in what is left, but is never wrong
		if c, ok, err := x.Lookup(entry(n).Digest); err != nil || ok && c != entry(n).Capture {
			t.Fatalf("damage at %d: a new entry is %+v, %v, %v", at, c, ok, err)
		}
		closeIndex(t, x)
	}
	if found == 0 || lost == 0 {
		t.Errorf("%d found, %d lost: the damage should have hit some", found, lost)
	}
}

// A file that is damaged while it is open is replaced when that is noticed.
func TestBoltCorruptWhileOpen(t *testing.T) {
	damage := func(t *testing.T, path string) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		meta := int64(2 * os.Getpagesize())
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size()-meta)), meta); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []string{"lookup", "commit", "both"} {
		t.Run(first, func(t *testing.T) {
			path := filled(t, 2000)
			x, log := openBolt(t, path)
			defer closeIndex(t, x)
			want(t, x, entry(1))
			damage(t, path)
			switch first {
			case "lookup":
				wantNone(t, x, entry(1).Digest)
				commit(t, x, entry(1))
			case "commit":
				commit(t, x, entry(1))
			case "both":
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() { // ends after one call
						if _, _, err := x.Lookup(entry(100 + i).Digest); err != nil {
							t.Error(err)
						}
					})
				}
				commit(t, x, entry(1))
				all.Wait()
			}
			want(t, x, entry(1))
			aside(t, path, nil)
			if strings.Count(log.String(), "level=WARN") != 1 {
				t.Errorf("the log says %q", log)
			}
		})
	}
}

func TestBoltDamagedEntry(t *testing.T) {
	path := filled(t, 3)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := []byte(entry(1).Capture.RecordID)
	if !bytes.Contains(content, id) {
		t.Fatal("no such entry")
	}
	broken := bytes.Replace(id, []byte("-4000-"), []byte("-4001-"), 1)
	if err := os.WriteFile(path, bytes.ReplaceAll(content, id, broken), 0o600); err != nil {
		t.Fatal(err)
	}
	x, log := openBolt(t, path)
	defer closeIndex(t, x)
	want(t, x, entry(0))
	wantNone(t, x, entry(1).Digest)
	want(t, x, entry(2))
	if !strings.Contains(log.String(), entry(1).Digest) {
		t.Errorf("the log says %q", log)
	}
	commit(t, x, entry(1))
	want(t, x, entry(1))
}

func TestBoltLocked(t *testing.T) {
	path := filled(t, 1)
	x, _ := openBolt(t, path)
	_, err := OpenBolt(path, nil)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened a second time: %v", err)
	}
	want(t, x, entry(0))
	closeIndex(t, x)
	x, _ = openBolt(t, path)
	want(t, x, entry(0))
	closeIndex(t, x)
	if names, _ := filepath.Glob(path + ".*"); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

// Trouble that is not in the file leaves the file alone.
func TestBoltCannotOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenBolt(dir, nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	if names, _ := filepath.Glob(dir + ".*"); len(names) > 0 {
		t.Errorf("renamed to %q", names)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var system *fs.PathError
	if _, err := OpenBolt(filepath.Join(file, "dedup.bolt"), nil); !errors.As(err, &system) {
		t.Errorf("below a file: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("d", []byte{})
	for i := range 3 {
		e := entry(i)
		f.Add(e.Digest, encode(e))
	}
	f.Fuzz(func(t *testing.T, digest string, b []byte) {
		for _, b := range [][]byte{b, encode(Entry{Digest: digest, Capture: Capture{RecordID: string(b), Offset: int64(len(b))}})} {
			if c, ok := decode(digest, b); ok && c.Offset >= 0 && !bytes.Equal(encode(Entry{digest, c}), b) {
				t.Errorf("%+v does not encode to %x", c, b)
			}
		}
	})
}
