package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A WebSocket whose client takes nothing does not keep the proxy from
// stopping.
func TestStopWithStalledWebSocket(t *testing.T) {
	t.Parallel()
	x := newScene(t, false, func(*recordFlags) {})
	c := x.direct() // and nobody reads
	sent, forwarded := x.ask("GET", "/socket", handshake)
	c.send(sent)
	o := x.origin.next()
	request := o.upTo("\r\n\r\n")
	x.same("the request", request, forwarded)
	o.send(switching)
	for frames := strings.Repeat("frame", 20_000); ; { // until all buffers are full
		o.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := o.Write([]byte(frames)); err != nil {
			break
		}
	}
	stopped := make(chan error, 1)
	s := x.proxy
	x.proxy = nil
	go func() { stopped <- s.stop(context.Background()) }() // ends at once
	select {
	case err := <-stopped:
		if err != nil {
			x.Errorf("stopping the proxy: %v", err)
		}
	case <-time.After(patience):
		x.Error("the proxy does not stop")
		x.closePeers()
		<-stopped
	}
	o.rest()
	x.closePeers()
	x.want(wanted{uri: x.uri("/socket"), request: request, response: switching})
	x.finish()
}
