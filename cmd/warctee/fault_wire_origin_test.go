package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// drip sends octets one after the other, faster than the time-out, until the
// connection is closed.
func (x *scene) drip(o *peer, pause time.Duration, next func(i int) string) {
	x.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := 0; o.trySend(next(i)) == nil; i++ {
		if time.Duration(i)*pause > patience {
			x.Fatal("the proxy takes octet after octet and never ends")
		}
		<-tick.C
	}
}

// --timeout is the total time for the head of a reply, whatever comes of it.
func TestHeadDrips(t *testing.T) {
	t.Parallel()
	const timeout = shortTimeout
	short := func(f *recordFlags) { f.timeout = timeout }
	t.Run("octets", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/drip")
			const start = "HTTP/1.1 200 OK\r\nX-Long: "
			o.send(start)
			x.drip(o, timeout/10, func(int) string { return "x" })
			x.refused(c.reply("GET"), 504, "in time")
			x.want(wanted{uri: x.uri("/drip"), request: request, response: start + strings.Repeat("x", 10_000), instead: true, atLeast: len(start), truncated: "time"})
			x.failures(1)
			x.fine("/next")
		})
	})
	t.Run("interim responses", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, _ := x.get(c, "/drip")
			x.drip(o, timeout/10, func(int) string { return "HTTP/1.1 102 Processing\r\n\r\n" })
			got := c.replyHead()
			for got.status == 102 {
				got = c.replyHead()
			}
			_, got.body, got.whole = c.body(got.head)
			x.refused(got, 504, "in time")
			x.failures(1)
			x.fine("/next")
		})
	})
}

// In a body only payload breaks the silence: the lines of chunk sizes and
// trailers have to be whole within --timeout.
func TestChunkFramingDrips(t *testing.T) {
	t.Parallel()
	const timeout = shortTimeout
	short := func(f *recordFlags) { f.timeout = timeout }
	for _, c := range []struct{ name, reply, drip string }{
		{"size", "3\r\nabc\r\n", "0"},
		{"extension", "3\r\nabc\r\n3;", "x"},
		{"trailer", "3\r\nabc\r\n0\r\nX: ", "y"},
		{"trailer fields", "3\r\nabc\r\n0\r\n", "X: y\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBothWith(t, short, func(x *scene) {
				client := x.client()
				o, request := x.get(client, "/drip")
				start := ok + chunks + c.reply
				o.send(start)
				x.drip(o, timeout/10, func(int) string { return c.drip })
				x.gotCut(client.reply("GET"), "abc")
				x.want(wanted{uri: x.uri("/drip"), request: request, response: start + strings.Repeat(c.drip, 10_000), atLeast: len(start), truncated: "time"})
				x.fine("/next")
			})
		})
	}
	t.Run("payload", func(t *testing.T) {
		overBothWith(t, short, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/drip")
			response := ok + chunks
			o.send(response)
			for begun := time.Now(); time.Since(begun) < 2*timeout; {
				o.send("1\r\nx\r\n")
				response += "1\r\nx\r\n"
				x.waitToGet(c, "1\r\nx\r\n")
				time.Sleep(timeout / 10) // what is tested is time
			}
			o.send("0\r\n\r\n")
			x.got(c.reply("GET"), 200, strings.Repeat("x", strings.Count(response, "x")))
			x.want(wanted{uri: x.uri("/drip"), request: request, response: response + "0\r\n\r\n"})
		})
	})
}

// An origin that closes its TLS connection without the farewell could have been
// cut off by somebody else: where the end is told by the framing that makes no
// difference, where the close tells it the log says so.
func TestNoCloseNotify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, head, body, entity, truncated string
		logged                              bool
	}{
		{name: "until close", head: "X: y\r\n\r\n", body: "abc", entity: "abc", logged: true},
		{name: "length", head: "Content-Length: 3\r\n\r\n", body: "abc", entity: "abc"},
		{name: "length, cut", head: "Content-Length: 9\r\n\r\n", body: "abc", entity: "abc", truncated: "disconnect"},
		{name: "chunked, cut", head: chunks, body: "3\r\nabc\r\n", entity: "abc", truncated: "disconnect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(*recordFlags) {})
			client := x.client()
			o, request := x.get(client, "/")
			response := ok + c.head + c.body
			o.send(response)
			o.tcp.Close()
			if got := client.reply("GET"); c.truncated != "" {
				x.gotCut(got, c.entity)
			} else {
				x.got(got, 200, c.entity)
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: response, truncated: c.truncated})
			x.finish()
			if logged := strings.Contains(x.log.String(), "without the farewell of TLS"); logged != c.logged {
				x.Errorf("the log mentions it: %t, want %t", logged, c.logged)
			}
		})
	}
}

// A 100 that nothing follows.
func TestNothingBehindThe100(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		o, _ := x.get(c, "/")
		o.send("HTTP/1.1 100 Continue\r\n\r\n")
		o.Close()
		x.refused(c.reply("GET"), 502, "closed the connection")
		x.failures(1)
		x.fine("/next")
	})
}

// Octets of fields that are no ASCII go to the client as they came; a field with
// a control character does not, the record has it.
func TestOddOctetsInReplies(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		o, request := x.get(c, "/")
		const gbk, latin = "X-Gbk: \xd6\xd0\xce\xc4\xa1\xa1", "Location: /caf\xe9?\xfc"
		response := ok + gbk + "\r\n" + latin + "\r\nX-Bell: a\x07b\r\nX-Del: \x7f\r\nContent-Length: 3\r\n\r\nodd"
		o.send(response)
		got := c.reply("GET")
		x.got(got, 200, "odd")
		for _, line := range []string{gbk, latin} {
			if !strings.Contains(got.head, "\r\n"+line+"\r\n") {
				x.Errorf("the client got no %q: %q", line, got.head)
			}
		}
		if strings.Contains(got.head, "X-Bell") || strings.Contains(got.head, "X-Del") {
			x.Errorf("the client got control characters: %q", got.head)
		}
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	})
}

// What would lead a browser past the proxy is kept from it, not from the
// archive.
func TestAltSvc(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		o, request := x.get(c, "/")
		response := ok + "Alt-Svc: h3=\":443\"; ma=86400\r\nStrict-Transport-Security: max-age=1\r\nPublic-Key-Pins: max-age=1\r\nContent-Length: 3\r\n\r\nalt"
		o.send(response)
		got := c.reply("GET")
		x.got(got, 200, "alt")
		if field(got.head, "Alt-Svc") != "" || field(got.head, "Strict-Transport-Security") != "max-age=1" {
			x.Errorf("the client got %q", got.head)
		}
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	})
}

// The proxy follows no redirect: each is an exchange of its own.
func TestRedirectLoop(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		for i := range 5 {
			from, to := fmt.Sprintf("/%d", i%2), fmt.Sprintf("/%d", (i+1)%2)
			o, request := x.get(c, from)
			response := fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: %s\r\nX-N: %d\r\nContent-Length: 0\r\n\r\n", to, i)
			o.send(response)
			got := c.reply("GET")
			x.got(got, 302, "")
			if field(got.head, "Location") != to {
				x.Errorf("the client got %q", got.head)
			}
			x.want(wanted{uri: x.uri(from), request: request, response: response})
		}
		if n := x.origin.connections(); n != 1 {
			x.Errorf("the origin has had %d connections", n)
		}
	})
}

// What would unpack to a thousand times its size is as large as it is.
func TestGzipBomb(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(z, zeros{}, 8<<20); err != nil {
		t.Fatal(err)
	}
	z.Close()
	var twice bytes.Buffer
	z = gzip.NewWriter(&twice)
	z.Write(bomb.Bytes())
	z.Close()
	overBoth(t, func(x *scene) {
		for _, coding := range []string{"gzip", "gzip, gzip"} {
			packed := bomb.String()
			if coding != "gzip" {
				packed = twice.String()
			}
			c := x.client()
			o, request := x.get(c, "/")
			response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(packed), packed)
			o.send(response)
			got := c.reply("GET")
			x.got(got, 200, packed)
			if field(got.head, "Content-Encoding") != coding {
				x.Errorf("the client got %q", got.head)
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Lengths are of 64 bits: a response of more than 4 GiB gets to the client whole.
// It takes a while, and so is asked for.
func TestHugeResponse(t *testing.T) {
	if os.Getenv("WARCTEE_HUGE") == "" {
		t.Skip("5 GiB through the proxy, twice; set WARCTEE_HUGE=1")
	}
	const size = 5 << 30
	for name, c := range map[string]struct{ head, end string }{
		"length":  {fmt.Sprintf("Content-Length: %d\r\n\r\n", int64(size)), ""},
		"chunked": {chunks + fmt.Sprintf("%x\r\n", int64(size)), "\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newScene(t, false, func(f *recordFlags) {})
			client := x.direct() // whose octets nobody keeps
			sent, _ := x.ask("GET", "/huge", "")
			client.send(sent)
			o := x.origin.next()
			o.request()
			go func() { // ends when all is sent, or with the connection
				io.WriteString(o.Conn, ok+c.head)
				io.CopyN(o.Conn, zeros{}, size)
				io.WriteString(o.Conn, c.end)
			}()
			var n int64
			resp, err := http.ReadResponse(bufio.NewReaderSize(client, 1<<20), nil)
			if err == nil {
				n, err = io.Copy(io.Discard, resp.Body)
			}
			if n != size || err != nil {
				x.Errorf("the client got %d octets (%v), want %d", n, err, int64(size))
			}
			client.Close()
			x.settled()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%d MB from the system", m.Sys>>20)
			if m.Sys > 512<<20 {
				t.Errorf("%d MB of memory were taken", m.Sys>>20)
			}
			x.stop()
			for _, r := range warctest.Check(t, x.flags.dir) {
				if r.Type == "response" && (r.PayloadSize != size || r.Header.Get("WARC-Truncated") != "") {
					t.Errorf("%d octets are recorded, truncated %q", r.PayloadSize, r.Header.Get("WARC-Truncated"))
				}
			}
		})
	}
}
