package recorder

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// TestSpoolTail: pieces of all sizes, read along and afterwards, whether or not
// there is memory for a tail.
func TestSpoolTail(t *testing.T) {
	for name, space := range map[string]*space{
		"plenty":    plenty(),
		"no memory": {maxMemory: spoolMemory + spoolTail - 1, maxDisk: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			s := newSpool(space, t.TempDir(), -1)
			if _, err := s.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := s.spill(); err != nil {
				t.Fatal(err)
			}
			want, got := []byte("x"), []byte(nil)
			f := s.follow()
			for _, most := range []int{100, 20_000, 200_000, 10, 3 * spoolTail, 16 << 10} {
				for range 50 {
					piece := make([]byte, 1+rng.IntN(most))
					for i := range piece {
						piece[i] = byte(rng.Uint32())
					}
					if _, err := s.Write(piece); err != nil {
						t.Fatal(err)
					}
					want = append(want, piece...)
					for rng.IntN(4) > 0 && len(got) < len(want) {
						p, err := f.next(nil)
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, p...)
					}
					if rng.IntN(20) == 0 {
						if all, err := io.ReadAll(s.reader()); err != nil || !bytes.Equal(all, want) {
							t.Fatalf("the reader gives %d octets of %d, %v", len(all), len(want), err)
						}
						if start := s.start(); len(start) < min(len(want)-spoolTail, spoolStart) || !bytes.HasPrefix(want, start) {
							t.Fatalf("the start of %d octets has %d", len(want), len(start))
						}
					}
				}
			}
			s.end(nil)
			for len(got) < len(want) {
				p, err := f.next(nil)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p...)
			}
			if !bytes.Equal(got, want) {
				t.Error("the follower has read something else")
			}
			if _, err := f.next(nil); err != io.EOF {
				t.Error(err)
			}
			if all, err := io.ReadAll(s.reader()); err != nil || !bytes.Equal(all, want) {
				t.Errorf("the reader gives %d octets of %d, %v", len(all), len(want), err)
			}
			f.stop()
			s.release()
			wantEmpty(t, space)
		})
	}
}

// TestSpoolTailStays: when the disk takes no more, all that Write has taken is
// still there.
func TestSpoolTailStays(t *testing.T) {
	space := &space{maxMemory: 1 << 30, maxDisk: spoolMemory + 3*spoolTail}
	s := newSpool(space, t.TempDir(), -1)
	var want []byte
	for i := 0; ; i++ {
		piece := bytes.Repeat([]byte{byte(i)}, 16<<10)
		if _, err := s.Write(piece); err != nil {
			break
		}
		want = append(want, piece...)
		if len(want) > 8<<20 {
			t.Fatal("the bound has no effect")
		}
	}
	if _, err := s.Write(make([]byte, spoolTail+1)); err == nil {
		t.Error("no error after the first one")
	}
	if got, err := io.ReadAll(s.reader()); err != nil || !bytes.Equal(got, want) || s.len() != int64(len(want)) {
		t.Errorf("%d octets of %d, %v", len(got), len(want), err)
	}
	s.release()
	wantEmpty(t, space)
}

// TestFollowersThatWaitNeedNoMemory: else thousands of event streams would let
// nobody in.
func TestFollowersThatWaitNeedNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := plenty()
		s := newSpool(space, t.TempDir(), -1)
		fillSpool(t, s, spoolMemory+1)
		f := s.follow()
		got := 0
		go func() { // ends with the spool
			for {
				p, err := f.next(nil)
				if err != nil {
					return
				}
				got += len(p)
			}
		}()
		synctest.Wait()
		if got != spoolMemory+1 || space.heads.Load() != 0 {
			t.Errorf("who has read %d octets has %d bytes", got, space.heads.Load())
		}
		s.end(nil)
		synctest.Wait()
		f.stop()
		s.release()
		wantEmpty(t, space)
	})
}
