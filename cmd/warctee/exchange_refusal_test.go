package main

import (
	"context"
	"strings"
	"testing"
)

// A refusal is a request that the proxy answers itself.
type refusal struct {
	name     string
	request  string // TARGET is /path or http://HOST/path, HOST is the origin's authority
	status   int
	sentence string
}

// These are refused in a tunnel and outside. A request that could be
// understood in two ways is not forwarded in either.
var refusals = []refusal{
	{name: "garbage", request: "\x01\x02\x03 what\r\n\r\n", status: 400, sentence: "request line"},
	{name: "lower-case method", request: "get TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `method "get"`},
	{name: "long method", request: strings.Repeat("M", 100) + " TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "request method"},
	{name: "no version", request: "GET TARGET\r\nHost: HOST\r\n\r\n", status: 400, sentence: "METHOD TARGET VERSION"},
	{name: "no target", request: "GET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "METHOD TARGET VERSION"},
	{name: "two spaces", request: "GET  TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "request line"},
	{name: "space in the target", request: "GET TARGET b HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "request line"},
	{name: "HTTP/0.9", request: "GET TARGET HTTP/0.9\r\nHost: HOST\r\n\r\n", status: 400, sentence: "HTTP/0.9"},
	{name: "HTTP/2.0", request: "GET TARGET HTTP/2.0\r\nHost: HOST\r\n\r\n", status: 505, sentence: "2.0"},
	{name: "HTTP/1.1x", request: "GET TARGET HTTP/1.1x\r\nHost: HOST\r\n\r\n", status: 400, sentence: "HTTP/1.1 or HTTP/1.0"},
	{name: "control character in the target", request: "GET TARGET\x01 HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "control character"},
	{name: "DEL in the target", request: "GET TARGET\x7f HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "control character"},
	{name: "TAB in the target", request: "GET TARGET\tb HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "control character"},
	{name: "target that is no path", request: "GET path HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"path"`},
	{name: "asterisk", request: "GET * HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"*"`},

	{name: "header name with a space", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX Y: 1\r\n\r\n", status: 400, sentence: `"X Y"`},
	{name: "space before the colon", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length : 1\r\n\r\n", status: 400, sentence: "white space"},
	{name: "no header name", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\n: 1\r\n\r\n", status: 400, sentence: "header name"},
	{name: "no colon", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nnonsense\r\n\r\n", status: 400, sentence: "no colon"},
	{name: "folded field", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: 1\r\n 2\r\n\r\n", status: 400, sentence: "folded"},
	{name: "bare LF", request: "GET TARGET HTTP/1.1\r\nHost: HOST\nX: 1\r\n\r\n", status: 400, sentence: "CR LF"},
	{name: "bare LFs only", request: "GET TARGET HTTP/1.1\nHost: HOST\n\n", status: 400, sentence: "CR LF"},
	{name: "bare CR", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: 1\rY: 2\r\n\r\n", status: 400, sentence: "CR LF"},
	{name: "NUL", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: 1\x002\r\n\r\n", status: 400, sentence: "NUL"},
	{name: "control character in a field", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: 1\x1b[2J\r\n\r\n", status: 400, sentence: "control character"},

	{name: "no Host", request: "GET TARGET HTTP/1.1\r\n\r\n", status: 400, sentence: "Host field is missing"},
	{name: "two Hosts", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n", status: 400, sentence: "2 Host fields"},
	{name: "Host with a space", request: "GET TARGET HTTP/1.1\r\nHost: HOST evil\r\n\r\n", status: 400, sentence: "Host field"},
	{name: "Host with a path", request: "GET TARGET HTTP/1.1\r\nHost: HOST/evil\r\n\r\n", status: 400, sentence: "Host field"},
	{name: "Host with a user", request: "GET TARGET HTTP/1.1\r\nHost: me@HOST\r\n\r\n", status: 400, sentence: "Host field"},

	{name: "two lengths", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", status: 400, sentence: "2 Content-Length fields"},
	{name: "the same length twice", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", status: 400, sentence: "2 Content-Length fields"},
	{name: "list of lengths", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3, 3\r\n\r\nabc", status: 400, sentence: `"3, 3"`},
	{name: "length with a sign", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: +3\r\n\r\nabc", status: 400, sentence: `"+3"`},
	{name: "negative length", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: -3\r\n\r\nabc", status: 400, sentence: `"-3"`},
	{name: "hexadecimal length", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0x3\r\n\r\nabc", status: 400, sentence: `"0x3"`},
	{name: "length that is too large", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999999999999\r\n\r\nabc", status: 400, sentence: "not a length"},
	{name: "empty length", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length:\r\n\r\nabc", status: 400, sentence: "not a length"},
	{name: "chunked and a length", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, sentence: "both"},
	{name: "chunked in HTTP/1.0", request: "POST TARGET HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, sentence: "HTTP/1.0"},
	{name: "Transfer-Encoding twice", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, sentence: "2 Transfer-Encoding fields"},
	{name: "Transfer_Encoding", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, sentence: "looks like another one"},
	{name: "Content_Length", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nContent_Length: 3\r\n\r\nabc", status: 400, sentence: "looks like another one"},
	{name: "Transfer-Encoding gzip", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", status: 501, sentence: `"gzip, chunked"`},
	{name: "Transfer-Encoding identity", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", status: 501, sentence: "not supported"},
	{name: "Transfer-Encoding xchunked", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", status: 501, sentence: "not supported"},
	{name: "Transfer-Encoding with VT", request: "POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\x0b\r\n\r\n0\r\n\r\n", status: 400, sentence: "control character"},

	{name: "TRACE", request: "TRACE TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 405, sentence: "TRACE"},
	{name: "long target", request: "GET TARGET" + strings.Repeat("x", 70_000) + " HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 414, sentence: "request target has 70"},
	{name: "target without end", request: "GET TARGET" + strings.Repeat("x", 140_000), status: 414, sentence: "request line is too long"},
	{name: "large fields", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: " + strings.Repeat("x", 70_000) + "\r\n\r\n", status: 431, sentence: "header fields have 70"},
	{name: "fields without end", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("X: y\r\n", 25_000), status: 431, sentence: "header fields"},
	{name: "300 fields", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("X: y\r\n", 300) + "\r\n", status: 431, sentence: "301 header fields"},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			overBoth(t, r.run)
		})
	}
}

func (r *refusal) run(x *scene) {
	target := "/path"
	if !x.https {
		target = "http://HOST/path"
	}
	request := strings.NewReplacer("TARGET", target).Replace(r.request)
	request = strings.ReplaceAll(request, "HOST", x.origin.authority)
	c := x.client()
	// What comes behind must not be taken for another request.
	c.trySend(request + "GET /smuggled HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n")
	x.refused(c.reply("GET"), r.status, r.sentence)
	c.rest()
	if n := x.origin.connections(); n > 0 {
		x.Errorf("the origin has had %d connections", n)
	}
	x.fine("/next")
}

// These can only be said to the proxy directly.
func TestDirectRefusals(t *testing.T) {
	t.Parallel()
	for _, r := range []refusal{
		{name: "ftp", request: "GET ftp://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"ftp"`},
		{name: "no scheme", request: "GET ://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "://"},
		{name: "no host", request: "GET http:///path HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "valid host"},
		{name: "port alone", request: "GET http://:80/path HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "valid host"},
		{name: "port 0", request: "GET http://127.0.0.1:0/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "port"},
		{name: "port 70000", request: "GET http://127.0.0.1:70000/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "port"},
		{name: "port that is a word", request: "GET http://127.0.0.1:http/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "port"},
		{name: "short IPv4", request: "GET http://127.1/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"127.1"`},
		{name: "hexadecimal IPv4", request: "GET http://0x7f000001/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"0x7f000001"`},
		{name: "decimal IPv4", request: "GET http://2130706433/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"2130706433"`},
		{name: "IPv6 zone", request: "GET http://[fe80::1%25lo]/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "zone"},
		{name: "unclosed IPv6", request: "GET http://[::1/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "valid host"},
		{name: "encoded line end in the host", request: "GET http://127.0.0.1%0d%0aX:80/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "host"},
		{name: "line end in the URL", request: "GET http://HOST/a\r\nX-Forged: yes HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "request line"},
		{name: "line feed in the URL", request: "GET http://HOST/a\nWARC-Type: forged HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "request line"},
		{name: "TLS", request: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", status: 400, sentence: "TLS where HTTP was expected"},
		{name: "CONNECT without a port", request: "CONNECT 127.0.0.1 HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"127.0.0.1"`},
		{name: "CONNECT to port 0", request: "CONNECT 127.0.0.1:0 HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "port"},
		{name: "CONNECT to a path", request: "CONNECT / HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"/"`},
		{name: "CONNECT to a URL", request: "CONNECT http://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: "HOST:PORT"},
		{name: "CONNECT with a body", request: "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc", status: 400, sentence: "cannot have a body"},
		{name: "CONNECT to a short IPv4", request: "CONNECT 127.1:80 HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400, sentence: `"127.1"`},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, false, func(*recordFlags) {})
			fill := strings.NewReplacer("HOST:PORT", "HOST:PORT", "Host: HOST", "Host: "+x.origin.authority, "HOST", x.origin.authority)
			c := x.client()
			c.send(fill.Replace(r.request))
			x.refused(c.reply("GET"), r.status, r.sentence)
			c.ends()
			x.fine("/next")
			x.finish()
		})
	}
}

// A CONNECT in a tunnel.
func TestConnectInTunnel(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	c := x.client()
	c.send("CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n")
	x.refused(c.reply("CONNECT"), 400, "CONNECT inside a tunnel")
	x.finish()
}

// When nothing can be recorded nothing is forwarded.
func TestRecordingHasStopped(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		x.fineOn(c, "/before")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := x.proxy.recorder.Close(ctx); err != nil {
			x.Fatal(err)
		}
		sent, _ := x.ask("GET", "/after", "")
		c.send(sent)
		x.refused(c.reply("GET"), 503, "shutting down")
		x.closePeers()
		if err := x.proxy.stop(ctx); err == nil || !strings.Contains(err.Error(), "closed already") {
			x.Errorf("stopping the proxy: %v", err)
		}
		x.proxy = nil
	})
}

// No line end gets into a record's header.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ target, path string }{
		"encoded in the path":  {"/%0d%0aWARC-Type:%20forged%0d%0a%0d%0a", "/%0d%0aWARC-Type:%20forged%0d%0a%0d%0a"},
		"C1 controls":          {"/\x85WARC-Type:forged\xc2\x85", "/%85WARC-Type:forged%C2%85"},
		"Unicode line ends":    {"/\xe2\x80\xa8WARC-Type:forged\xe2\x80\xa9", "/%E2%80%A8WARC-Type:forged%E2%80%A9"},
		"overlong UTF-8 CR LF": {"/\xc0\x8d\xc0\x8aWARC-Type:forged", "/%C0%8D%C0%8AWARC-Type:forged"},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.get(client, c.target)
				response := "HTTP/1.1 200 OK\r\nContent-Type: text/x\x85WARC-Type: forged\r\nWARC-Type: forged\r\nContent-Length: 3\r\n\r\ninj"
				o.send(response)
				x.got(client.reply("GET"), 200, "inj")
				x.want(wanted{uri: x.uri(c.path), request: request, response: response})
			})
		})
	}
}
