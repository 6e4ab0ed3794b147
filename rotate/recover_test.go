package rotate

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// verifyPairs wants two frames for each append, the second of them marked.
func verifyPairs(r io.Reader) (int64, error) {
	b, err := io.ReadAll(r)
	contents, _ := frames(b)
	good := int64(0)
	for i := 0; i < len(contents); {
		n := 1
		if i > 0 {
			if i+1 == len(contents) || contents[i+1] != contents[i]+"'" {
				break
			}
			n = 2
		}
		for _, c := range contents[i : i+n] {
			good += int64(len(frame(c)))
		}
		i += n
	}
	return good, err
}

// A file is cut at every byte: what is whole stays, the rest is kept aside.
func TestRecoverTornTail(t *testing.T) {
	const name = "a-00000.log.gz"
	first := frame("file " + name)
	whole := first + frame("1") + frame("2")
	for at := range len(whole) + 1 {
		dir := t.TempDir()
		write(t, dir, name+OpenSuffix, whole[:at])
		s := open(t, testOptions(dir))
		closeSet(t, s)

		contents, good := frames([]byte(whole[:at]))
		want := Recovery{Name: name, Kept: good, Cut: int64(at) - good, Tail: name + ".tail"}
		if want.Cut == 0 {
			want.Tail = ""
		}
		if good == 0 {
			want.Name = ""
		} else {
			wantArchive(t, dir, map[string][]string{name: contents[1:]})
		}
		if got := s.Recovered(); !slices.Equal(got, []Recovery{want}) {
			t.Errorf("cut at %d: %+v, want %+v", at, got, want)
		}
		var names []string
		for _, n := range []string{want.Name, want.Tail} {
			if n != "" {
				names = append(names, n)
			}
		}
		if got := list(t, dir); !slices.Equal(got, names) {
			t.Errorf("cut at %d: %q, want %q", at, got, names)
		}
		if want.Tail != "" {
			if got := read(t, dir, want.Tail); got != whole[good:at] {
				t.Errorf("cut at %d: the tail is %q, want %q", at, got, whole[good:at])
			}
		}
	}
}

// Only a preamble is whole, and stays: nobody here can tell it from more.
func TestRecoverPreambleOnly(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.open", frame("file a"))
	s := open(t, testOptions(dir))
	closeSet(t, s)
	wantArchive(t, dir, map[string][]string{"a": {}})
}

func TestRecoverManyAndSpools(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.open", frame("file a")+frame("1"))
	write(t, dir, "b.open", frame("file b")+frame("2")+"garbage")
	write(t, dir, "c", frame("file c")+frame("3"))
	write(t, dir, ".spool-123", "x")
	write(t, dir, ".spool-", "x")
	write(t, dir, "spool-1", frame("file spool-1"))
	for _, d := range []string{"d.open", ".spool-d"} { // no files: not ours
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, testOptions(dir))
	closeSet(t, s)
	want := []Recovery{{"a", int64(len(frame("file a") + frame("1"))), 0, ""}, {"b", int64(len(frame("file b") + frame("2"))), 7, "b.tail"}}
	if got := s.Recovered(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := list(t, dir); !slices.Equal(got, []string{".spool-d", "a", "b", "b.tail", "c", "d.open", "spool-1"}) {
		t.Errorf("left: %q", got)
	}
	os.Remove(filepath.Join(dir, "d.open"))
	os.Remove(filepath.Join(dir, ".spool-d"))
	wantArchive(t, dir, map[string][]string{"a": {"1"}, "b": {"2"}, "c": {"3"}, "spool-1": {}})
	s = open(t, testOptions(dir))
	if len(s.Recovered()) > 0 {
		t.Errorf("a second time: %+v", s.Recovered())
	}
	closeSet(t, s)
}

// Neither a finished file nor a tail is overwritten.
func TestRecoverNamesTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.log.gz", "somebody's")
	write(t, dir, "a.log.gz.tail", "older tail")
	write(t, dir, "a.log.gz.open", frame("file a.log.gz")+frame("1")+"torn")
	write(t, dir, "b.tail", "older tail")
	write(t, dir, "b.open", "nothing whole")
	s := open(t, testOptions(dir))
	closeSet(t, s)
	for name, want := range map[string]string{
		"a.log.gz": "somebody's", "a.log.gz.tail": "older tail", "b.tail": "older tail",
		"a.log-1.gz": frame("file a.log.gz") + frame("1"), "a.log.gz-1.tail": "torn", "b-1.tail": "nothing whole",
	} {
		if name == "a.log-1.gz" {
			name = other("a.log.gz", 1)
		}
		if got := read(t, dir, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if got := s.Recovered()[0]; got.Name != other("a.log.gz", 1) || got.Tail != "a.log.gz-1.tail" {
		t.Errorf("%+v", got)
	}
}

// The log tells of an empty file that it was removed, and of no other.
func TestRecoverEmpty(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.open", "")
	write(t, dir, "b.open", frame("file b"))
	write(t, dir, "c.open", "nothing whole")
	var log strings.Builder
	o := testOptions(dir)
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	closeSet(t, open(t, o))
	lines := strings.Split(log.String(), "\n")
	for i, want := range []string{`removed" file=a.open`, `recovered" file=b.open`, `recovered" file=c.open`} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d does not say %q: %q", i, want, lines)
		}
	}
	if got := list(t, dir); !slices.Equal(got, []string{"b", "c.tail"}) {
		t.Errorf("left: %q", got)
	}
}

// A rename by link and unlink was interrupted between the two.
func TestRecoverTwoNames(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", frame("file a")+frame("1"))
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "a.open")); err != nil {
		t.Skip(err)
	}
	closeSet(t, open(t, testOptions(dir)))
	wantArchive(t, dir, map[string][]string{"a": {"1"}})
}

// What cannot be recovered stops the start, stays as it is, and is named.
func TestRecoverFails(t *testing.T) {
	trouble := errors.New("trouble")
	for name, verify := range map[string]func(io.Reader) (int64, error){
		"error": func(io.Reader) (int64, error) { return 3, trouble },
		"long":  func(io.Reader) (int64, error) { return 1000, nil },
		"minus": func(io.Reader) (int64, error) { return -1, nil },
	} {
		dir := t.TempDir()
		write(t, dir, "a.open", frame("file a"))
		o := testOptions(dir)
		o.Verify = verify
		_, err := Open(o)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "a.open")) {
			t.Errorf("%s: %v", name, err)
		}
		if read(t, dir, "a.open") != frame("file a") {
			t.Errorf("%s: the file was changed", name)
		}
		closeSet(t, open(t, testOptions(dir))) // the lock is free
	}
}

// The renaming never replaces a file, by whichever way it is done.
func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{
		"system": renameNew, "link": linkNew, "FS": osFS{}.Rename,
	} {
		dir := t.TempDir()
		write(t, dir, "a", "a")
		write(t, dir, "b", "b")
		a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
		if err := rename(a, b); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s: to a name that is taken: %v", name, err)
		}
		if read(t, dir, "a") != "a" || read(t, dir, "b") != "b" {
			t.Errorf("%s: a file was changed", name)
		}
		if err := rename(a, c); err != nil || read(t, dir, "c") != "a" {
			t.Errorf("%s: %v", name, err)
		}
		if err := rename(a, filepath.Join(dir, "d")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: of nothing: %v", name, err)
		}
		if got := list(t, dir); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("%s: left %q", name, got)
		}
	}
}

// The tail is durable before it is cut off, and the cut before the name.
func TestOrderOfRecovery(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Base(dir)
	write(t, dir, "a.open", frame("file a")+frame("1")+"torn")
	write(t, dir, "b.open", frame("file b"))
	write(t, dir, "c.open", "torn")
	write(t, dir, "d.open", "")
	f := &faultFS{}
	o := testOptions(dir)
	o.FS = f
	closeSet(t, open(t, o))
	want := []string{
		"readdir " + base,
		"open a.open", "create a.tail", "write a.tail", "sync a.tail", "close a.tail", "syncdir " + base,
		"truncate a.open", "sync a.open", "rename a.open", "syncdir " + base, "close a.open",
		"open b.open", "sync b.open", "rename b.open", "syncdir " + base, "close b.open",
		"open c.open", "rename c.open", "syncdir " + base, "close c.open",
		"open d.open", "remove d.open", "close d.open",
	}
	if !slices.Equal(f.calls, want) {
		t.Errorf("got  %q\nwant %q", f.calls, want)
	}
}
