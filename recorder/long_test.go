package recorder

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A dripping body comes octet by octet, one a second.
type dripping struct{ left int }

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	d.left--
	p[0] = 'a'
	return 1, nil
}

// An exchange is a long one 10 s after its admission, whatever it waits for and
// whoever lets it take long, and leaves its slot to others.
func TestLongBeforeTheHead(t *testing.T) {
	for _, test := range []struct {
		name   string
		method string
		body   io.Reader
		dial   time.Duration // before the connection is there
		reply  time.Duration // before the head is
		onDisk int64         // octets after a while
	}{
		{name: "silent origin", method: "GET", reply: 50 * time.Second},
		{name: "silent network", method: "GET", dial: 50 * time.Second},
		{name: "slow upload", method: "POST", body: &dripping{40}, onDisk: 20 * int64(len("1\r\na\r\n"))},
		{name: "short request", method: "POST", body: strings.NewReader("abc"), reply: 50 * time.Second, onDisk: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := originHandler(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/slow" {
						time.Sleep(test.reply)
					}
					io.WriteString(w, "answer")
				})
				r := openForTest(t, Options{MaxInFlight: 1, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "slow:80" {
						time.Sleep(test.dial)
					}
					return dial(ctx, network, addr)
				}})
				slow := make(chan error, 1)
				go func() { // ends with the exchange, within a minute
					req, _ := http.NewRequest(test.method, "http://slow/slow", test.body)
					resp, err := r.RoundTrip(req)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					slow <- err
				}()
				synctest.Wait()
				if got := <-fetchAside(r, "http://origin/next"); got.err != nil || got.at != longAfter {
					t.Errorf("the next exchange: %+v, want it admitted after %s", got, longAfter)
				}
				time.Sleep(longAfter)
				synctest.Wait()
				if s := r.Status(); s.Long != 1 || s.InFlight != 0 || s.SpoolDisk != test.onDisk {
					t.Errorf("%d long exchanges, %d others and %d bytes on disk, want 1, 0 and %d", s.Long, s.InFlight, s.SpoolDisk, test.onDisk)
				}
				if err := <-slow; err != nil {
					t.Error(err)
				}
				wantAllGivenBack(t, r)
				if n := count(archive(t, r), "response"); n != 2 {
					t.Errorf("%d responses are recorded, want 2", n)
				}
			})
		})
	}
}

// wantAllGivenBack closes r and checks that each slot and place, and all memory
// and disk, has been given back once.
func wantAllGivenBack(t *testing.T, r *Recorder) {
	t.Helper()
	closeForTest(t, r)
	if s := r.Status(); s.Long != 0 || s.InFlight != 0 {
		t.Errorf("%d long exchanges and %d others are left", s.Long, s.InFlight)
	}
	if n := len(r.pool.places.all); n != 0 {
		t.Errorf("%d origins are still counted", n)
	}
	if n := r.waiting.Load(); n != 0 {
		t.Errorf("%d requests still wait", n)
	}
	wantEmpty(t, r.space)
}

// What comes of a response after its exchange has become long goes to disk too.
func TestLongGoesToDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(longAfter + time.Second)
			w.Write(noise(1000))
			w.(http.Flusher).Flush()
			time.Sleep(2 * longAfter)
		})})
		done := fetchAside(r, "http://origin/")
		time.Sleep(longAfter + 2*time.Second)
		if s := r.Status(); s.Long != 1 || s.SpoolDisk != 0 {
			t.Errorf("status %+v, want a long exchange with all in memory", s)
		}
		time.Sleep(longAfter)
		if s := r.Status(); s.Long != 1 || s.SpoolDisk < 1000 {
			t.Errorf("%d bytes are on disk, want the body", s.SpoolDisk)
		}
		if got := <-done; got.err != nil {
			t.Error(got.err)
		}
		wantAllGivenBack(t, r)
		archive(t, r)
	})
}

// Who finds no place among the long ones gets one when there is.
func TestLongWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/a": make(chan struct{}), "/b": make(chan struct{})}
		r := openForTest(t, Options{MaxInFlight: 2, MaxLong: 1, Timeout: time.Hour, Dial: originHandler(t, gates.ServeHTTP)})
		a := fetchAside(r, "http://origin/a")
		time.Sleep(time.Second)
		b := fetchAside(r, "http://origin/b")
		time.Sleep(3*longAfter + time.Second)
		if s := r.Status(); s.Long != 1 || s.InFlight != 1 {
			t.Errorf("%d long exchanges and %d others, want 1 and 1", s.Long, s.InFlight)
		}
		close(gates["/a"])
		<-a
		time.Sleep(longAfter)
		if s := r.Status(); s.Long != 1 || s.InFlight != 0 {
			t.Errorf("%d long exchanges and %d others, want 1 and 0", s.Long, s.InFlight)
		}
		close(gates["/b"])
		<-b
		wantAllGivenBack(t, r)
	})
}

// What has ended and waits for the archive does not become long: only so many
// may wait.
func TestLongNotAfterTheEnd(t *testing.T) {
	for _, reply := range []string{okReply, "SSH-2.0-x\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			var s seen
			disk := newFaultyFS(nil)
			r := openForTest(t, Options{Dial: scripted(t, &s, []string{reply}), fs: disk})
			disk.fill(0)
			fetch(r, "GET", "http://origin/", "")
			time.Sleep(2 * longAfter)
			if s := r.Status(); s.Long != 0 || s.InFlight != 1 {
				t.Errorf("%d long exchanges and %d others, want 0 and 1", s.Long, s.InFlight)
			}
			disk.lift()
			time.Sleep(2 * time.Second)
			wantAllGivenBack(t, r)
			archive(t, r)
		})
	}
}

// An exchange becomes long while its request, which was lost with a kept-alive
// connection, waits for another connection.
func TestLongBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		var dials atomic.Int64
		dial := scripted(t, &s, []string{okReply, ""}, []string{okReply})
		r := openForTest(t, Options{MaxInFlight: 1, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				time.Sleep(2 * longAfter)
			}
			return dial(ctx, network, addr)
		}})
		mustFetch(t, r, "http://origin/warm")
		synctest.Wait()
		done := fetchAside(r, "http://origin/x")
		time.Sleep(longAfter + time.Second)
		if s := r.Status(); s.Long != 1 || s.InFlight != 0 || dials.Load() != 2 {
			t.Errorf("%d long exchanges, %d others and %d connections, want 1, 0 and 2", s.Long, s.InFlight, dials.Load())
		}
		if got := <-done; got.err != nil || got.at != 2*longAfter {
			t.Errorf("got %+v", got)
		}
		wantAllGivenBack(t, r)
		archive(t, r)
	})
}

// Exchanges that end just when they become long, in all ways in which one can:
// each gives its slot back once.
func TestLongAtTheEnd(t *testing.T) {
	for _, how := range []string{"whole", "cut", "garbage", "gone"} {
		t.Run(how, func(t *testing.T) {
			for range 20 { // it depends on who is faster
				synctest.Test(t, func(t *testing.T) { longAtTheEnd(t, how) })
			}
		})
	}
}

func longAtTheEnd(t *testing.T, how string) {
	r := openForTest(t, Options{MaxInFlight: 4, MaxLong: 2, Dial: originConns(t, func(_ int, c net.Conn) {
		defer c.Close()
		closed := make(chan struct{})
		go func() { // ends with c
			io.Copy(io.Discard, c)
			close(closed)
		}()
		select {
		case <-time.After(longAfter):
		case <-closed:
		}
		switch how {
		case "whole":
			io.WriteString(c, okReply)
		case "cut":
			io.WriteString(c, okReply[:len(okReply)-1])
		case "garbage":
			io.WriteString(c, "SSH-2.0-x\r\n")
		case "gone":
			<-closed
		}
	})})
	ctx := t.Context()
	if how == "gone" {
		short, cancel := context.WithTimeout(ctx, longAfter)
		defer cancel()
		ctx = short
	}
	ended := make(chan struct{})
	const n = 4
	for range n {
		go func() { // ends with the exchange
			defer func() { ended <- struct{}{} }()
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://origin/", strings.NewReader("abc"))
			resp, err := r.RoundTrip(req)
			if err != nil {
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}()
	}
	for range n {
		<-ended
	}
	wantAllGivenBack(t, r)
	archive(t, r)
}
