package recorder

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/http1"
)

// wantClosed waits for Close for a minute, and lets what it waits for go then.
func wantClosed(t *testing.T, closed <-chan error, letGo func()) {
	t.Helper()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Close still waits after a minute")
		letGo()
		<-closed
	}
}

// A reply whose head comes after Close has cut everything, and before RoundTrip
// has learned of that, is cut too. While RoundTrip tells of an interim response
// it learns of nothing.
func TestCloseCutsTheReplyThatArrives(t *testing.T) {
	for range 20 { // then RoundTrip takes one of two by chance
		synctest.Test(t, func(t *testing.T) {
			reply := make(chan struct{})
			r := openForTest(t, Options{Dial: originConns(t, func(_ int, c net.Conn) {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
				<-reply
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
				io.Copy(io.Discard, c)
			})})
			closed := make(chan error, 1)
			hinted := func(int, textproto.MIMEHeader) error {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				go func() { closed <- r.Close(ctx) }() // ends when the exchange does
				synctest.Wait()
				close(reply)
				synctest.Wait()
				return nil
			}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: hinted})
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://origin/", nil)
			resp, err := r.RoundTrip(req)
			letGo := func() {}
			if err != nil {
				wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
			} else {
				letGo = func() { resp.Body.Close() }
				defer resp.Body.Close()
			}
			wantClosed(t, closed, letGo)
			records := archive(t, r)
			if resp != nil {
				checkTruncated(t, theOne(t, records, "response", "http://origin/"), "unspecified")
			} else if n := count(records, "response"); n != 0 {
				t.Errorf("%d responses are recorded of an exchange that gave none", n)
			}
		})
	}
}

// A WebSocket of which nobody takes anything does not keep Close waiting. Its
// client learns that it is over.
func TestCloseEndsWebSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		ended := make(chan struct{})
		r := openForTest(t, Options{Dial: originConns(t, func(_ int, c net.Conn) {
			defer close(ended)
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, switching)
			for _, err := c.Write([]byte("frame")); err == nil; _, err = c.Write([]byte("frame")) {
			}
		})})
		head, err := http1.ParseRequest([]byte("GET /socket HTTP/1.1\r\nHost: origin\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(WithClientHead(t.Context(), head), "GET", "http://origin/socket", nil)
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- r.Close(t.Context()) }() // ends at once
		wantClosed(t, closed, func() { resp.Body.Close() })
		<-ended
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("the client takes it for the end")
		}
		resp.Body.Close()
		if got := block(t, theOne(t, archive(t, r), "response", "http://origin/socket")); got != switching {
			t.Errorf("recorded is %q", got)
		}
		if s := r.Status(); s.Long != 0 || s.InFlight != 0 {
			t.Errorf("status %+v, want nothing under way", s)
		}
	})
}
