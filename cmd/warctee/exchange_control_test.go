package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// controls are fields from a client to the proxy: they end here, whether they mean
// anything or not.
const controls = "Warcprox-Meta: {\"warc-prefix\":\"../../evil\",\"blocks\":[{\"domain\":\"127.0.0.1\"}],\"limits\":{\"a/total/urls\":0}}\r\n" +
	"Warctee-Prefix: ../evil\r\nwARCTEE-: x\r\nwarcprox-META: again\r\n"

// noControls checks that nothing of them is in the archive, and that they did nothing.
func (x *scene) noControls() {
	x.Helper()
	x.finish()
	for _, r := range x.readArchive() {
		if text := strings.ToLower(r.block); strings.Contains(text, "warcprox") || strings.Contains(text, "evil") {
			x.Errorf("the %s is %q", r.kind(), r.block)
		}
	}
	names, _ := filepath.Glob(filepath.Join(x.flags.dir, "[^.]*"))
	if len(names) != 1 || !strings.HasPrefix(filepath.Base(names[0]), "warctee-") {
		x.Errorf("there are the files %q", names)
	}
}

func TestControlFields(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		for i, test := range []struct{ method, before, after, body, origin string }{
			{"GET", "X-A: 1\r\n" + controls + "X-B: 2\r\n", "X-A: 1\r\nX-B: 2\r\n", "", ""},
			{"GET", "Connection: Warcprox-Meta\r\n" + controls, "", "", ""},
			{
				"POST", controls + "Trailer: X-End, Warcprox-Meta\r\nTransfer-Encoding: chunked\r\n", "Trailer: X-End\r\nTransfer-Encoding: chunked\r\n",
				"2\r\nab\r\n0\r\n" + controls + "X-End: 3\r\n\r\n", "2\r\nab\r\n0\r\nX-End: 3\r\n\r\n",
			},
			{"POST", "Trailer: warctee-a\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\nWarctee-A: evil\r\n\r\n", "2\r\nab\r\n0\r\n\r\n"},
		} {
			sent, _ := x.ask(test.method, "/", test.before)
			_, forwarded := x.ask(test.method, "/", test.after)
			c.send(sent + test.body)
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded+test.origin)
			body := fmt.Sprint("meta", i)
			response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body
			o.send(response)
			x.got(c.reply(test.method), 200, body)
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		}
		x.noControls()
	})
}

func TestControlFieldsOfWebSocket(t *testing.T) {
	overBoth(t, func(x *scene) {
		c := x.client()
		fields := "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		sent, _ := x.ask("GET", "/", fields+controls)
		_, forwarded := x.ask("GET", "/", fields)
		c.send(sent)
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, forwarded)
		response := "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"
		o.send(response)
		x.got(c.reply("GET"), 426, "no")
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
		x.noControls()
	})
}

// In a CONNECT they end with it, and in HTTP/2 as in HTTP/1, trailers included.
func TestControlFieldsInTunnel(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	p := x.direct()
	p.send("CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n" + controls + "\r\n")
	established := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(p, established); err != nil {
		x.Fatal(err)
	}
	x.encrypt(p, "http/1.1")
	go p.listen() // ends with stop
	x.fineOn(p, "/")

	r := x.request("POST", "/two", io.MultiReader(strings.NewReader("ab")))
	r.Header.Set("Warcprox-Meta", "{}")
	r.Header.Set("Warctee-Evil", "evil")
	r.Trailer = http.Header{"Warctee-End": {"evil"}, "X-End": {"3"}}
	result := x.begin(x.http2Client(), r)
	o := x.origin.next()
	request := o.request()
	x.same("the request", request, x.forwarded("POST", "/two", "User-Agent: two\r\nTransfer-Encoding: chunked\r\n")+"2\r\nab\r\n0\r\nX-End: 3\r\n\r\n")
	response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmeta"
	o.send(response)
	x.gotHTTP2(<-result, 200, "meta")
	x.want(wanted{uri: x.uri("/two"), request: request, response: response})
	x.noControls()
}

// What the proxy answers itself is known by Proxy-Status (RFC 9209); an origin's
// field of that name is the origin's.
func TestProxyStatus(t *testing.T) {
	overBoth(t, func(x *scene) {
		own := func(request, kind, class string) {
			x.Helper()
			c := x.client()
			c.send(request)
			r := c.reply("GET")
			if got, want := field(r.head, "Proxy-Status"), "warctee; error="+kind+`; details="`+class+`"`; got != want || r.status < 400 {
				x.Errorf("%.60q is answered with status %d and Proxy-Status %q, want %q", request, r.status, got, want)
			}
		}
		// The origin's.
		for _, fields := range []string{"", "Proxy-Status: cdn; error=connection_refused\r\nProxy-Authenticate: Basic\r\n"} {
			c := x.client()
			o, request := x.get(c, "/")
			response := "HTTP/1.1 502 Bad Gateway\r\n" + fields + "Connection: close\r\nContent-Length: 0\r\n\r\n"
			o.send(response)
			r := c.reply("GET")
			if got := field(r.head, "Proxy-Status"); r.status != 502 || "Proxy-Status: "+got+"\r\nProxy-Authenticate: Basic\r\n" != fields && got != "" || strings.Contains(r.head, "Proxy-Auth") {
				x.Errorf("of %q the client got %q", fields, r.head)
			}
			x.want(wanted{uri: x.uri("/"), request: request, response: response})
		}
		bad, _ := x.ask("GET", "/", "bad\r\n")
		own(bad, "http_request_error", "bad-request")
		trace, _ := x.ask("TRACE", "/", "")
		own(trace, "http_request_error", "not-forwarded")
		for response, want := range map[string][2]string{"": {"connection_terminated", "empty-reply"}, "SSH-2.0\r\n\r\n": {"http_protocol_error", "bad-reply"}} {
			sent, forwarded := x.ask("GET", "/", "")
			c := x.client()
			c.send(sent)
			o := x.origin.next()
			request := o.request()
			x.same("the request", request, forwarded)
			o.send(response)
			o.Close()
			r := c.reply("GET")
			if got := field(r.head, "Proxy-Status"); got != "warctee; error="+want[0]+`; details="`+want[1]+`"` {
				x.Errorf("a reply %q gives Proxy-Status %q", response, got)
			}
			if response != "" {
				x.settled()
				x.want(wanted{uri: x.uri("/"), request: request, response: response, instead: true, truncated: "unspecified"})
			}
		}
		x.origin.listener.Close()
		refused, _ := x.ask("GET", "/", "")
		own(refused, "connection_refused", "refused")
		if x.https {
			own("GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", "http_request_error", "not-forwarded")
			return
		}
		own("CONNECT 127.0.0.1:25 HTTP/1.1\r\nHost: a\r\n\r\n", "http_request_denied", "policy")
		own("CONNECT 127.1:80 HTTP/1.1\r\nHost: a\r\n\r\n", "http_request_error", "not-forwarded")
		own("GET http://none.invalid/ HTTP/1.1\r\nHost: a\r\n\r\n", "dns_error", "no-such-host")
		own("GET http://"+x.proxy.listener.Addr().String()+"/ HTTP/1.1\r\nHost: a\r\n\r\n", "proxy_loop_detected", "policy")
		own("GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", "http_request_error", "not-forwarded")
		c := x.client()
		c.send("GET /status HTTP/1.1\r\nHost: " + x.proxy.listener.Addr().String() + "\r\n\r\n")
		if r := c.reply("GET"); r.status != 200 || field(r.head, "Proxy-Status") != "warctee" {
			x.Errorf("the status page has the head %q", r.head)
		}
	})
}

// Over HTTP/2 too.
func TestProxyStatusHTTP2(t *testing.T) {
	t.Parallel()
	overHTTP2(t, "refusals", func(x *scene, c *http.Client) {
		x.origin.listener.Close()
		for kind, change := range map[string]func(r *http.Request){
			`connection_refused; details="refused"`:       func(*http.Request) {},
			`http_request_error; details="not-forwarded"`: func(r *http.Request) { r.Host = "elsewhere.example" },
			`http_request_error; details="bad-request"`:   func(r *http.Request) { r.URL.Path = "/" + strings.Repeat("x", 70<<10) },
		} {
			r := x.request("GET", "/", nil)
			change(r)
			if got := <-x.begin(c, r); got.err != nil || got.header.Get("Proxy-Status") != "warctee; error="+kind {
				x.Errorf("the client got status %d, error %v and %q, want %q", got.status, got.err, got.header, kind)
			}
		}
	})
}
