package recorder

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/warctee/warctee/warc"
)

// A file that cannot get its final name stays in use: nothing is lost, whether
// it was to be finished on demand or because it was full.
func TestRenameFails(t *testing.T) {
	for _, test := range []struct {
		name      string
		maxSize   int64
		rotate    bool
		persisted bool
	}{
		{"rotate", 0, true, false},
		{"rotate, but it was done", 0, true, true},
		{"full", 3000, false, false},
		{"full and rotate", 3000, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := false
				disk := newFaultyFS(func(_ int, op, _ string) *fault {
					if bad && op == "rename" {
						return &fault{err: syscall.EACCES, persisted: test.persisted}
					}
					return nil
				})
				r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, Compression: warc.Plain, MaxSize: test.maxSize})
				paths := []string{"/same/0"}
				recordAll(t, r, paths...)
				bad = true
				for i := range 4 {
					if test.rotate {
						if err := r.Rotate(); err == nil && !test.persisted {
							t.Error("Rotate gives no error")
						}
					}
					more := []string{fmt.Sprint("/a", i), fmt.Sprint("/same/b", i)}
					recordAll(t, r, more...)
					paths = append(paths, more...)
				}
				if s := r.Status(); s.Unavailable != nil || s.Lost != 0 {
					t.Errorf("status %+v, want all recorded", s)
				}
				if !strings.Contains(fmt.Sprint(disk.failed), "rename") {
					t.Fatal("no rename has failed")
				}
				bad = false
				if err := r.Rotate(); err != nil {
					t.Errorf("Rotate, when it is possible again: %v", err)
				}
				recordAll(t, r, "/last")
				closeForTest(t, r)
				wantCaptured(t, archive(t, r), append(paths, "/last")...)
			})
		})
	}
}
