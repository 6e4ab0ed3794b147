package main

import (
	"strings"
	"testing"
)

// A request whose body nobody wanted must not end the connection in disorder,
// nor be taken for the next request.
func TestFailedPosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, fields, body string }{
		{"length", "Content-Length: 10\r\n", "0123456789"},
		{"chunked", "Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\n\r\n"},
		{"like a request", "Content-Length: 44\r\n", "GET http://127.0.0.1:1/smuggled HTTP/1.1\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newScene(t, false, anyPort)
			client := x.client()
			for range 3 {
				client.send("POST http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + c.fields + "\r\n" + c.body)
				x.refused(client.reply("POST"), 502, "cannot connect to 127.0.0.1:1")
			}
			x.fineOn(client, "/next")
			x.failures(3)
			x.finish()
			if log := x.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "smuggled") {
				t.Errorf("the log says %s", log)
			}
		})
	}
	// A body that never comes whole ends the connection, not the proxy.
	t.Run("cut", func(t *testing.T) {
		x := newScene(t, false, anyPort)
		client := x.client()
		client.send("POST http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: 100\r\n\r\nGET http://127.0.0.1:1/smuggled HTTP/1.1\r\n")
		x.refused(client.reply("POST"), 502, "cannot connect to 127.0.0.1:1")
		client.ends()
		x.failures(1)
		x.finish()
		if log := x.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "smuggled") {
			t.Errorf("the log says %s", log)
		}
	})
}
