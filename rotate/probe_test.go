package rotate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// Probe says whatever is wrong, and leaves nothing behind when nothing is.
func TestProbe(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	for range 2 {
		if err := s.Probe(); err != nil {
			t.Error(err)
		}
	}
	for _, op := range []string{"create", "write", "sync", "close", "remove"} {
		for _, how := range []how{fails, half, halfQuiet} {
			if op != "write" && how != fails {
				continue
			}
			f.op, f.from, f.to, f.how, f.count = op, 1, 9, how, 0
			if err := s.Probe(); err == nil || !strings.Contains(err.Error(), o.Dir) && how != halfQuiet {
				t.Errorf("%s fails: %v", op, err)
			}
			f.op = ""
			if err := s.Probe(); err != nil {
				t.Errorf("after %s: %v", op, err)
			}
		}
	}
	if names := list(t, o.Dir); len(names) > 0 {
		t.Errorf("%q is left", names)
	}
	closeSet(t, s)
	if err := s.Probe(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestFree(t *testing.T) {
	s := open(t, testOptions(t.TempDir()))
	free, total, err := s.Free()
	if err != nil || total == 0 || free > total {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	if err := os.RemoveAll(s.options.Dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Free(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a directory that is gone: %v", err)
	}
}

// A directory that is taken away and comes back empty is locked again; one that
// somebody else has locked meanwhile is not.
func TestDirectoryMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := open(t, testOptions(dir))
	add(t, current(t, s, "a"), "1")
	if err := os.Rename(dir, dir+" away"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Probe": s.Probe(), "Current": errorOf(s.Current("b"))} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the directory "+dir+" is gone") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	other := open(t, testOptions(dir))
	if err := s.Probe(); !errors.Is(err, ErrLocked) {
		t.Errorf("Probe where another set is: %v", err)
	}
	closeSet(t, other)
	if err := s.Probe(); err != nil {
		t.Error(err)
	}
	if _, err := Open(testOptions(dir)); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second set: %v", err)
	}
	add(t, current(t, s, "b"), "2")

	// A lock file that somebody has tidied away.
	if err := os.Remove(filepath.Join(dir, ".lock")); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(); err != nil {
		t.Error(err)
	}
	if _, err := Open(testOptions(dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("a second set: %v", err)
	}
}

func errorOf(_ *File, err error) error { return err }

// What was not durable in a file that somebody moves away does not stay in it.
func TestMovedFileIsCutBack(t *testing.T) {
	for _, durable := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, testOptions(dir))
		a := current(t, s, "a")
		want := ""
		if durable {
			add(t, a, "1")
			if err := a.Sync(); err != nil {
				t.Fatal(err)
			}
			want = frame("file "+a.Name()) + frame("1")
		}
		good := a.Size()
		add(t, a, "2")
		moved := filepath.Join(t.TempDir(), "moved")
		if err := os.Rename(filepath.Join(dir, a.Name()+OpenSuffix), moved); err != nil {
			t.Fatal(err)
		}
		if err := a.Sync(); !errors.Is(err, ErrBroken) {
			t.Fatal(err)
		}
		if err := a.Salvage(good); errors.Is(err, ErrLost) != durable || errors.Is(err, ErrLeft) {
			t.Errorf("Salvage: %v", err)
		}
		if got, err := os.ReadFile(moved); string(got) != want {
			t.Errorf("it holds %q, %v; want %q", got, err, want)
		}
		add(t, current(t, s, "a"), "2")
		closeSet(t, s)
	}
}

// A file that waits for its name and is removed meanwhile is told once, and
// holds up nothing.
func TestWholeFileIsRemoved(t *testing.T) {
	for _, how := range []string{"Finish", "Current", "Salvage"} {
		t.Run(how, func(t *testing.T) {
			f := &faultFS{}
			o := testOptions(t.TempDir())
			o.FS = f
			s := open(t, o)
			a := current(t, s, "a")
			add(t, a, "1")
			if err := a.Sync(); err != nil {
				t.Fatal(err)
			}
			f.op, f.from, f.to = "rename", 1, 2
			if how == "Salvage" {
				if err := a.Salvage(a.Size()); errors.Is(err, ErrLost) || !errors.Is(err, syscall.EIO) {
					t.Fatal(err)
				}
			} else if err := s.Finish(); errors.Is(err, ErrLost) || !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			f.op = ""
			if err := os.Remove(filepath.Join(o.Dir, a.Name()+OpenSuffix)); err != nil {
				t.Fatal(err)
			}
			var err error
			if how == "Current" {
				_, err = s.Current("a")
			} else {
				err = s.Finish()
			}
			if !errors.Is(err, ErrLost) {
				t.Errorf("%v, want it to say that appends are lost", err)
			}
			add(t, current(t, s, "a"), "2")
			closeSet(t, s)
		})
	}
}

// While the directory is away an empty file in it is not taken for removed.
func TestStrayComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := open(t, testOptions(dir))
	a := current(t, s, "a") // with a preamble, and nothing else
	if err := os.Rename(dir, dir+" away"); err != nil {
		t.Fatal(err)
	}
	if err := a.Salvage(a.Size()); err == nil || !s.Unfinished() {
		t.Errorf("Salvage: %v, unfinished %v", err, s.Unfinished())
	}
	if err := os.Rename(dir+" away", dir); err != nil {
		t.Fatal(err)
	}
	closeSet(t, s)
	if names := list(t, dir); len(names) > 0 {
		t.Errorf("%q is left", names)
	}
}

// A file that cannot be cut back now may be later; it is set aside only when
// that is asked for.
func TestSalvageLater(t *testing.T) {
	for _, op := range []string{"open", "fstat", "truncate", "sync"} {
		s, f, a := broken(t, "sync")
		f.op, f.from, f.to, f.count = op, 1, 3, 0
		for range 3 {
			if err := a.Salvage(a.Synced()); !errors.Is(err, ErrLeft) || errors.Is(err, ErrLost) {
				t.Fatalf("%s fails: %v", op, err)
			}
			if _, err := s.Current("a"); !errors.Is(err, ErrBroken) {
				t.Errorf("Current: %v", err)
			}
		}
		if err := a.Salvage(a.Synced()); err != nil {
			t.Errorf("after %s: %v", op, err)
		}
		b := current(t, s, "a")
		add(t, b, "3")
		closeSet(t, s)
		wantArchive(t, s.options.Dir, map[string][]string{a.Name(): {"1", "2"}, b.Name(): {"3"}})
	}
	s, f, a := broken(t, "sync")
	f.op, f.from, f.to, f.count = "open", 1, 100, 0
	if err := a.Salvage(a.Synced()); !errors.Is(err, ErrLeft) {
		t.Fatal(err)
	}
	if err := a.SetAside(a.Synced()); !errors.Is(err, ErrLost) || len(bads(t, s.options.Dir)) != 1 {
		t.Errorf("SetAside: %v", err)
	}
	closeSet(t, s)
}

// A file with nothing in it that cannot be removed is removed later.
func TestStrays(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = &removeFails{FS: f, bad: true}
	s := open(t, o)
	f.op, f.from, f.to = "write", 1, 1
	fresh, err := s.Current("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun(fresh, nil); err == nil {
		t.Fatal("no fault")
	}
	if err := fresh.Salvage(0); err == nil {
		t.Fatal("an empty file was removed in spite of the fault")
	}
	if !s.Unfinished() || len(list(t, o.Dir)) != 1 {
		t.Errorf("unfinished is %v, there is %q", s.Unfinished(), list(t, o.Dir))
	}
	if err := s.Finish(); err == nil {
		t.Error("Finish gives no error")
	}
	o.FS.(*removeFails).bad = false
	add(t, current(t, s, "a"), "1")
	closeSet(t, s)
	if names := list(t, o.Dir); s.Unfinished() || len(names) != 1 {
		t.Errorf("there is %q", names)
	}
}

type removeFails struct {
	FS
	bad bool
}

func (r *removeFails) Remove(name string) error {
	if r.bad {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EIO}
	}
	return r.FS.Remove(name)
}

// Whose fault it was can be told.
func TestWhoseFault(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	if _, _, err := a.Append(iotest.ErrReader(syscall.EIO)); !errors.Is(err, ErrSource) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the source fails: %v", err)
	}
	f.op, f.from = "write", 1
	f.count = 0
	if _, _, err := a.Append(strings.NewReader("x")); errors.Is(err, ErrSource) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the file fails: %v", err)
	}
	f.op = ""
	closeSet(t, s)
}

func TestFileMode(t *testing.T) {
	o := testOptions(t.TempDir())
	o.FileMode = 0o600
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	closeSet(t, s)
	if info, err := os.Stat(filepath.Join(o.Dir, a.Name())); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
