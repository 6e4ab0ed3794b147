package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What arrives is passed on before anything else arrives: each step of these
// tests follows on the one before.
func TestArrivesAsSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, head, pattern, end string
		close                    bool
	}{
		{name: "server-sent events", head: "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n", pattern: "data: %d\n\n", close: true},
		{name: "server-sent events, chunked", head: "content-type: Text/Event-Stream;charset=utf-8\r\nTransfer-Encoding: chunked\r\n", pattern: "9\r\ndata: %d\n\n\r\n", end: "0\r\n\r\n"},
		{name: "chunked trickle", head: "Transfer-Encoding: chunked\r\n", pattern: "2\r\n%d.\r\n", end: "0\r\n\r\n"},
		{name: "trickle of known length", head: "Content-Length: 10\r\n", pattern: "%d;"},
		{name: "close-delimited trickle", head: "X: y\r\n", pattern: "%d\n", close: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.get(client, "/stream")
				response := "HTTP/1.1 200 OK\r\n" + c.head + "\r\n"
				o.send(response)
				head := client.replyHead()
				entity := ""
				for i := range 5 {
					part := fmt.Sprintf(c.pattern, i)
					o.send(part)
					response += part
					if lines := strings.SplitAfterN(part, "\r\n", 2); strings.Contains(c.head, "chunked") {
						part = strings.TrimSuffix(lines[1], "\r\n")
					}
					entity += part
					x.waitToGet(client, part)
				}
				o.send(c.end)
				if c.close {
					o.Close()
				}
				_, got, whole := client.body(head.head)
				if !whole {
					x.Error("the client did not get the end")
				}
				x.same("the body that the client got", got, entity)
				x.want(wanted{uri: x.uri("/stream"), request: request, response: response + c.end})
			})
		})
	}
}

// The slowest of origins: octet by octet, with nothing to tell where the head
// and the framing end.
func TestOctetByOctet(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		o, request := x.get(c, "/drip")
		response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n"
		for i := range len(response) {
			o.send(response[i : i+1])
		}
		x.got(c.reply("GET"), 200, "hello")
		x.want(wanted{uri: x.uri("/drip"), request: request, response: response})
	})
}

func TestInterimResponses(t *testing.T) {
	t.Run("103", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/hints")
			o.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n")
			hints := c.replyHead()
			if hints.status != 103 || field(hints.head, "Link") != "</a.css>; rel=preload" || field(hints.head, "X-Hop") != "" {
				x.Errorf("the client got %q instead of the hints", hints.head)
			}
			response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhints"
			o.send("HTTP/1.1 103 Early Hints\r\nX-More: 1\r\n\r\n" + response)
			if more := c.replyHead(); more.status != 103 || field(more.head, "X-More") != "1" || field(more.head, "Link") != "" {
				x.Errorf("the client got %q instead of the second hints", more.head)
			}
			got := c.reply("GET")
			x.got(got, 200, "hints")
			if field(got.head, "X-More")+field(got.head, "Link") != "" {
				x.Errorf("fields of the hints are in the response: %q", got.head)
			}
			x.want(wanted{uri: x.uri("/hints"), request: request, response: response})
			x.fineOn(c, "/next")
		})
	})
	t.Run("100 that nobody waits for", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n100"
			o.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 \r\nX: y\r\n\r\n" + response)
			x.got(c.reply("GET"), 200, "100")
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		})
	})
	t.Run("HTTP/1.0 client", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			sent, forwarded := x.ask("GET", "/", "")
			c.send(strings.Replace(sent, " HTTP/1.1", " HTTP/1.0", 1))
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded)
			response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n0\r\n\r\n"
			o.send("HTTP/1.1 103 Early Hints\r\n\r\n" + response)
			got := c.replyHead()
			if got.status != 200 || field(got.head, "Transfer-Encoding") != "" {
				x.Errorf("the HTTP/1.0 client got %q", got.head)
			}
			if body, err := c.rest(); body != "old" {
				x.Errorf("the HTTP/1.0 client got the body %q (%v)", body, err)
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		})
	})
}

// A client that waits for a 100 gets it when the origin has sent it.
func TestExpectContinue(t *testing.T) {
	for name, body := range map[string]struct{ fields, body string }{
		"length":  {"Content-Length: 5\r\n", "hello"},
		"chunked": {"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"},
	} {
		t.Run("accepted/"+name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				sent, forwarded := x.ask("POST", "/upload", body.fields+"Expect: 100-continue\r\n")
				c.send(sent)
				o := x.origin.next()
				head := o.upTo("\r\n\r\n")
				x.same("the head", head, forwarded)
				o.send("HTTP/1.1 100 Continue\r\n\r\n")
				if got := c.replyHead(); got.status != 100 {
					x.Fatalf("the client got %q, want a 100", got.head)
				}
				c.send(body.body)
				raw, entity, whole := o.body(head)
				if entity != "hello" || !whole {
					x.Errorf("the origin got the body %q", raw)
				}
				response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
				o.send(response)
				x.got(c.reply("POST"), 200, "done")
				x.want(wanted{uri: x.uri("/upload"), request: head + raw, response: response})
				x.fineOn(c, "/next")
			})
		})
		for status, reason := range map[int]string{417: "Expectation Failed", 401: "Unauthorized"} {
			t.Run(fmt.Sprintf("refused with %d/%s", status, name), func(t *testing.T) {
				overBoth(t, func(x *scene) {
					c := x.client()
					sent, forwarded := x.ask("POST", "/upload", body.fields+"Expect: 100-continue\r\n")
					c.send(sent)
					o := x.origin.next()
					head := o.upTo("\r\n\r\n")
					x.same("the head", head, forwarded)
					response := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: 2\r\n\r\nno", status, reason)
					o.send(response)
					// What the client gets first is no 100: it was not asked
					// for the body.
					x.got(c.reply("POST"), status, "no")
					o.ends()
					x.want(wanted{uri: x.uri("/upload"), request: head, response: response, requestTruncated: "disconnect"})
					x.fine("/next")
				})
			})
		}
	}
	// An origin that knows nothing of it gets the body after a while.
	t.Run("ignored", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			sent, forwarded := x.ask("POST", "/upload", "Content-Length: 5\r\nExpect: 100-continue\r\n")
			c.send(sent)
			if got := c.replyHead(); got.status != 100 {
				x.Fatalf("the client got %q, want a 100", got.head)
			}
			c.send("hello")
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded+"hello")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsilly"
			o.send(response)
			x.got(c.reply("POST"), 200, "silly")
			x.want(wanted{uri: x.uri("/upload"), request: request, response: response})
		})
	})
}

// What is left of a response whose client has gone is fetched when it is known
// to be little.
func TestClientGone(t *testing.T) {
	t.Run("known length", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/download")
			// Long enough for the proxy to notice, short enough to be fetched.
			const parts = 200
			part := strings.Repeat("0123456789abcdef", 4096)
			response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", parts*len(part)) + strings.Repeat(part, parts)
			at := len(response) - (parts-1)*len(part)
			o.send(response[:at])
			c.upTo("0123456789abcdef")
			c.reset()
			for ; at < len(response); at += len(part) {
				o.send(response[at : at+len(part)])
			}
			x.want(wanted{uri: x.uri("/download"), request: request, response: response})
			x.fine("/next")
		})
	})
	t.Run("known length, more than is worth it", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			x.goneInTheMiddle("Content-Length: 1000000000\r\n", "")
		})
	})
	t.Run("chunked", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			x.goneInTheMiddle("Transfer-Encoding: chunked\r\n", "2000\r\n")
		})
	})
	t.Run("close-delimited", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			x.goneInTheMiddle("X: y\r\n", "")
		})
	})
	// Of a stream that has nothing to tell the end is noticed all the same.
	t.Run("silent event stream", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/events")
			response := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
			o.send(response)
			c.upTo("data: 1\n\n")
			c.Close()
			o.ends()
			x.want(wanted{uri: x.uri("/events"), request: request, response: response, truncated: "disconnect"})
			x.fine("/next")
		})
	})
	// A client that has nothing more to say is not gone (RFC 9112 §9.6).
	t.Run("half-close", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/half")
			if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				x.Fatal(err)
			}
			response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf"
			o.send(response)
			x.got(c.reply("GET"), 200, "half")
			x.want(wanted{uri: x.uri("/half"), request: request, response: response})
		})
	})
	t.Run("before the reply", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/early")
			c.reset()
			response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly"
			o.send(response)
			x.want(wanted{uri: x.uri("/early"), request: request, response: response})
			x.fine("/next")
		})
	})
}

// goneInTheMiddle sends a body without end to a client that goes away: the
// proxy gives the connection up.
func (x *scene) goneInTheMiddle(fields, before string) {
	x.Helper()
	part := before + strings.Repeat("0123456789abcdef", 512)
	if before != "" {
		part += "\r\n"
	}
	c := x.client()
	o, request := x.get(c, "/endless")
	response := "HTTP/1.1 200 OK\r\n" + fields + "\r\n" + part
	o.send(response)
	seen := len(response)
	c.upTo("0123456789abcdef")
	c.reset()
	for start := time.Now(); ; {
		if o.trySend(part) != nil {
			break
		}
		response += part
		if time.Since(start) > patience || len(response) > 200<<20 {
			x.Fatal("the proxy goes on reading a response that nobody reads")
		}
	}
	x.want(wanted{uri: x.uri("/endless"), request: request, response: response + part, atLeast: seen, truncated: "disconnect"})
	x.fine("/next")
}
