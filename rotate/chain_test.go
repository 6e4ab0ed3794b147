package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tell writes a file, a chain of three, which is taken back where back says so,
// and goes on with the file.
func tell(o Options, back bool) error {
	s, err := Open(o)
	if err != nil {
		return err
	}
	defer s.lock.Close() // of a process that dies
	f, err := begun(s.Current("a"))
	if err != nil {
		return err
	}
	if _, _, err := f.Append(strings.NewReader(frame("before"))); err != nil {
		return err
	}
	c, err := s.Chain("a")
	if err != nil {
		return err
	}
	for i := range 3 {
		part, err := begun(c.Next())
		if err == nil {
			_, _, err = part.Append(strings.NewReader(frame(fmt.Sprintf("part %d", i+1))))
		}
		if err != nil {
			return errors.Join(err, c.Abort())
		}
	}
	end := c.Commit
	if back {
		end = c.Abort
	}
	if err := end(); err != nil {
		return err
	}
	if _, _, err := f.Append(strings.NewReader(frame("after"))); err != nil {
		return err
	}
	return s.Close()
}

// wantChain checks that all of a chain has its name, or nothing, and that nobody
// forgot a part.
func wantChain(t *testing.T, dir string, whole bool) {
	t.Helper()
	s := open(t, testOptions(dir))
	closeSet(t, s)
	var parts []string
	for _, contents := range archive(t, dir) {
		for _, c := range contents {
			if strings.HasPrefix(c, "part ") {
				parts = append(parts, c)
			}
		}
	}
	slices.Sort(parts)
	if len(parts) > 0 && !slices.Equal(parts, []string{"part 1", "part 2", "part 3"}) || whole && len(parts) == 0 {
		t.Errorf("of the chain there is %q", parts)
	}
	for _, name := range list(t, dir) {
		if strings.HasSuffix(name, partSuffix) {
			t.Errorf("%s is left", name)
		}
	}
}

func TestChain(t *testing.T) {
	dir := t.TempDir()
	if err := tell(testOptions(dir), false); err != nil {
		t.Fatal(err)
	}
	got := archive(t, dir)
	for name, want := range map[string][]string{
		"a-00000.log.gz": {"before", "after"},
		"a-00001.log.gz": {"part 1"},
		"a-00002.log.gz": {"part 2"},
		"a-00003.log.gz": {"part 3"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s has %q, want %q", name, got[name], want)
		}
	}
}

// Wherever a process dies, with or without the power, and dies again in the
// recovery, a chain is there as a whole or not at all.
func TestDeathInChain(t *testing.T) {
	t.Parallel() // mostly waits for the disk
	for _, story := range []struct{ power, back bool }{{false, false}, {true, false}, {false, true}} {
		power, back := story.power, story.back
		whole, none := 0, 0
		for at, died := 1, true; died; at++ {
			for again := range 24 {
				if again > 0 && at%6 > 0 {
					break
				}
				dir := t.TempDir()
				f := &faultFS{dieAt: at}
				o := testOptions(dir)
				o.FS = f
				err := tell(o, back)
				if power {
					f.cutPower()
				}
				died = f.total >= at
				if again > 0 {
					f = &faultFS{dieAt: again}
					o.FS = f
					s, err := Open(o)
					if err == nil {
						s.lock.Close()
					}
					if power {
						f.cutPower()
					}
				}
				wantChain(t, dir, err == nil && !back)
				if t.Failed() {
					t.Fatalf("power cut %v, dead at call %d, then at call %d: %q", power, at, again, list(t, dir))
				}
				if _, err := os.Stat(filepath.Join(dir, "a-00003.log.gz")); err == nil {
					whole++
				} else {
					none++
				}
			}
		}
		if (whole == 0) != back || none == 0 {
			t.Errorf("the chain was there %d times, and %d times not", whole, none)
		}
	}
}

// A chain is taken back when a call fails, or when that fails too before the next
// one, or at the next start.
func TestFaultInChain(t *testing.T) {
	for _, op := range []string{"create", "fstat", "stat", "write", "sync", "close", "syncdir", "rename", "remove"} {
		for _, long := range []int{0, 3} {
			for from, failed := 1, true; failed; from++ {
				dir := t.TempDir()
				f := &faultFS{op: op, from: from, to: from + long, how: fails}
				o := testOptions(dir)
				o.FS = f
				err := tell(o, false)
				failed = f.count >= from
				wantChain(t, dir, err == nil)
				if t.Failed() {
					t.Fatalf("%v: %q", f, list(t, dir))
				}
			}
		}
	}
}

// The calls of a chain, in their order: the first file gets its name when all are
// durable, and durably so before the others.
func TestOrderOfCallsInChain(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	c, err := s.Chain("a")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		part, err := begun(c.Next())
		if err != nil {
			t.Fatal(err)
		}
		add(t, part, "x")
	}
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	got := callsOf(f, c)
	want := []string{
		"create a-00000.log.gz.KEY-1.part", "syncdir DIR", "sync a-00000.log.gz.KEY-1.part",
		"create a-00001.log.gz.KEY-2.part", "syncdir DIR", "sync a-00001.log.gz.KEY-2.part",
		"rename a-00000.log.gz.KEY-1.part", "syncdir DIR", "rename a-00001.log.gz.KEY-2.part", "syncdir DIR",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	closeSet(t, s)
}

// callsOf are the calls of a chain that change the directory or make something
// durable.
func callsOf(f *faultFS, c *Chain) (calls []string) {
	for _, call := range f.calls {
		op, name, _ := strings.Cut(call, " ")
		if name = strings.Replace(name, c.key, "KEY", 1); name == filepath.Base(c.set.options.Dir) {
			name = "DIR"
		}
		if op == "sync" || op == "rename" || op == "syncdir" || op == "create" || op == "remove" {
			calls = append(calls, op+" "+name)
		}
	}
	return calls
}

// When a chain is taken back its first file goes last, when the others are gone
// for good: without it they would be taken for committed.
func TestOrderOfCallsInAbort(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	c, err := s.Chain("a")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		part, err := begun(c.Next())
		if err != nil {
			t.Fatal(err)
		}
		add(t, part, "x")
	}
	f.calls = nil
	if err := c.Abort(); err != nil {
		t.Fatal(err)
	}
	want := []string{"remove a-00002.log.gz.KEY-3.part", "remove a-00001.log.gz.KEY-2.part", "syncdir DIR", "remove a-00000.log.gz.KEY-1.part"}
	if got := callsOf(f, c); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	closeSet(t, s)
}

// A rename by link and unlink that was interrupted in the middle leaves a file
// with two names: the chain is committed, and no file is there twice.
func TestPartWithTwoNames(t *testing.T) {
	o := testOptions(t.TempDir())
	for i, name := range []string{"a-1.log.gz", "a-2.log.gz"} {
		path := filepath.Join(o.Dir, name)
		if err := os.WriteFile(fmt.Sprintf("%s.key-%d.part", path, i+1), []byte(frame(name)), 0o644); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		if err := os.Link(path+".key-1.part", path); err != nil {
			t.Skip(err)
		}
	}
	closeSet(t, open(t, o))
	if got := list(t, o.Dir); !slices.Equal(got, []string{"a-1.log.gz", "a-2.log.gz"}) {
		t.Errorf("there is %q", got)
	}
}

// What cannot be taken back keeps another chain from being begun, until it can.
func TestChainBehindAnother(t *testing.T) {
	f := &removeFails{FS: osFS{}}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	for range 2 {
		c, err := s.Chain("a")
		if err != nil {
			t.Fatal(err)
		}
		part, err := begun(c.Next())
		if err != nil {
			t.Fatal(err)
		}
		add(t, part, "not this")
		f.bad = true
		if err := c.Abort(); err == nil {
			t.Fatal("no error")
		}
		if _, err := s.Chain("a"); err == nil {
			t.Error("a chain begins behind one that is neither committed nor gone")
		}
		f.bad = false
	}
	closeSet(t, s)
	if left := list(t, o.Dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// A part that was made and could not be used goes before the first one does.
func TestStrayOfChain(t *testing.T) {
	real := &faultFS{op: "fstat", from: 2}
	f := &removeFails{FS: real}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	c, err := s.Chain("a")
	if err == nil {
		_, err = begun(c.Next())
	}
	if err != nil {
		t.Fatal(err)
	}
	f.bad = true
	if _, err := begun(c.Next()); err == nil || len(s.strays) != 1 {
		t.Fatalf("error %v, %d strays", err, len(s.strays))
	}
	f.bad = false
	if err := c.Abort(); err != nil {
		t.Fatal(err)
	}
	if names := list(t, o.Dir); len(names) > 0 || s.Unfinished() {
		t.Errorf("there is %q", names)
	}
	closeSet(t, s)
}

// A file that is retired is finished before the next append, unless there is
// nothing in it.
func TestRetire(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testOptions(dir))
	a := current(t, s, "a")
	a.Retire()
	if current(t, s, "a") != a {
		t.Error("there is nothing in the file, and it is finished")
	}
	add(t, a, "1")
	add(t, current(t, s, "a"), "2")
	closeSet(t, s)
	if got := archive(t, dir); !slices.Equal(got["a-00000.log.gz"], []string{"1"}) || !slices.Equal(got["a-00001.log.gz"], []string{"2"}) {
		t.Errorf("got %q", got)
	}
}

// What a user or another program left that looks like a part is understood or
// let alone.
func TestParsePart(t *testing.T) {
	for path, want := range map[string]string{
		"/d/a.warc.gz.abc-1.part":  "/d/a.warc.gz abc 1",
		"/d/a.warc.gz.abc-12.part": "/d/a.warc.gz abc 12",
		"/d/a.warc.gz.abc-0.part":  "",
		"/d/a.warc.gz.abc.part":    "",
		"/d/a.warc.gz":             "",
		"a.part":                   "",
		".part":                    "",
		"/d/a.-1.part":             "",
		"/d/a.x-y.part":            "",
	} {
		got := ""
		if p, key, ok := parsePart(path); ok {
			got = fmt.Sprintf("%s %s %d", p.final, key, p.number)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
