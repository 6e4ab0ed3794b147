package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/warctee/warctee/warc/warctest"
)

// A visitor is a client that behaves badly, over a raw connection.
type visitor struct {
	net.Conn
	in     *bufio.Reader
	origin string // host:port
}

// badVisits are ways to be a nuisance. In a tunnel the paths are the same, with
// TLS around them.
var badVisits = []struct {
	name string
	alpn string // h2, or http/1.1; default: without a tunnel too
	do   func(v *visitor)
}{
	{name: "leaves at once", do: func(v *visitor) {}},
	{name: "half a head", do: func(v *visitor) { v.say("GET /wha") }},
	{name: "garbage", do: func(v *visitor) { v.say("\x00\x01\x02\r\n\r\n"); v.listen() }},
	{name: "large head", do: func(v *visitor) {
		v.say("GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n\r\n")
		v.listen()
	}},
	{name: "both framings", do: func(v *visitor) {
		v.ask("POST", "/echo", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n")
		v.listen()
	}},
	{name: "garbage behind a request", do: func(v *visitor) { v.ask("GET", "/fine", ""); v.say("\x00\x01\x02"); v.listen() }},
	{name: "bad chunk", do: func(v *visitor) {
		v.ask("POST", "/echo", "Transfer-Encoding: chunked\r\n")
		v.say("5\r\nhello\r\nzz\r\n")
		v.listen()
	}},
	{name: "leaves in the upload", do: func(v *visitor) { v.ask("POST", "/echo", "Content-Length: 100000\r\n"); v.say("a part") }},
	{name: "leaves in the chunked upload", do: func(v *visitor) { v.ask("POST", "/echo", "Transfer-Encoding: chunked\r\n"); v.say("5\r\nhel") }},
	{name: "ends in the upload", do: func(v *visitor) {
		v.ask("POST", "/echo", "Content-Length: 100000\r\n")
		v.say("a part")
		v.endSending()
		v.listen()
	}},
	{name: "never sends what it expects to continue", do: func(v *visitor) {
		v.ask("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 10\r\n")
		v.in.ReadString('\n')
	}},
	{name: "leaves in the download", do: func(v *visitor) { v.ask("GET", "/big", ""); v.in.ReadString('\n') }},
	{name: "leaves in the endless download", do: func(v *visitor) { v.ask("GET", "/endless", ""); v.in.ReadString('\n') }},
	{name: "leaves before the reply", do: func(v *visitor) { v.ask("GET", "/slow", "") }},
	{name: "leaves the events", do: func(v *visitor) { v.ask("GET", "/events", ""); v.in.ReadString('\n') }},
	{name: "leaves the WebSocket", do: func(v *visitor) { v.ask("GET", "/socket", handshake); v.in.ReadString('\n') }},
	{name: "asks another host", alpn: "http/1.1", do: func(v *visitor) { v.say("GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n"); v.listen() }},
	{name: "speaks HTTP/1 on HTTP/2", alpn: "h2", do: func(v *visitor) { v.say("GET / HTTP/1.1\r\nHost: h\r\n\r\n"); v.listen() }},
	{name: "half a preface", alpn: "h2", do: func(v *visitor) { v.say(http2.ClientPreface[:7]) }},
	{name: "leaves many streams", alpn: "h2", do: func(v *visitor) {
		f := v.frames()
		for i := range uint32(5) {
			f.request(2*i+1, "/endless")
		}
		f.until(http2.FrameHeaders)
	}},
	{name: "resets many streams", alpn: "h2", do: func(v *visitor) {
		f := v.frames()
		for i := range uint32(20) {
			f.request(2*i+1, "/slow")
			f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
		f.WritePing(false, [8]byte{})
		f.until(http2.FramePing)
	}},
	{name: "breaks the rules of HTTP/2", alpn: "h2", do: func(v *visitor) {
		f := v.frames()
		f.request(2, "/fine") // an even stream
		f.until(http2.FrameGoAway)
	}},
}

func (v *visitor) say(s string) { io.WriteString(v.Conn, s) }

// listen reads to the end.
func (v *visitor) listen() { io.Copy(io.Discard, v.in) }

func (v *visitor) endSending() { v.Conn.(interface{ CloseWrite() error }).CloseWrite() }

func (v *visitor) ask(method, path, fields string) {
	target := path
	if _, tunnel := v.Conn.(*tls.Conn); !tunnel {
		target = "http://" + v.origin + path
	}
	v.say(method + " " + target + " HTTP/1.1\r\nHost: " + v.origin + "\r\n" + fields + "\r\n")
}

type visitorFrames struct {
	*http2.Framer
	authority string
	block     strings.Builder
	fields    *hpack.Encoder
}

func (v *visitor) frames() *visitorFrames {
	v.say(http2.ClientPreface)
	f := &visitorFrames{Framer: http2.NewFramer(v.Conn, v.in), authority: v.origin}
	f.fields = hpack.NewEncoder(&f.block)
	f.WriteSettings()
	return f
}

func (f *visitorFrames) request(stream uint32, path string) {
	f.block.Reset()
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", f.authority}, {":path", path}} {
		f.fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(f.block.String()), EndStream: true, EndHeaders: true})
}

// until reads until such a frame has come.
func (f *visitorFrames) until(t http2.FrameType) {
	for {
		if frame, err := f.ReadFrame(); err != nil || frame.Header().Type == t {
			return
		}
	}
}

// visitedOrigin answers the visitors.
func visitedOrigin(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/fine":
		io.WriteString(w, "fine")
	case "/echo":
		io.Copy(w, r.Body)
	case "/big":
		w.Header().Set("Content-Length", "200000")
		io.WriteString(w, strings.Repeat("0123456789", 20_000))
	case "/endless":
		io.WriteString(w, "this goes on for ever")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/slow":
		<-r.Context().Done()
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/socket":
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		io.WriteString(c, switching)
		io.Copy(c, c)
		c.Close()
	}
}

// visit behaves badly once, and leaves with a reset or not.
func (x *scene) visit(i int, origin string, tunnel bool, alpn string, do func(v *visitor)) {
	c, err := net.Dial("tcp", x.proxy.listener.Addr().String())
	if err != nil {
		x.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if i%2 == 0 {
		c.(*net.TCPConn).SetLinger(0)
	}
	v := &visitor{Conn: c, in: bufio.NewReader(c), origin: origin}
	if tunnel {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", origin, origin)
		resp, err := http.ReadResponse(v.in, &http.Request{Method: "CONNECT"})
		if err != nil || resp.StatusCode != 200 {
			x.Errorf("CONNECT: %v, %v", resp, err)
			return
		}
		t := tls.Client(c, &tls.Config{RootCAs: x.proxyRoots(), ServerName: "127.0.0.1", NextProtos: []string{alpn}})
		if err := t.Handshake(); err != nil {
			x.Errorf("TLS: %v", err)
			return
		}
		v.Conn, v.in = t, bufio.NewReader(t)
	}
	do(v)
}

// TestBadVisitors lets clients behave badly in each way, 200 times: nothing is
// left of them. Those that can do without a tunnel do so; few of them use one too,
// since TLS takes most of the time.
func TestBadVisitors(t *testing.T) {
	const times, few, atOnce = 200, 20, 20 // and half the times where it needs TLS
	x := newScene(t, false, func(f *recordFlags) {
		f.insecure = true
		f.timeout = 2 * time.Second // a client that has gone before the reply is not noticed
		f.maxBody = 1 << 20
		f.failureLog = "off"
	})
	var origins [2]*httptest.Server // http and https
	for i := range origins {
		origins[i] = httptest.NewUnstartedServer(http.HandlerFunc(visitedOrigin))
		origins[i].Config.SetKeepAlivesEnabled(false) // each would be a goroutine
		origins[i].Config.ErrorLog = log.New(io.Discard, "", 0)
		t.Cleanup(origins[i].Close)
	}
	origins[0].Start()
	origins[1].StartTLS()
	visitAll := func(bad func(v *visitor), alpn string) {
		for i, o := range origins {
			n := times
			switch {
			case i == 0 && alpn != "":
				continue
			case i == 1 && alpn == "":
				n = few
			case i == 1:
				n = times / 2
			}
			var all sync.WaitGroup
			for worker := range atOnce {
				all.Go(func() { // ends with its visits, which have a deadline
					for visit := range n / atOnce {
						x.visit(worker+visit, o.Listener.Addr().String(), i == 1, cmp.Or(alpn, "http/1.1"), bad)
					}
				})
			}
			all.Wait()
		}
	}
	nothingLeft := func() bool {
		s := x.proxy.status(x.flags)
		return s.Connections == 0 && s.InFlight == 0 && s.Long == 0
	}
	visitAll(func(v *visitor) { v.ask("GET", "/fine", "Connection: close\r\n"); v.listen() }, "")
	x.eventually("the first clients are gone", nothingLeft)
	before := runtime.NumGoroutine()
	for _, bad := range badVisits {
		t.Run(bad.name, func(t *testing.T) {
			visitAll(bad.do, bad.alpn)
			x.eventually("the clients are gone", nothingLeft)
			x.eventually(fmt.Sprintf("goroutines are back to %d", before), func() bool { return runtime.NumGoroutine() <= before+3 })
		})
	}
	if s := x.proxy.recorder.Status(); s.Lost > 0 {
		t.Errorf("%d responses are lost", s.Lost)
	}
	x.stop()
	warctest.Check(t, x.flags.dir)
}

// eventually waits for what is about to happen.
func (x *scene) eventually(what string, ok func() bool) {
	x.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			x.Fatalf("waited in vain: %s; there are %d goroutines, status %+v", what, runtime.NumGoroutine(), x.proxy.status(x.flags))
		}
	}
}

// fetch gets a page whole.
func fetch(c *http.Client, url string) (status int, body string, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
