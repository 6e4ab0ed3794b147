package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/warc/check"
)

// A gatedOrigin answers at once, but for paths that have a gate: those answer
// when it is closed.
type gatedOrigin map[string]chan struct{}

func (g gatedOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if gate := g[r.URL.Path]; gate != nil {
		if r.URL.RawQuery == "head" { // the head comes at once
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	fmt.Fprintf(w, "this is %s", r.URL.Path)
}

// result is what an exchange in its own goroutine gave, and when.
type result struct {
	body string
	err  error
	at   time.Duration
}

func fetchAside(r *Recorder, url string) <-chan result {
	done := make(chan result, 1)
	start := time.Now()
	go func() { // ends with the exchange
		body, err := fetch(r, "GET", url, "")
		done <- result{body, err, time.Since(start)}
	}()
	return done
}

func TestAdmissionWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/a": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), MaxInFlight: 1})
		a := fetchAside(r, "http://origin/a")
		synctest.Wait()
		b := fetchAside(r, "http://origin/b")
		synctest.Wait()
		if n := r.Status().InFlight; n != 1 {
			t.Errorf("%d exchanges are under way, want 1", n)
		}
		time.Sleep(longAfter / 2)
		close(gates["/a"])
		if got := <-a; got.err != nil || got.body != "this is /a" {
			t.Errorf("first: %+v", got)
		}
		if got := <-b; got.err != nil || got.body != "this is /b" || got.at != longAfter/2 {
			t.Errorf("second: %+v, want it right after the first, at %s", got, longAfter/2)
		}
		closeForTest(t, r)
		if n := count(archive(t, r), "response"); n != 2 {
			t.Errorf("%d responses are recorded, want 2", n)
		}
	})
}

func TestAdmissionRefusesAfter30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/a": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), MaxInFlight: 1, MaxLong: 1})
		r.long.tryTake() // there is no room among the long ones
		a := fetchAside(r, "http://origin/a")
		synctest.Wait()
		b := <-fetchAside(r, "http://origin/b")
		wantRefusal(t, b.err, PhaseAdmission, http.StatusServiceUnavailable)
		if b.at != 30*time.Second {
			t.Errorf("refused after %s, want 30 s", b.at)
		}

		// A client that does not want to wait so long.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://origin/c", nil)
		start := time.Now()
		_, err := r.RoundTrip(req)
		wantRefusal(t, err, PhaseClient, http.StatusServiceUnavailable)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}

		close(gates["/a"])
		if got := <-a; got.err != nil {
			t.Error(got.err)
		}
		mustFetch(t, r, "http://origin/d")
		r.long.give()
		closeForTest(t, r)
		if s := r.Status(); s.Failures != 2 || s.Responses != 2 || s.InFlight != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// The slot of a long exchange is free 10 s after its admission, so that whoever
// waits for something else can do so.
func TestAdmissionOfLongExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/long": make(chan struct{}), "/longer": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), MaxInFlight: 1, MaxLong: 1})
		long := fetchAside(r, "http://origin/long?head")
		synctest.Wait()
		if got := <-fetchAside(r, "http://origin/b"); got.err != nil || got.at != longAfter {
			t.Errorf("the next exchange: %+v, want it admitted after %s", got, longAfter)
		}
		synctest.Wait()
		if s := r.Status(); s.Long != 1 || s.InFlight != 0 {
			t.Errorf("%d long exchanges and %d others, want 1 and 0", s.Long, s.InFlight)
		}

		// There is no second place among the long ones: this one keeps its
		// slot, and the next is refused.
		longer := fetchAside(r, "http://origin/longer?head")
		synctest.Wait()
		got := <-fetchAside(r, "http://origin/c")
		wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
		close(gates["/long"])
		close(gates["/longer"])
		for _, done := range []<-chan result{long, longer} {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		synctest.Wait()
		if s := r.Status(); s.Long != 0 || s.InFlight != 0 {
			t.Errorf("%d long exchanges and %d others are left", s.Long, s.InFlight)
		}
		closeForTest(t, r)
		if n := count(archive(t, r), "response"); n != 3 {
			t.Errorf("%d responses are recorded, want 3", n)
		}
	})
}

// Only so many may wait, be it for a slot or for a place at an origin: the next
// is refused at once, and the log tells one such refusal in a second.
func TestAdmissionOfTooMany(t *testing.T) {
	for _, o := range []Options{{MaxInFlight: 1}, {MaxConnsPerOrigin: 1}} {
		synctest.Test(t, func(t *testing.T) {
			var told []Failure
			gates := gatedOrigin{"/a": make(chan struct{})}
			o.Dial = originHandler(t, gates.ServeHTTP)
			o.OnFailure = func(f Failure) { told = append(told, f) }
			r := openForTest(t, o)
			if r.maxWaiting != minWaiting {
				t.Errorf("%d may wait, want %d", r.maxWaiting, minWaiting)
			}
			r.maxWaiting = 2
			all := []<-chan result{fetchAside(r, "http://origin/a")}
			synctest.Wait()
			before := r.Status().SpoolMemory
			for range r.maxWaiting {
				all = append(all, fetchAside(r, "http://origin/b?"+strings.Repeat("x", 1000)))
			}
			synctest.Wait()
			if got := r.Status().SpoolMemory - before; got < 2000 || got > 3000 {
				t.Errorf("those who wait take %d bytes, want those of their heads", got)
			}
			for range 10 {
				got := <-fetchAside(r, "http://origin/c")
				wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
				if got.err == nil || got.at != 0 || !strings.Contains(got.err.Error(), "2 requests wait") {
					t.Errorf("after %s: %v, want a refusal at once", got.at, got.err)
				}
			}
			if len(told) != 1 || told[0].Class != "crowded" {
				t.Errorf("told of %+v, want one refusal", told)
			}
			close(gates["/a"])
			for _, done := range all {
				if got := <-done; got.err != nil {
					t.Error(got.err)
				}
			}
			mustFetch(t, r, "http://origin/d")
			wantAllGivenBack(t, r)
			if n := count(archive(t, r), "response"); n != 4 {
				t.Errorf("%d responses are recorded, want 4", n)
			}
		})
	}
}

// Where there are more slots, as many may wait.
func TestAdmissionOfMany(t *testing.T) {
	r := openForTest(t, Options{MaxInFlight: 2 * minWaiting})
	if r.maxWaiting != 2*minWaiting {
		t.Errorf("%d may wait, want %d", r.maxWaiting, 2*minWaiting)
	}
	closeForTest(t, r)
}

func TestCloseWaitsForExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/a": make(chan struct{}), "/b": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), MaxInFlight: 2})
		a := fetchAside(r, "http://origin/a?head") // its body is under way
		b := fetchAside(r, "http://origin/b")      // waits for its head
		synctest.Wait()
		waiting := fetchAside(r, "http://origin/c") // waits for a slot
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- r.Close(t.Context()) }() // ends when the gates are open
		synctest.Wait()
		got := <-waiting
		wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
		_, err := fetch(r, "GET", "http://origin/d", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)

		time.Sleep(50 * time.Second)
		select {
		case err := <-closed:
			t.Fatalf("Close has returned %v, although two exchanges are under way", err)
		default:
		}
		close(gates["/a"])
		close(gates["/b"])
		for path, done := range map[string]<-chan result{"/a": a, "/b": b} {
			if got := <-done; got.err != nil || got.body != "this is "+path {
				t.Errorf("%s: %+v", path, got)
			}
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := r.Close(t.Context()); err == nil {
			t.Error("Close again gives no error")
		}
		records := archive(t, r)
		for _, uri := range []string{"http://origin/a?head", "http://origin/b"} {
			if v := theOne(t, records, "response", uri).Header.Get("WARC-Truncated"); v != "" {
				t.Errorf("%s is truncated: %s", uri, v)
			}
		}
	})
}

func TestCloseCutsWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/a": make(chan struct{}), "/b": make(chan struct{})}
		r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/a" {
				io.WriteString(w, "the beginning")
				w.(http.Flusher).Flush()
			}
			gates.ServeHTTP(w, req)
		})})
		a := fetchAside(r, "http://origin/a")
		b := fetchAside(r, "http://origin/b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("Close took %s, want 3 s", d)
		}
		if got := <-a; got.err == nil || got.body != "the beginning" {
			t.Errorf("the response that was cut: %+v, want an error behind what had come", got)
		}
		got := <-b
		wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
		records := archive(t, r)
		response := theOne(t, records, "response", "http://origin/a")
		if v := response.Header.Get("WARC-Truncated"); v != "unspecified" || response.PayloadSize != int64(len("the beginning")) {
			t.Errorf("WARC-Truncated is %q, %d octets", v, response.PayloadSize)
		}
		if n := count(records, "request"); n != 1 {
			t.Errorf("%d requests are recorded, want 1", n)
		}
		if s := r.Status(); s.Truncated != 1 || s.Incomplete != 1 || s.Failures != 1 || s.InFlight != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// A client that reads nothing must not keep Close waiting, also where the
// recorder only passes on what it does not keep (MaxBody).
func TestCloseCutsAStalledClient(t *testing.T) {
	for _, limit := range []int64{0, 10} {
		t.Run(fmt.Sprint("MaxBody ", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openForTest(t, Options{MaxBody: limit, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
					for range 100 {
						if _, err := w.Write(make([]byte, 1000)); err != nil {
							return
						}
					}
					w.(http.Flusher).Flush()
					<-req.Context().Done()
				})})
				req, _ := http.NewRequest("GET", "http://origin/", nil)
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				closed := make(chan error, 1)
				go func() { closed <- r.Close(ctx) }() // ends after a second
				select {
				case err := <-closed:
					if err != nil {
						t.Errorf("Close: %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("Close still waits after a minute")
					resp.Body.Close()
					<-closed
				}
				if n := count(archive(t, r), "response"); n != 1 {
					t.Errorf("%d responses are recorded, want 1", n)
				}
			})
		})
	}
}

// A body that is closed before its end: the rest is fetched when it is short
// and its length is known, else the exchange is cut.
func TestClientGoes(t *testing.T) {
	for _, test := range []struct {
		name      string
		header    string
		size      int
		truncated string
		after     time.Duration
	}{
		{"short rest", "Content-Length", 100, "", 5 * time.Second},
		{"long rest", "Content-Length", 1001, "disconnect", 0},
		{"unknown rest", "X", 100, "disconnect", 0},
		{"slow rest", "Content-Length", 1000, "disconnect", 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openForTest(t, Options{FinishBytes: 1000, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
					w.Header().Set(test.header, fmt.Sprint(test.size))
					w.(http.Flusher).Flush()
					pause := 5 * time.Second
					if test.after > pause {
						pause = time.Minute
					}
					select {
					case <-time.After(pause):
						w.Write(make([]byte, test.size))
					case <-req.Context().Done():
					}
				})})
				req, _ := http.NewRequest("GET", "http://origin/", nil)
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				resp.Body.Close()
				closeForTest(t, r) // waits for the exchange
				if d := time.Since(start); d != test.after {
					t.Errorf("the exchange ended after %s, want %s", d, test.after)
				}
				response := theOne(t, archive(t, r), "response", "http://origin/")
				checkTruncated(t, response, test.truncated)
			})
		})
	}
}

func checkTruncated(t *testing.T, r *check.Record, want string) {
	t.Helper()
	if got := r.Header.Get("WARC-Truncated"); got != want {
		t.Errorf("%s: WARC-Truncated is %q, want %q", r.TargetURI, got, want)
	}
}
