package recorder

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// A pauseStory fetches sweepPaths while a disk has faults, and once more, when
// the faults have ended, what was refused. The disk gets well 10 s after it
// became ill; then everything has to be in the archive, once.
type pauseStory struct {
	t       *testing.T
	disk    *faultyFS
	r       *Recorder
	given   map[string]bool
	paused  int // refusals
	atClose bool
}

func newPauseStory(t *testing.T, fail func(n int, op, name string) *fault) *pauseStory {
	disk := newFaultyFS(fail)
	disk.off = true // while it is opened
	index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk}
	r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), MaxSize: 3000, Compression: warc.Plain, Logger: slog.New(slog.DiscardHandler)})
	disk.off = false
	return &pauseStory{t: t, disk: disk, r: r, given: make(map[string]bool)}
}

// run fetches what has not been given yet.
func (s *pauseStory) run() {
	for i, p := range sweepPaths {
		if s.given[p] {
			continue
		}
		if _, err := fetch(s.r, "GET", "http://origin"+p, ""); err == nil {
			s.given[p] = true
		} else {
			wantRefusal(s.t, err, PhaseAdmission, http.StatusServiceUnavailable)
			s.paused++
			if s.r.Err() == nil && s.r.Status().Unavailable == nil {
				s.t.Errorf("%s was refused, but nothing is wrong: %v", p, err)
			}
		}
		synctest.Wait()
		if i%3 == 1 {
			time.Sleep(time.Second) // a sync
		}
	}
}

// end lets the disk be well and checks that nothing is missing.
func (s *pauseStory) end(what string) {
	t := s.t
	t.Helper()
	time.Sleep(10 * time.Second)
	s.disk.lift()
	if !s.atClose {
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		if err := s.r.Err(); err != nil {
			t.Errorf("%s: it does not go on: %v", what, err)
		}
		s.run()
	}
	if err := s.r.Close(t.Context()); err != nil {
		t.Errorf("%s: Close: %v", what, err)
	}
	if err := s.r.Err(); err != nil {
		t.Errorf("%s: after Close nothing is recorded because of %v", what, err)
	}
	if !s.atClose && len(s.given) != len(sweepPaths) {
		t.Errorf("%s: not all that was refused was given later", what)
	}
	if st := s.r.Status(); st.Lost != 0 || st.Waiting != 0 || st.InFlight != 0 || int(st.Responses+st.Revisits) != len(s.given) {
		t.Errorf("%s: status %+v, want %d captures", what, st, len(s.given))
	}
	wantEmpty(t, s.r.space)
	if left := append(names(t, s.r.options.Dir, "*.open"), names(t, s.r.options.Dir, ".spool*")...); len(left) > 0 {
		t.Errorf("%s: %v is left", what, left)
	}
	report, err := check.Files(names(t, s.r.options.Dir, "*.warc")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("%s: %s", what, f)
	}
	var given []string
	for p := range s.given {
		given = append(given, p)
	}
	wantCaptured(t, report.Records, given...)
	if t.Failed() {
		t.Fatalf("%s; %.2000v", what, s.disk.failed)
	}
}

// Whatever stops working, from whichever call on, for ten seconds: who is
// given a response is archived, once; who is not is told to come again.
func TestFaultsThatPass(t *testing.T) {
	all := []string{"write", "sync", "create", "open", "stat", "truncate", "rename", "remove", "close", "syncdir"}
	kinds := map[string]struct {
		ops []string
		bad fault
	}{
		"writes stop in the middle":                {[]string{"write"}, fault{err: syscall.ENOSPC}},
		"writes do nothing":                        {[]string{"write"}, fault{err: syscall.EDQUOT, nothing: true}},
		"writes are done, but fail":                {[]string{"write"}, fault{err: syscall.EIO, persisted: true}},
		"writes cannot be undone":                  {[]string{"write", "truncate"}, fault{err: syscall.EIO}},
		"writes are neither undone nor renamed":    {[]string{"write", "truncate", "rename"}, fault{err: syscall.EIO}},
		"syncs fail":                               {[]string{"sync"}, fault{err: syscall.EIO}},
		"syncs fail, and nothing can be cut back":  {[]string{"sync", "truncate"}, fault{err: syscall.EIO}},
		"syncs fail, and nothing can be renamed":   {[]string{"sync", "rename"}, fault{err: syscall.EIO}},
		"syncs fail, and nothing can be opened":    {[]string{"sync", "open", "create"}, fault{err: syscall.EIO}},
		"renames fail":                             {[]string{"rename"}, fault{err: syscall.EACCES}},
		"renames are done, but fail":               {[]string{"rename"}, fault{err: syscall.EIO, persisted: true}},
		"no file can be created":                   {[]string{"create"}, fault{err: syscall.EMFILE}},
		"the directory is gone":                    {[]string{"create", "stat", "open", "rename"}, fault{err: syscall.EIO}},
		"the file system is read-only":             {[]string{"write", "create", "truncate", "rename", "remove", "open"}, fault{err: syscall.EROFS}},
		"directories cannot be synced":             {[]string{"syncdir"}, fault{err: syscall.EIO}},
		"files cannot be closed":                   {[]string{"close"}, fault{err: syscall.EIO}},
		"files cannot be looked at":                {[]string{"stat"}, fault{err: syscall.EIO}},
		"nothing works, but for removing":          {[]string{"write", "sync", "create", "open", "truncate", "rename"}, fault{err: syscall.EIO}},
		"nothing works":                            {all, fault{err: syscall.EIO}},
		"everything works, but says that it fails": {[]string{"write", "sync", "rename", "truncate"}, fault{err: syscall.EIO, persisted: true}},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			paused := 0
			for nth := 0; ; nth++ {
				happened := false
				for _, atClose := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						skip := nth
						s := newPauseStory(t, func(_ int, op, _ string) *fault {
							for _, o := range kind.ops {
								if op == o {
									skip--
								}
							}
							if skip >= 0 || !strings.Contains(" "+strings.Join(kind.ops, " ")+" ", " "+op+" ") {
								return nil
							}
							happened = true
							return &kind.bad
						})
						s.atClose = atClose
						s.run()
						s.end(fmt.Sprintf("from call %d on, lifted at Close %v", nth, atClose))
						paused += s.paused
					})
				}
				if !happened {
					break
				}
				if nth > 200 {
					t.Fatal("there is no end")
				}
			}
			if silent := kind.ops[0] == "rename" || kind.ops[0] == "close" || kind.ops[0] == "stat"; paused == 0 && !silent {
				t.Error("nobody was ever refused")
			}
		})
	}
}

// A disk with room for so many bytes, whatever they are: the space ends in the
// first file, in a later one, or when all is written at the end.
func TestDiskFullAtAnyByte(t *testing.T) {
	const step = 97
	for _, atClose := range []bool{false, true} {
		for room := 0; ; room += step {
			full := false
			synctest.Test(t, func(t *testing.T) {
				s := newPauseStory(t, nil)
				s.atClose = atClose
				s.disk.fill(room)
				s.run()
				s.disk.mu.Lock()
				full = s.disk.room < 1000
				s.disk.mu.Unlock()
				s.end(fmt.Sprintf("%d bytes of room, lifted at Close %v", room, atClose))
			})
			if t.Failed() {
				return
			}
			if !full {
				break
			}
			if room > 1e6 {
				t.Fatal("there is no end")
			}
		}
	}
}

// Who waits for a slot when recording pauses is refused at once, and told when
// to come again. The log tells one refusal in a second.
func TestPauseRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told int
		disk := newFaultyFS(nil)
		gates := gatedOrigin{"/slow": make(chan struct{}), "/1": make(chan struct{})}
		r := openForTest(t, Options{MaxInFlight: 2, Dial: originHandler(t, gates.ServeHTTP), fs: disk, OnFailure: func(f Failure) {
			told++
			if f.Class != "paused" {
				t.Errorf("the class is %s", f.Class)
			}
		}})
		slow := fetchAside(r, "http://origin/slow")
		first := fetchAside(r, "http://origin/1")
		synctest.Wait()
		var all []<-chan result
		for range 10 {
			all = append(all, fetchAside(r, "http://origin/2"))
		}
		synctest.Wait()
		disk.fill(0)
		close(gates["/1"]) // it waits to be written, and keeps its slot
		if got := <-first; got.err != nil {
			t.Error(got.err)
		}
		for _, done := range all {
			got := <-done
			wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
			if again, ok := got.err.(interface{ RetryAfter() time.Duration }); !ok || again.RetryAfter() != pauseHint {
				t.Errorf("%v does not say when to come again", got.err)
			}
			if got.at > time.Second {
				t.Errorf("refused after %s", got.at)
			}
		}
		if s := r.Status(); s.Failures != 10 || told != 1 {
			t.Errorf("%d failures are counted and %d told, want 10 and 1", s.Failures, told)
		}
		disk.lift()
		time.Sleep(2 * time.Second)
		mustFetch(t, r, "http://origin/3")
		close(gates["/slow"])
		<-slow
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), "/slow", "/1", "/3")
	})
}

// A pause that ends as soon as it has begun: who waits for a slot meanwhile is
// refused or goes on waiting, and the slots stay right.
func TestPauseOfNoTime(t *testing.T) {
	for range 50 { // it depends on who is faster
		synctest.Test(t, func(t *testing.T) {
			gates := gatedOrigin{"/slow": make(chan struct{})}
			r := openForTest(t, Options{MaxInFlight: 1, Dial: originHandler(t, gates.ServeHTTP), Logger: slog.New(slog.DiscardHandler)})
			slow := fetchAside(r, "http://origin/slow")
			synctest.Wait()
			next := fetchAside(r, "http://origin/next")
			synctest.Wait()
			r.pause(syscall.EIO)
			r.resume()
			synctest.Wait()
			if n := r.Status().InFlight; n != 1 {
				t.Errorf("%d slots are taken, want 1", n)
			}
			close(gates["/slow"])
			if got := <-slow; got.err != nil {
				t.Error(got.err)
			}
			if got := <-next; got.err != nil {
				wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
			}
			synctest.Wait()
			if n := r.Status().InFlight; n != 0 {
				t.Errorf("%d slots are taken in the end", n)
			}
			closeForTest(t, r)
		})
	}
}

// A capture that no file can hold, or that cannot be read any more, is lost
// alone; the others are recorded.
func TestCaptureThatCannotBeAppended(t *testing.T) {
	t.Run("too big", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := newFaultyFS(nil)
			big := 0
			r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/big" {
					w.Write(make([]byte, 100_000))
					return
				}
				echoPath(w, req)
			}), fs: disk, Compression: warc.Plain})
			disk.limit(80_000)
			recordAll(t, r, "/1", "/big", "/2")
			time.Sleep(time.Minute)
			if err := r.Err(); err != nil {
				t.Errorf("%v; %d", err, big)
			}
			if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 response") {
				t.Errorf("Close: %v", err)
			}
			wantCaptured(t, archive(t, r), "/1", "/2")
		})
	})
	t.Run("too big, as everything is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := newFaultyFS(nil)
			r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, Compression: warc.Plain})
			recordAll(t, r, "/1")
			if err := r.Rotate(); err != nil {
				t.Fatal(err)
			}
			r.writer.do(func() error { // the next file is there, and nothing in it
				_, err := r.writer.output("")
				return err
			})
			disk.limit(1000)
			mustFetch(t, r, "http://origin/2")
			time.Sleep(time.Minute)
			if s := r.Status(); s.Waiting != 1 || s.Lost != 0 {
				t.Errorf("status %+v, want it to wait", s)
			}
			disk.limit(0)
			time.Sleep(2 * time.Second)
			closeForTest(t, r)
			wantCaptured(t, archive(t, r), "/1", "/2")
		})
	})
	t.Run("unreadable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
				w.Write(make([]byte, 300_000))
			}), fs: newFaultyFS(nil), Compression: warc.Plain})
			c := make(chan *capture, 1)
			r.writer.do(func() error {
				go func() { // ends with the exchange
					mustFetch(t, r, "http://origin/gone")
				}()
				synctest.Wait()
				c <- <-r.writer.queue
				return nil
			})
			gone := <-c
			gone.response.body.file.Close()
			r.writer.submit(gone)
			time.Sleep((maxTries + 1) * retryEvery)
			recordAll(t, r, "/2")
			time.Sleep(time.Minute)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 response") {
				t.Errorf("Close: %v", err)
			}
			wantCaptured(t, archive(t, r), "/2")
		})
	})
}

// A file that cannot be cut back although the disk is well is set aside after
// some attempts, and told: what was durable in it is not in the archive.
func TestFileThatCannotBeCutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := ""
		disk := newFaultyFS(func(_ int, op, name string) *fault {
			if bad != "" && (op == "sync" || op == "open") && name == bad {
				return &fault{err: syscall.EIO}
			}
			return nil
		})
		index := dedup.NewMemory()
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index)})
		recordAll(t, r, "/same/1", "/2")
		time.Sleep(time.Second)
		disk.mu.Lock()
		bad = filepath.Base(names(t, r.options.Dir, "*.open")[0])
		disk.mu.Unlock()
		recordAll(t, r, "/same/3", "/4")
		time.Sleep(time.Second)
		if s := r.Status(); s.Unavailable == nil || s.Waiting != 0 {
			t.Errorf("status %+v, want a pause", s)
		}
		time.Sleep(5 * time.Second)
		recordAll(t, r, "/same/5")
		if s := r.Status(); s.Unavailable != nil || s.Damaged != 1 || s.Lost != 0 {
			t.Errorf("status %+v, want it to go on", s)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), bad[:len(bad)-len(".open")]+".bad-") {
			t.Errorf("Close: %v, want it to name what was set aside", err)
		}
		records := archive(t, r)
		wantCaptured(t, records, "/same/3", "/4", "/same/5")
		theOne(t, records, "response", "http://origin/same/3")
	})
}

// What the disk has no room for is not written in vain every second.
func TestPauseWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{Dial: originHandler(t, sized), fs: disk, MinFree: -1})
		disk.fill(1 << 20)
		disk.free, disk.total = 1<<20, 100<<20
		if got := mustFetch(t, r, "http://origin/3000000"); len(got) != 3_000_000 {
			t.Fatal(len(got))
		}
		time.Sleep(10 * time.Second)
		before := disk.count()
		time.Sleep(time.Hour)
		if ops := disk.count() - before; ops > 0 {
			t.Errorf("it tries %d operations in an hour", ops)
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "are needed") {
			t.Errorf("the reason is %v", err)
		}
		disk.lift()
		disk.setFree(50 << 20)
		time.Sleep(2 * time.Second)
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), "/3000000")
	})
}
