package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An h2Result is what a client of net/http got.
type h2Result struct {
	status  int
	header  http.Header
	trailer http.Header
	hints   []textproto.MIMEHeader
	body    string
	err     error // of the request, or of the body
}

// http2Client is a client of net/http that speaks HTTP/2 in the tunnel.
func (x *scene) http2Client() *http.Client {
	transport := &http.Transport{
		Proxy:              http.ProxyURL(&url.URL{Scheme: "http", Host: x.proxy.listener.Addr().String()}),
		TLSClientConfig:    &tls.Config{RootCAs: x.proxyRoots()},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
	}
	x.onStop = append(x.onStop, transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// begin makes a request in the background; the result comes once.
func (x *scene) begin(c *http.Client, r *http.Request) <-chan h2Result {
	result := make(chan h2Result, 1)
	go func() { // ends with the client's time-out at the latest
		var got h2Result
		ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			got.hints = append(got.hints, h)
			return nil
		}})
		resp, err := c.Do(r.WithContext(ctx))
		if got.err = err; err == nil {
			var body []byte
			body, got.err = io.ReadAll(resp.Body)
			resp.Body.Close()
			got.status, got.header, got.trailer, got.body = resp.StatusCode, resp.Header, resp.Trailer, string(body)
			if resp.ProtoMajor != 2 {
				got.err = fmt.Errorf("the response is %s", resp.Proto)
			}
		}
		result <- got
	}()
	return result
}

func (x *scene) request(method, target string, body io.Reader) *http.Request {
	x.Helper()
	r, err := http.NewRequest(method, x.uri(target), body)
	if err != nil {
		x.Fatal(err)
	}
	r.Header.Set("User-Agent", "two")
	return r
}

// forwarded is the head that the origin gets for a request over HTTP/2: Host
// first, then sorted.
func (x *scene) forwarded(method, target, fields string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n" + fields + "\r\n"
}

func overHTTP2(t *testing.T, name string, run func(x *scene, c *http.Client)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, func(*recordFlags) {})
		run(x, x.http2Client())
		x.finish()
	})
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	overHTTP2(t, "GET", func(x *scene, c *http.Client) {
		r := x.request("GET", "/a%2fb?c", nil)
		r.Header.Set("X-B", "2")
		r.Header["X-A"] = []string{"1", "caf\xe9"}
		r.Header.Set("Cookie", "a=1; b=2")
		result := x.begin(c, r)
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, x.forwarded("GET", "/a%2fb?c", "Cookie: a=1; b=2\r\nUser-Agent: two\r\nX-A: 1\r\nX-A: caf\xe9\r\nX-B: 2\r\n"))
		response := "HTTP/1.1 200 OK\r\nsEt-Cookie: a\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n" +
			"Upgrade: h2\r\nProxy-Connection: x\r\nAlt-Svc: h3=\":443\"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
		o.send(response)
		got := <-result
		x.gotHTTP2(got, 200, "two")
		for _, name := range []string{"Connection", "Keep-Alive", "X-Hop", "Upgrade", "Proxy-Connection", "Alt-Svc", "Transfer-Encoding", "Date", "Content-Type"} {
			if v, ok := got.header[name]; ok {
				x.Errorf("the client got %s: %q", name, v)
			}
		}
		if got.header.Get("Set-Cookie") != "a" {
			x.Errorf("the client got the fields %q", got.header)
		}
		x.want(wanted{uri: x.uri("/a%2fb?c"), request: request, response: response})
	})
	overHTTP2(t, "POST with a length", func(x *scene, c *http.Client) {
		result := x.begin(c, x.request("POST", "/", strings.NewReader("hello")))
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, x.forwarded("POST", "/", "User-Agent: two\r\nContent-Length: 5\r\n")+"hello")
		response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
		o.send(response)
		x.gotHTTP2(<-result, 200, "up")
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	})
	overHTTP2(t, "POST as it comes", func(x *scene, c *http.Client) {
		read, write := io.Pipe()
		result := x.begin(c, x.request("POST", "/", read))
		head := x.forwarded("POST", "/", "User-Agent: two\r\nTransfer-Encoding: chunked\r\n")
		o := x.origin.next()
		x.same("the head", o.take(len(head)), head)
		for range 3 { // each part is there before the next is sent
			io.WriteString(write, "part")
			x.same("a part", o.take(9), "4\r\npart\r\n")
		}
		write.Close()
		x.same("the end", o.take(5), "0\r\n\r\n")
		response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
		o.send(response)
		x.gotHTTP2(<-result, 200, "up")
		x.want(wanted{uri: x.uri("/"), request: head + strings.Repeat("4\r\npart\r\n", 3) + "0\r\n\r\n", response: response})
	})
	overHTTP2(t, "hints and trailer", func(x *scene, c *http.Client) {
		result := x.begin(c, x.request("GET", "/", nil))
		o := x.origin.next()
		request := o.request()
		response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n3\r\ntwo\r\n0\r\nX-End: yes\r\n\r\n"
		o.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + response)
		got := <-result
		x.gotHTTP2(got, 200, "two")
		if len(got.hints) != 1 || got.hints[0].Get("Link") != "</a>" {
			x.Errorf("the client got the hints %q", got.hints)
		}
		if got.trailer.Get("X-End") != "yes" {
			x.Errorf("the client got the trailer %q", got.trailer)
		}
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	})
	overHTTP2(t, "HEAD, 204 and 304", func(x *scene, c *http.Client) {
		for status, response := range map[int]string{
			200: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
			204: "HTTP/1.1 204 No Content\r\n\r\n",
			304: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
		} {
			result := x.begin(c, x.request("HEAD", "/", nil))
			o := x.origin.next()
			request := o.request()
			o.send(response)
			x.gotHTTP2(<-result, status, "")
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		}
	})
	overHTTP2(t, "many at once", func(x *scene, c *http.Client) {
		const n = 20
		first := x.begin(c, x.request("GET", "/first", nil)) // makes the tunnel
		o := x.origin.next()
		request := o.request()
		response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
		o.send(response)
		x.gotHTTP2(<-first, 200, "first")
		x.want(wanted{uri: x.uri("/first"), request: request, response: response})
		var results []<-chan h2Result
		for i := range n {
			results = append(results, x.begin(c, x.request("GET", fmt.Sprintf("/%d", i), nil)))
		}
		for range n {
			o := x.origin.next()
			request := o.request()
			target := strings.Fields(request)[1]
			response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nat %s", 3+len(target), target)
			o.send(response)
			x.want(wanted{uri: x.uri(target), request: request, response: response})
		}
		for i, result := range results {
			x.gotHTTP2(<-result, 200, fmt.Sprintf("at /%d", i))
		}
		if got := x.proxy.tunnels.Stats().TLS; got != 1 {
			x.Errorf("there were %d tunnels, want 1", got)
		}
	})
	// One that breaks off costs the others nothing.
	overHTTP2(t, "early close", func(x *scene, c *http.Client) {
		other := x.begin(c, x.request("GET", "/other", nil))
		o1 := x.origin.next()
		request1 := o1.request()
		broken := x.begin(c, x.request("GET", "/broken", nil))
		o2 := x.origin.next()
		request2 := o2.request()
		response2 := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwo"
		o2.send(response2)
		o2.Close()
		if got := <-broken; got.err == nil || got.status != 200 {
			x.Errorf("the client got status %d, body %q and no error", got.status, got.body)
		}
		response1 := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
		o1.send(response1)
		x.gotHTTP2(<-other, 200, "fine")
		x.want(wanted{uri: x.uri("/other"), request: request1, response: response1})
		x.want(wanted{uri: x.uri("/broken"), request: request2, response: response2, truncated: "disconnect"})
	})
	overHTTP2(t, "failures", func(x *scene, c *http.Client) {
		result := x.begin(c, x.request("GET", "/", nil))
		o := x.origin.next()
		o.request()
		o.Close()
		got := <-result
		if got.err != nil || got.status != 502 || !strings.Contains(got.body, "closed the connection") {
			x.Errorf("the client got status %d, body %q, error %v", got.status, got.body, got.err)
		}
		r := x.request("GET", "/", nil)
		r.Host = "elsewhere.example"
		if got := <-x.begin(c, r); got.err != nil || got.status != 421 || !strings.Contains(got.body, "elsewhere.example") {
			x.Errorf("the client got status %d, body %q, error %v", got.status, got.body, got.err)
		}
	})
	overHTTP2(t, "client gone", func(x *scene, c *http.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		responses := make(chan *http.Response, 1)
		go func() { // ends with the client's time-out at the latest
			resp, err := c.Do(x.request("GET", "/", nil).WithContext(ctx))
			if err != nil {
				x.Error(err)
				close(responses)
				return
			}
			responses <- resp
		}()
		o := x.origin.next()
		request := o.request()
		response := "HTTP/1.1 200 OK\r\n\r\nendless, but silent"
		o.send(response)
		if resp := <-responses; resp != nil {
			defer resp.Body.Close()
			io.ReadFull(resp.Body, make([]byte, len("endless")))
		}
		cancel()
		o.ends()
		x.want(wanted{uri: x.uri("/"), request: request, response: response, truncated: "disconnect"})
	})
	overHTTP2(t, "upload breaks off", func(x *scene, c *http.Client) {
		read, write := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		result := x.begin(c, x.request("POST", "/", read).WithContext(ctx))
		head := x.forwarded("POST", "/", "User-Agent: two\r\nTransfer-Encoding: chunked\r\n")
		o := x.origin.next()
		x.same("the head", o.take(len(head)), head)
		io.WriteString(write, "part")
		x.same("a part", o.take(9), "4\r\npart\r\n")
		cancel()
		o.ends()
		write.Close()
		if got := <-result; got.err == nil {
			x.Error("the client got a response")
		}
	})
}

func (x *scene) gotHTTP2(got h2Result, status int, body string) {
	x.Helper()
	if got.err != nil || got.status != status {
		x.Fatalf("the client got status %d and error %v, want %d: %q", got.status, got.err, status, got.body)
	}
	x.same("the body that the client got", got.body, body)
}

// Over HTTP/2 a field can hold what over HTTP/1 would end it.
func TestHTTP2Injection(t *testing.T) {
	t.Parallel()
	const forged = "\r\nWARC-Type: forged\r\n\r\n"
	for name, change := range map[string]map[string]string{
		":path with a line end":      {":path": "/a" + forged},
		":path with a space":         {":path": "/a b"},
		":path with LF":              {":path": "/a\nX: y"},
		":path with NUL":             {":path": "/a\x00"},
		":path without a slash":      {":path": "a"},
		":path that is empty":        {":path": ""},
		":path that is absolute":     {":path": "http://elsewhere.example/"},
		":method with a line end":    {":method": "GET / HTTP/1.1" + forged},
		":method with a space":       {":method": "GET /x"},
		":authority with a line end": {":authority": "AUTHORITY" + forged},
		":authority with a path":     {":authority": "AUTHORITY/evil"},
		":authority with a user":     {":authority": "me@AUTHORITY"},
		":scheme with a line end":    {":scheme": "https" + forged},
		"a value with a line end":    {"x-a": "b" + forged},
		"a value with NUL":           {"x-a": "b\x00c"},
		"a name with a line end":     {"x-a" + forged + "b": "c"},
		"a name with a space":        {"x a": "b"},
		"a name with a colon":        {"x:a": "b"},
		"an upper-case name":         {"X-A": "b"},
		"connection":                 {"connection": "close"},
		"transfer_encoding":          {"transfer_encoding": "chunked"},
		"content_length":             {"content_length": "5"},
		"a lower-case method":        {":method": "get"},
		"a long method":              {":method": strings.Repeat("M", 5000)},
		"a blank before a value":     {"x-a": " b"},
		"a blank after a value":      {"x-a": "b\t"},
		"GET *":                      {":path": "*"},
		"another host":               {"host": "elsewhere.example"},
		"a length without a body":    {"content-length": "5"},
		"a length that is none":      {"content-length": "+5"},
		":path with DEL":             {":path": "/a\x7f"},
		"transfer-encoding":          {"transfer-encoding": "chunked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(*recordFlags) {})
			status, reset := x.answerHTTP2(x.beginHTTP2(change))
			if !reset && (status < 400 || status > 499) {
				x.Errorf("the request was answered with status %d", status)
			}
			if n := x.origin.connections(); n > 0 {
				x.Errorf("the origin has had %d connections", n)
			}
			x.fine("/next")
			x.finish()
		})
	}
}

// These are not refused, and do not get to the origin either.
func TestHTTP2Leftovers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]string{
		"another scheme": {":scheme": "http"},
		"the same host":  {"host": "AUTHORITY"},
		"trailers":       {"te": "trailers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(*recordFlags) {})
			p := x.beginHTTP2(change)
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, x.forwarded("GET", "/", ""))
			response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nleft"
			o.send(response)
			if status, reset := x.answerHTTP2(p); reset || status != 200 {
				x.Errorf("the request was answered with status %d (reset: %t)", status, reset)
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
			x.finish()
		})
	}
}

// beginHTTP2 sends one request, frame by frame, with other values.
func (x *scene) beginHTTP2(change map[string]string) *http2.Framer {
	x.Helper()
	p := x.encrypt(x.tunnel(x.origin.authority), "h2")
	p.SetDeadline(time.Now().Add(patience))
	io.WriteString(p.Conn, http2.ClientPreface)
	f := http2.NewFramer(p.Conn, p.Conn)
	f.AllowIllegalWrites = true
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()

	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "AUTHORITY"}, {":path", "/"}} {
		if v, ok := change[field[0]]; ok {
			field[1] = v
		}
		enc.WriteField(hpack.HeaderField{Name: field[0], Value: strings.ReplaceAll(field[1], "AUTHORITY", x.origin.authority)})
	}
	for name, v := range change {
		if !strings.HasPrefix(name, ":") {
			enc.WriteField(hpack.HeaderField{Name: name, Value: strings.ReplaceAll(v, "AUTHORITY", x.origin.authority)})
		}
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	return f
}

// answerHTTP2 returns the status, or whether the stream or the connection was
// given up.
func (x *scene) answerHTTP2(f *http2.Framer) (status int, reset bool) {
	x.Helper()
	for {
		frame, err := f.ReadFrame()
		if err == io.EOF {
			return 0, true
		}
		if err != nil {
			x.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0, true
		case *http2.MetaHeadersFrame:
			fmt.Sscan(frame.PseudoValue("status"), &status)
			return status, false
		}
	}
}
