package recorder

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/http1"
)

// countConns counts the connections that are open at once.
type countConns struct {
	dial      func(context.Context, string, string) (net.Conn, error)
	open, top atomic.Int64
}

type countedConn struct {
	net.Conn
	of     *countConns
	closed atomic.Bool
}

func (n *countConns) dialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := n.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	for open := n.open.Add(1); ; {
		if top := n.top.Load(); open <= top || n.top.CompareAndSwap(top, open) {
			return &countedConn{Conn: c, of: n}, nil
		}
	}
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

// Exchanges beyond the bound wait for their turn, in the order in which they
// came, and hold up nobody who wants another origin.
func TestConnectionsPerOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []string
		origin := &countConns{dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			begun = append(begun, r.URL.Path)
			mu.Unlock()
			time.Sleep(time.Second)
			fmt.Fprint(w, r.URL.Path)
		})}
		r := openForTest(t, Options{Dial: origin.dialContext, MaxConnsPerOrigin: 1, MaxInFlight: 2})
		start := time.Now()
		var results []<-chan result
		for i := range 5 {
			results = append(results, fetchAside(r, fmt.Sprintf("http://origin/%d", i)))
			synctest.Wait()
		}
		other := <-fetchAside(r, "http://other/")
		if other.err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("another origin: %v after %v, want no wait", other.err, time.Since(start))
		}
		for i, c := range results {
			if got := <-c; got.err != nil {
				t.Errorf("%d: %v", i, got.err)
			}
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
		if got, want := fmt.Sprint(begun), "[/0 / /1 /2 /3 /4]"; got != want {
			t.Errorf("begun %s, want %s", got, want)
		}
		if n := origin.top.Load(); n != 2 {
			t.Errorf("%d connections at once, want one to each origin", n)
		}
		closeForTest(t, r)
		if n := count(archive(t, r), "response"); n != 6 {
			t.Errorf("%d responses are recorded, want 6", n)
		}
		if n := len(r.pool.places.all); n != 0 {
			t.Errorf("%d origins are still counted", n)
		}
	})
}

// An idle connection that a request cannot use is closed for one that it can.
func TestIdleConnectionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &countConns{dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })}
		r := openForTest(t, Options{Dial: origin.dialContext, MaxConnsPerOrigin: 1})
		mustFetch(t, r, "http://origin/")
		time.Sleep(2 * freshIdle)
		if _, err := fetch(r, "POST", "http://origin/", "body"); err != nil {
			t.Error(err)
		}
		if n := origin.top.Load(); n != 1 {
			t.Errorf("%d connections at once, want 1", n)
		}
		closeForTest(t, r)
	})
}

// Whoever waits is told after 30 s, and when it goes away leaves nothing.
func TestConnectionsPerOriginRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		dial := originHandler(t, func(w http.ResponseWriter, r *http.Request) { <-hold })
		r := openForTest(t, Options{Dial: dial, MaxConnsPerOrigin: 1, Timeout: time.Hour})
		first := fetchAside(r, "http://origin/first")
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { // ends with cancel
			req, _ := http.NewRequestWithContext(gone, "GET", "http://origin/gone", nil)
			_, err := r.RoundTrip(req)
			left <- err
		}()
		start := time.Now()
		waits := fetchAside(r, "http://origin/waits")
		time.Sleep(time.Second)
		cancel()
		wantRefusal(t, <-left, PhaseClient, http.StatusServiceUnavailable)
		got := <-waits
		wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
		if took := time.Since(start); took != admissionWait {
			t.Errorf("refused after %v, want %v", took, admissionWait)
		}
		close(hold)
		if got := <-first; got.err != nil {
			t.Error(got.err)
		}
		mustFetch(t, r, "http://origin/after")
		closeForTest(t, r)
		if n := len(r.pool.places.all); n != 0 {
			t.Errorf("%d origins are still counted", n)
		}
	})
}

// However many connections to an origin there may be, it leaves a quarter of
// the slots to others, until its exchanges are long ones.
func TestOriginLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		silent := originHandler(t, func(w http.ResponseWriter, r *http.Request) { <-hold })
		other := originHandler(t, echoPath)
		r := openForTest(t, Options{MaxInFlight: 8, Timeout: time.Hour, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "silent:80" {
				return silent(ctx, network, addr)
			}
			return other(ctx, network, addr)
		}})
		var all []<-chan result
		for range 18 {
			all = append(all, fetchAside(r, "http://silent/"))
		}
		for i, want := range []struct{ short, long int }{{6, 0}, {6, 6}, {6, 12}, {0, 18}} {
			synctest.Wait()
			if s := r.Status(); s.InFlight != want.short || s.Long != want.long {
				t.Errorf("after %s: %d exchanges are under way and %d long ones, want %+v", time.Duration(i)*longAfter, s.InFlight, s.Long, want)
			}
			if got := <-fetchAside(r, "http://other/"); got.err != nil || got.at != 0 {
				t.Errorf("another origin: %+v, want no wait", got)
			}
			time.Sleep(longAfter)
		}
		close(hold)
		for _, done := range all {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// A WebSocket is a long exchange from its start: it leaves its origin's slots
// to others.
func TestWebSocketLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MaxInFlight: 1, Dial: originConns(t, func(_ int, c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if req.URL.Path != "/socket" {
				io.WriteString(c, okReply)
				return
			}
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			io.Copy(io.Discard, in)
		})})
		head, err := http1.ParseRequest([]byte("GET /socket HTTP/1.1\r\nHost: origin\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		var open []io.Closer
		for range 3 {
			req, _ := http.NewRequestWithContext(WithClientHead(t.Context(), head), "GET", "http://origin/socket", nil)
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, resp.Body)
		}
		mustFetch(t, r, "http://origin/")
		synctest.Wait()
		if n := r.pool.places.used("http origin:80"); n != len(open) {
			t.Errorf("%d places are taken, want %d", n, len(open))
		}
		for _, c := range open {
			c.Close()
		}
		wantAllGivenBack(t, r)
	})
}
