package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc/warctest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Heads of requests that are larger than the limits are refused, wherever they
// come from; others pass.
func TestRequestBounds(t *testing.T) {
	t.Parallel()
	bounds := func(f *recordFlags) {
		f.limits.maxURL, f.limits.maxHead, f.limits.maxFields = 2000, 3000, 20
	}
	for name, c := range map[string]struct {
		target, field string
		fields        int
		status        int
		sentence      string
	}{
		"URL":    {target: "/" + strings.Repeat("u", 2000), status: 414, sentence: "bytes, more than 2000"},
		"head":   {target: "/", field: strings.Repeat("h", 3000), fields: 1, status: 431, sentence: "bytes, more than 3000"},
		"fields": {target: "/", field: "b", fields: 20, status: 431, sentence: "header fields, more than 20"},
	} {
		t.Run(name, func(t *testing.T) {
			overBothWith(t, bounds, func(x *scene) {
				client := x.client()
				sent, _ := x.ask("GET", c.target, strings.Repeat("A: "+c.field+"\r\n", c.fields))
				client.send(sent)
				x.refused(client.reply("GET"), c.status, c.sentence)
				client.ends()
				x.fine("/" + strings.Repeat("u", 1900))
			})
		})
		t.Run(name+"/HTTP2", func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, bounds)
			client := x.http2Client()
			r := x.request("GET", c.target, nil)
			for range c.fields {
				r.Header.Add("A", c.field)
			}
			if got := <-x.begin(client, r); got.err != nil || got.status != c.status || !strings.Contains(got.body, c.sentence) {
				x.Errorf("the client got status %d, body %q, error %v", got.status, got.body, got.err)
			}
			result := x.begin(client, x.request("GET", "/", nil))
			o := x.origin.next()
			request, response := o.request(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
			o.send(response)
			x.gotHTTP2(<-result, 200, "fine")
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
			x.finish()
		})
	}
}

// By default a URL may be longer than any browser makes it.
func TestLongURL(t *testing.T) {
	overBoth(t, func(x *scene) {
		x.fine("/" + strings.Repeat("long", 15_000) + "?")
	})
}

// The longest URL that --max-url allows fits into the header of a record, and the
// longest that a revisit may have into that of a revisit, which has it twice,
// whatever it is made of.
func TestLongestURL(t *testing.T) {
	const longestOfRevisit = 16 << 10
	for _, c := range []struct {
		name                string
		length              func(base int) int // of the path, of which each octet takes three in the URI
		responses, revisits int64
	}{
		{"response", func(int) int { return 128<<10 - 1 }, 2, 0},
		{"revisit", func(base int) int { return (longestOfRevisit - base) / 3 }, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newScene(t, true, func(f *recordFlags) { f.limits.maxURL = 128 << 10 })
			target := "/" + strings.Repeat("\xfc", c.length(len(x.uri("/"))))
			response := "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + strings.Repeat("same", 75)
			for range 2 {
				client := x.client()
				client.send("GET " + target + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n")
				o := x.origin.next()
				o.request()
				o.send(response)
				x.got(client.reply("GET"), 200, strings.Repeat("same", 75))
				x.eventually("it is recorded", func() bool { return x.proxy.status(x.flags).InFlight == 0 })
			}
			if s := x.proxy.status(x.flags); s.Responses != c.responses || s.Revisits != c.revisits || s.Lost != 0 {
				t.Errorf("%d responses, %d revisits, %d lost", s.Responses, s.Revisits, s.Lost)
			}
			dir := x.flags.dir
			x.stop()
			warctest.Check(t, dir)
		})
	}
}

// Heads of replies that are larger than the limits fail the exchange.
func TestReplyBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags     func(f *recordFlags)
		reply     string
		sentence  string
		truncated string
	}{
		"head": {
			func(f *recordFlags) { f.limits.maxReplyHead = 2000 },
			"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 2000) + "\r\nContent-Length: 0\r\n\r\n", "--max-reply-head", "length",
		},
		"fields": {
			func(f *recordFlags) { f.limits.maxReplyFields = 10 },
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("X: y\r\n", 10) + "\r\n", "--max-reply-fields", "unspecified",
		},
		"lines": {
			func(*recordFlags) {},
			"HTTP/1.1 200 OK\r\n" + strings.Repeat("a\n", 300_000) + "\n", "--max-reply-fields", "unspecified",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overBothWith(t, c.flags, func(x *scene) {
				client := x.client()
				o, request := x.get(client, "/")
				o.send(c.reply)
				x.refused(client.reply("GET"), 502, c.sentence)
				o.ends()
				x.failures(1)
				x.want(wanted{uri: x.uri("/"), request: request, response: c.reply, instead: true, atLeast: 1, truncated: c.truncated})
				o, request = x.get(client, "/next")
				response := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("X: y\r\n", 9) + "\r\n"
				o.send(response)
				x.got(client.reply("GET"), 200, "")
				x.want(wanted{uri: x.uri("/next"), request: request, response: response})
			})
		})
	}
}

// Clients that hang about are sent away by the timeouts that the flags say, which
// are far below their defaults here.
func TestClientTimeouts(t *testing.T) {
	t.Parallel()
	const short, soon = shortTimeout, patience
	flags := func(f *recordFlags) {
		f.limits.headerTimeout, f.limits.idleTimeout = short, short
	}
	for name, open := range map[string]func(x *scene) *peer{
		"nothing": func(x *scene) *peer { return x.direct() },
		"head": func(x *scene) *peer {
			c := x.direct()
			c.send("GET http://")
			return c
		},
		"head of a later request": func(x *scene) *peer {
			c := x.client()
			x.fineOn(c, "/")
			c.send("GET ")
			return c
		},
		"idle": func(x *scene) *peer {
			c := x.client()
			x.fineOn(c, "/")
			return c
		},
		"TLS handshake": func(x *scene) *peer {
			c := x.tunnel(x.origin.authority)
			c.send("\x16\x03\x01\x02\x00\x01\x00")
			return c
		},
		"head in TLS": func(x *scene) *peer {
			c := x.encrypt(x.tunnel(x.origin.authority), "http/1.1")
			c.send("GET ")
			return c
		},
		"idle HTTP/2": func(x *scene) *peer {
			c := x.encrypt(x.tunnel(x.origin.authority), "h2")
			c.send(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			return c
		},
		"half a head over HTTP/2": func(x *scene) *peer {
			c := x.encrypt(x.tunnel(x.origin.authority), "h2")
			c.send(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82")
			return c
		},
		"preface of HTTP/2": func(x *scene) *peer {
			c := x.encrypt(x.tunnel(x.origin.authority), "h2")
			c.send(http2.ClientPreface[:10])
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			overBothWith(t, flags, func(x *scene) {
				c := open(x)
				c.SetReadDeadline(time.Now().Add(soon))
				start := time.Now()
				if _, err := io.Copy(io.Discard, c); time.Since(start) >= soon {
					x.Errorf("still open after %s (%v)", soon, err)
				}
				for x.proxy.status(x.flags).Connections > 0 && time.Since(start) < soon {
					time.Sleep(time.Millisecond)
				}
				if n := x.proxy.status(x.flags).Connections; n > 0 {
					x.Errorf("%d connections are still counted", n)
				}
			})
		})
	}
}

// A client that takes nothing counts as gone after a while. What the origin
// sends is recorded whole all the same.
func TestStalledReaders(t *testing.T) {
	t.Parallel()
	flags := func(f *recordFlags) { f.limits.stallTimeout = shortTimeout }
	const size = 8 << 20 // more than the sockets on the way take
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size) + strings.Repeat("0123456789abcdef", size/16)
	serve := func(x *scene) {
		o := x.origin.next()
		request := o.request()
		o.send(response)
		x.want(wanted{uri: x.uri("/large"), request: request, response: response})
		x.settled()
	}
	t.Run("HTTP1", func(t *testing.T) {
		overBothWith(t, flags, func(x *scene) {
			var c *peer // which does not listen
			if x.https {
				c = x.encrypt(x.tunnel(x.origin.authority), "http/1.1")
			} else {
				c = x.direct()
			}
			sent, _ := x.ask("GET", "/large", "")
			c.send(sent)
			serve(x)
			x.goneInTime(c)
			if n, _ := io.Copy(io.Discard, c); n >= size {
				x.Error("the client got all")
			}
		})
	})
	ask := func(x *scene, window uint32) (*peer, *http2.Framer) {
		c := x.encrypt(x.tunnel(x.origin.authority), "h2")
		f := http2.NewFramer(c, c)
		c.send(http2.ClientPreface)
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
			x.Fatal(err)
		}
		if window > 0 {
			if err := f.WriteWindowUpdate(0, window); err != nil {
				x.Fatal(err)
			}
		}
		var block strings.Builder
		fields := hpack.NewEncoder(&block)
		for _, field := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: x.origin.authority}, {Name: ":path", Value: "/large"}} {
			fields.WriteField(field)
		}
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true}); err != nil {
			x.Fatal(err)
		}
		serve(x)
		return c, f
	}
	// Over HTTP/2 it is one stream that has gone …
	t.Run("HTTP2", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, flags)
		c, f := ask(x, 0)
		c.SetReadDeadline(time.Now().Add(patience))
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("the stream is not reset: %v", err)
			}
			if _, reset := frame.(*http2.RSTStreamFrame); reset {
				break
			}
		}
		if err := f.WritePing(false, [8]byte{}); err != nil {
			t.Error(err)
		}
		x.finish()
	})
	// … or all of the connection.
	t.Run("HTTP2 connection", func(t *testing.T) {
		t.Parallel()
		x := newScene(t, true, flags)
		c, _ := ask(x, 1<<30)
		x.goneInTime(c)
		x.finish()
	})
}

// goneInTime waits until the proxy has closed the connection of the only client.
func (x *scene) goneInTime(c *peer) {
	x.Helper()
	for start := time.Now(); x.proxy.status(x.flags).Connections > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			x.Fatal("the connection is still open")
		}
	}
	c.SetReadDeadline(time.Now().Add(patience))
}

// Connections beyond the limits are refused, and /status counts them.
func TestMaxConnections(t *testing.T) {
	overBothWith(t, func(f *recordFlags) { f.limits.maxConns, f.limits.maxConnsPerClient = 2, 1 }, func(x *scene) {
		c := x.client()
		x.fineOn(c, "/1")
		refused := x.direct()
		go refused.listen() // ends with stop
		x.refused(refused.reply("GET"), 503, "--max-connections-per-client")
		refused.ends()
		x.fineOn(c, "/2")
		if s := x.proxy.status(x.flags); s.Connections != 1 || s.Refused != 1 {
			x.Errorf("/status tells of %d connections and %d refusals", s.Connections, s.Refused)
		}
	})
}

// More connections than there are file descriptors cannot be asked for.
func TestMaxConnectionsOfTheSystem(t *testing.T) {
	files := openFiles()
	f := &recordFlags{}
	f.register(pflag.NewFlagSet("record", pflag.PanicOnError))
	if got := f.limits.clients(); got.MaxConns < 1 || got.MaxConns > 16384 || 2*got.MaxConns > files {
		t.Errorf("by default there are %d connections, with %d descriptors", got.MaxConns, files)
	}
	f.limits.maxConns = files
	if err := f.check(); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v", err)
	}
}

// The garbage collector aims at what the limits amount to, or at what the user
// says.
func TestMemoryAim(t *testing.T) {
	f := &limitFlags{}
	f.register(pflag.NewFlagSet("limits", pflag.PanicOnError))
	f.maxConns, f.spoolMemory = 1000, 200<<20
	before := debug.SetMemoryLimit(-1)
	restore := f.aimMemory()
	if got := debug.SetMemoryLimit(-1); got != 200<<20+1000*12<<10 {
		t.Errorf("the aim is %d", got)
	}
	restore()
	t.Setenv("GOMEMLIMIT", "1GiB")
	defer f.aimMemory()()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the aim is %d, and was %d", got, before)
	}
}

// Each limit has a line in docs/limits.md with its default.
func TestLimitsAreDocumented(t *testing.T) {
	doc := string(readAllFiles(t, "../../docs/limits.md")["../../docs/limits.md"])
	limits := pflag.NewFlagSet("limits", pflag.PanicOnError)
	new(limitFlags).register(limits)
	limits.VisitAll(func(f *pflag.Flag) {
		_, line, found := strings.Cut(doc, "| `--"+f.Name+" ")
		line, _, _ = strings.Cut(line, "\n")
		value := strings.Replace(strings.TrimSuffix(f.DefValue, "0s"), ".0", "", 1)
		if !found || f.DefValue != "0" && !strings.Contains(line, "| "+value) {
			t.Errorf("docs/limits.md has no line for --%s with the default %s", f.Name, f.DefValue)
		}
	})
}

// --leaf-cache bounds how many certificates are kept.
func TestLeafCache(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(f *recordFlags) { f.limits.leafCache = 2 })
	serial := func(name string) string {
		p := x.tunnel(x.origin.authority)
		defer p.Close()
		c := tls.Client(p.Conn, &tls.Config{RootCAs: x.proxyRoots(), ServerName: name})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial("a.test")
	if serial("b.test"); serial("a.test") != first {
		t.Error("a certificate is not kept")
	}
	for i := range 10 {
		serial(fmt.Sprintf("%d.test", i))
	}
	if serial("a.test") == first {
		t.Error("a certificate is kept behind ten others")
	}
	x.finish()
}

// --dns-cache bounds how many names are remembered.
func TestDNSCache(t *testing.T) {
	overDNS(t, func(f *recordFlags) { f.limits.dnsCache = 1 }, func(x *scene) {
		for _, host := range []string{"cdn.test", "cdn.test", "site.test", "cdn.test"} {
			x.at(host)
			x.dialled("/")
		}
		if n := len(x.resources()); n != 3 {
			x.Errorf("the archive has %d look-ups, want 3", n)
		}
	})
}
