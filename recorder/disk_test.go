package recorder

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// Without descriptors for another file the full one goes on; the next one is
// started when there are some again.
func TestNoDescriptorForTheNextFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := false
		disk := newFaultyFS(func(_ int, op, _ string) *fault {
			if short && op == "create" {
				return &fault{err: syscall.EMFILE}
			}
			return nil
		})
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, Compression: warc.Plain, MaxSize: 3000})
		var paths []string
		record := func(n int) {
			for range n {
				paths = append(paths, fmt.Sprint("/", len(paths)))
				recordAll(t, r, paths[len(paths)-1])
			}
		}
		record(1)
		short = true
		record(10)
		if s := r.Status(); s.Pauses != 0 || s.Files != 1 {
			t.Errorf("status %+v, want one file and no pause", s)
		}
		short = false
		record(2)
		if s := r.Status(); s.Files != 2 {
			t.Errorf("%d files, want 2", s.Files)
		}
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), paths...)
	})
}

// The directory is taken away, with all that is in it, and another one comes:
// what was not durable is written there, and the directory is locked again.
func TestDirectoryIsMadeAnew(t *testing.T) {
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprint("moved ", moved), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, away := filepath.Join(t.TempDir(), "warcs"), filepath.Join(t.TempDir(), "away")
				index := dedup.NewMemory()
				r := openForTest(t, Options{Dir: dir, Dial: originHandler(t, echoPath), OpenIndex: opened(index)})
				recordAll(t, r, "/same/1", "/2")
				time.Sleep(time.Second) // durable
				recordAll(t, r, "/same/3", "/4")
				if err := os.Rename(dir, away); err != nil {
					t.Fatal(err)
				}
				if !moved {
					os.RemoveAll(away)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				_, err := fetch(r, "GET", "http://origin/5", "")
				wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
				if err == nil || !strings.Contains(err.Error(), "the archive's directory is gone") {
					t.Errorf("the refusal says: %v", err)
				}
				if names, _ := os.ReadDir(filepath.Dir(dir)); len(names) > 0 {
					t.Errorf("it was made by itself: %v", names)
				}
				time.Sleep(time.Hour)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				recordAll(t, r, "/same/5")
				if _, err := Open(Options{Dir: dir, Logger: testLogger(t)}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
					t.Errorf("a second recorder: %v", err)
				}
				if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "good appends are not under a final name") {
					t.Errorf("Close: %v, want it to tell of the file that is gone", err)
				}
				if s := r.Status(); s.Lost != 0 || s.Damaged != 1 {
					t.Errorf("status %+v", s)
				}
				// The original of /same/3 is gone: it is one itself now.
				records := archive(t, r)
				wantCaptured(t, records, "/same/3", "/4", "/same/5")
				theOne(t, records, "response", "http://origin/same/3")
				theOne(t, records, "revisit", "http://origin/same/5")
				if moved {
					// What was durable is whole, nothing is there twice.
					closeForTest(t, openForTest(t, Options{Dir: away}))
					wantCaptured(t, warctest.Check(t, away), "/same/1", "/2")
				}
			})
		})
	}
}

// The directory is away for a while, as an external disk may be, and comes back
// with all that is in it: nothing is missing, nothing is there twice.
func TestDirectoryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, away := filepath.Join(t.TempDir(), "warcs"), filepath.Join(t.TempDir(), "away")
		index := dedup.NewMemory()
		r := openForTest(t, Options{Dir: dir, Dial: originHandler(t, echoPath), OpenIndex: opened(index)})
		recordAll(t, r, "/same/1", "/2")
		time.Sleep(time.Second) // durable
		recordAll(t, r, "/same/3", "/4")
		if err := os.Rename(dir, away); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		_, err := fetch(r, "GET", "http://origin/5", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if err := os.Rename(away, dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		recordAll(t, r, "/same/5")
		closeForTest(t, r)
		if s := r.Status(); s.Lost != 0 || s.Damaged != 0 || s.Pauses != 1 {
			t.Errorf("status %+v", s)
		}
		records := archive(t, r)
		wantCaptured(t, records, "/same/1", "/2", "/same/3", "/4", "/same/5")
		if n := count(records, "revisit"); n != 2 {
			t.Errorf("there are %d revisits, want 2", n)
		}
	})
}

// Another process takes the directory that was made anew: this one waits.
func TestDirectoryIsTakenByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "warcs")
		r := openForTest(t, Options{Dir: dir, Dial: originHandler(t, echoPath)})
		recordAll(t, r, "/1")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		other := openForTest(t, Options{Dir: dir, Dial: originHandler(t, echoPath)})
		time.Sleep(time.Minute)
		_, err := fetch(r, "GET", "http://origin/2", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if err == nil || !strings.Contains(err.Error(), "is in use by process") {
			t.Errorf("the refusal says: %v", err)
		}
		recordAll(t, other, "/other")
		closeForTest(t, other)
		time.Sleep(time.Minute)
		recordAll(t, r, "/3")
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), "/other", "/1", "/3")
	})
}

// Somebody removes finished files while the recording goes on: nothing refers
// to them any more, neither what the index knows nor what the writer does.
func TestOriginalIsRemoved(t *testing.T) {
	for _, during := range []string{"recording", "a pause"} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				index, disk := dedup.NewMemory(), newFaultyFS(nil)
				r := openForTest(t, Options{Dial: originHandler(t, echoPath), OpenIndex: opened(index), fs: disk})
				remove := func() {
					for _, name := range names(t, r.options.Dir, "*.warc.gz") {
						if err := os.Remove(name); err != nil {
							t.Fatal(err)
						}
					}
				}
				recordAll(t, r, "/same/1")
				if err := r.Rotate(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				recordAll(t, r, "/same/2")
				if s := r.Status(); s.Revisits != 1 {
					t.Fatalf("status %+v, want a revisit", s)
				}
				if err := r.Rotate(); err != nil {
					t.Fatal(err)
				}
				if during == "a pause" {
					disk.fill(0)
					recordAll(t, r, "/same/3") // a revisit, as it seems
				}
				remove()
				if during == "a pause" {
					disk.lift()
					time.Sleep(2 * time.Second)
				} else {
					recordAll(t, r, "/same/3")
				}
				recordAll(t, r, "/same/4")
				closeForTest(t, r)
				records := archive(t, r)
				wantCaptured(t, records, "/same/3", "/same/4")
				theOne(t, records, "response", "http://origin/same/3")
				theOne(t, records, "revisit", "http://origin/same/4")
			})
		})
	}
}

// A disk that does nothing for 30 s, in the middle of a write: what is under
// way is bounded, who comes waits, and is refused after 30 s. All that was
// given is recorded afterwards.
func TestDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang sync.Once
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{MaxInFlight: 4, Dial: originHandler(t, echoPath), fs: disk})
		disk.fail = func(_ int, op, _ string) *fault {
			if op == "write" {
				hang.Do(func() { disk.hang = 30*time.Second + time.Millisecond })
			}
			return nil
		}
		var paths []string
		refused := 0
		var all []<-chan result
		const n = 10
		for i := range n {
			all = append(all, fetchAside(r, fmt.Sprint("http://origin/", i)))
			synctest.Wait()
		}
		if s := r.Status(); s.InFlight != 4 {
			t.Errorf("%d are under way, want 4", s.InFlight)
		}
		for i, done := range all {
			switch got := <-done; {
			case got.err == nil:
				paths = append(paths, fmt.Sprint("/", i))
			default:
				refused++
				wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
				if got.at != admissionWait {
					t.Errorf("refused after %s", got.at)
				}
			}
		}
		if len(paths) != 4 || refused != n-4 {
			t.Errorf("%d were given a response and %d refused, want 4 and %d", len(paths), refused, n-4)
		}
		time.Sleep(time.Second)
		recordAll(t, r, "/last")
		closeForTest(t, r)
		if s := r.Status(); s.Pauses != 0 {
			t.Errorf("status %+v: a disk that is slow is no failure", s)
		}
		wantCaptured(t, archive(t, r), append(paths, "/last")...)
	})
}

// Clients that go away while the disk hangs and no slot is left: what they were
// given, or would have been, is kept and recorded.
func TestClientsGoWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{MaxInFlight: 3, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "300000") // more than a spool keeps in memory
			w.Write(noise(300_000))
		}), fs: disk})
		disk.hang = 20 * time.Second
		for i := range 3 {
			req, _ := http.NewRequest("GET", fmt.Sprint("http://origin/", i), nil)
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close() // unread
		}
		synctest.Wait()
		if s := r.Status(); s.InFlight != 3 || s.Responses != 0 {
			t.Errorf("status %+v, want all slots taken and nothing written", s)
		}
		time.Sleep(time.Minute)
		closeForTest(t, r)
		wantEmpty(t, r.space)
		records := archive(t, r)
		for i := range 3 {
			rec := theOne(t, records, "response", fmt.Sprint("http://origin/", i))
			if checkTruncated(t, rec, ""); rec.PayloadSize != 300_000 {
				t.Errorf("/%d has %d octets", i, rec.PayloadSize)
			}
		}
	})
}

// Records without an exchange hold no slot: so many may wait, and no more.
func TestTooManySingles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk})
		disk.fill(0)
		for i := range maxSingles + 5 {
			r.AddResource(Resource{URI: fmt.Sprint("dns:host", i), ContentType: "text/dns", Date: time.Now(), Block: []byte("answer")})
		}
		synctest.Wait()
		if s := r.Status(); s.Waiting != maxSingles || s.LostRecords != 5 || s.Lost != 0 {
			t.Errorf("status %+v, want %d waiting and 5 lost", s, maxSingles)
		}
		disk.lift()
		time.Sleep(2 * time.Second)
		if s := r.Status(); s.Others != maxSingles {
			t.Errorf("%d records are there, want %d", s.Others, maxSingles)
		}
		r.Close(t.Context())
	})
}

// A panic in the writer ends the recording for good: nobody knows what is in
// the file.
func TestPanicInTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk})
		recordAll(t, r, "/1")
		disk.bug = true
		mustFetch(t, r, "http://origin/2")
		synctest.Wait()
		disk.lift()
		time.Sleep(time.Minute)
		_, err := fetch(r, "GET", "http://origin/3", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if s := r.Status(); s.Lost != 1 || s.InFlight != 0 || s.Unavailable == nil {
			t.Errorf("status %+v", s)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "internal error, see the log") {
			t.Errorf("Close: %v", err)
		}
		wantCaptured(t, archive(t, r), "/1")
	})
}

// A directory that cannot be written to is found out at the start.
func TestOpenWhereNothingCanBeWritten(t *testing.T) {
	disk := newFaultyFS(func(_ int, op, name string) *fault {
		if op == "create" {
			return &fault{err: syscall.EROFS}
		}
		return nil
	})
	dir := t.TempDir()
	_, err := Open(Options{Dir: dir, fs: disk, Logger: testLogger(t)})
	if err == nil || !strings.Contains(err.Error(), syscall.EROFS.Error()) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open gives %v", err)
	}
	closeForTest(t, openForTest(t, Options{Dir: dir})) // it is not locked
}

// FileMode is the mode of the files, less the umask.
func TestFileMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0, 0o600} {
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), FileMode: mode})
		mustFetch(t, r, "http://origin/1")
		closeForTest(t, r)
		info, err := os.Stat(names(t, r.options.Dir, "*.warc.gz")[0])
		if err != nil {
			t.Fatal(err)
		}
		if mode == 0 {
			mode = 0o644
		}
		if got := info.Mode().Perm(); got&^mode != 0 || got&0o600 != 0o600 {
			t.Errorf("the mode is %o, want %o", got, mode)
		}
	}
}
