package recorder

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
)

// plenty is a space without narrow bounds.
func plenty() *space { return &space{maxMemory: 1 << 30, maxDisk: 1 << 40} }

// fill writes n octets in pieces that cross the border to the disk.
func fillSpool(t *testing.T, s *spool, n int) []byte {
	t.Helper()
	var all []byte
	for len(all) < n {
		piece := bytes.Repeat([]byte{byte(len(all))}, min(100_000, n-len(all)))
		if _, err := s.Write(piece); err != nil {
			t.Fatal(err)
		}
		all = append(all, piece...)
	}
	return all
}

func TestSpool(t *testing.T) {
	for _, size := range []int{0, 1, spoolMemory - 1, spoolMemory, spoolMemory + 1, 1_000_000} {
		dir := t.TempDir()
		s := newSpool(plenty(), dir, -1)
		f := s.follow()
		want := fillSpool(t, s, size)
		s.end(nil)
		if (s.file != nil) != (size > spoolMemory) {
			t.Errorf("%d octets: on disk is %v", size, s.file != nil)
		}
		for range 2 {
			if got, err := io.ReadAll(s.reader()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d octets: reader gives %d, %v", size, len(got), err)
			}
		}
		var got []byte
		for {
			p, err := f.next(nil)
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, p...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d octets: the follower got %d", size, len(got))
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("the temporary file has a name: %s", left[0].Name())
		}
		s.release()
	}
}

func TestSpoolFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(plenty(), t.TempDir(), -1)
		f := s.follow()
		var seen []string
		waits := 0
		go func() { // ends with the spool
			for {
				p, err := f.next(func() { waits++ })
				if err != nil {
					seen = append(seen, err.Error())
					return
				}
				seen = append(seen, string(p))
			}
		}()
		synctest.Wait()
		for _, word := range []string{"one", "two"} {
			s.Write([]byte(word))
			synctest.Wait()
		}
		if !s.pass([]byte("three")) {
			t.Error("pass says that nobody follows")
		}
		synctest.Wait()
		s.end(errors.New("broken"))
		synctest.Wait()
		if got := len(seen); got != 4 || seen[0] != "one" || seen[1] != "two" || seen[2] != "three" || seen[3] != "broken" {
			t.Errorf("the follower saw %q", seen)
		}
		if waits != 4 {
			t.Errorf("it waited %d times, want 4", waits)
		}
		if s.len() != 6 {
			t.Errorf("%d octets are kept, want 6: what is passed is not", s.len())
		}
	})
}

func TestSpoolPassEndsWithFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(plenty(), t.TempDir(), -1)
		f := s.follow()
		passed := make(chan bool, 1)
		go func() { passed <- s.pass([]byte("x")) }() // ended by stop
		synctest.Wait()
		select {
		case <-passed:
			t.Fatal("pass did not wait for the follower")
		default:
		}
		f.stop()
		if <-passed {
			t.Error("pass says that somebody follows")
		}
		if _, err := f.next(nil); err == nil {
			t.Error("next goes on after stop")
		}
	})
}

// TestSpoolViewsStay: what the follower was given does not change when the
// spool grows or moves to disk.
func TestSpoolViewsStay(t *testing.T) {
	s := newSpool(plenty(), t.TempDir(), -1)
	defer s.release()
	f := s.follow()
	s.Write([]byte("first"))
	view, err := f.next(nil)
	if err != nil {
		t.Fatal(err)
	}
	fillSpool(t, s, spoolMemory+1)
	if string(view) != "first" {
		t.Errorf("the view became %q", view)
	}
}

func TestSpoolDiskFailure(t *testing.T) {
	space := &space{maxMemory: 500_000, maxDisk: 1 << 40}
	s := newSpool(space, "/nonexistent", -1)
	fillSpool(t, s, spoolMemory)
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("no error where no file can be made")
	}
	if s.len() != spoolMemory {
		t.Errorf("%d octets are kept, want %d", s.len(), spoolMemory)
	}
	s.release()
	wantEmpty(t, space)
}

// wantEmpty checks that all that was taken has been given back.
func wantEmpty(t *testing.T, s *space) {
	t.Helper()
	if m, h, d, done := s.memory.Load(), s.heads.Load(), s.disk.Load(), s.done.Load(); m != 0 || h != 0 || d != 0 || done != 0 {
		t.Errorf("%d bytes of memory, %d for heads, %d of disk and %d done are left", m, h, d, done)
	}
}
