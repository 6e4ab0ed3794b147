package rotate

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// broken returns a set with a file that has two durable appends and one more,
// and that a fault has broken. After "truncate" the file has a fourth one, which
// its owner was told had failed, and a piece behind it.
func broken(t *testing.T, op string) (*Set, *faultFS, *File) {
	t.Helper()
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	add(t, a, "2")
	if err := a.Sync(); err != nil {
		t.Fatal(err)
	}
	add(t, a, "3")
	f.op, f.from, f.to, f.count = op, 1, 1, 0
	switch op {
	case "sync":
		if err := a.Sync(); !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	case "truncate":
		if _, _, err := a.Append(strings.NewReader(frame("4")+strings.Repeat("x", bufferSize)), iotest.ErrReader(errors.New("trouble"))); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), a.Name()) {
			t.Fatal(err)
		}
	}
	f.op = ""
	return s, f, a
}

func wantBroken(t *testing.T, s *Set, a *File) {
	t.Helper()
	if _, _, err := a.Append(strings.NewReader("x")); !errors.Is(err, ErrBroken) {
		t.Errorf("Append: %v", err)
	}
	if err := a.Sync(); !errors.Is(err, ErrBroken) {
		t.Errorf("Sync: %v", err)
	}
	if _, err := s.Current("a"); !errors.Is(err, ErrBroken) {
		t.Errorf("Current: %v", err)
	}
	if err := s.Finish(); !errors.Is(err, ErrBroken) {
		t.Errorf("Finish: %v", err)
	}
	if err := a.Err(); !errors.Is(err, ErrBroken) {
		t.Errorf("Err: %v", err)
	}
}

func TestSetAsideAfterSync(t *testing.T) {
	s, f, a := broken(t, "sync")
	wantBroken(t, s, a)
	syncs := 0
	for _, c := range f.calls {
		if strings.HasPrefix(c, "sync a-00000") {
			syncs++
		}
	}
	if syncs != 2 {
		t.Errorf("%d calls of fsync on one descriptor, one of them after it had failed", syncs)
	}
	f.calls = nil
	if err := a.SetAside(a.Size()); err != nil { // more than is durable: not kept
		t.Fatal(err)
	}
	// The descriptor that failed is not used again.
	if got := strings.Join(f.calls, ", "); !strings.HasPrefix(got, "stat a-00000.log.gz.open, close a-00000.log.gz.open, open a-00000.log.gz.open, fstat a-00000.log.gz.open, truncate a-00000.log.gz.open, sync a-00000.log.gz.open, close a-00000.log.gz.open, rename a-00000.log.gz.open, syncdir") {
		t.Errorf("calls: %s", got)
	}
	b := current(t, s, "a")
	add(t, b, "3")
	closeSet(t, s)
	wantArchive(t, s.options.Dir, map[string][]string{a.Name(): {"1", "2"}, b.Name(): {"3"}})
}

func TestSetAsideAfterWrite(t *testing.T) {
	s, _, a := broken(t, "truncate")
	wantBroken(t, s, a)
	if err := a.SetAside(a.Size()); err != nil {
		t.Fatal(err)
	}
	if err := a.SetAside(0); err != nil { // again: nothing to do
		t.Fatal(err)
	}
	closeSet(t, s)
	wantArchive(t, s.options.Dir, map[string][]string{a.Name(): {"1", "2", "3"}})
}

func TestCloseSetsAside(t *testing.T) {
	for op, want := range map[string][]string{"sync": {"1", "2"}, "truncate": {"1", "2", "3"}} {
		s, _, a := broken(t, op)
		if err := s.Close(); !errors.Is(err, ErrBroken) {
			t.Errorf("Close: %v", err)
		}
		wantArchive(t, s.options.Dir, map[string][]string{a.Name(): want})
	}
}

// bads returns the base names of the files that were set aside.
func bads(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.bad-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestSetAsideAsBad(t *testing.T) {
	for _, op := range []string{"open", "truncate", "sync", "close"} {
		t.Run(op, func(t *testing.T) {
			s, f, a := broken(t, "sync")
			var log bytes.Buffer
			s.log = slog.New(slog.NewTextHandler(&log, nil))
			f.op, f.from, f.to, f.count = op, 1, 2, 0 // close: of both descriptors
			err := a.SetAside(a.Synced())
			names := bads(t, s.options.Dir)
			if len(names) != 1 || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), names[0]) {
				t.Fatalf("%q, %v", names, err)
			}
			if !strings.Contains(log.String(), filepath.Base(names[0])) {
				t.Errorf("the log says %q", log.String())
			}
			if got := read(t, s.options.Dir, filepath.Base(names[0])); !strings.HasPrefix(got, frame("file "+a.Name())+frame("1")+frame("2")) {
				t.Errorf("it holds %q", got)
			}
			f.op = ""
			b := current(t, s, "a")
			add(t, b, "3")
			closeSet(t, s)
			wantArchive(t, s.options.Dir, map[string][]string{b.Name(): {"3"}})
		})
	}
}

// A file of which no append is durable: nothing is lost, so no error.
func TestSetAsideNothingGood(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	for range 2 { // twice in one second: two names
		a := current(t, s, "a")
		add(t, a, "1")
		f.op, f.from, f.count = "sync", 1, 0
		if err := a.Sync(); err == nil {
			t.Fatal("no fault")
		}
		f.op = ""
		if err := a.SetAside(a.Synced()); err != nil {
			t.Error(err)
		}
	}
	if names := bads(t, o.Dir); len(names) != 2 {
		t.Errorf("%q", names)
	}

	a := current(t, s, "a") // and one that is not even broken
	f.op, f.from, f.count = "write", 1, 0
	if _, _, err := a.Append(strings.NewReader("x")); err == nil {
		t.Fatal("no fault")
	}
	f.op = ""
	if err := a.SetAside(a.Size()); err != nil {
		t.Error(err)
	}
	closeSet(t, s)
	wantArchive(t, o.Dir, nil)
	if names := list(t, o.Dir); len(names) != 2 {
		t.Errorf("left: %q", names)
	}
}

func TestSetAsideCannotRename(t *testing.T) {
	s, f, a := broken(t, "sync")
	f.op, f.from, f.to, f.count = "rename", 1, 1, 0
	if err := a.SetAside(a.Synced()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	b := current(t, s, "a") // work goes on
	add(t, b, "3")
	closeSet(t, s) // and the name is put right
	wantArchive(t, s.options.Dir, map[string][]string{a.Name(): {"1", "2"}, b.Name(): {"3"}})
}

// A file that somebody removes, moves or writes to is not called durable.
func TestSyncNoticesStrangers(t *testing.T) {
	for name, stranger := range map[string]func(t *testing.T, dir, path string){
		"removed": func(t *testing.T, dir, path string) { os.Remove(path) },
		"replaced": func(t *testing.T, dir, path string) {
			os.Rename(path, filepath.Join(dir, "b.bad-"))
			write(t, dir, filepath.Base(path), strings.Repeat("somebody's", 100))
		},
		"appended to": func(t *testing.T, dir, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("somebody's")
			f.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, testOptions(dir))
			a := current(t, s, "a")
			add(t, a, "1")
			if err := a.Sync(); err != nil {
				t.Fatal(err)
			}
			add(t, a, "2")
			path := filepath.Join(dir, a.Name()+OpenSuffix)
			stranger(t, dir, path)
			if err := a.Sync(); !errors.Is(err, ErrBroken) {
				t.Fatalf("Sync: %v", err)
			}
			err := a.SetAside(a.Synced())
			if name == "appended to" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrLost) {
				t.Errorf("SetAside of a file that is gone: %v", err)
			}
			if name == "replaced" {
				if read(t, dir, filepath.Base(path)) != strings.Repeat("somebody's", 100) {
					t.Error("another file was touched")
				}
				os.Remove(path)
			}
			b := current(t, s, "a")
			add(t, b, "2")
			closeSet(t, s)
			want := map[string][]string{b.Name(): {"2"}}
			if name == "appended to" {
				want[a.Name()] = []string{"1"}
			}
			wantArchive(t, dir, want)
		})
	}
}

// A file that cannot even be renamed keeps all it has for the next start, and
// its series waits.
func TestSetAsideLeft(t *testing.T) {
	for _, op := range []string{"sync", "truncate", ""} {
		s, f, a := broken(t, op)
		f.op, f.from, f.to, f.count = "open", 1, 1, 0
		s.fs = &renameFails{f}
		err := a.SetAside(a.Size())
		if !errors.Is(err, ErrLeft) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("after %q: %v", op, err)
		}
		wantBroken(t, s, a)
		s.lock.Close()
		dir := s.options.Dir
		closeSet(t, open(t, testOptions(dir)))
		want := []string{"1", "2", "3"}
		if op == "truncate" {
			want = append(want, "4") // whole by chance
		}
		wantArchive(t, dir, map[string][]string{a.Name(): want})
	}
	s, f, a := broken(t, "sync")
	f.op, f.from, f.to, f.count = "open", 1, 1, 0
	s.fs = &renameFails{f}
	if err := a.SetAside(a.Size()); !errors.Is(err, ErrLeft) {
		t.Fatal(err)
	}
	s.fs = f
	if err := a.SetAside(a.Size()); err != nil { // again, and now it works
		t.Fatal(err)
	}
	closeSet(t, s)
	wantArchive(t, s.options.Dir, map[string][]string{a.Name(): {"1", "2"}})
}

type renameFails struct{ FS }

func (renameFails) Rename(string, string) error { return syscall.EIO }

// A system that says nothing about a short write, and one that reports a
// failed write when the file is closed.
func TestQuietShortWrite(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	f.op, f.from, f.how = "write", 1, halfQuiet
	if _, _, err := a.Append(strings.NewReader(frame("1"))); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Append: %v", err)
	}
	f.op = ""
	add(t, a, "2")
	f.op, f.how, f.count = "close", fails, 0
	if err := s.Finish(); !errors.Is(err, ErrBroken) {
		t.Errorf("Finish: %v", err)
	}
	f.op = ""
	if err := a.SetAside(a.Size()); err != nil {
		t.Error(err)
	}
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{a.Name(): {"2"}})
}
