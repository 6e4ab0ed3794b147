package main

import "testing"

// A client that goes away before the head of an event stream is there is
// noticed all the same, when the stream begins or before.
func TestGoneBeforeTheEvents(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		o, request := x.get(c, "/events")
		c.reset()
		response := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
		o.send(response)
		o.ends()
		x.want(wanted{uri: x.uri("/events"), request: request, response: response, truncated: "disconnect"})
		x.fine("/next")
	})
}
