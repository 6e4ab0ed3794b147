package recorder

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type askedConn struct {
	net.Conn
	asked *atomic.Int64
}

func (c *askedConn) Read(p []byte) (int, error) {
	c.asked.Store(int64(len(p)))
	return c.Conn.Read(p)
}

// An event stream has a tiny buffer while it is silent. What comes then, small
// or large, comes whole, and its connection can be used again.
func TestEventStreamsOfAllSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var want strings.Builder
		origin := &countConns{dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/events" {
				w.Header().Set("X-Large", strings.Repeat("x", 5000))
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, size := range []int{1, 1000, tinyReadBuffer, 5000, 1, readBuffer, 3 * readBuffer, 2, 500_000, 3} {
				event := fmt.Sprintf("data: %s\n\n", strings.Repeat("e", size))
				want.WriteString(event)
				fmt.Fprint(w, event)
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})}
		var asked atomic.Int64 // how many octets the last Read wants
		r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := origin.dialContext(ctx, network, addr)
			return &askedConn{c, &asked}, err
		}})
		events := fetchAside(r, "http://origin/events")
		time.Sleep(500 * time.Millisecond)
		if n := asked.Load(); n > tinyReadBuffer {
			t.Errorf("a silent stream has a buffer of %d bytes", n)
		}
		if got := <-events; got.err != nil || got.body != want.String() {
			t.Errorf("%d octets came, error %v; want %d", len(got.body), got.err, want.Len())
		}
		mustFetch(t, r, "http://origin/next")
		if n := origin.top.Load(); n != 1 {
			t.Errorf("%d connections at once, want 1", n)
		}
		wantAllGivenBack(t, r)
		archive(t, r)
	})
}
