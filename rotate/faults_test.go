package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestStoryWithoutFault(t *testing.T) {
	dir, f := t.TempDir(), &faultFS{}
	var s story
	s.run(storyOptions(dir, f))
	if len(s.told) > 0 || len(s.durable) != storyAppends {
		t.Errorf("%v, %d durable", s.told, len(s.durable))
	}
	checkStory(t, dir, &s)
	if final, others := readAll(t, dir); len(final) != 2*storyAppends || len(others) > 0 {
		t.Errorf("%q, %q", final, others)
	}
}

// TestFaults lets every single call of a story fail in every way, once and
// from there on.
func TestFaults(t *testing.T) {
	t.Parallel() // mostly waits for the disk
	ways := map[string][]how{
		"write":    {fails, half, halfQuiet, persisted},
		"truncate": {fails, persisted}, "sync": {fails, persisted}, "close": {fails},
		"rename": {fails, persisted}, "syncdir": {fails, persisted}, "remove": {fails, persisted},
		"create": {fails, persisted}, "open": {fails}, "stat": {fails}, "fstat": {fails}, "readdir": {fails},
	}
	for op, hows := range ways {
		for _, how := range hows {
			for _, forever := range []bool{false, true} {
				for nth := 1; ; nth++ {
					f := &faultFS{op: op, from: nth, how: how}
					if forever {
						f.to = 1e9
					}
					dir := t.TempDir()
					var s story
					s.run(storyOptions(dir, f))
					if f.count < nth {
						if nth == 1 && op != "truncate" && op != "remove" && op != "open" {
							t.Errorf("%s never happens", op)
						}
						break
					}
					checkStory(t, dir, &s)
					final, _ := readAll(t, dir)
					for i := range storyAppends {
						// A fault that passes costs nothing.
						c := fmt.Sprintf("%d %s", i, strings.Repeat("x", 20))
						if !forever && op != "readdir" && !slices.Contains(final, c) {
							t.Errorf("%q is missing", c)
						}
					}
					if t.Failed() {
						t.Fatalf("fault %v\ntold %v\nthere %q\ncalls %q", f, s.told, list(t, dir), f.calls)
					}
				}
			}
		}
	}
}

// Two faults: a write or a sync fails, and then the repair does.
func TestFaultInRepair(t *testing.T) {
	t.Parallel() // mostly waits for the disk
	for _, how := range []how{half, persisted, fails} {
		for nth := 2; nth < 10; nth++ {
			for _, repair := range []string{"truncate", "open", "fstat", "sync", "rename", "syncdir", "stat", "close", "create"} {
				dir := t.TempDir()
				f := &faultFS{op: "write", from: nth, how: how}
				o := storyOptions(dir, f)
				o.FS = &secondFault{faultFS: f, op: repair}
				var s story
				s.run(o)
				checkStory(t, dir, &s)
				if t.Failed() {
					t.Fatalf("%s fails after %v\ntold %v\nthere %q\ncalls %q", repair, f, s.told, list(t, dir), f.calls)
				}
			}
		}
	}
}

// secondFault makes the first call of op after the first fault fail.
type secondFault struct {
	*faultFS
	op   string
	done bool
}

func (s *secondFault) arm() {
	if !s.done && s.faultFS.op == "write" && s.count >= s.from {
		s.done = true
		s.faultFS.op, s.from, s.to, s.how, s.count = s.op, 1, 1, fails, 0
	}
}

func (s *secondFault) OpenFile(name string, flag int, perm os.FileMode) (Handle, error) {
	s.arm()
	h, err := s.faultFS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &armedFile{h, s}, nil
}

type armedFile struct {
	Handle
	s *secondFault
}

func (a *armedFile) Write(b []byte) (int, error) {
	n, err := a.Handle.Write(b)
	a.s.arm()
	return n, err
}

func TestDiskFull(t *testing.T) {
	t.Parallel() // mostly waits for the disk
	var total int64
	for space := int64(0); ; space += 13 {
		dir := t.TempDir()
		f := &faultFS{limited: true, space: space}
		var s story
		s.run(storyOptions(dir, f))
		checkStory(t, dir, &s)
		if t.Failed() {
			t.Fatalf("with %d bytes free: told %v, there %q", space, s.told, list(t, dir))
		}
		if len(s.told) == 0 {
			total = space
			break
		}
		for _, c := range s.refused {
			if slices.Contains(s.durable, c) {
				t.Errorf("%q was refused and is durable", c)
			}
		}
	}
	if total < 500 {
		t.Errorf("the whole story takes only %d bytes", total)
	}
}

// A full disk is no reason to start a new file once there is space again.
func TestSpaceComesBack(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	f.limited, f.space = true, 10
	_, _, err := a.Append(strings.NewReader(frame("2")))
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrBroken) || a.Err() != nil {
		t.Fatal(err)
	}
	if got := read(t, o.Dir, "a-00000.log.gz.open"); int64(len(got)) != a.Size() {
		t.Errorf("%d bytes, want %d", len(got), a.Size())
	}
	f.limited = false
	if current(t, s, "a") != a {
		t.Error("a new file")
	}
	add(t, a, "3")
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{"a-00000.log.gz": {"1", "3"}})
}

// TestDeath kills the process, or cuts the power, at every call of a story,
// and once more at every call of the recovery.
func TestDeath(t *testing.T) {
	t.Parallel() // mostly waits for the disk
	die := func(dir string, at int, torn, power bool, s *story) bool {
		f := &faultFS{dieAt: at, torn: torn}
		s.run(storyOptions(dir, f))
		if power {
			f.cutPower()
		}
		return f.total >= at
	}
	for _, torn := range []bool{false, true} {
		for _, power := range []bool{false, true} {
			for at := 1; ; at++ {
				dir := t.TempDir()
				var s story
				died := die(dir, at, torn, power, &s)
				must := s.whole // a kill loses nothing that was written
				if power {
					must = s.durable
				}
				if at%7 == 0 {
					for again := 1; again < 40 && die2(t, dir, again); again++ {
					}
				}
				final := recoverStory(t, dir)
				for _, c := range must {
					if count(final, c) != 1 {
						t.Errorf("%q is there %d times", c, count(final, c))
					}
				}
				if t.Failed() {
					t.Fatalf("torn %v, power cut %v, dead at call %d; there %q", torn, power, at, list(t, dir))
				}
				if !died {
					if at < 60 {
						t.Errorf("the story has only %d calls", at)
					}
					break
				}
			}
		}
	}
}

// die2 kills a recovery at a call, false if it was over before.
func die2(t *testing.T, dir string, at int) bool {
	f := &faultFS{dieAt: at}
	s, err := Open(storyOptions(dir, f))
	if err == nil {
		s.lock.Close()
	} else if !errors.Is(err, errDead) {
		t.Error(err)
	}
	f.cutPower()
	return err != nil
}

// The calls at a rotation, in their order: the full file is durable and has
// its name before the first byte of the next one.
func TestOrderOfCalls(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS, o.MaxSize = f, 100
	s := open(t, o)
	add(t, current(t, s, "a"), strings.Repeat("x", 100))
	f.calls = nil
	add(t, current(t, s, "a"), "2")
	want := []string{
		"stat a-00001.log.gz", "create a-00001.log.gz.open", "fstat a-00001.log.gz.open", "syncdir " + filepath.Base(o.Dir),
		"sync a-00000.log.gz.open", "stat a-00000.log.gz.open", "close a-00000.log.gz.open",
		"rename a-00000.log.gz.open", "syncdir " + filepath.Base(o.Dir),
		"write a-00001.log.gz.open", "write a-00001.log.gz.open",
	}
	if !slices.Equal(f.calls, want) {
		t.Errorf("got  %q\nwant %q", f.calls, want)
	}
	closeSet(t, s)
}

// Without descriptors the full file goes on; other trouble is an error.
func TestOutOfDescriptors(t *testing.T) {
	f := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS, o.MaxSize = f, 40
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	f.op, f.from, f.to, f.errno = "create", 1, 1e9, syscall.EMFILE
	for _, c := range []string{"2", "3"} {
		if g := current(t, s, "a"); g != a {
			t.Fatal("a new file")
		}
		add(t, a, c)
	}
	if _, err := s.Current("b"); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("a new series: %v", err)
	}
	f.errno = syscall.EROFS
	if _, err := s.Current("a"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: %v", err)
	}
	f.op = ""
	b := current(t, s, "a")
	add(t, b, "4")
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{a.Name(): {"1", "2", "3"}, b.Name(): {"4"}})
}

// A rename that was done although it reports an error is not an error.
func TestRenameReportsWrongly(t *testing.T) {
	f := &faultFS{op: "rename", from: 1, to: 1e9, how: persisted}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	if err := s.Finish(); err != nil {
		t.Error(err)
	}
	b := current(t, s, "a")
	add(t, b, "2")
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{a.Name(): {"1"}, b.Name(): {"2"}})
}

// Close tries again what Finish could not do.
func TestRenameFailsOnce(t *testing.T) {
	f := &faultFS{op: "rename", from: 1, to: 2}
	o := testOptions(t.TempDir())
	o.FS = f
	s := open(t, o)
	a := current(t, s, "a")
	add(t, a, "1")
	if err := s.Finish(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Finish: %v", err)
	}
	if _, err := s.Current("a"); !errors.Is(err, syscall.EIO) {
		t.Errorf("Current: %v", err)
	}
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{a.Name(): {"1"}})
}
