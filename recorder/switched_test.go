package recorder

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/http1"
)

// A lateConn takes its time for the deadline of a write.
type lateConn struct{ net.Conn }

func (c lateConn) SetWriteDeadline(t time.Time) error {
	time.Sleep(time.Second)
	return c.Conn.SetWriteDeadline(t)
}

// An origin switches protocols before it has read the request. The bound on
// sending that is not one on what follows.
func TestEarlySwitchHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := originConns(t, func(_ int, c net.Conn) {
			defer c.Close()
			go io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") // ended by the reader
			for p := make([]byte, 1<<10); ; {
				n, err := c.Read(p)
				if err != nil {
					return
				}
				if string(p[:n]) == "ping" {
					io.WriteString(c, "pong")
				}
			}
		})
		r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return lateConn{c}, err
		}})
		head, err := http1.ParseRequest([]byte("GET / HTTP/1.1\r\nHost: origin\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(WithClientHead(t.Context(), head), "GET", "http://origin/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.Sleep(time.Hour)
		ws := resp.Body.(io.ReadWriter)
		if _, err := io.WriteString(ws, "ping"); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(io.LimitReader(ws, 4)); string(got) != "pong" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
