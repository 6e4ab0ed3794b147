package main

import (
	"fmt"
	"strings"
	"testing"
)

// A reply that begins while a long upload is on its way takes nothing from it:
// the origin gets every octet, whenever it comes.
func TestReplyOvertakesUpload(t *testing.T) {
	t.Parallel()
	const parts = 400
	var all strings.Builder
	chunks := make([]string, parts)
	for i := range chunks {
		part := strings.Repeat(fmt.Sprintf("%08d", i), 125)
		all.WriteString(part)
		chunks[i] = fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
	}
	entity := all.String()
	length := fmt.Sprintf("Content-Length: %d\r\n", len(entity))
	const chunked = "Transfer-Encoding: chunked\r\n"
	end := strings.Join(chunks[1:], "") + "0\r\n\r\n"
	for name, c := range map[string]struct {
		fields, first, rest string
		waits               bool // for the reply, before it sends the rest
	}{
		"length":           {length, entity[:1000], entity[1000:], true},
		"length, at once":  {length, entity[:1000], entity[1000:], false},
		"chunked":          {chunked, chunks[0], end, true},
		"chunked, at once": {chunked, chunks[0], end, false},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.uploading(client, c.fields, c.first, c.first)
				head := request[:len(request)-len(c.first)]
				sent := make(chan error, 1)
				send := func() { sent <- client.trySend(c.rest) } // ends when the origin has it, or with the connection
				if !c.waits {
					go send()
				}
				o.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
				x.waitToGet(client, "first")
				if c.waits {
					go send()
				}
				if err := <-sent; err != nil {
					x.Errorf("the client cannot send the rest: %v", err)
				}
				o.put(c.first)
				raw, got, whole := o.body(head)
				if !whole {
					x.Error("the origin did not get the end of the upload")
				}
				x.same("the upload that the origin got", got, entity)
				o.send("4\r\nlast\r\n0\r\n\r\n")
				x.got(client.reply("POST"), 200, "firstlast")
				x.want(wanted{uri: x.uri("/upload"), request: head + raw, response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n"})
				x.fine("/next")
			})
		})
	}
}

// put gives back what was taken.
func (p *peer) put(s string) {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	p.in = append([]byte(s), p.in...)
}

// What is left of an upload whose reply was whole before it is not taken for
// another request.
func TestRestOfUploadIsNoRequest(t *testing.T) {
	overBoth(t, func(x *scene) {
		client := x.client()
		o, request := x.uploading(client, "Content-Length: 1000000\r\n", "first", "first")
		response := "HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much"
		o.send(response)
		x.got(client.reply("POST"), 413, "too much")
		// More than is read of it without need, in front of it.
		smuggled, _ := x.ask("GET", "/smuggled", "")
		client.trySend(strings.Repeat("\r\n", 128<<10) + strings.Repeat(smuggled, 100)) // or the connection is closed by then
		o.rest()
		x.want(wanted{uri: x.uri("/upload"), request: request, response: response, requestTruncated: "disconnect"})
		client.rest()
		x.fine("/next")
	})
}
