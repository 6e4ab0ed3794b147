package main

import (
	"fmt"
	"strings"
	"testing"
)

// A broken is an exchange in which the origin does not do what it should.
type broken struct {
	name  string
	reply string // what the origin sends before it ends the connection
	reset bool   // by a reset, behind what the client has got already

	status    int    // of the answer of the proxy itself; 0: the client gets a part of the response
	sentence  string // in that answer
	entity    string // of the response, what the client gets
	truncated string // the reason in the record; where there is no response, in that of what came instead
}

var brokens = []broken{
	{name: "empty reply", status: 502, sentence: "closed the connection"},
	{name: "reset instead of a reply", reset: true, status: 502, sentence: "connection reset"},
	{name: "closed behind an interim response", reply: "HTTP/1.1 103 Early Hints\r\n\r\n", status: 502, sentence: "closed the connection"},
	{name: "closed in the head", reply: "HTTP/1.1 200 OK\r\nContent-Le", status: 502, sentence: "middle of its head", truncated: "disconnect"},
	{name: "malformed status line", reply: "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", status: 502, sentence: `status "2x0"`, truncated: "unspecified"},
	{name: "status of two digits", reply: "HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n", status: 502, sentence: `status "99"`, truncated: "unspecified"},
	{name: "status of four digits", reply: "HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n", status: 502, sentence: `status "1000"`, truncated: "unspecified"},
	{name: "no status", reply: "HTTP/1.1\r\nContent-Length: 0\r\n\r\n", status: 502, sentence: "not valid HTTP/1.1", truncated: "unspecified"},
	{name: "HTTP/2 in clear", reply: "HTTP/2 200\r\nContent-Length: 0\r\n\r\n", status: 502, sentence: "not valid HTTP/1.1", truncated: "unspecified"},
	{name: "HTTP/0.9", reply: "<html>hello</html>\r\n", status: 502, sentence: `"<html>hello`, truncated: "unspecified"},
	{name: "ICY", reply: "ICY 200 OK\r\n\r\nmusic", status: 502, sentence: "not valid HTTP/1.1", truncated: "unspecified"},
	{name: "garbage that starts like HTTP", reply: "http garbage\r\n\r\n", status: 502, sentence: "http garbage", truncated: "unspecified"},
	{name: "two lengths", reply: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", status: 502, sentence: "two lengths, 3 and 4", truncated: "unspecified"},
	{name: "negative length", reply: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", status: 502, sentence: `"-1"`, truncated: "unspecified"},
	{name: "length that is too large", reply: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", status: 502, sentence: "not a length", truncated: "unspecified"},
	{name: "unknown transfer-coding", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", status: 502, sentence: `"gzip"`, truncated: "unspecified"},
	{name: "chunked twice", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", status: 502, sentence: `"chunked"`, truncated: "unspecified"},
	{name: "NUL in the head", reply: "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", status: 502, sentence: "NUL", truncated: "unspecified"},
	{name: "CR in the head", reply: "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n", status: 502, sentence: "a CR that does not end a line", truncated: "unspecified"},
	{name: "head without end", reply: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1100), status: 502, sentence: "head has more than", truncated: "length"},
	{name: "interim responses without end", reply: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("y", 1000)+"\r\n\r\n", 1100), status: 502, sentence: "interim responses", truncated: "unspecified"},
	{name: "101 that was not asked for", reply: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", status: 502, sentence: "protocol that was not asked for", truncated: "unspecified"},

	{name: "early close", reply: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", entity: "four", truncated: "disconnect"},
	{name: "close behind the head", reply: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", truncated: "disconnect"},
	{name: "reset in the body", reset: true, reply: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nreset", entity: "reset", truncated: "disconnect"},
	{name: "reset in a close-delimited body", reset: true, reply: "HTTP/1.1 200 OK\r\n\r\nresets", entity: "resets", truncated: "disconnect"},
	{name: "aborted chunked, in a chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabo", entity: "abo", truncated: "disconnect"},
	{name: "aborted chunked, between chunks", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabort\r\n", entity: "abort", truncated: "disconnect"},
	{name: "aborted chunked, in the trailer", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntrail\r\n0\r\nX: y\r\n", entity: "trail", truncated: "disconnect"},
	{name: "aborted chunked with a length", reply: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", entity: "abc", truncated: "disconnect"},
	{name: "bad chunk size", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nworld\r\n0\r\n\r\n", entity: "hello", truncated: "unspecified"},
	{name: "chunk size with a prefix", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", truncated: "unspecified"},
	{name: "negative chunk size", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", truncated: "unspecified"},
	{name: "chunk size that is too large", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", truncated: "unspecified"},
	{name: "chunk longer than its size", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n", entity: "hell", truncated: "unspecified"},
}

func TestBrokenReplies(t *testing.T) {
	t.Parallel()
	for _, b := range brokens {
		t.Run(b.name, func(t *testing.T) {
			overBoth(t, b.run)
		})
	}
}

func (b *broken) run(x *scene) {
	c := x.client()
	o, request := x.get(c, "/broken")
	err := o.trySend(b.reply)
	if err != nil && b.status == 0 {
		x.Fatal(err)
	}
	var got reply
	if b.reset {
		// Behind the reset nobody may get what came before it.
		if b.reply != "" {
			got = c.replyHead()
			if b.entity != "" {
				x.waitToGet(c, b.entity)
			}
		}
		o.reset()
	} else {
		o.Close()
	}
	for got.head == "" || 100 <= got.status && got.status < 200 {
		got = c.replyHead()
	}
	raw, entity, whole := c.body(got.head)
	got.body, got.whole = entity, whole
	if b.status != 0 {
		x.refused(got, b.status, b.sentence)
		x.failures(1)
		if b.truncated != "" {
			x.want(wanted{uri: x.uri("/broken"), request: request, response: b.reply, instead: true, atLeast: 1, truncated: b.truncated})
		}
	} else {
		x.gotCut(got, b.entity)
		if strings.HasSuffix(raw, "0\r\n\r\n") {
			x.Errorf("the client got a last chunk: %q", raw)
		}
		c.ends()
		x.want(wanted{uri: x.uri("/broken"), request: request, response: b.reply, truncated: b.truncated})
	}
	if next := x.fine("/next"); next == o {
		x.Error("the proxy has used the connection again")
	}
}

// waitToGet waits until something has come, and does not take it.
func (x *scene) waitToGet(p *peer, s string) {
	x.Helper()
	p.waitFor(s, func() bool { return strings.Contains(string(p.in), s) })
}

// What comes behind the end of a message belongs to no message: it is neither
// delivered nor recorded, and the connection has lost its place.
func TestBytesPastTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, reply, extra string
		status                     int
		entity                     string
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "defg", 200, "abc"},
		{"a response of its own", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", 200, "abc"},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "\r\n0\r\n\r\n", 200, "abc"},
		{"empty", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "x", 200, ""},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "body", 200, ""},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "body", 204, ""},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", "body", 304, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				sent, forwarded := x.ask(c.method, "/", "")
				client.send(sent)
				o := x.origin.next()
				request := o.request()
				x.same("the request", request, forwarded)
				o.send(c.reply + c.extra)
				x.got(client.reply(c.method), c.status, c.entity)
				x.want(wanted{uri: x.uri("/"), request: request, response: c.reply})
				// The proxy gives the connection up, not only for this client.
				o.ends()
				x.fineOn(client, "/next")
				if !strings.Contains(x.log.String(), "bytes past the end") {
					x.Error("the log does not mention it")
				}
			})
		})
	}
}

// A connection that the origin closes while nothing is under way costs nobody
// anything.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		t.Run("noticed/"+method, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				old := x.fineOn(c, "/first")
				x.closeIdle(old)
				x.upload(c, method, "/second", "again", old)
			})
		})
		t.Run("says so/"+method, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				old := x.fineOn(c, "/first")
				old.send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				old.ends() // the proxy closes it
				x.upload(c, method, "/second", "again", old)
			})
		})
	}
	t.Run("reset/GET", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			old := x.reusable(c)
			old.reset()
			x.upload(c, "GET", "/second", "", old)
		})
	})
	// An origin that closes just when the request comes may have acted on it:
	// only what can be repeated is sent again (RFC 9110 §9.2.2).
	t.Run("unnoticed/GET", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			old := x.reusable(c)
			o, request := x.get(c, "/second")
			if o != old {
				x.Fatal("the connection was not used again")
			}
			old.Close()
			again := x.origin.newConn(old)
			x.same("the repeated request", again.request(), request)
			response := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
			again.send(response)
			x.got(c.reply("GET"), 200, "second")
			x.want(wanted{uri: x.uri("/second"), request: request, response: response})
			x.failures(0)
		})
	})
	for name, body := range map[string]string{"POST": "once", "POST without a body": ""} {
		t.Run("unnoticed/"+name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				old := x.reusable(c)
				sent, forwarded := x.ask("POST", "/second", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
				c.send(sent + body)
				if o := x.origin.next(); o != old {
					x.Fatal("the connection was not used again")
				}
				x.same("the request", old.request(), forwarded+body)
				old.Close()
				x.refused(c.reply("POST"), 502, "closed the connection")
				x.failures(1)
				x.fine("/third")
				if n := x.origin.connections(); n != 2 {
					x.Errorf("the origin has had %d connections, want 2", n)
				}
			})
		})
	}
	t.Run("unnoticed, in the reply/GET", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			old := x.reusable(c)
			_, request := x.get(c, "/second")
			old.send("HTTP/1.1 200 ")
			old.Close()
			x.refused(c.reply("GET"), 502, "middle of its head")
			x.want(wanted{uri: x.uri("/second"), request: request, response: "HTTP/1.1 200 ", instead: true, truncated: "disconnect"})
			x.fine("/third")
		})
	})
}

// reusable makes an exchange after which the connection is used again for
// sure: the client gets the end of the body when the pool has it.
func (x *scene) reusable(c *peer) *peer {
	x.Helper()
	o, request := x.get(c, "/chunked")
	response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nreusable\r\n0\r\n\r\n"
	o.send(response)
	x.got(c.reply("GET"), 200, "reusable")
	x.want(wanted{uri: x.uri("/chunked"), request: request, response: response})
	return o
}

// closeIdle closes an idle connection and waits until the proxy has closed its
// end too.
func (x *scene) closeIdle(o *peer) {
	x.Helper()
	half, ok := o.Conn.(interface{ CloseWrite() error })
	if !ok {
		x.Fatalf("%T cannot close one direction", o.Conn)
	}
	if err := half.CloseWrite(); err != nil {
		x.Fatal(err)
	}
	o.ends()
}

// upload makes an exchange with a body, or a GET, on a new connection.
func (x *scene) upload(c *peer, method, target, body string, old *peer) {
	x.Helper()
	fields := ""
	if method == "GET" {
		body = ""
	} else {
		fields = "Content-Length: 5\r\n"
	}
	sent, forwarded := x.ask(method, target, fields)
	c.send(sent + body)
	o := x.origin.newConn(old)
	request := o.request()
	x.same("the request", request, forwarded+body)
	response := "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nanother"
	o.send(response)
	x.got(c.reply(method), 200, "another")
	x.want(wanted{uri: x.uri(target), request: request, response: response})
}
