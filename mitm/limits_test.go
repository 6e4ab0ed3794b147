package mitm

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// heads are heads at the limits and past them, as the request target and the
// lines behind Host: h.
var heads = []struct {
	name, target, fields string
	status               int
}{
	{"longest target", "/" + strings.Repeat("x", 999), "", 200},
	{"target", "/" + strings.Repeat("x", 1000), "", 414},
	{"target with much to be encoded", "/" + strings.Repeat("\xff", 999), "", 200},
	{"longest field", "/", "A: " + strings.Repeat("x", 1000-len("Host: h\r\nA: \r\n\r\n")) + "\r\n", 200},
	{"field", "/", "A: " + strings.Repeat("x", 1000) + "\r\n", 431},
	{"all of it", "/" + strings.Repeat("x", 999), "A: " + strings.Repeat("x", 1000-len("Host: h\r\nA: \r\n\r\n")) + "\r\n", 200},
	{"far too long", "/", "A: " + strings.Repeat("x", 200<<10) + "\r\n", 431},
	{"most fields", "/", strings.Repeat("A: b\r\n", 9), 200},
	{"fields", "/", strings.Repeat("A: b\r\n", 10), 431},
}

// TestHeads checks the limits of heads on all ways on which a request comes.
func TestHeads(t *testing.T) {
	limits := Limits{MaxURL: 1000, MaxHead: 1000, MaxFields: 10}
	p := newProxyWithin(t, limits, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "fine") })
	encrypted := func(protocol string) *client {
		c, err := p.tls("h:443", &tls.Config{ServerName: "h", NextProtos: []string{protocol}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for way, connect := range map[string]func() *client{
		"direct": func() *client { return dial(t, p.addr) },
		"tunnel": func() *client { return p.connect("h:80", "") },
		"TLS":    func() *client { return encrypted("http/1.1") },
	} {
		t.Run(way+"/target without end", func(t *testing.T) {
			c := connect()
			go io.WriteString(c, "GET /"+strings.Repeat("x", 200<<10)) // c is closed in the end
			if resp, body := c.answer(); resp.StatusCode != 414 {
				t.Errorf("got %d %q", resp.StatusCode, body)
			}
		})
		for _, tt := range heads {
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				c := connect()
				go io.WriteString(c, "GET "+tt.target+" HTTP/1.1\r\nHost: h\r\n"+tt.fields+"\r\n") // c is closed in the end
				if resp, body := c.answer(); resp.StatusCode != tt.status || resp.Close != (tt.status != 200) {
					t.Errorf("got %d %q, close %v; want %d", resp.StatusCode, body, resp.Close, tt.status)
				}
			})
		}
	}
	for _, tt := range heads {
		t.Run("HTTP2/"+tt.name, func(t *testing.T) {
			c := newFlood(t, encrypted("h2"))
			fields := []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: tt.target}}
			for line := range strings.SplitSeq(strings.TrimSuffix(tt.fields, "\r\n"), "\r\n") {
				if name, value, ok := strings.Cut(line, ": "); ok {
					fields = append(fields, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
				}
			}
			if tt.name == "target with much to be encoded" {
				return // it is not allowed in HTTP/2
			}
			want := fmt.Sprint(tt.status)
			if tt.name == "far too long" {
				want = "PROTOCOL_ERROR" // net/http does not read to the end
			}
			go c.request(1, true, fields...) // ends when c is closed
			if got := c.status(1); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestTimeouts checks that the limits reach both servers.
func TestTimeouts(t *testing.T) {
	limits := Limits{HeaderTimeout: 3 * time.Second, IdleTimeout: 7 * time.Second, StallTimeout: 11 * time.Second}
	blocked := func(context.Context, string, string) (net.Conn, error) {
		_, origins := newDuplex()
		return origins, nil
	}
	for _, tt := range []struct {
		name, send string
		inTunnel   bool
		want       time.Duration
	}{
		{"head", "GET / H", false, 3 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", false, 7 * time.Second},
		{"head", "GET / HTTP/1.1\r\nHost", true, 3 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", true, 7 * time.Second},
		{"TLS handshake", "\x16\x03\x01", true, 3 * time.Second},
		{"origin of a blind tunnel takes nothing", "SSH-2.0-x\r\n", true, 11 * time.Second},
	} {
		t.Run(fmt.Sprintf("%s/tunnel=%v", tt.name, tt.inTunnel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
				var c *client
				if tt.inTunnel {
					c = bubble(t, &Interceptor{Handler: h, Dial: blocked, Limits: limits}, "example.org:443")
				} else {
					srv := NewServer(h, limits, nil, nil)
					t.Cleanup(func() { srv.Close() })
					c = pipe(t, srv)
				}
				start := time.Now()
				c.send(tt.send)
				if tt.name == "idle" {
					c.answer()
				}
				io.Copy(io.Discard, c.r)
				if got := time.Since(start); got != tt.want {
					t.Errorf("closed after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestStalledClient checks that a client of a blind tunnel that takes nothing
// does not keep it for ever.
func TestStalledClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, proxys := newDuplex()
		proxys2, origins := newDuplex()
		in := &Interceptor{
			Logger: slog.New(slog.DiscardHandler),
			Dial:   func(context.Context, string, string) (net.Conn, error) { return proxys2, nil },
		}
		defer in.Close()
		in.ServeTunnel(proxys, "example.org:22")
		c, o := newClient(t, ours), newClient(t, origins)
		c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
		c.send("SSH-2.0-x\r\n")
		o.wantText("SSH-2.0-x\r\n")
		for range 3 { // it takes little, but it does
			o.send("a")
			time.Sleep(9 * time.Minute)
			c.wantText("a")
		}
		start := time.Now()
		o.send("b")
		o.wantEOF()
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("closed after %v, want 10 min", took)
		}
	})
}

// A conversation of a test with a server over HTTP/2, frame by frame.
type flood struct {
	t *testing.T
	*http2.Framer
	c      *client
	block  bytes.Buffer
	fields *hpack.Encoder
}

func newFlood(t *testing.T, c *client) *flood {
	t.Helper()
	f := &flood{t: t, c: c, Framer: http2.NewFramer(c, c.r)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.fields = hpack.NewEncoder(&f.block)
	c.send(http2.ClientPreface)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// request opens a stream. What does not go into one frame is continued.
func (f *flood) request(stream uint32, end bool, fields ...hpack.HeaderField) error {
	const frame = 16 << 10
	f.block.Reset()
	for _, field := range fields {
		f.fields.WriteField(field)
	}
	block := f.block.Bytes()
	n := min(len(block), frame)
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:n], EndStream: end, EndHeaders: n == len(block)})
	for block = block[n:]; len(block) > 0 && err == nil; block = block[n:] {
		n = min(len(block), frame)
		err = f.WriteContinuation(stream, n == len(block), block[:n])
	}
	return err
}

// status reads until the head of a response comes, or the end.
func (f *flood) status(stream uint32) string {
	for {
		frame, err := f.ReadFrame()
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return frame.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				return frame.ErrCode.String()
			}
		}
		if err != nil && !errors.As(err, new(http2.StreamError)) {
			return "closed"
		}
	}
}

// TestLateHandshakeIsToldBeforeTheEnd: a tunnel whose handshake takes too long is
// open, and Shutdown waits for it, until that has been told.
func TestLateHandshakeIsToldBeforeTheEnd(t *testing.T) {
	p := newProxyWithin(t, Limits{HeaderTimeout: 2 * time.Second}, nil)
	open := make(chan int, 1)
	p.in.OnFailure = func(Failure) { open <- p.open() }
	c := p.connect("example.org:443", "\x16\x03\x01\x02\x00\x01\x00")
	if b, err := io.ReadAll(c.Conn); len(b) > 0 && b[0] != 0x15 {
		t.Errorf("the client got %q, %v", b, err)
	}
	if n := <-open; n != 1 {
		t.Errorf("%d tunnels were open when it was told", n)
	}
	until(t, "the tunnel is closed", func() bool { return p.open() == 0 })
}
