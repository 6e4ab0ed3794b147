package recorder

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// endless streams for ever, in either direction.
type endless struct {
	closed chan struct{}
	once   *sync.Once
}

func (e endless) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, errors.New("closed")
	case <-time.After(time.Second):
		return copy(p, strings.Repeat("x", 20_000)), nil
	}
}

func (e endless) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

// An exchange whose body has found no room keeps all others out, and so is cut
// after a while.
func TestExchangeWithoutRoomIsCut(t *testing.T) {
	for _, upload := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := openForTest(t, Options{MinFree: -1, SpoolMemory: 1 << 20, SpoolDisk: 300_000, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/endless":
					for {
						if _, err := w.Write(noise(20_000)); err != nil {
							return
						}
						w.(http.Flusher).Flush()
						time.Sleep(time.Second)
					}
				case "/upload":
					io.Copy(io.Discard, req.Body)
				}
			}), Logger: slog.New(slog.DiscardHandler)})
			ended := make(chan error, 1)
			go func() { // ends when the exchange is cut
				req, _ := http.NewRequest("GET", "http://origin/endless", nil)
				if upload {
					req, _ = http.NewRequest("POST", "http://origin/upload", endless{make(chan struct{}), new(sync.Once)})
				}
				resp, err := r.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				ended <- err
			}()
			time.Sleep(40 * time.Second)
			_, err := fetch(r, "GET", "http://other/", "")
			wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
			if n := r.Status().Unstorable; n != 1 {
				t.Errorf("upload %v: %d are refused because of the disk, want 1", upload, n)
			}
			time.Sleep(2 * crowdsFor)
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("upload %v: it has ended well", upload)
				}
			default:
				t.Errorf("upload %v: it still goes on", upload)
			}
			mustFetch(t, r, "http://other/")
			closeForTest(t, r)
			if s := r.Status(); !upload && s.Incomplete != 1 {
				t.Errorf("status %+v, want one incomplete", s)
			}
			wantEmpty(t, r.space)
			archive(t, r)
		})
	}
}

// A request of which we have kept only a part makes an exchange incomplete.
func TestRequestInPartIsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MaxBody: 1000, Dial: originHandler(t, echoPath), Logger: slog.New(slog.DiscardHandler)})
		if _, err := fetch(r, "POST", "http://origin/1", strings.Repeat("x", 2000)); err != nil {
			t.Fatal(err)
		}
		closeForTest(t, r)
		if s := r.Status(); s.Incomplete != 1 {
			t.Errorf("status %+v, want one incomplete", s)
		}
		checkTruncated(t, theOne(t, archive(t, r), "request", "http://origin/1"), "length")
	})
}

// What is judged is the body, not the little that is on the disk of it.
func TestStartOfASpoolHasItsTail(t *testing.T) {
	s := newSpool(plenty(), t.TempDir(), -1)
	defer s.release()
	s.Write([]byte("\xff\xfe"))
	if err := s.spill(); err != nil {
		t.Fatal(err)
	}
	s.Write(benchText(100_000))
	if got := s.start(); len(got) != spoolStart || string(got[:3]) != "\xff\xfe<" {
		t.Errorf("%d octets, %.10q", len(got), got)
	}
}

// All that is waited for together is bounded.
func TestPlaceAndSlotTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := map[string]chan struct{}{"/a": make(chan struct{}), "/b": make(chan struct{}), "/c": make(chan struct{})}
		r := openForTest(t, Options{MaxInFlight: 2, MaxLong: 1, MaxConnsPerOrigin: 1, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			if gate := gates[req.URL.Path]; gate != nil {
				<-gate
			}
		}), Logger: slog.New(slog.DiscardHandler)})
		a := fetchAside(r, "http://a/a")
		synctest.Wait()
		b := fetchAside(r, "http://b/b")
		synctest.Wait()
		time.Sleep(11 * time.Second) // one of them is a long one now
		c := fetchAside(r, "http://c/c")
		synctest.Wait()
		start := time.Now()
		done := make(chan error, 1)
		go func() { // ends with its turn, or the patience
			_, err := fetch(r, "GET", "http://a/again", "")
			done <- err
		}()
		synctest.Wait()
		d := fetchAside(r, "http://d/c") // waits for a slot before the other does
		time.Sleep(29 * time.Second)
		close(gates["/a"])
		<-a
		err := <-done
		if waited := time.Since(start); waited > admissionWait+time.Second {
			t.Errorf("it waited for %s, %v", waited, err)
		}
		close(gates["/b"])
		close(gates["/c"])
		<-b
		<-c
		<-d
		closeForTest(t, r)
	})
}

// A file system that has no room for a file, though it says that there is, keeps
// the recording paused until there is room for one; that is tried once a second.
func TestNoRoomForAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), Logger: slog.New(slog.DiscardHandler)})
		dir := t.TempDir()
		w := &spaceWatch{r: &Recorder{space: &space{}, options: Options{Dir: filepath.Join(dir, "away")}}}
		if err := w.tryRoom(); err != nil {
			t.Errorf("nothing was refused: %v", err)
		}
		w.r.space.refused.Store(true)
		for range 2 {
			if err := w.tryRoom(); err == nil || !strings.Contains(err.Error(), "bodies find no room on the disk") {
				t.Errorf("no room: %v", err)
			}
		}
		w.r.options.Dir = dir
		if err := w.tryRoom(); err == nil {
			t.Error("it is tried again at once")
		}
		time.Sleep(time.Second)
		if err := w.tryRoom(); err != nil || w.r.space.refused.Load() {
			t.Errorf("there is room again: %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s is left", left[0].Name())
		}

		// As a whole: the reason shows, and goes.
		mustFetch(t, r, "http://origin/1")
		r.spoolFailed(&exchange{r: r}, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
		_, err := fetch(r, "GET", "http://origin/2", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		time.Sleep(5 * time.Second)
		mustFetch(t, r, "http://origin/3")
		closeForTest(t, r)
	})
}
