package recorder

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A connection that waits for more has a small buffer: neither a long head nor
// a piece that came fast leaves it with a large one.
func TestWaitingBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan string)
		r := openForTest(t, Options{Dial: originConns(t, func(_ int, c net.Conn) {
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				t.Error(err)
			}
			for s := range more {
				io.WriteString(c, s)
			}
		})})
		size := func() int {
			synctest.Wait()
			for c := range r.pool.open {
				return len(c.buf)
			}
			t.Fatal("there is no connection")
			return 0
		}
		go func() { more <- "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300_000) + "\r\n\r\n" }() // ends with the request
		req, err := http.NewRequest("GET", "http://origin/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan string)
		go func() { // ends with the body
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			read <- string(b)
		}()
		if n := size(); n != readBuffer {
			t.Errorf("behind a long head the buffer has %d bytes, want %d", n, readBuffer)
		}
		fast := strings.Repeat("fast", readBuffer)
		more <- fast
		if n := size(); n != bigReadBuffer {
			t.Errorf("while pieces come fast the buffer has %d bytes, want %d", n, bigReadBuffer)
		}
		more <- "slow"
		if n := size(); n != readBuffer {
			t.Errorf("behind a short piece the buffer has %d bytes, want %d", n, readBuffer)
		}
		close(more)
		if got := <-read; got != fast+"slow" {
			t.Errorf("the body has %d bytes, want %d", len(got), len(fast)+4)
		}
		closeForTest(t, r)
		archive(t, r)
	})
}
