package recorder

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/warc"
)

// A logFile is a log to look at.
type logFile struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logFile) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(lockedWriter{&l.mu, &l.buf}, nil))
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// failWith changes how operations fail.
func (f *faultyFS) failWith(fail func(n int, op, name string) *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// What does not fit at the end is lost alone: what waits behind it and does fit
// is recorded.
func TestCloseLosesOnlyWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{}
		paths := []string{"/a", "/b", "/c", "/d", "/e"}
		for _, p := range append([]string{"/100000", "/90000"}, paths...) {
			gates[p] = make(chan struct{})
		}
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{fs: disk, Compression: warc.Plain, MinFree: -1, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "0000") {
				<-gates[req.URL.Path]
				sized(w, req)
				return
			}
			gates.ServeHTTP(w, req)
		})})
		disk.fill(50_000)
		var all []<-chan result
		for _, p := range append([]string{"/100000", "/90000"}, paths...) {
			all = append(all, fetchAside(r, "http://origin"+p))
			synctest.Wait()
		}
		for i, p := range append([]string{"/100000", "/90000"}, paths...) {
			close(gates[p])
			if got := <-all[i]; got.err != nil {
				t.Fatal(got.err)
			}
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		if s := r.Status(); s.Waiting != 7 {
			t.Fatalf("status %+v, want 7 to wait", s)
		}
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "2 responses") {
			t.Errorf("Close: %v", err)
		}
		if s := r.Status(); s.Lost != 2 || s.Responses != 5 {
			t.Errorf("status %+v, want 2 lost and 5 responses", s)
		}
		wantCaptured(t, archive(t, r), paths...)
		wantEmpty(t, r.space)
	})
}

// A disk on which nothing works, or only a start of files, is not tried again
// for each of those that wait.
func TestCloseGivesADeadDiskUp(t *testing.T) {
	for name, ops := range map[string]string{
		"nothing works":                          "write sync create open truncate rename",
		"nothing is kept":                        "sync",
		"nothing is kept, files can be cut back": "sync of what was written",
		"it takes its time":                      "",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newFaultyFS(nil)
				r := openForTest(t, Options{fs: disk, Compression: warc.Plain, MinFree: -1, Dial: originHandler(t, sized), MaxInFlight: 300, SyncBytes: 3000, Logger: slog.New(slog.DiscardHandler)})
				recordAll(t, r, "/1")
				time.Sleep(time.Second)
				wrote := false
				bad := func(_ int, op, _ string) *fault {
					switch {
					case ops == "sync of what was written":
						if op != "sync" {
							wrote = op == "write"
							return nil
						} else if !wrote {
							return nil
						}
						return &fault{err: syscall.EIO}
					case ops == "" && op == "write":
						time.Sleep(3 * time.Second)
						return &fault{err: syscall.EIO}
					case strings.Contains(" "+ops+" ", " "+op+" "):
						return &fault{err: syscall.EIO}
					}
					return nil
				}
				hold := make(chan struct{})
				go r.writer.do(func() error { // ends with hold
					<-hold
					return nil
				})
				synctest.Wait()
				const n = 200
				for i := range n {
					mustFetch(t, r, fmt.Sprintf("http://origin/%d", i))
				}
				disk.failWith(bad)
				before, start := disk.count(), time.Now()
				close(hold)
				if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "200 responses") {
					t.Errorf("Close: %v", err)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("Close took %s", took)
				}
				if ops := disk.count() - before; ops > 3*n {
					t.Errorf("%d operations for %d captures", ops, n)
				}
			})
		})
	}
}

// brokenFile returns one that cannot be read.
func brokenFile(t *testing.T) *os.File {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return f
}

// capturesOf takes exchanges with these paths out of the queue of the writer.
func capturesOf(t *testing.T, r *Recorder, paths ...string) (captures []*capture) {
	t.Helper()
	done := make(chan []*capture, 1)
	r.writer.do(func() error {
		var got []*capture
		for _, p := range paths {
			go fetch(r, "GET", "http://origin"+p, "") // ends with the exchange
			synctest.Wait()
			got = append(got, <-r.writer.queue)
		}
		done <- got
		return nil
	})
	return <-done
}

// What cannot be read back while nothing else works is not the fault of what
// was captured: it waits like everything else, and is lost only when the disk
// is well again and it still cannot be read.
func TestSpoolCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{fs: disk, Compression: warc.Plain, MinFree: -1, Dial: originHandler(t, sized), Logger: slog.New(slog.DiscardHandler)})
		recordAll(t, r, "/1")
		time.Sleep(time.Second)
		disk.failWith(func(_ int, op, _ string) *fault {
			if op != "write" {
				return &fault{err: syscall.EIO}
			}
			return nil
		})
		captures := capturesOf(t, r, "/300000", "/300001", "/300002")
		kept := captures[0].response.body.file
		for _, c := range captures[:2] {
			c.response.body.file = brokenFile(t)
		}
		for _, c := range captures {
			r.writer.submit(c)
		}
		time.Sleep(time.Minute)
		if s := r.Status(); s.Lost != 0 || s.Waiting != 3 || s.Unavailable == nil {
			t.Errorf("status %+v, want a pause, and nothing lost", s)
		}
		r.writer.do(func() error {
			captures[0].response.body.file = kept // it comes back
			return nil
		})
		disk.failWith(nil)
		time.Sleep((maxTries + 2) * retryEvery)
		synctest.Wait()
		if s := r.Status(); s.Lost != 1 || s.Waiting != 0 || s.Unavailable != nil {
			t.Errorf("status %+v, want it to go on with one lost", s)
		}
		recordAll(t, r, "/2")
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 response") {
			t.Errorf("Close: %v", err)
		}
		wantSized(t, r, "/1", "/300000", "/300002", "/2")
	})
}

// wantSized checks that there are responses of exactly these paths, of the
// sizes that they name.
func wantSized(t *testing.T, r *Recorder, paths ...string) {
	t.Helper()
	records := archive(t, r)
	for _, p := range paths {
		if got := fmt.Sprintf("/%d", theOne(t, records, "response", "http://origin"+p).PayloadSize); got != p {
			t.Errorf("%s has %s octets of payload", p, got)
		}
	}
	if n := count(records, "response"); n != len(paths) {
		t.Errorf("there are %d responses, want %d", n, len(paths))
	}
}

// What waits for room and is compressed only when it is appended may need far
// less than it has: it is tried all the same.
func TestPauseOfWhatWouldFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{fs: disk, MinFree: -1, SpoolMemory: 8 << 10, SpoolDisk: 300 << 10, Dial: originHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, hex.EncodeToString(noise(148<<10))) // half of it when compressed
		}), Logger: slog.New(slog.DiscardHandler)})
		recordAll(t, r, "/1")
		time.Sleep(time.Second)
		disk.fill(0)
		recordAll(t, r, "/2")
		time.Sleep(3 * time.Second)
		if s := r.Status(); s.Unavailable == nil || s.SpoolDisk < 296<<10 || s.Truncated > 0 {
			t.Fatalf("status %+v, want a pause with all of the body on the disk", s)
		}
		room := func(n int) {
			disk.fill(n)
			disk.mu.Lock()
			disk.free, disk.total = uint64(n), 1<<30
			disk.mu.Unlock()
		}
		room(10 << 10)
		before := disk.count()
		time.Sleep(time.Hour)
		if ops := disk.count() - before; ops > 60*30 {
			t.Errorf("%d operations in an hour, in vain", ops)
		}
		room(200 << 10)
		time.Sleep(2 * time.Minute)
		if s := r.Status(); s.Unavailable != nil || s.Responses != 2 {
			t.Errorf("status %+v, want it to go on", s)
		}
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), "/1", "/2")
	})
}

// What went wrong inside is for the log, once; where the archive is, for the
// log and the status.
func TestWhatClientsAreTold(t *testing.T) {
	t.Run("a panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log logFile
			var told []error
			disk := newFaultyFS(nil)
			r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, Logger: log.logger(), OnFailure: func(f Failure) { told = append(told, f.Err) }})
			recordAll(t, r, "/1")
			disk.mu.Lock()
			disk.bug = true
			disk.mu.Unlock()
			mustFetch(t, r, "http://origin/2")
			synctest.Wait()
			disk.lift()
			_, err := fetch(r, "GET", "http://origin/3", "")
			told = append(told, err, r.Status().Unavailable, r.Close(t.Context()))
			for _, err := range told {
				if err == nil || !strings.Contains(err.Error(), "internal error, see the log") || strings.Contains(err.Error(), "goroutine") {
					t.Errorf("it says: %v", err)
				}
			}
			if len(told) != 5 { // with those of OnFailure: one is lost, one refused
				t.Errorf("%d are told", len(told))
			}
			if n := strings.Count(log.String(), "debug.Stack"); n != 1 || !strings.Contains(log.String(), "a bug") {
				t.Errorf("the log has the stack %d times:\n%s", n, &log)
			}
		})
	})
	t.Run("where the archive is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log logFile
			disk := newFaultyFS(nil)
			r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, Logger: log.logger()})
			recordAll(t, r, "/1")
			disk.failWith(func(int, string, string) *fault { return &fault{err: syscall.EROFS} })
			recordAll(t, r, "/2")
			time.Sleep(2 * time.Second)
			_, err := fetch(r, "GET", "http://origin/3", "")
			if err == nil || strings.Contains(err.Error(), r.options.Dir) || !strings.Contains(err.Error(), syscall.EROFS.Error()) || !errors.Is(err, syscall.EROFS) {
				t.Errorf("the client is told: %v", err)
			}
			if err := r.Status().Unavailable; err == nil || !strings.Contains(err.Error(), r.options.Dir) {
				t.Errorf("the status says: %v", err)
			}
			if !strings.Contains(log.String(), r.options.Dir) {
				t.Errorf("the log does not name the directory:\n%s", &log)
			}
			disk.lift()
			time.Sleep(2 * time.Second)
			closeForTest(t, r)
		})
	})
}

// A record that is lost is no response: clients were given nothing that is not
// in the archive.
func TestLostRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{fs: disk, Dial: originConns(t, func(_ int, c net.Conn) {
			http.ReadRequest(bufio.NewReader(c)) // what comes before it is no reply
			io.WriteString(c, "this is no HTTP")
			c.Close()
		}), Logger: slog.New(slog.DiscardHandler)})
		disk.fill(0)
		if _, err := fetch(r, "GET", "http://origin/bad", ""); err == nil {
			t.Error("a bad reply is passed on")
		}
		r.AddResource(Resource{URI: "dns:host", ContentType: "text/dns", Date: time.Now(), Block: []byte("answer")})
		synctest.Wait()
		err := r.Close(t.Context())
		if s := r.Status(); s.Lost != 0 || s.LostRecords != 2 {
			t.Errorf("status %+v, want 2 records lost", s)
		}
		if err == nil || strings.Contains(err.Error(), "clients were given") || !strings.Contains(err.Error(), "2 records") {
			t.Errorf("Close: %v", err)
		}
	})
}
