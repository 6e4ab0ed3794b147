package main

import (
	"fmt"
	"testing"
)

// An origin may send a 100 and hints in one piece to a client that waits for
// the former: whatever the client gets of them, it is not garbled.
func TestHintsBehindThe100(t *testing.T) {
	overBoth(t, func(x *scene) {
		for i := range 10 {
			c := x.client()
			sent, forwarded := x.ask("POST", "/upload", "Content-Length: 5\r\nExpect: 100-continue\r\n")
			c.send(sent)
			o := x.origin.next()
			head := o.upTo("\r\n\r\n")
			x.same("the head", head, forwarded)
			o.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")
			if got := c.replyHead(); got.head != "HTTP/1.1 100 Continue\r\n\r\n" {
				x.Fatalf("the client got %q, want a 100", got.head)
			}
			c.send("hello")
			x.same("the body", o.take(5), "hello")
			response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone%d", i)
			o.send(response)
			got := c.reply("POST")
			if got.status == 103 {
				x.same("the hints", got.head, "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")
				got = c.reply("POST")
			}
			x.got(got, 200, fmt.Sprint("done", i))
			x.want(wanted{uri: x.uri("/upload"), request: head + "hello", response: response})
			c.Close()
		}
	})
}
