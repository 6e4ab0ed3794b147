package recorder

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A tardyConn tells that it has been idle for too long only when the next
// request is on its way, as it may when both happen at once.
type tardyConn struct {
	net.Conn
	written bool // tell when the request has been written, not before
	writes  int
	request chan struct{} // closed to tell
}

func (c *tardyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if isTimeout(err) {
		<-c.request
	}
	return n, err
}

func (c *tardyConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 2 && !c.written {
		close(c.request)
		synctest.Wait()
	}
	return c.Conn.Write(p)
}

// SetReadDeadline begins, behind a request, the time for the reply.
func (c *tardyConn) SetReadDeadline(at time.Time) error {
	if c.writes == 2 && c.written {
		close(c.request)
		c.written = false
	}
	return c.Conn.SetReadDeadline(at)
}

// That the time was over in which a connection may be idle is no time-out of
// the request which was put on it at that moment.
func TestIdleTimeoutAtReuse(t *testing.T) {
	for name, written := range map[string]bool{"before the request is written": false, "when it is written": true} {
		t.Run(name, func(t *testing.T) { idleTimeoutAtReuse(t, written) })
	}
}

func idleTimeoutAtReuse(t *testing.T, written bool) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		dial := scripted(t, &s, []string{okReply, okReply})
		r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &tardyConn{Conn: c, written: written, request: make(chan struct{})}, nil
		}})
		mustFetch(t, r, "http://origin/warm")
		time.Sleep(2 * idleTimeout)
		got := <-fetchAside(r, "http://origin/x")
		if got.err != nil || got.at != 0 {
			t.Errorf("%+v, want an answer at once", got)
		}
		synctest.Wait()
		if conns := s.of("GET /x"); !slices.Contains(conns, 1) {
			t.Errorf("the request came on the connections %v, want also on the new one, 1", conns)
		}
		closeForTest(t, r)
		if n := count(archive(t, r), "response"); n != 2 {
			t.Errorf("%d responses are recorded, want 2", n)
		}
	})
}

// Of a reply that has no body nothing is left to fetch when its client closes
// it: the connection serves on.
func TestBodylessRepliesKeepTheConnection(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
	}{{"HEAD", 200}, {"GET", 204}, {"GET", 304}} {
		t.Run(fmt.Sprint(c.method, " ", c.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				dial := originHandler(t, func(w http.ResponseWriter, _ *http.Request) {
					if c.status == 200 {
						w.Header().Set("Content-Length", "1000000000")
					}
					w.WriteHeader(c.status)
				})
				r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials++
					return dial(ctx, network, addr)
				}})
				const n = 50 // whether Close comes before the end of the exchange is chance
				for range n {
					req, _ := http.NewRequest(c.method, "http://origin/", nil)
					resp, err := r.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					synctest.Wait()
				}
				if dials != 1 {
					t.Errorf("%d requests took %d connections, want 1", n, dials)
				}
				closeForTest(t, r)
				if s := r.Status(); s.Responses != n || s.Truncated != 0 {
					t.Errorf("status %+v, want %d responses, none of them truncated", s, n)
				}
				archive(t, r)
			})
		})
	}
}
