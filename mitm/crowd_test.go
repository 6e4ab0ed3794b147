package mitm

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// dialFrom connects from an address of the loopback network.
func dialFrom(t *testing.T, addr, from string) *client {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", addr)
	if err != nil {
		t.Skipf("cannot connect from %s: %v", from, err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return newClient(t, c)
}

// refused checks that a connection is one too many.
func (c *client) refused(why string) {
	c.t.Helper()
	resp, body := c.answer()
	if resp.StatusCode != http.StatusServiceUnavailable || !resp.Close || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(body, why) || strings.Count(body, "\n") != 1 {
		c.t.Fatalf("got %d %q, fields %v", resp.StatusCode, body, resp.Header)
	}
	c.wantEOF()
}

func (p *proxy) connections() int {
	open, _ := p.outer.Connections()
	return open
}

// TestTooManyConnections checks that tunnels count until they are closed,
// whatever is in them, and that room that was given back can be taken.
func TestTooManyConnections(t *testing.T) {
	ssh := origin(t, func(c *net.TCPConn) { io.Copy(c, c) })
	p := newProxyWithin(t, Limits{MaxConns: 6, MaxConnsPerClient: 5}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/up" {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, "101")
			io.Copy(io.Discard, c)
		}
	})
	fine := "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	idle := dial(t, p.addr)
	idle.send(fine)
	idle.want(200, "")
	plain := p.connect("h:80", fine)
	plain.want(200, "")
	encrypted, err := p.tls("h:443", &tls.Config{ServerName: "h"})
	if err != nil {
		t.Fatal(err)
	}
	encrypted.send(fine)
	encrypted.want(200, "")
	blind := p.connect(ssh, "SSH-2.0-x\r\n")
	blind.wantText("SSH-2.0-x\r\n")
	upgraded := dial(t, p.addr)
	upgraded.send("GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	upgraded.wantText("101")

	for range 3 {
		dial(t, p.addr).refused("there are 5 connections from 127.0.0.1 already (--max-connections-per-client)")
	}
	other := dialFrom(t, p.addr, "127.0.0.2")
	other.send(fine)
	other.want(200, "")
	dialFrom(t, p.addr, "127.0.0.3").refused("there are 6 connections already (--max-connections)")
	if open, refused := p.outer.Connections(); open != 6 || refused != 4 {
		t.Errorf("%d connections are counted and %d refusals, want 6 and 4", open, refused)
	}
	if s := p.log.String(); strings.Count(s, "connections of clients are refused") != 1 {
		t.Errorf("logged %s", s)
	}

	for i, c := range []*client{idle, plain, encrypted, blind, upgraded, other} {
		c.Close()
		until(t, "the connection is forgotten", func() bool { return p.connections() == 5 })
		next := dialFrom(t, p.addr, fmt.Sprintf("127.0.0.%d", 4+i))
		next.send(fine)
		next.want(200, "")
	}
}

// TestCrowdAtTheDoor checks that refused connections cost next to nothing, and
// that the listener goes on.
func TestCrowdAtTheDoor(t *testing.T) {
	p := newProxyWithin(t, Limits{MaxConns: 1}, func(w http.ResponseWriter, r *http.Request) {})
	one := dial(t, p.addr)
	one.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	one.want(200, "")
	before := runtime.NumGoroutine()
	const crowd = 500
	var conns []*client
	for range crowd {
		conns = append(conns, dial(t, p.addr)) // none of them reads
	}
	until(t, "all are refused", func() bool {
		_, refused := p.outer.Connections()
		return refused == crowd
	})
	until(t, "refused connections leave no goroutines", func() bool { return runtime.NumGoroutine() <= before+5 })
	for _, c := range conns {
		c.refused("--max-connections")
	}
	until(t, "all are closed", func() bool {
		p.outer.crowd.mu.Lock()
		defer p.outer.crowd.mu.Unlock()
		return p.outer.crowd.parting == 0
	})
	one.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	one.want(200, "")
	one.Close()
	until(t, "there is room", func() bool { return p.connections() == 0 })
	next := dial(t, p.addr)
	next.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	next.want(200, "")
}

// A closeSpy knows whether it has been closed.
type closeSpy struct {
	*duplex
	closed atomic.Bool
}

func (s *closeSpy) Close() error {
	s.closed.Store(true)
	return s.duplex.Close()
}

// TestParting checks that refused connections are closed a moment after the
// answer, and at once where that would be too many.
func TestParting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(Limits{})
		for i := range maxParting + 3 {
			ours, theirs := newDuplex()
			defer ours.Close()
			spy := &closeSpy{duplex: theirs.(*duplex)}
			go c.refuse(spy, http.StatusServiceUnavailable, "why") // ends when it is read
			client := newClient(t, ours)
			client.refused("why")
			synctest.Wait()
			if closed := spy.closed.Load(); closed != (i >= maxParting) {
				t.Errorf("connection %d: closed at once: %v", i, closed)
			}
		}
		time.Sleep(lingerTime)
		synctest.Wait()
		if c.parting != 0 {
			t.Errorf("%d connections are still open", c.parting)
		}
	})
}

// A poorListener has no file descriptors for a while.
type poorListener struct {
	oneConn
	until time.Time
	asked int
}

func (l *poorListener) Accept() (net.Conn, error) {
	l.asked++
	if time.Now().Before(l.until) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.oneConn.Accept()
}

func TestNoDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		below := &poorListener{oneConn: oneConn{conn: theirs, done: make(chan struct{})}, until: time.Now().Add(time.Minute)}
		log := &logBuffer{}
		l := NewListener(below, Limits{}, textLog(log))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if below.asked < 100 || below.asked > 400 {
			t.Errorf("asked %d times within a minute", below.asked)
		}
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "--max-connections") || !strings.Contains(s, "ulimit -n") {
			t.Errorf("logged %s", s)
		}
		below.until = time.Now().Add(time.Hour)
		time.AfterFunc(time.Second, func() { l.Close() })
		start := time.Now()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

// TestRefusedAddresses checks that clients that may not connect get to know why,
// and do not count.
func TestRefusedAddresses(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(tcp, Limits{MaxConns: 1}, slog.New(slog.DiscardHandler))
	l.Refuse = func(client net.Addr) string {
		if strings.HasPrefix(client.String(), "127.0.0.3:") {
			return "not you"
		}
		return ""
	}
	srv := NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Limits{}, nil, nil)
	go srv.Serve(l) // stopped by srv.Close
	defer srv.Close()
	for range 3 {
		c := dialFrom(t, l.Addr().String(), "127.0.0.3")
		c.send("GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n")
		resp, body := c.answer()
		if resp.StatusCode != http.StatusForbidden || !resp.Close || resp.Header.Get("Retry-After") != "" || body != "warctee: 403 Forbidden: not you\n" {
			t.Errorf("got %d %q, fields %v", resp.StatusCode, body, resp.Header)
		}
		c.wantEOF()
	}
	c := dial(t, l.Addr().String())
	c.send("GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n")
	c.want(200, "")
	if open, refused := l.Connections(); open != 1 || refused != 0 {
		t.Errorf("%d connections and %d refusals are counted, want 1 and 0", open, refused)
	}
}
