package main

import (
	"net"
	"strings"
	"testing"
)

// What is not TLS in a tunnel is recorded as http.
func TestPlainHTTPInTunnel(t *testing.T) {
	t.Parallel()
	x := newScene(t, false, func(*recordFlags) {})
	c := x.tunnel(x.origin.authority)
	go c.listen() // ends with stop
	for _, target := range []string{"/1", "/2"} {
		head := "GET " + target + " HTTP/1.1\r\nhost: " + x.origin.authority + "\r\n\r\n"
		c.send(head)
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, head)
		response := "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ntunnel" + target
		o.send(response)
		x.got(c.reply("GET"), 200, "tunnel"+target)
		x.want(wanted{uri: x.uri(target), request: request, response: response})
	}
	c.send("GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n")
	x.refused(c.reply("GET"), 421, `"elsewhere.example"`)
	c.ends()
	x.finish()
}

func TestIPv6(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here: ", err)
	} else {
		l.Close()
	}
	overBoth(t, func(x *scene) {
		x.origin = x.newOrigin("[::1]:0", x.https)
		if !strings.HasPrefix(x.origin.authority, "[::1]:") {
			x.Fatalf("the origin's authority is %s", x.origin.authority)
		}
		c := x.client()
		o, request := x.get(c, "/six")
		response := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nsix"
		o.send(response)
		x.got(c.reply("GET"), 200, "six")
		x.want(wanted{uri: x.uri("/six"), request: request, response: response, ip: "::1"})
	})
}

// The CONNECT decides where requests go, not what is said inside.
func TestMisdirectedRequest(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"another host":          "GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
		"another port":          "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"another absolute host": "GET https://elsewhere.example/ HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n",
		"another scheme":        "GET http://AUTHORITY/ HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(*recordFlags) {})
			c := x.client()
			c.send(strings.ReplaceAll(request, "AUTHORITY", x.origin.authority))
			x.refused(c.reply("GET"), 421, "the tunnel")
			c.ends()
			x.fine("/next")
			x.finish()
		})
	}
	t.Run("no host at all", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, func(*recordFlags) {})
		c := x.client()
		c.send("GET / HTTP/1.0\r\n\r\n")
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, "GET / HTTP/1.1\r\nHost: "+x.origin.authority+"\r\n\r\n")
		response := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold"
		o.send(response)
		x.got(c.reply("GET"), 200, "old")
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
		x.finish()
	})
}

// What comes together with the CONNECT is not lost.
func TestBytesBehindConnect(t *testing.T) {
	t.Parallel()
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, false, func(*recordFlags) {})
		c := x.direct()
		go c.listen() // ends with stop
		head := "GET /early HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n"
		c.send("CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n" + head)
		if got := c.replyHead(); got.status != 200 {
			x.Fatalf("CONNECT: got %q", got.head)
		}
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, head)
		response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly"
		o.send(response)
		x.got(c.reply("GET"), 200, "early")
		x.want(wanted{uri: x.uri("/early"), request: request, response: response})
		x.finish()
	})
	t.Run("https", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, func(*recordFlags) {})
		c := x.direct()
		c.Conn = &eagerConn{Conn: c.Conn, first: "CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n"}
		x.encrypt(c, "http/1.1")
		go c.listen() // ends with stop
		x.fineOn(c, "/early")
		x.finish()
	})
}

// An eagerConn sends its CONNECT in one piece with what is written first, and
// drops the answer.
type eagerConn struct {
	net.Conn
	first string
	read  bool
}

func (c *eagerConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(append([]byte(c.first), p...))
	n -= len(c.first)
	c.first = ""
	return n, err
}

func (c *eagerConn) Read(p []byte) (int, error) {
	if !c.read {
		c.read = true
		answer := make([]byte, 0, 100)
		for !strings.HasSuffix(string(answer), "\r\n\r\n") {
			n, err := c.Conn.Read(answer[len(answer) : len(answer)+1])
			if err != nil {
				return 0, err
			}
			answer = answer[:len(answer)+n]
		}
	}
	return c.Conn.Read(p)
}

// The same host has many spellings; what is recorded has one.
func TestHostNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, host, want string }{
		{"name", "localhost", "localhost"},
		{"upper case", "LocalHost", "localhost"},
		{"trailing dot", "localhost.", "localhost."},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				_, port, _ := net.SplitHostPort(x.origin.authority)
				x.origin.authority = c.host + ":" + port
				client := x.client()
				o, request := x.get(client, "/")
				response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost"
				o.send(response)
				x.got(client.reply("GET"), 200, "host")
				x.origin.authority = c.want + ":" + port
				x.want(wanted{uri: x.uri("/"), request: request, response: response})
			})
		})
	}
}

// A client may ask for https without a tunnel.
func TestHTTPSWithoutTunnel(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	c := x.direct()
	go c.listen() // ends with stop
	c.send("GET " + x.uri("/direct") + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n")
	o := x.origin.next()
	request := o.request()
	x.same("the request", request, "GET /direct HTTP/1.1\r\nHost: "+x.origin.authority+"\r\n\r\n")
	response := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ndirect"
	o.send(response)
	x.got(c.reply("GET"), 200, "direct")
	x.want(wanted{uri: x.uri("/direct"), request: request, response: response})
	x.finish()
}

// A tunnel of something else goes through, and is not recorded.
func TestBlindTunnel(t *testing.T) {
	t.Parallel()
	x := newScene(t, false, func(*recordFlags) {})
	c := x.tunnel(x.origin.authority)
	go c.listen() // ends with stop
	c.send("\x00\x01binary")
	o := x.origin.next()
	x.same("what the origin got", o.take(8), "\x00\x01binary")
	o.send("\x02\x03answer")
	x.same("what the client got", c.take(8), "\x02\x03answer")
	c.Close()
	o.ends()
	if got := x.proxy.tunnels.Stats().Blind; got != 1 {
		x.Errorf("%d tunnels are counted that are not recorded, want 1", got)
	}
	x.finish()
	if !strings.Contains(x.log.String(), "NOT RECORDED") {
		x.Error("the log does not say that it is not recorded")
	}
}

// One exchange at a time: the others wait for their turn, whatever becomes of
// the one before.
func TestMaxInFlight(t *testing.T) {
	overBothWith(t, func(f *recordFlags) { f.inFlight = 1 }, func(x *scene) {
		first, second, third := x.client(), x.client(), x.client()
		o1, request1 := x.get(first, "/first")
		sent, forwarded := x.ask("GET", "/second", "")
		second.send(sent)
		if n := x.origin.connections(); n != 1 {
			x.Errorf("the origin has %d connections, want 1", n)
		}
		response1 := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
		o1.send(response1)
		x.got(first.reply("GET"), 200, "first")
		x.want(wanted{uri: x.uri("/first"), request: request1, response: response1})
		o2 := x.origin.next()
		request2 := o2.request()
		x.same("the second request", request2, forwarded)
		response2 := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
		o2.send(response2)
		o2.Close()
		x.gotCut(second.reply("GET"), "half")
		x.want(wanted{uri: x.uri("/second"), request: request2, response: response2, truncated: "disconnect"})
		x.fineOn(third, "/third")
	})
}
