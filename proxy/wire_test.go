package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A pipeListener accepts connections in memory, so that time is that of
// testing/synctest.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// serve serves the proxy over HTTP/1 and, without TLS, over HTTP/2. All
// requests are for http://origin.
func serve(t *testing.T, resp func(*http.Request) (*http.Response, error)) *pipeListener {
	h := New(Options{
		Transport: &transport{resp: resp},
		Tunnel:    func(context.Context) (string, bool, bool) { return "origin:80", false, true },
	})
	server := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go server.Serve(l) // ended by the cleanup
	t.Cleanup(func() { server.Close() })
	return l
}

// An event stream may be silent for longer than a client may take nothing.
func TestSilentEventStream(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				read, write := io.Pipe()
				l := serve(t, func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read, ContentLength: -1}, nil
				})
				client := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}
				client.Protocols.SetHTTP1(protocol == "HTTP/1.1")
				client.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
				defer client.CloseIdleConnections()
				req, _ := http.NewRequest("GET", "http://origin/", nil)
				resp, err := client.RoundTrip(req)
				if err != nil || resp.Proto != protocol {
					t.Fatalf("%+v, %v", resp, err)
				}
				defer resp.Body.Close()
				const event = "data: x\n\n"
				for range 3 {
					if _, err := io.WriteString(write, event); err != nil {
						t.Fatalf("the proxy takes no more: %v", err)
					}
					got := make([]byte, len(event))
					if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != event {
						t.Fatalf("the client got %q, %v", got, err)
					}
					time.Sleep(time.Hour)
				}
				write.Close()
				if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
					t.Errorf("in the end the client got %q, %v", rest, err)
				}
			})
		})
	}
}

// A frames is the body of a 101: always more to read, and writes are dropped.
type frames struct {
	once   sync.Once
	closed chan struct{}
}

func (f *frames) Read(p []byte) (int, error) {
	select {
	case <-f.closed:
		return 0, net.ErrClosed
	default:
		return len(p), nil
	}
}

func (f *frames) Write(p []byte) (int, error) { return len(p), nil }

func (f *frames) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// The client of a WebSocket that takes nothing counts as gone after a while;
// one that sends nothing does not.
func TestStalledWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frames{closed: make(chan struct{})}
		l := serve(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, Body: f}, nil
		})
		c := l.dial()
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: origin\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		in := bufio.NewReader(c)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%+v, %v", resp, err)
		}
		for range 3 { // it takes little, but it does
			time.Sleep(9 * time.Minute)
			if _, err := io.CopyN(io.Discard, in, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		select {
		case <-f.closed:
		case <-time.After(time.Hour):
			t.Error("the connection to the origin is still open after an hour")
		}
		if took := time.Since(start); took > 10*time.Minute {
			t.Errorf("given up after %s, want 10 min", took)
		}
	})
}

// A client that had gone before the head of an event stream came is noticed
// with the head: nothing may be written for hours after it.
func TestGoneBeforeEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := context.WithCancel(t.Context())
		h := New(Options{Transport: &transport{resp: func(r *http.Request) (*http.Response, error) {
			leave()
			synctest.Wait()
			if r.Context().Err() != nil {
				return nil, errors.New("given up before the reply was there")
			}
			read, write := io.Pipe()
			context.AfterFunc(r.Context(), func() { write.CloseWithError(context.Canceled) })
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read, ContentLength: -1}, nil
		}}})
		r := httptest.NewRequestWithContext(client, "GET", "http://origin/", nil)
		served := make(chan any, 1)
		w := httptest.NewRecorder()
		go func() { // ends with the stream
			defer func() { served <- recover() }()
			h.ServeHTTP(w, r)
		}()
		select {
		case p := <-served:
			if p != http.ErrAbortHandler || w.Code != 200 {
				t.Errorf("served with status %d (%v), want a 200 that is cut", w.Code, p)
			}
		case <-time.After(time.Hour):
			t.Fatal("the stream goes on without its client")
		}
	})
}

// tell tells the client of a request an interim response.
func tell(r *http.Request, status int) error {
	return httptrace.ContextClientTrace(r.Context()).Got1xxResponse(status, map[string][]string{"Link": {"</a>"}})
}

// net/http writes the 100 that a client waits for from the goroutine that
// reads the body. An interim response that comes meanwhile must not get into
// it; one that comes later is passed on.
func TestInterimResponseAroundThe100(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		l := serve(t, func(r *http.Request) (*http.Response, error) {
			if err := tell(r, 103); err != nil { // too early
				return nil, err
			}
			part := make([]byte, 5)
			read := make(chan error)
			go func() { // ends with the body
				_, err := io.ReadFull(r.Body, part)
				read <- err
			}()
			synctest.Wait() // the 100 is being written: nobody takes it yet
			told := make(chan error, 1)
			go func() { told <- tell(r, 103) }() // ends at once, or when the client reads
			synctest.Wait()
			close(ready)
			if err := errors.Join(<-read, <-told, tell(r, 103)); err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(part))), ContentLength: 5}, nil
		})
		c := l.dial()
		defer c.Close()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: origin\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
		select {
		case <-ready:
		case <-time.After(time.Minute):
			t.Fatal("the exchange does not go on")
		}
		in := bufio.NewReader(c)
		const hundred = "HTTP/1.1 100 Continue\r\n\r\n"
		first := make([]byte, len(hundred))
		if _, err := io.ReadFull(in, first); err != nil || string(first) != hundred {
			t.Fatalf("the client got %q, %v", first, err)
		}
		go io.WriteString(c, "hello") // ends when the proxy reads it, or with the connection
		rest, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
		}
		const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
		if got := string(rest); !strings.HasPrefix(got, hints+"HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\nhello") {
			t.Errorf("behind the 100 the client got %q", got)
		}
	})
}

// The connection of a CONNECT has no deadline from the proxy: whoever
// intercepts it sets its own, and HTTP/2 in it sets none.
func TestTunnelsHaveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tunnels := make(chan net.Conn, 1)
		h := New(Options{Transport: &transport{}, Intercept: func(c net.Conn, _ string) { tunnels <- c }})
		server := &http.Server{Handler: h}
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		go server.Serve(l) // ended by Close
		defer server.Close()
		c := l.dial()
		defer c.Close()
		io.WriteString(c, "CONNECT origin:443 HTTP/1.1\r\nHost: origin:443\r\n\r\n")
		tunnel := <-tunnels
		defer tunnel.Close()
		time.Sleep(time.Hour)
		go io.WriteString(tunnel, "hello") // ends at once, or with the connection
		c.SetReadDeadline(time.Now().Add(time.Minute))
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Errorf("through a tunnel that is an hour old came %q, %v", got, err)
		}
	})
}
