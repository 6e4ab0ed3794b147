package mitm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/http1"
)

// pipe serves h over net.Pipe, in a bubble of synctest.
func pipe(t *testing.T, srv *http.Server) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	l := &oneConn{conn: theirs, done: make(chan struct{})}
	go srv.Serve(NewListener(l, Limits{}, nil)) // stopped by srv.Close
	t.Cleanup(func() { ours.Close() })
	return newClient(t, ours)
}

// A oneConn is a listener that has one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { close(l.done); return nil }
func (l *oneConn) Addr() net.Addr { return tunnelAddr{} }

func TestHeadTimeout(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(c *client)
		want time.Duration
	}{
		{"nothing", func(c *client) {}, 10 * time.Second},
		{"part of the first head", func(c *client) { c.send("GET / H") }, 10 * time.Second},
		{"nothing more", func(c *client) {
			c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer()
		}, 120 * time.Second},
		{"part of the second head", func(c *client) {
			c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer()
			c.send("GET / H")
		}, 10 * time.Second},
		{"part of the second head, drip by drip", func(c *client) {
			c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer()
			for range 9 {
				c.send("G")
				time.Sleep(time.Second)
			}
		}, time.Second},
		{"part of the second head, late", func(c *client) {
			c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			c.answer()
			time.Sleep(100 * time.Second)
			c.send("GET / H")
		}, 10 * time.Second},
		{"part of a head behind a slow request", func(c *client) {
			c.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\nGET / H")
			c.want(200, "<nil>")
		}, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/slow" {
						time.Sleep(time.Hour)
						fmt.Fprint(w, r.Context().Err())
					}
				}))
				c := pipe(t, srv)
				tt.send(c)
				start := time.Now()
				c.wantEOF()
				if got := time.Since(start); got != tt.want {
					t.Errorf("closed after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestInterrupted checks that a head goes on after a deadline.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		c := newConn(theirs, nil, http1.Limits{})
		head := "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
		go func() { // ends when all is sent
			for i := range len(head) {
				time.Sleep(time.Second)
				ours.Write([]byte{head[i]})
			}
		}()
		p := make([]byte, 100)
		for timeouts := 0; ; timeouts++ {
			c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
			n, err := c.Read(p)
			if n > 0 {
				if string(p[:n]) != head || timeouts < 10 {
					t.Errorf("got %q after %d timeouts", p[:n], timeouts)
				}
				return
			}
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
				t.Fatalf("got %v", err)
			}
		}
	})
}

// TestHeld checks that a connection that does not read still keeps deadlines.
func TestHeld(t *testing.T) {
	start := func(t *testing.T) (*conn, *message) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close() })
		c := newConn(theirs, nil, http1.Limits{})
		go io.WriteString(ours, "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.0\r\n\r\n") // ends when the pipe is closed
		p := make([]byte, 100)
		n, err := c.Read(p)
		if err != nil || !bytes.HasPrefix(p[:n], []byte("CONNECT h:1 ")) {
			t.Fatalf("got %q, %v", p[:n], err)
		}
		return c, c.current
	}
	timedOut := func(err error) bool {
		ne, ok := errors.AsType[net.Error](err)
		return ok && ne.Timeout()
	}
	for name, test := range map[string]func(t *testing.T, c *conn, m *message){
		"deadline before": func(t *testing.T, c *conn, m *message) {
			c.SetReadDeadline(time.Now().Add(time.Second))
			if n, err := c.Read(make([]byte, 1)); n != 0 || !timedOut(err) {
				t.Errorf("got %d, %v", n, err)
			}
		},
		"deadlines while reading": func(t *testing.T, c *conn, m *message) {
			time.AfterFunc(time.Second, func() { c.SetReadDeadline(time.Now().Add(time.Hour)) })
			time.AfterFunc(time.Minute, func() { c.SetReadDeadline(time.Now().Add(-1)) })
			start := time.Now()
			if n, err := c.Read(make([]byte, 1)); n != 0 || !timedOut(err) || time.Since(start) != time.Minute {
				t.Errorf("got %d, %v after %v", n, err, time.Since(start))
			}
		},
		"close": func(t *testing.T, c *conn, m *message) {
			time.AfterFunc(time.Second, func() { c.Close() })
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %d, %v", n, err)
			}
		},
		"resume": func(t *testing.T, c *conn, m *message) {
			time.AfterFunc(time.Second, func() { c.resume(m, false) })
			p := make([]byte, 100)
			if n, err := c.Read(p); string(p[:n]) != "GET /x HTTP/1.0\r\n\r\n" {
				t.Errorf("got %q, %v", p[:n], err)
			}
		},
		"release": func(t *testing.T, c *conn, m *message) {
			c.SetReadDeadline(time.Now().Add(time.Second))
			c.Read(make([]byte, 1))
			c.SetReadDeadline(time.Time{})
			c.release()
			p := make([]byte, 100)
			if n, err := io.ReadAtLeast(c, p, 19); string(p[:n]) != "GET /x HTTP/1.0\r\n\r\n" {
				t.Errorf("got %q, %v", p[:n], err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := start(t)
				test(t, c, m)
			})
		})
	}
}

func TestListenerCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan bool), make(chan bool)
	srv := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			entered <- true
			<-leave
		}
	}))
	go srv.Serve(NewListener(l, noTimeouts, nil)) // stopped by Shutdown
	silent, begun, idle, busy := dial(t, l.Addr().String()), dial(t, l.Addr().String()), dial(t, l.Addr().String()), dial(t, l.Addr().String())
	begun.send("GET / H")
	idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	idle.want(200, "")
	busy.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
	<-entered
	time.AfterFunc(100*time.Millisecond, func() { close(leave) })
	waits, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := srv.Shutdown(waits); err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
	busy.want(200, "")
	for _, c := range []*client{silent, begun, idle, busy} {
		c.r.ReadByte()
		if _, err := c.r.ReadByte(); err == nil {
			t.Error("still open")
		}
	}
}
