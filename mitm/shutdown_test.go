package mitm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"testing"
	"time"
)

// noTimeouts leaves closing to Shutdown alone.
var noTimeouts = Limits{HeaderTimeout: time.Hour, IdleTimeout: time.Hour}

func TestShutdown(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	p := newProxyWithin(t, noTimeouts, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			entered <- true
			<-leave
			io.WriteString(w, "done")
		}
	})
	h1 := &tls.Config{ServerName: "h", NextProtos: []string{"http/1.1"}}
	begin := func(config *tls.Config, send string) *client {
		c, err := p.tls("example.org:443", config)
		if err != nil {
			t.Fatal(err)
		}
		c.send(send)
		return c
	}
	opening := p.connect("example.org:443", "")
	handshaking := p.connect("example.org:443", "\x16\x03")
	silent := begin(h1, "")
	begun := begin(h1, "GET / H")
	silent2 := begin(&tls.Config{ServerName: "h", NextProtos: []string{"h2"}}, "")
	idle := begin(h1, plainHead)
	idle.want(200, "")
	busy := begin(h1, "GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
	<-entered
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.addr}), TLSClientConfig: &tls.Config{RootCAs: p.ca.roots}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	got := make(chan string, 1)
	go func() { // ends with the answer
		resp, err := (&http.Client{Transport: tr}).Get("https://example.org/busy")
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(resp.Body)
		got <- resp.Proto + " " + string(b)
	}()
	<-entered
	if n := p.open(); n != 8 {
		t.Fatalf("%d tunnels are open, want 8", n)
	}

	ended := make(chan error)
	go func() { ended <- p.in.Shutdown(context.Background()) }() // ends when all is answered
	for i, c := range []*client{opening, handshaking, silent, begun, silent2, idle} {
		if _, err := io.Copy(io.Discard, c.r); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is not closed", i)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(leave)
	busy.want(200, "done")
	if s := <-got; s != "HTTP/2.0 done" {
		t.Errorf("HTTP/2: %s", s)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := p.open(); n != 0 {
		t.Errorf("%d tunnels are left", n)
	}
	dial(t, p.addr).send("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n")
	until(t, "a late tunnel is closed", func() bool { return p.open() == 0 })
}

// TestShutdownCuts checks that what does not end by itself is cut in the end.
func TestShutdownCuts(t *testing.T) {
	addr := origin(t, func(c *net.TCPConn) { io.Copy(c, c) })
	entered := make(chan bool, 9)
	p := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/up" {
			c, _, _ := w.(http.Hijacker).Hijack()
			entered <- true
			io.Copy(io.Discard, c)
			return
		}
		entered <- true
		<-r.Context().Done()
	})
	blind := p.connect(addr, "SSH-2.0-x\r\n")
	blind.wantText("SSH-2.0-x\r\n")
	hijacked := p.connect("h:80", upgradeHead)
	<-entered
	for _, busy := range []bool{false, true} {
		if busy {
			p = newProxy(t, p.in.Handler.ServeHTTP)
			c := p.connect("h:80", plainHead)
			defer c.wantEOF()
			<-entered
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := p.in.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		until(t, "the tunnels are closed", func() bool { return p.open() == 0 })
	}
	blind.wantEOF()
	hijacked.wantEOF()
}

func TestShutdownUnused(t *testing.T) {
	if err := new(Interceptor).Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := new(Interceptor).Close(); err != nil {
		t.Error(err)
	}
}

// TestNoLeak goes through each fate of a connection many times, and counts
// goroutines.
func TestNoLeak(t *testing.T) {
	addr := origin(t, func(c *net.TCPConn) { io.Copy(c, c) })
	p := newProxy(t, tell)
	p.in.PeekTimeout = 200 * time.Millisecond
	round := func() {
		for _, early := range []string{
			"", "\x16\x03\x01", "\x16garbage", "SSH-2.0-x\r\n", plainHead, "GET a HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHo",
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhi", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", upgradeHead + "x",
		} {
			c := p.connect(addr, early)
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
			c = p.connect(addr, early)
			c.Conn.(*net.TCPConn).CloseWrite()
			c.Conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			io.Copy(io.Discard, c.r)
			c.Close()
		}
		if c, err := p.tls(addr, &tls.Config{ServerName: "h", NextProtos: []string{"h2"}}); err == nil {
			c.Close()
		}
	}
	round()
	until(t, "the first tunnels are gone", func() bool { return p.open() == 0 })
	before := runtime.NumGoroutine()
	for range 5 {
		round()
	}
	until(t, "the tunnels are gone", func() bool { return p.open() == 0 })
	until(t, fmt.Sprintf("goroutines are back to about %d", before), func() bool { return runtime.NumGoroutine() <= before+1 })
}
