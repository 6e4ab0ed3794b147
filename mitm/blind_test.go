package mitm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// origin serves f on a TCP port, one connection after the other.
func origin(t *testing.T, f func(c *net.TCPConn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // stopped by the clean-up
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c.(*net.TCPConn))
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestBlind(t *testing.T) {
	addr := origin(t, func(c *net.TCPConn) {
		got, _ := io.ReadAll(c) // until the half-close
		fmt.Fprintf(c, "got %s", got)
	})
	p := newProxy(t, tell)
	for _, early := range []string{
		"SSH-2.0-OpenSSH_9.9\r\n", "\x00binary", "get / HTTP/1.1\r\n", "GET / HTTP/2.0\r\n", "GET /\r\n", "GE\x01",
		http2.ClientPreface, "GET\x00", "G", "\n", "\r\n\r\nSSH-2.0-x\r\n", "\r\n", strings.Repeat("A", 70), "GET /" + strings.Repeat("x", 5<<10) + "\n" + strings.Repeat("x", 100<<10),
	} {
		c := p.connect(addr, early)
		c.send("more")
		c.Conn.(*net.TCPConn).CloseWrite()
		c.wantText("got " + early + "more")
		c.wantEOF()
	}
	until(t, "the tunnels are forgotten", func() bool { return p.open() == 0 })
	if s := p.in.Stats(); s.Blind != 14 || s.BlindBytes < 200<<10 || s.TLS+s.Plain+s.HandshakeFailures > 0 {
		t.Errorf("stats %+v", s)
	}
	until(t, "all is logged", func() bool { return strings.Count(p.log.String(), "NOT RECORDED") == 14 })
	if s := p.log.String(); !strings.Contains(s, fmt.Sprintf("authority=%s why=\"neither TLS nor HTTP\" sent=25 received=29", addr)) {
		t.Errorf("logged %s", s)
	}
}

func TestServerSpeaksFirst(t *testing.T) {
	addr := origin(t, func(c *net.TCPConn) {
		io.WriteString(c, "220 hello\r\n")
		io.Copy(c, c)
	})
	p := newProxy(t, tell)
	p.in.PeekTimeout = 50 * time.Millisecond
	c := p.connect(addr, "")
	c.wantText("220 hello\r\n")
	c.send("GET / HTTP/1.1\r\n\r\n") // too late to be HTTP
	c.wantText("GET / HTTP/1.1\r\n\r\n")
	c.Close()
	until(t, "the tunnel is logged", func() bool { return strings.Contains(p.log.String(), `why="the client sent nothing for 50ms"`) })
	_, took, _ := strings.Cut(strings.TrimSpace(p.log.String()), "took=")
	if d, err := time.ParseDuration(took); err != nil || d < p.in.PeekTimeout {
		t.Errorf("it took %q, %v; want the wait included", took, err)
	}
}

// A duplex is one end of a connection in memory that can be half-closed.
type duplex struct {
	net.Conn // for reading
	w        net.Conn
}

func newDuplex() (a, b net.Conn) {
	r1, w1 := net.Pipe()
	r2, w2 := net.Pipe()
	return &duplex{r1, w2}, &duplex{r2, w1}
}

func (d *duplex) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d *duplex) CloseWrite() error           { return d.w.Close() }

func (d *duplex) SetWriteDeadline(t time.Time) error { return d.w.SetWriteDeadline(t) }

func (d *duplex) Close() error { return errors.Join(d.Conn.Close(), d.w.Close()) }

// TestHalfClosedIdle checks that a client that is gone, which looks like one that
// has no more to say, does not keep a silent origin for ever.
func TestHalfClosedIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, proxys := newDuplex()
		proxys2, origins := newDuplex()
		in := &Interceptor{
			Logger: slog.New(slog.DiscardHandler),
			Dial:   func(context.Context, string, string) (net.Conn, error) { return proxys2, nil },
		}
		defer in.Close()
		in.ServeTunnel(proxys, "example.org:22")
		c := newClient(t, ours)
		c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
		c.send("SSH-2.0-x\r\n")
		o := newClient(t, origins)
		o.wantText("SSH-2.0-x\r\n")
		for range 3 {
			time.Sleep(time.Hour) // is no problem as long as both ends are open
			o.send("a")
			c.wantText("a")
		}
		ours.(closeWriter).CloseWrite()
		o.wantEOF()
		for range 3 {
			time.Sleep(119 * time.Second)
			o.send("b")
			c.wantText("b")
		}
		start := time.Now()
		c.wantEOF()
		if took := time.Since(start); took != 120*time.Second {
			t.Errorf("closed after %v", took)
		}
		if got, want := in.Stats(), (Stats{Blind: 1, BlindBytes: 17}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

func TestBlindUnreachable(t *testing.T) {
	p := newProxy(t, tell)
	asked := make(chan string, 1)
	p.in.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		asked <- network + " " + addr
		return nil, errors.New("no way")
	}
	c := p.connect("example.org:22", "SSH-2.0-x\r\n")
	c.wantEOF()
	if got := <-asked; got != "tcp example.org:22" {
		t.Errorf("dialled %q", got)
	}
	until(t, "the failure is logged", func() bool { return strings.Contains(p.log.String(), "no way") })
}

type forbidden struct{}

func (forbidden) Error() string { return "not there" }

func (forbidden) HTTPStatus() int { return 403 }

// A tunnel that may not go where it is to go is told to OnFailure, who thins out
// what gets into the log.
func TestBlindForbidden(t *testing.T) {
	p := newProxy(t, tell)
	told := make(chan Failure, 1)
	p.in.OnFailure = func(f Failure) { told <- f }
	p.in.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, fmt.Errorf("dial: %w", forbidden{})
	}
	p.connect("example.org:22", "SSH-2.0-x\r\n").wantEOF()
	if f := <-told; f.Class != ClassBlindTunnel || !errors.Is(f.Err, forbidden{}) {
		t.Errorf("told of %+v", f)
	}
	until(t, "the tunnel is forgotten", func() bool { return p.open() == 0 })
	if s := p.log.String(); s != "" {
		t.Errorf("logged %s", s)
	}
}
