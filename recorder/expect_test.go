package recorder

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A watchedBody tells whether anybody has asked for it.
type watchedBody struct {
	io.Reader
	read bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

// A body that waits for a 100 is not sent when the final reply comes instead,
// however long that reply takes to end.
func TestReplyInsteadOf100(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) { replyInsteadOf100(t, continueWait/2, false) })
	t.Run("before it waits", func(t *testing.T) { replyInsteadOf100(t, 0, true) })
}

// A slowConn returns from a write when all that follows on it has happened.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (int, error) {
	defer synctest.Wait()
	return c.Conn.Write(p)
}

func replyInsteadOf100(t *testing.T, after time.Duration, slow bool) {
	synctest.Test(t, func(t *testing.T) {
		rest := make(chan string, 1)
		dial := originConns(t, func(_ int, c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			for line := ""; line != "\r\n"; {
				var err error
				if line, err = in.ReadString('\n'); err != nil {
					return
				}
			}
			time.Sleep(after)
			io.WriteString(c, "HTTP/1.1 417 Expectation Failed\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n")
			time.AfterFunc(3*continueWait, func() { io.WriteString(c, "0\r\n\r\n") })
			b, _ := io.ReadAll(in)
			rest <- string(b)
		})
		r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err == nil && slow {
				c = slowConn{c}
			}
			return c, err
		}})
		body := &watchedBody{Reader: strings.NewReader("hello")}
		req, _ := http.NewRequest("POST", "http://origin/", body)
		req.ContentLength = 5
		req.Header.Set("Expect", "100-continue")
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 417 || string(b) != "no" || err != nil {
			t.Errorf("got status %d, body %q, error %v", resp.StatusCode, b, err)
		}
		closeForTest(t, r)
		if got := <-rest; got != "" || body.read {
			t.Errorf("the origin got %q behind the head (body read: %t)", got, body.read)
		}
		request := theOne(t, archive(t, r), "request", "http://origin/")
		checkTruncated(t, request, "disconnect")
		if got := block(t, request); !strings.HasSuffix(got, "\r\n\r\n") {
			t.Errorf("recorded is %q, want the head alone", got)
		}
	})
}
