package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ask makes the head of a request: as a client sends it to the proxy, and as
// the origin has to get it. fields are lines.
func (x *scene) ask(method, target, fields string) (sent, forwarded string) {
	rest := " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n" + fields + "\r\n"
	forwarded = method + " " + target + rest
	if x.https {
		return forwarded, forwarded
	}
	return method + " http://" + x.origin.authority + target + rest, forwarded
}

// uri is the WARC-Target-URI for a target.
func (x *scene) uri(target string) string {
	if x.https {
		return "https://" + x.origin.authority + target
	}
	return "http://" + x.origin.authority + target
}

// get begins an exchange: it sends a GET and returns the connection on which
// the origin got it, and what it got.
func (x *scene) get(c *peer, target string) (o *peer, request string) {
	x.Helper()
	sent, forwarded := x.ask("GET", target, "")
	c.send(sent)
	o = x.origin.next()
	request = o.request()
	x.same("the request", request, forwarded)
	return o, request
}

// fine makes an exchange on a new client connection, with which nothing must
// go wrong, and returns the origin's connection. The body is never the same.
func (x *scene) fine(target string) *peer {
	x.Helper()
	return x.fineOn(x.client(), target)
}

func (x *scene) fineOn(c *peer, target string) *peer {
	x.Helper()
	o, request := x.get(c, target)
	body := fmt.Sprintf("fine: %s %d", target, len(x.wants))
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	o.send(response)
	got := c.reply("GET")
	x.got(got, 200, body)
	x.want(wanted{uri: x.uri(target), request: request, response: response})
	return o
}

// got checks a whole reply.
func (x *scene) got(r reply, status int, body string) {
	x.Helper()
	if r.status != status || !r.whole {
		x.Fatalf("the client got status %d (whole: %t), want %d: %.300q %.300q", r.status, r.whole, status, r.head, r.body)
	}
	x.same("the body that the client got", r.body, body)
}

// gotCut checks a reply of which only a part came.
func (x *scene) gotCut(r reply, body string) {
	x.Helper()
	if r.status != 200 || r.whole {
		x.Errorf("the client got status %d (whole: %t), want a 200 that is cut", r.status, r.whole)
	}
	x.same("the body that the client got", r.body, body)
}

// refused checks an answer of the proxy itself: one sentence, of which a part
// is given.
func (x *scene) refused(r reply, status int, sentence string) {
	x.Helper()
	if r.status != status || !r.whole {
		x.Errorf("the client got status %d (whole: %t), want %d: %.300q", r.status, r.whole, status, r.body)
	}
	if !strings.Contains(r.body, sentence) || strings.Count(strings.TrimSpace(r.body), "\n") > 0 || !strings.HasSuffix(r.body, "\n") {
		x.Errorf("the answer is %q, want one line with %q", r.body, sentence)
	}
	if got := field(r.head, "Content-Type"); got != "text/plain; charset=utf-8" {
		x.Errorf("the answer has Content-Type %q", got)
	}
	if got := field(r.head, "Proxy-Status"); !ownStatus.MatchString(got) {
		x.Errorf("the answer has Proxy-Status %q", got)
	}
}

// ownStatus is the Proxy-Status of a refusal.
var ownStatus = regexp.MustCompile(`^warctee; error=[a-z_]+; details="[a-z-]+"$`)

func (x *scene) same(what, got, want string) {
	x.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-100)
	x.Errorf("%s differs at byte %d (%d bytes, want %d):\n got …%.300q\nwant …%.300q", what, at, len(got), len(want), got[from:], want[from:])
}

// settled waits until no exchange is under way: all that has been is in the
// archive.
func (x *scene) settled() {
	x.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for start := time.Now(); ; <-poll.C {
		status := x.proxy.recorder.Status()
		if status.InFlight+status.Long == 0 {
			return
		}
		if time.Since(start) > patience {
			x.Fatalf("%d exchanges and %d long ones do not end", status.InFlight, status.Long)
		}
	}
}

// failures checks how many exchanges have failed without a response.
func (x *scene) failures(n int64) {
	x.Helper()
	if got := x.proxy.recorder.Status().Failures; got != n {
		x.Errorf("%d failures are counted, want %d", got, n)
	}
}
