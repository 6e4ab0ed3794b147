package mitm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestOddConnects sends CONNECT requests that are strange, but clear.
func TestOddConnects(t *testing.T) {
	p := newProxy(t, tell)
	p.in.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
	for _, connect := range []string{
		"\r\n\r\nCONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n",
		"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nContent-Length: 0\r\n\r\n",
		"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nConnection: close\r\n\r\n",
		"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"CONNECT h:80 HTTP/1.0\r\n\r\n",
	} {
		for _, gap := range []string{"", "\r\n\r\n"} { // behind it, and no request
			c := dial(t, p.addr)
			c.send(connect)
			c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
			c.send(gap)
			c.send(plainHead)
			c.want(200, `HTTP/1.1 GET /%25zz "" <nil> {Authority:h:80 TLS:false ServerName:} true`)
		}
	}
	for _, gap := range []string{"\r\n", strings.Repeat("\r\n", maxBlank)} {
		c := p.connect("h:443", gap)
		tc := tls.Client(c.Conn, &tls.Config{RootCAs: p.ca.roots, ServerName: "h"})
		if err := tc.Handshake(); err != nil {
			t.Errorf("TLS behind %q: %v", gap, err)
		}
	}
	p.connect("h:443", "\r\n\r\nSSH-2.0-x\r\n").wantEOF() // it is for the origin, of which there is none
	p.connect("h:443", strings.Repeat("\r\n", maxBlank+1)+plainHead).wantEOF()
	if got, want := p.in.Stats().Blind, int64(2); got != want {
		t.Errorf("%d blind tunnels, want %d", got, want)
	}
}

// TestRefusedHEAD checks that the answer to a HEAD that is refused has no body.
func TestRefusedHEAD(t *testing.T) {
	c := dial(t, listen(t, func(http.ResponseWriter, *http.Request) { t.Error("served") }))
	c.send("HEAD /" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n")
	resp, err := http.ReadResponse(c.r, &http.Request{Method: "HEAD"})
	if err != nil || resp.StatusCode != 414 || !resp.Close {
		t.Fatalf("got %+v, %v", resp, err)
	}
	c.wantEOF()
}

// A slicer writes in small pieces.
type slicer struct {
	net.Conn
	size int
}

func (s slicer) Write(p []byte) (int, error) {
	for n := 0; n < len(p); n += s.size {
		if _, err := s.Conn.Write(p[n:min(n+s.size, len(p))]); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// TestOddHellos begins TLS in odd ways.
func TestOddHellos(t *testing.T) {
	p := newProxy(t, tell)
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf("%d%s", i, strings.Repeat("x", 200))) // more than a record holds
	}
	for _, tt := range []struct {
		name   string
		piece  int
		config *tls.Config
		fails  bool
	}{
		{name: "byte by byte", piece: 1, config: &tls.Config{}},
		{name: "in pieces", piece: 100, config: &tls.Config{}},
		{name: "no server name", config: &tls.Config{InsecureSkipVerify: true}},
		{name: "20 KB", config: &tls.Config{NextProtos: append(long, "http/1.1")}},
		{name: "TLS 1.2", config: &tls.Config{MaxVersion: tls.VersionTLS12}},
		{name: "unknown protocols", config: &tls.Config{NextProtos: []string{"spdy/3"}}, fails: true},
		{name: "no common cipher", config: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, fails: true},
		{name: "TLS 1.0", config: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := p.connect("h:443", "")
			tt.config.RootCAs = p.ca.roots
			if !tt.config.InsecureSkipVerify {
				tt.config.ServerName = "h"
			}
			below := c.Conn
			if tt.piece > 0 {
				below = slicer{below, tt.piece}
			}
			tc := tls.Client(below, tt.config)
			if err := tc.Handshake(); (err != nil) != tt.fails {
				t.Fatalf("got %v", err)
			}
			if tt.fails {
				return
			}
			e := newClient(t, tc)
			e.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			if resp, body := e.answer(); resp.StatusCode != 200 {
				t.Errorf("got %d %q", resp.StatusCode, body)
			}
		})
	}
	until(t, "the failures are counted", func() bool { return p.in.Stats().HandshakeFailures == 3 })
}

// TestHTTP2Rules breaks rules of HTTP/2: the stream or the connection ends, and
// no handler takes a part of a body for the whole.
func TestHTTP2Rules(t *testing.T) {
	p := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("served %s %s %q %q", r.Method, r.RequestURI, r.Header, body)
		}
	})
	field := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	with := func(fields ...hpack.HeaderField) []hpack.HeaderField {
		return append(get[:len(get):len(get)], fields...)
	}
	post := func(fields ...hpack.HeaderField) []hpack.HeaderField {
		return append([]hpack.HeaderField{field(":method", "POST")}, append(get[1:len(get):len(get)], fields...)...)
	}
	for name, c := range map[string]struct {
		fields []hpack.HeaderField
		body   string // in a frame that ends the stream
	}{
		"pseudo-header twice":         {fields: with(field(":path", "/other"))},
		"unknown pseudo-header":       {fields: with(field(":fragment", "a"))},
		"pseudo-header of a response": {fields: with(field(":status", "200"))},
		"pseudo-header behind fields": {fields: append(append(get[:3:3], field("a", "b")), get[3])},
		"no path":                     {fields: get[:3]},
		"no method":                   {fields: get[1:]},
		"no scheme":                   {fields: append(get[:1:1], get[2:]...)},
		"extended CONNECT":            {fields: append([]hpack.HeaderField{field(":method", "CONNECT"), field(":protocol", "websocket")}, get[1:]...)},
		"connection":                  {fields: with(field("connection", "keep-alive"))},
		"proxy-connection":            {fields: with(field("proxy-connection", "keep-alive"))},
		"keep-alive":                  {fields: with(field("keep-alive", "timeout=5"))},
		"upgrade":                     {fields: with(field("upgrade", "websocket"))},
		"te":                          {fields: with(field("te", "gzip"))},
		"body that is too short":      {fields: post(field("content-length", "5")), body: "abc"},
		"body that is too long":       {fields: post(field("content-length", "2")), body: "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			tc, err := p.tls("h:443", &tls.Config{ServerName: "h", NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			f := newFlood(t, tc)
			f.AllowIllegalWrites = true
			if err := f.request(1, c.body == "", c.fields...); err != nil {
				t.Fatal(err)
			}
			if c.body != "" {
				if err := f.WriteData(1, true, []byte(c.body)); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.status(1); got == "200" && c.body == "" {
				t.Errorf("got %s", got)
			}
		})
	}
}
