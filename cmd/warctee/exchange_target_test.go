package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/certs"
)

// Targets go to the origin as they came, octet for octet; the record's
// WARC-Target-URI is a valid URI.
func TestTargets(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("long/", 8192/5) + "?q=" + strings.Repeat("z", 100)
	huge := "/" + strings.Repeat("x", 32<<10)
	for _, c := range []struct{ name, target, path string }{
		{"plain", "/a/b?c=d&e", "/a/b?c=d&e"},
		{"UTF-8", "/caf\xc3\xa9?\xe2\x82\xac", "/caf%C3%A9?%E2%82%AC"},
		{"Latin-1", "/caf\xe9", "/caf%E9"},
		{"question mark alone", "/?", "/?"},
		{"question mark behind a path", "/x?", "/x?"},
		{"two question marks", "/x??y=?", "/x??y=?"},
		{"stray percent sign", "/100%?%zz=%&%4", "/100%25?%25zz=%25&%254"},
		{"encoded", "/%2F%2e%2E/%e9%00", "/%2F%2e%2E/%e9%00"},
		{"encoded line end", "/%0d%0aX-Forged:%20yes", "/%0d%0aX-Forged:%20yes"},
		{"dots and slashes", "//a//../b/./c/..", "//a//../b/./c/.."},
		{"octets that no URI has", "/a|b\"c<d>e^f`g{h}i\\j[k]", "/a%7Cb%22c%3Cd%3Ee%5Ef%60g%7Bh%7Di%5Cj%5Bk%5D"},
		{"a URL in the path", "/web/2026/http://example.com/?a=http://b/", "/web/2026/http://example.com/?a=http://b/"},
		{"8 KB", long, long},
		{"32 KB", huge, huge},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.get(client, c.target)
				response := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nurl"
				o.send(response)
				x.got(client.reply("GET"), 200, "url")
				x.want(wanted{uri: x.uri(c.path), request: request, response: response})
			})
		})
	}
}

// Targets that no valid URI tells apart have the same WARC-Target-URI; their request
// records have them as sent, and each revisit names the capture that it repeats.
func TestTargetsWithTheSameURI(t *testing.T) {
	overBoth(t, func(x *scene) {
		client := x.client()
		for i, pair := range [][3]string{{"/a\\b", "/a%5Cb", "/a%5Cb"}, {"/?q=100%", "/?q=100%25", "/?q=100%25"}, {"/{x}", "/%7Bx%7D", "/%7Bx%7D"}} {
			for round := range 2 {
				for j, target := range pair[:2] {
					o, request := x.get(client, target)
					body := fmt.Sprintf("pair %d, target %d", i, j)
					response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					o.send(response)
					x.got(client.reply("GET"), 200, body)
					x.settled()
					w := wanted{uri: x.uri(pair[2]), request: request, response: response}
					if round == 1 {
						first := x.wants[len(x.wants)-2]
						w.revisitOf = &first
					}
					x.want(w)
				}
			}
		}
	})
}

// In the absolute-form a client can write more than a path.
func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, target, host, origin, path string }{
		{"no path", "http://AUTHORITY", "AUTHORITY", "/", "/"},
		{"a query alone", "http://AUTHORITY?a=b", "AUTHORITY", "/?a=b", "/?a=b"},
		{"a question mark alone", "http://AUTHORITY?", "AUTHORITY", "/?", "/?"},
		{"fragment", "http://AUTHORITY/a#b", "AUTHORITY", "/a", "/a"},
		{"upper-case scheme", "HTTP://AUTHORITY/a", "AUTHORITY", "/a", "/a"},
		{"another Host", "http://AUTHORITY/a", "elsewhere.example:99", "/a", "/a"},
		{"user and password", "http://user:secret@AUTHORITY/a", "AUTHORITY", "/a", "/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, false, func(*recordFlags) {})
			fill := strings.NewReplacer("AUTHORITY", x.origin.authority)
			client := x.client()
			client.send("GET " + fill.Replace(c.target) + " HTTP/1.1\r\nA: 1\r\nhOST: " + fill.Replace(c.host) + "\r\nB: 2\r\n\r\n")
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, "GET "+c.origin+" HTTP/1.1\r\nA: 1\r\nhOST: "+x.origin.authority+"\r\nB: 2\r\n\r\n")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabso"
			o.send(response)
			x.got(client.reply("GET"), 200, "abso")
			x.want(wanted{uri: x.uri(c.path), request: request, response: response})
			x.finish()
		})
	}
}

// OPTIONS * asks the server itself (RFC 9112 §3.2.4).
func TestOptionsAsterisk(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		sent, forwarded := x.ask("OPTIONS", "*", "")
		if !x.https { // the absolute-form without a path
			sent = strings.Replace(sent, x.origin.authority+"*", x.origin.authority, 1)
		}
		c.send(sent)
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, forwarded)
		response := "HTTP/1.1 200 OK\r\nAllow: GET\r\nContent-Length: 0\r\n\r\n"
		o.send(response)
		x.got(c.reply("OPTIONS"), 200, "")
		x.want(wanted{uri: x.uri(""), request: request, response: response})
	})
}

// Requests that come together are answered in their order.
func TestPipelining(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		targets := []string{"/1", "/2", "/3", "/4"}
		var all string
		var forwarded []string
		for i, target := range targets {
			fields, body := "", ""
			if i%2 == 1 {
				fields, body = "Content-Length: 4\r\n", "body"
			}
			sent, origin := x.ask("PUT", target, fields)
			all += sent + body
			forwarded = append(forwarded, origin+body)
		}
		c.send(all)
		for i, target := range targets {
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded[i])
			response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n" + target + "\r\n0\r\n\r\n"
			o.send(response)
			x.got(c.reply("PUT"), 200, target)
			x.want(wanted{uri: x.uri(target), request: request, response: response})
		}
		if n := x.origin.connections(); n != 1 {
			x.Errorf("the origin has had %d connections, want 1", n)
		}
	})
}

// One client connection, one connection to the origin, many exchanges.
func TestKeepAlive(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		first := x.reusable(c)
		for range 3 {
			o, request := x.get(c, "/more")
			if o != first {
				x.Error("the proxy has opened another connection")
			}
			response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-N: " + string(rune('0'+len(x.wants))) +
				"\r\n\r\n1\r\n" + string(rune('0'+len(x.wants))) + "\r\n0\r\n\r\n"
			o.send(response)
			c.reply("GET")
			x.want(wanted{uri: x.uri("/more"), request: request, response: response})
		}
		// Another client of the same proxy shares it.
		if o := x.fine("/other"); o != first {
			x.Error("the proxy has opened another connection for another client")
		}
	})
}

// Connection: close of the client closes after the reply, and is told to the
// origin.
func TestClientWantsToClose(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		sent, forwarded := x.ask("GET", "/", "Connection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n")
		c.send(sent)
		o := x.origin.next()
		request := o.request()
		forwarded = strings.Replace(forwarded, "Connection: close, X-Hop\r\nX-Hop: 1\r\n", "Connection: close\r\n", 1)
		x.same("the request", request, forwarded)
		response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"
		o.send(response)
		o.Close()
		got := c.reply("GET")
		x.got(got, 200, "last")
		if field(got.head, "Connection") != "close" {
			x.Errorf("the client is not told that the connection is closed: %q", got.head)
		}
		c.ends()
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	})
}

// An origin that cannot be reached gives one sentence, inside the tunnel where
// there is one.
func TestUnreachableOrigins(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			x.origin.listener.Close()
			c := x.client()
			sent, _ := x.ask("GET", "/", "")
			c.send(sent)
			x.refused(c.reply("GET"), 502, "cannot connect to "+x.origin.authority+": connection refused")
			x.failures(1)
		})
	})
	t.Run("the proxy itself", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			x.origin.authority = x.proxy.listener.Addr().String()
			c := x.client()
			sent, _ := x.ask("GET", "/", "")
			c.send(sent)
			x.refused(c.reply("GET"), 508, "this proxy itself")
		})
	})
	t.Run("no TLS", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, func(*recordFlags) {})
		x.origin = x.newOrigin("127.0.0.1:0", false)
		c := x.client()
		sent, _ := x.ask("GET", "/", "")
		c.send(sent)
		o := x.origin.next()
		o.take(1)
		o.send("HTTP/1.1 400 Bad Request\r\n\r\n")
		o.Close()
		x.refused(c.reply("GET"), 502, "does not speak TLS")
		x.mu.Lock()
		o.in = nil // the ClientHello
		x.mu.Unlock()
		x.finish()
	})
}

// Certificates are verified, unless told otherwise.
func TestCertificates(t *testing.T) {
	unknown, err := certs.Open(filepath.Join(t.TempDir(), "ca"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sentence string
		certificate    func() (*tls.Certificate, error)
	}{
		{"unknown authority", "unknown authority", func() (*tls.Certificate, error) { return unknown.Leaf("127.0.0.1") }},
		{"another host", "cannot validate certificate for 127.0.0.1", func() (*tls.Certificate, error) { return originCA.Leaf("elsewhere.example") }},
	} {
		for _, insecure := range []bool{false, true} {
			name := c.name
			if insecure {
				name += ", --insecure-upstream"
			}
			t.Run(name, func(t *testing.T) {
				x := newScene(t, true, func(f *recordFlags) { f.insecure = insecure })
				x.origin.certificate.Store(&c.certificate)
				if insecure {
					x.fine("/")
					x.wants[0].untrusted = c.sentence
					if !strings.Contains(x.log.String(), "certificate of an origin is not trusted") {
						x.Error("the log does not mention it")
					}
				} else {
					client := x.client()
					sent, _ := x.ask("GET", "/", "")
					client.send(sent)
					r := client.reply("GET")
					x.refused(r, 502, c.sentence)
					x.refused(r, 502, "--insecure-upstream")
				}
				x.finish()
			})
		}
	}
}
