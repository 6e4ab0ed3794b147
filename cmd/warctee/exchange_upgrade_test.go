package main

import (
	"io"
	"testing"
)

const handshake = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

const switching = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\nX-Odd:  1\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

// upgrade makes a WebSocket, and sends what is given together with the
// handshakes.
func (x *scene) upgrade(withRequest, withReply string) (client, o *peer) {
	x.Helper()
	client = x.client()
	sent, forwarded := x.ask("GET", "/socket", handshake)
	client.send(sent + withRequest)
	o = x.origin.next()
	request := o.upTo("\r\n\r\n")
	x.same("the request", request, forwarded)
	o.send(switching + withReply)
	got := client.replyHead()
	if got.status != 101 || field(got.head, "Upgrade") != "WebSocket" || field(got.head, "Sec-WebSocket-Accept") == "" {
		x.Fatalf("the client got %q", got.head)
	}
	x.want(wanted{uri: x.uri("/socket"), request: request, response: switching})
	return client, o
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, withRequest, withReply string }{
		{"plain", "", ""},
		{"bytes together with the handshakes", "\x81\x85early", "\x81\x05first"},
		{"bytes that look like a request", "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client, o := x.upgrade(c.withRequest, c.withReply)
				x.same("what the origin got with the handshake", o.take(len(c.withRequest)), c.withRequest)
				x.same("what the client got with the handshake", client.take(len(c.withReply)), c.withReply)
				for range 3 {
					client.send("\x81\x84ping")
					x.same("what the origin got", o.take(6), "\x81\x84ping")
					o.send("\x81\x04pong")
					x.same("what the client got", client.take(6), "\x81\x04pong")
				}
				client.send("bye")
				client.Close()
				if rest, _ := o.rest(); rest != "bye" {
					x.Errorf("the origin got %q before the end", rest)
				}
			})
		})
	}
	t.Run("the origin closes", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			client, o := x.upgrade("", "")
			o.send("bye")
			o.Close()
			if rest, err := client.rest(); rest != "bye" || err != io.EOF {
				x.Errorf("the client got %q (%v) before the end", rest, err)
			}
		})
	})
	t.Run("two at once", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			client1, o1 := x.upgrade("", "")
			client2, o2 := x.upgrade("", "")
			client1.send("one")
			client2.send("two")
			x.same("what the origin got on the first", o1.take(3), "one")
			x.same("what the origin got on the second", o2.take(3), "two")
		})
	})
	// What comes with the handshake is not lost when there is no upgrade: the
	// connection goes on with HTTP.
	t.Run("refused", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			sent, forwarded := x.ask("GET", "/socket", handshake)
			c.send(sent)
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded)
			response := "HTTP/1.1 403 Forbidden\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno"
			o.send(response)
			x.got(c.reply("GET"), 403, "no")
			x.want(wanted{uri: x.uri("/socket"), request: request, response: response})
			x.fineOn(c, "/next")
		})
	})
	t.Run("cut", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			sent, _ := x.ask("GET", "/socket", handshake)
			c.send(sent)
			o := x.origin.next()
			o.request()
			o.Close()
			x.refused(c.reply("GET"), 502, "closed the connection")
			x.fine("/next")
		})
	})
}

// Other protocols than WebSocket are not offered to the origin: it could
// switch to what is not relayed.
func TestOtherUpgrades(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"h2c":            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"TLS":            "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n",
		"not by hop":     "Upgrade: websocket\r\n",
		"something else": "upgrade: foo/2\r\nconnection: upgrade\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				sent, _ := x.ask("GET", "/", fields+"X-End: 1\r\n")
				_, forwarded := x.ask("GET", "/", "X-End: 1\r\n")
				c.send(sent)
				o := x.origin.next()
				request := o.request()
				x.same("the request", request, forwarded)
				response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
				o.send(response)
				x.got(c.reply("GET"), 200, "ok")
				x.want(wanted{uri: x.uri("/"), request: request, response: response})
				x.fineOn(c, "/next")
			})
		})
	}
}
