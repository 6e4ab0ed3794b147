package main

import (
	"strings"
	"testing"
	"time"
)

// Past --max-body nothing is recorded; everybody gets everything all the same.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	const kept = "0123456789"
	limited := func(f *recordFlags) { f.maxBody = sizeFlag(len(kept)) }
	for _, c := range []struct {
		name, fields, body, recorded string // of the response
		close                        bool
	}{
		{name: "length", fields: "Content-Length: 15\r\n", body: kept + "abcde", recorded: kept},
		{name: "chunked", fields: "Transfer-Encoding: chunked\r\n", body: "f\r\n" + kept + "abcde\r\n0\r\n\r\n", recorded: "f\r\n" + kept[:7]},
		{name: "close-delimited", fields: "X: y\r\n", body: kept + "abcde", recorded: kept, close: true},
	} {
		t.Run("response/"+c.name, func(t *testing.T) {
			overBothWith(t, limited, func(x *scene) {
				head := "HTTP/1.1 200 OK\r\n" + c.fields + "\r\n"
				// Twice: what was cut must not become the original of a revisit.
				for range 2 {
					client := x.client()
					o, request := x.get(client, "/")
					o.send(head + c.body)
					if c.close {
						o.Close()
					}
					x.got(client.reply("GET"), 200, kept+"abcde")
					x.want(wanted{uri: x.uri("/"), request: request, response: head + c.recorded, truncated: "length"})
				}
			})
		})
	}
	t.Run("response/as long as allowed", func(t *testing.T) {
		overBothWith(t, limited, func(x *scene) {
			client := x.client()
			o, request := x.get(client, "/")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + kept
			o.send(response)
			x.got(client.reply("GET"), 200, kept)
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		})
	})
	for _, c := range []struct{ name, fields, body, recorded string }{
		{"length", "Content-Length: 15\r\n", kept + "abcde", kept},
		{"chunked", "Transfer-Encoding: chunked\r\n", "f\r\n" + kept + "abcde\r\n0\r\n\r\n", "f\r\n" + kept[:7]},
	} {
		t.Run("request/"+c.name, func(t *testing.T) {
			overBothWith(t, limited, func(x *scene) {
				client := x.client()
				sent, forwarded := x.ask("POST", "/", c.fields)
				client.send(sent + c.body)
				o := x.origin.next()
				x.same("the request", o.request(), forwarded+c.body)
				response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
				o.send(response)
				x.got(client.reply("POST"), 200, "up")
				x.want(wanted{uri: x.uri("/"), request: forwarded + c.recorded, requestTruncated: "length", response: response})
			})
		})
	}
	// A client that goes away lets nobody fetch what would not be recorded.
	t.Run("client gone", func(t *testing.T) {
		overBothWith(t, limited, func(x *scene) {
			client := x.client()
			o, request := x.get(client, "/")
			head := "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
			o.send(head + kept + "abc")
			client.upTo("abc")
			client.reset()
			part := strings.Repeat("0123456789abcdef", 512)
			for start := time.Now(); o.trySend(part) == nil; {
				if time.Since(start) > patience {
					x.Fatal("the proxy goes on reading a response that nobody reads")
				}
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: head + kept, truncated: "length"})
		})
	})
}

// --timeout bounds silence.
func TestTimeout(t *testing.T) {
	t.Parallel()
	short := func(f *recordFlags) { f.timeout = shortTimeout }
	t.Run("before the reply", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, _ := x.get(c, "/silent")
			x.refused(c.reply("GET"), 504, "in time")
			o.ends()
			x.failures(1)
			x.fine("/next")
		})
	})
	t.Run("in the head", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/silent")
			o.send("HTTP/1.1 200 OK\r\nX-Half")
			x.refused(c.reply("GET"), 504, "in time")
			o.ends()
			x.want(wanted{uri: x.uri("/silent"), request: request, response: "HTTP/1.1 200 OK\r\nX-Half", instead: true, truncated: "time"})
			x.fine("/next")
		})
	})
	for name, c := range map[string]struct{ fields, body, entity string }{
		"length":          {"Content-Length: 10\r\n", "half", "half"},
		"chunked":         {"Transfer-Encoding: chunked\r\n", "4\r\nhalf\r\n", "half"},
		"close-delimited": {"X: y\r\n", "half", "half"},
	} {
		t.Run("in the body/"+name, func(t *testing.T) {
			overBothWith(t, short, func(x *scene) {
				client := x.client()
				o, request := x.get(client, "/half")
				response := "HTTP/1.1 200 OK\r\n" + c.fields + "\r\n" + c.body
				o.send(response)
				x.gotCut(client.reply("GET"), c.entity)
				client.ends()
				o.ends()
				x.want(wanted{uri: x.uri("/half"), request: request, response: response, truncated: "time"})
				x.fine("/next")
			})
		})
	}
	t.Run("TLS handshake", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, short)
		x.origin = x.newOrigin("127.0.0.1:0", false) // says nothing
		c := x.client()
		sent, _ := x.ask("GET", "/", "")
		c.send(sent)
		x.refused(c.reply("GET"), 504, "no TLS connection with "+x.origin.authority)
		x.origin.next().rest()
		x.finish()
	})
	t.Run("client in the upload", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			sent, forwarded := x.ask("POST", "/", "Content-Length: 10\r\n")
			c.send(sent + "half")
			o := x.origin.next()
			x.same("the request", o.take(len(forwarded)+4), forwarded+"half")
			x.refused(c.reply("POST"), 408, "stopped sending")
			o.ends()
			x.fine("/next")
		})
	})
	// It is no bound on the whole.
	t.Run("long, but never silent", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/long")
			response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			o.send(response)
			entity := ""
			for start := time.Now(); time.Since(start) < 2*x.flags.timeout; {
				o.send("1\r\n.\r\n")
				x.waitToGet(c, "1\r\n.\r\n")
				response += "1\r\n.\r\n"
				entity += "."
				time.Sleep(x.flags.timeout / 20) // what is tested is time
			}
			o.send("0\r\n\r\n")
			x.got(c.reply("GET"), 200, entity)
			x.want(wanted{uri: x.uri("/long"), request: request, response: response + "0\r\n\r\n"})
		})
	})
	// Event streams may be silent, after the head.
	t.Run("event stream", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			silent, events := x.client(), x.client()
			o, request := x.get(events, "/events")
			response := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
			o.send(response)
			events.upTo("data: 1\n\n")
			// Another exchange that takes as long as the time-out, twice.
			for range 2 {
				x.get(silent, "/silent")
				x.refused(silent.reply("GET"), 504, "in time")
			}
			o.send("data: 2\n\n")
			o.Close()
			events.upTo("data: 2\n\n")
			x.want(wanted{uri: x.uri("/events"), request: request, response: response + "data: 2\n\n"})
		})
	})
}
