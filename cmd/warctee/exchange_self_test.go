package main

import "testing"

// Nothing gets to the proxy through the proxy, also where it does not look at
// what is in a tunnel.
func TestTunnelToTheProxyItself(t *testing.T) {
	t.Parallel()
	t.Run("blind", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, false, func(f *recordFlags) { f.failureLog = "off" })
		c := x.tunnel(x.proxy.listener.Addr().String())
		go c.listen() // ends with stop
		c.send("\x00\x01binary")
		c.ends()
		x.finish()
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, false, func(*recordFlags) {})
		self := x.proxy.listener.Addr().String()
		c := x.tunnel(self)
		go c.listen() // ends with stop
		c.send("GET /status HTTP/1.1\r\nHost: " + self + "\r\n\r\n")
		if got := c.reply("GET"); got.status < 400 {
			x.Errorf("got status %d: %q", got.status, got.body)
		}
		x.failures(1)
		x.finish()
	})
}
