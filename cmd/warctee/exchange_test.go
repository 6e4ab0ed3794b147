package main

import (
	"strings"
	"testing"
)

// An ordinary is an exchange of one request and one reply, in which both ends
// do what the head says.
type ordinary struct {
	name   string
	method string // default GET
	target string // default /
	fields string // of the request, behind Host
	body   string // of the request as the client sends it
	upload string // the same as the origin has to get it; default: body
	reply  string // what the origin sends

	status  int      // that the client gets; default 200
	entity  string   // the body that the client gets
	headers []string // lines in the head that the client gets
	trailer string   // lines behind the body that the client gets
	close   bool     // the origin closes the connection behind its reply
	reused  bool     // the connection to the origin must be used again
	dropped bool     // it must not
}

var ordinaries = []ordinary{
	{
		name: "odd fields",
		fields: "x-ODD: 1\r\nX-odd: 2\r\nx-ODD: 1\r\nAccept-Language:de\r\nA:\r\nZ-Spaces: \t two \t words \t \r\n" +
			"Latin: caf\xe9 \xa0\xff\r\nB!#$%&'*+.^_`|~9: token\r\nUser-Agent: \r\nAccept-Encoding: br;q=0, x\r\ncookie: b=2; a=1\r\nCOOKIE: c\r\n",
		reply: "HTTP/1.1 200 \r\nsErVeR:none\r\nX-b: 2\r\nX-B: 1\r\nx-b:  2  \r\nSet-Cookie: a=1\r\nset-cookie: b=\xfc\r\nEmpty:\r\n" +
			"CONTENT-length: 3, 3\r\ncontent-LENGTH:   3\r\nX-Tab:\t1\t\r\n\r\nodd",
		entity:  "odd",
		headers: []string{"Set-Cookie: a=1", "Set-Cookie: b=\xfc", "X-B: 2\r\nX-B: 1\r\nX-B: 2", "Server: none", "Content-Length: 3"},
	},
	{
		name:    "reply with bare line feeds and folded lines",
		reply:   "HTTP/1.1 200 OK\nX-Lf: 1\nX-Folded: one\r\n\ttwo\nName : spaced\nContent-Length: 4\n\nbare",
		entity:  "bare",
		headers: []string{"X-Lf: 1", "Name: spaced"},
	},
	{
		name:   "header line without colon",
		reply:  "HTTP/1.1 200 OK\r\nthis is no field\r\nX-After: 1\r\nContent-Length: 5\r\n\r\ncolon",
		entity: "colon", headers: []string{"X-After: 1"},
	},
	{name: "HTTP/1.0 reply", reply: "HTTP/1.0 200 Fine\r\nContent-Length: 3\r\n\r\none", entity: "one", dropped: true},
	{name: "long reason", reply: "HTTP/1.1 200 " + strings.Repeat("very ", 999) + "well\r\nContent-Length: 4\r\n\r\nlong", entity: "long"},
	{
		name: "Transfer-Encoding and Content-Length", reply: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nboth\r\n0\r\n\r\n",
		entity: "both", dropped: true,
	},
	{name: "Transfer-Encoding identity", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nide", entity: "ide"},
	{
		name: "POST with a length", method: "POST", fields: "Content-Type: text/x\r\nContent-Length: 11\r\n", body: "hello\x00world",
		reply: "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\npost", status: 201, entity: "post",
	},
	{
		name: "POST without a body", method: "POST", fields: "Content-Length: 0\r\n",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nempty", entity: "empty",
	},
	{
		name: "POST without a length", method: "POST",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nnolen.", entity: "nolen.",
	},
	{
		name: "POST chunked", method: "POST", fields: "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\n\r\n",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nchunked", entity: "chunked",
	},
	{
		name: "POST chunked with a trailer", method: "POST", fields: "trailer: X-Sum\r\ntransfer-ENCODING: Chunked\r\n",
		body: "5;ext=1\r\nhello\r\n0\r\nX-Sum: 12\r\n\r\n", upload: "5\r\nhello\r\n0\r\nX-Sum: 12\r\n\r\n",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ntrailed", entity: "trailed",
	},
	{
		name: "GET with a body", fields: "Content-Length: 3\r\n", body: "get",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ngot body", entity: "got body",
	},
	{
		name: "unknown method", method: "M-SEARCH", reply: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsearch", entity: "search",
	},
	{
		name: "OPTIONS with a path", method: "OPTIONS", reply: "HTTP/1.1 200 OK\r\nAllow: GET\r\nContent-Length: 0\r\n\r\n", headers: []string{"Allow: GET"},
	},
	{
		name: "fields of the hop to the proxy", fields: "Proxy-Connection: keep-alive\r\nproxy-Secret: 1\r\n",
		reply: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhop", entity: "hop",
	},
	{
		name: "chunk extensions and trailers", fields: "TE: trailers\r\n",
		reply:   "HTTP/1.1 200 OK\r\nTrailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b;c\"\r\nhello\r\n0006 ; x\r\n world\r\n000;last\r\nX-End: yes\r\n\r\n",
		entity:  "hello world",
		trailer: "X-End: yes\r\n", reused: true,
	},
	{
		name:   "a trailer that was not announced",
		reply:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Late: yes\r\n\r\n",
		entity: "hello", trailer: "X-Late: yes\r\n", reused: true,
	},
	{
		name: "gzip content-coding", fields: "Accept-Encoding: gzip\r\n",
		reply:   "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 24\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\xaf\xca\x2c\x00\x00\x21\xe3\x75\x16\x04\x00\x00\x00",
		entity:  "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\xaf\xca\x2c\x00\x00\x21\xe3\x75\x16\x04\x00\x00\x00",
		headers: []string{"Content-Encoding: gzip", "Content-Length: 24"},
	},
	{
		name: "what is not gzip", reply: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\nnot zip", entity: "not zip",
		headers: []string{"Content-Encoding: gzip"},
	},
	{
		name: "HEAD", method: "HEAD", reply: "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"h\"\r\n\r\n",
		headers: []string{"Content-Length: 1234", "Etag: \"h\""},
	},
	{name: "HEAD of a chunked response", method: "HEAD", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
	{name: "204", reply: "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", status: 204, headers: []string{"X-A: b"}},
	{
		name: "304", fields: "If-None-Match: \"x\"\r\n", reply: "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 99\r\n\r\n",
		status: 304, headers: []string{"Etag: \"x\""},
	},
	{
		name: "206", fields: "Range: bytes=1-3\r\n", reply: "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-3/9\r\nContent-Length: 3\r\n\r\nBCD",
		status: 206, entity: "BCD", headers: []string{"Content-Range: bytes 1-3/9"},
	},
	{
		name: "redirect", reply: "HTTP/1.1 302 Found\r\nLocation: /\xe9?%zz\r\nContent-Length: 2\r\n\r\ngo", status: 302, entity: "go",
		headers: []string{"Location: /\xe9?%zz"},
	},
	{name: "status that nobody knows", reply: "HTTP/1.1 799 Whatever\r\nContent-Length: 3\r\n\r\n799", status: 799, entity: "799"},
	{name: "close-delimited", reply: "HTTP/1.1 200 OK\r\n\r\nuntil the end", entity: "until the end", close: true},
	{name: "close-delimited HTTP/1.0", reply: "HTTP/1.0 200 OK\r\n\r\nuntil the very end", entity: "until the very end", close: true},
	{name: "close-delimited and empty", reply: "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", close: true},
	{name: "Connection: close", reply: "HTTP/1.1 200 OK\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nContent-Length: 5\r\n\r\nclose", entity: "close", dropped: true},
	{name: "empty body", reply: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "empty chunked body", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reused: true},
	{
		name: "1 MB", reply: "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("0123456789", 100000),
		entity: strings.Repeat("0123456789", 100000),
	},
	{
		name: "50 KB of header fields", reply: "HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("x", 50_000) + "\r\nContent-Length: 3\r\n\r\nbig",
		entity: "big", headers: []string{"X-Big: " + strings.Repeat("x", 50_000)},
	},
}

func TestOrdinaryExchanges(t *testing.T) {
	t.Parallel()
	for _, c := range ordinaries {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, c.run)
		})
	}
}

func (e *ordinary) run(x *scene) {
	method, target, status, upload := "GET", "/", 200, e.body
	if e.method != "" {
		method = e.method
	}
	if e.target != "" {
		target = e.target
	}
	if e.status != 0 {
		status = e.status
	}
	if e.upload != "" {
		upload = e.upload
	}
	sent, forwarded := x.ask(method, target, e.fields)
	c := x.client()
	c.send(sent + e.body)
	o := x.origin.next()
	request := o.request()
	x.same("the request", request, withoutProxyFields(forwarded)+upload)
	o.send(e.reply)
	if e.close {
		o.Close()
	}
	got := c.reply(method)
	x.got(got, status, e.entity)
	for _, line := range e.headers {
		if !strings.Contains(got.head, "\r\n"+line+"\r\n") {
			x.Errorf("the head that the client got lacks %.100q: %.500q", line, got.head)
		}
	}
	x.same("the trailer that the client got", strings.TrimSuffix(got.trailer, "\r\n"), e.trailer)
	x.want(wanted{uri: x.uri(target), request: request, response: e.reply})

	next := x.fineOn(c, "/next")
	switch {
	case e.reused && next != o:
		x.Error("the proxy has not used the connection again")
	case (e.dropped || e.close) && next == o:
		x.Error("the proxy has used the connection again")
	}
}

// withoutProxyFields drops the lines that are for the proxy.
func withoutProxyFields(head string) string {
	var kept []string
	for _, line := range strings.SplitAfter(head, "\r\n") {
		if !strings.HasPrefix(strings.ToLower(line), "proxy-") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
