package recorder

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// echoPath answers with the path; /same/… are all the same.
func echoPath(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/same/") {
		fmt.Fprint(w, "the same payload for many")
		return
	}
	fmt.Fprintf(w, "this is %s", r.URL.Path)
}

// recordAll performs exchanges one after the other, each when the one before
// has been written; those whose path has /same/ are equal.
func recordAll(t *testing.T, r *Recorder, paths ...string) {
	t.Helper()
	for _, p := range paths {
		mustFetch(t, r, "http://origin"+p)
		synctest.Wait()
	}
}

// wantCaptured checks that each path is archived once, revisits through their
// originals.
func wantCaptured(t *testing.T, records []check.Record, paths ...string) {
	t.Helper()
	captures := make(map[string]int)
	for _, r := range records {
		switch r.Type {
		case "response", "revisit":
			captures[r.TargetURI]++
		}
	}
	for _, p := range paths {
		if n := captures["http://origin"+p]; n != 1 {
			t.Errorf("%s is archived %d times, want once", p, n)
		}
		delete(captures, "http://origin"+p)
	}
	for uri := range captures {
		t.Errorf("%s is in the archive, which was not fetched", uri)
	}
}

// names returns the names in a directory that match.
func names(t *testing.T, dir, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A write that fails is followed by a new file with the same record.
func TestAppendFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Writes: at the start, the warcinfo, /1, /2, and this one.
		disk := newFaultyFS(once("write", 4, fault{err: syscall.EIO}))
		index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk}
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), Compression: warc.Plain})
		recordAll(t, r, "/1", "/2", "/3", "/4")
		closeForTest(t, r)
		records := archive(t, r)
		wantCaptured(t, records, "/1", "/2", "/3", "/4")
		if n := count(records, "warcinfo"); n != 2 {
			t.Errorf("there are %d files, want 2", n)
		}
		for _, kind := range []string{"request", "response"} {
			rec := theOne(t, records, kind, "http://origin/3")
			if !strings.Contains(string(disk.wrote), "WARC-Record-ID: "+rec.ID+"\r\n") {
				t.Errorf("the %s has another record id than at first", kind)
			}
			if first := theOne(t, records, kind, "http://origin/1"); rec.File == first.File {
				t.Errorf("the %s is in the file in which the write failed", kind)
			}
		}
		if s := r.Status(); s.Responses != 4 || s.Lost != 0 || s.Unavailable != nil {
			t.Errorf("status %+v", s)
		}
	})
}

// A sync that fails says that what was written since the last one may be gone:
// it is written once more, with the same ids, and made durable without waiting
// for something else to come.
func TestSyncFailsOnce(t *testing.T) {
	for range 10 { // what follows may depend on the order of a map
		synctest.Test(t, func(t *testing.T) {
			disk := newFaultyFS(once("sync", 2, fault{err: syscall.EIO}))
			index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk}
			r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), Compression: warc.Plain})
			recordAll(t, r, "/1")
			time.Sleep(time.Second) // the first sync
			recordAll(t, r, "/2", "/same/3", "/same/4")
			written, err := os.ReadFile(names(t, r.options.Dir, "*.open")[0])
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // the second
			synctest.Wait()
			if len(disk.failed) != 1 {
				t.Fatalf("failed was %v", disk.failed)
			}
			if n := len(index.committed); n != 3 {
				t.Errorf("the index knows %d captures a second after the failure, want 3", n)
			}
			closeForTest(t, r)
			records := archive(t, r)
			wantCaptured(t, records, "/1", "/2", "/same/3", "/same/4")
			for _, uri := range []string{"/2", "/same/3"} {
				rec := theOne(t, records, "response", "http://origin"+uri)
				if !strings.Contains(string(written), "WARC-Record-ID: "+rec.ID+"\r\n") {
					t.Errorf("%s has another record id than at first", uri)
				}
			}
			if n := count(records, "revisit"); n != 1 {
				t.Errorf("there are %d revisits, want 1", n)
			}
		})
	}
}

// A disk that stays full ends the recording, loudly; what was whole stays.
func TestDiskStaysFull(t *testing.T) {
	for _, forGood := range []bool{false, true} {
		t.Run(fmt.Sprint("StopForGood ", forGood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newFaultyFS(nil)
				r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, StopForGood: forGood})
				recordAll(t, r, "/1", "/2")
				disk.fill(100)
				// The client is given its response: that it cannot be kept is
				// known later.
				recordAll(t, r, "/3")
				time.Sleep(time.Minute)
				if err := r.Err(); err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
					t.Errorf("Err() is %v, want it to say: %v", err, syscall.ENOSPC)
				}
				_, err := fetch(r, "GET", "http://origin/4", "")
				wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
				if err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
					t.Errorf("the refusal does not say why: %v", err)
				}
				wait, lost := int64(1), int64(0)
				if forGood {
					wait, lost = 0, 1
				}
				if s := r.Status(); s.Waiting != wait || s.InFlight != int(wait) || s.Lost != lost || s.Pauses != 1 || s.Unavailable == nil {
					t.Errorf("status %+v, want %d waiting, %d lost and the reason", s, wait, lost)
				}
				disk.lift()
				time.Sleep(time.Minute)
				if err := r.Err(); (err != nil) != forGood {
					t.Errorf("when there is space again Err() is %v", err)
				}
				if !forGood {
					disk.fill(0) // once more
					recordAll(t, r, "/4")
				}
				if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 response") {
					t.Errorf("Close gives %v, want it to tell of 1 lost response", err)
				}
				if s := r.Status(); s.InFlight != 0 || s.Lost != 1 || s.SpoolMemory != 0 {
					t.Errorf("status %+v after Close", s)
				}
				if forGood {
					wantCaptured(t, archive(t, r), "/1", "/2")
				} else {
					wantCaptured(t, archive(t, r), "/1", "/2", "/3")
				}
			})
		})
	}
}

// Exchanges that are under way when the disk fills up end, and wait for space.
func TestDiskFullWithManyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		gates := gatedOrigin{"/late": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), fs: disk})
		mustFetch(t, r, "http://origin/1")
		synctest.Wait()
		const n = 20
		var all []<-chan result
		for i := range n {
			all = append(all, fetchAside(r, fmt.Sprint("http://origin/late?", i)))
		}
		synctest.Wait()
		disk.fill(100)
		close(gates["/late"])
		for _, done := range all {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		before := disk.count()
		time.Sleep(time.Hour)
		if ops := disk.count() - before; ops < 3600 || ops > 10*3600 {
			t.Errorf("it tries %d operations in an hour", ops)
		}
		if s := r.Status(); s.Waiting != n || s.InFlight != n || s.Lost != 0 {
			t.Errorf("status %+v, want %d waiting and none lost", s, n)
		}
		disk.lift()
		time.Sleep(2 * time.Second)
		if s := r.Status(); s.Waiting != 0 || s.InFlight != 0 || s.Responses != n+1 || s.Unavailable != nil {
			t.Errorf("status %+v, want all recorded", s)
		}
		closeForTest(t, r)
		records := archive(t, r)
		for i := range n {
			theOne(t, records, "response", fmt.Sprint("http://origin/late?", i))
		}
	})
}

// openFiles returns the names of files that were not finished and have
// something in them.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, dir, "*.open"), func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Size() == 0
	})
}

// sweepPaths are recorded with a fault somewhere, in files so small that there
// are several.
var sweepPaths = []string{"/1", "/same/2", "/same/3", "/4", "/same/5", "/6", "/same/7"}

// sweep records with these faults and tells what came of it. Who is refused
// asks again, some times.
func sweep(t *testing.T, fail func(n int, op, name string) *fault) (disk *faultyFS, dir string, given []string, trouble error) {
	disk = newFaultyFS(fail)
	disk.off = true // while it is opened
	index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk}
	r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), MaxSize: 3000, Compression: warc.Plain, Logger: slog.New(slog.DiscardHandler)})
	disk.off = false
	for i, p := range sweepPaths {
		for range 4 {
			_, err := fetch(r, "GET", "http://origin"+p, "")
			if err == nil {
				given = append(given, p)
				break
			}
			wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if i%3 == 1 {
			time.Sleep(time.Second) // a sync
		}
	}
	trouble = r.Close(t.Context())
	return disk, r.options.Dir, given, trouble
}

// Whichever operation on the file system fails once, nothing is lost and
// nothing is there twice. A file that could not be finished at the end is for
// the next start, and Close says so.
func TestAnyOperationFailsOnce(t *testing.T) {
	var ops int
	synctest.Test(t, func(t *testing.T) {
		disk, dir, _, trouble := sweep(t, nil)
		if trouble != nil {
			t.Fatal(trouble)
		}
		ops = disk.ops
		if files := names(t, dir, "*.warc"); len(files) < 3 {
			t.Fatalf("all is in %d files: no rotation is tried", len(files))
		}
	})
	for n := range ops {
		for _, persisted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				disk, dir, _, trouble := sweep(t, func(i int, op, _ string) *fault {
					if i != n {
						return nil
					}
					return &fault{err: syscall.EIO, persisted: persisted}
				})
				if len(disk.failed) != 1 {
					return // not reached
				}
				what := fmt.Sprintf("operation %d, %s, persisted %v", n, disk.failed[0], persisted)
				if open := openFiles(t, dir); len(open) > 0 && trouble == nil {
					t.Errorf("%s: %v is left, but Close gives no error", what, open)
				}
				if len(names(t, dir, "*.open")) > 0 { // for the next start to recover
					closeForTest(t, openForTest(t, Options{Dir: dir}))
				}
				report, err := check.Files(names(t, dir, "*.warc")...)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range report.Findings {
					t.Errorf("%s: %s", what, f)
				}
				wantCaptured(t, report.Records, sweepPaths...)
				if t.Failed() {
					t.Fatalf("%s; Close gave %v", what, trouble)
				}
			})
		}
	}
}

// Whatever fails several times in a row: nothing is lost in silence, and no
// revisit refers to nothing.
func TestOperationsFailInARow(t *testing.T) {
	var ops int
	synctest.Test(t, func(t *testing.T) {
		disk, _, _, _ := sweep(t, nil)
		ops = disk.ops
	})
	for n := range ops {
		for _, row := range []int{2, 3, 5, 1000} {
			synctest.Test(t, func(t *testing.T) {
				disk, dir, given, trouble := sweep(t, func(i int, op, _ string) *fault {
					if i < n || i >= n+row {
						return nil
					}
					return &fault{err: syscall.EIO}
				})
				what := fmt.Sprintf("operations %d to %d, %.500v", n, n+row-1, disk.failed)
				if open := openFiles(t, dir); len(open) > 0 && trouble == nil {
					t.Errorf("%s: %v is left, but Close gives no error", what, open)
				}
				if len(names(t, dir, "*.open")) > 0 { // for the next start to recover
					closeForTest(t, openForTest(t, Options{Dir: dir}))
				}
				report, err := check.Files(names(t, dir, "*.warc")...)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range report.Findings {
					t.Errorf("%s: %s", what, f)
				}
				if trouble == nil {
					wantCaptured(t, report.Records, given...)
				}
				if t.Failed() {
					t.Fatalf("%s; Close gave %v", what, trouble)
				}
			})
		}
	}
}
