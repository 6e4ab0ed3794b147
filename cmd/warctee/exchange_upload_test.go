package main

import (
	"fmt"
	"strings"
	"testing"
)

// An upload is passed on as it comes.
func TestUploadArrivesAsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fields, part, end string }{
		"length":  {"Content-Length: 15\r\n", "part.", ""},
		"chunked": {"Transfer-Encoding: chunked\r\n", "5\r\npart.\r\n", "0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				sent, forwarded := x.ask("POST", "/", c.fields)
				client.send(sent)
				o := x.origin.next()
				request := o.take(len(forwarded))
				x.same("the head", request, forwarded)
				for range 3 {
					client.send(c.part)
					part := o.take(len(c.part))
					x.same("a part", part, c.part)
					request += part
				}
				client.send(c.end)
				request += o.take(len(c.end))
				response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
				o.send(response)
				x.got(client.reply("POST"), 200, "up")
				x.want(wanted{uri: x.uri("/"), request: request, response: response})
				x.fineOn(client, "/next")
			})
		})
	}
}

// uploading begins an upload of which only the first part is sent.
func (x *scene) uploading(c *peer, fields, body, forwardedBody string) (o *peer, request string) {
	x.Helper()
	sent, forwarded := x.ask("POST", "/upload", fields)
	c.send(sent + body)
	o = x.origin.next()
	request = o.take(len(forwarded) + len(forwardedBody))
	x.same("the request", request, forwarded+forwardedBody)
	return o, request
}

// A reply that comes in the middle of an upload goes to the client at once,
// and when it is whole it ends the upload.
func TestReplyBeforeUploadIsWhole(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("u", 1000)
	chunk := "3e8\r\n" + body + "\r\n"
	for name, c := range map[string]struct{ fields, body string }{
		"large":   {"Content-Length: 10000000\r\n", body},
		"small":   {"Content-Length: 30000\r\n", body},
		"chunked": {"Transfer-Encoding: chunked\r\n", chunk},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.uploading(client, c.fields, c.body, c.body)
				response := "HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much"
				o.send(response)
				x.got(client.reply("POST"), 413, "too much")
				// It goes on for a while, as programs do that do not look.
				for range 20 {
					if client.trySend(c.body) != nil {
						break
					}
				}
				o.rest() // the proxy gives the connection up
				x.want(wanted{uri: x.uri("/upload"), request: request, response: response, requestTruncated: "disconnect"})
				x.fine("/next")
			})
		})
		t.Run(name+", the origin closes", func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.uploading(client, c.fields, c.body, c.body)
				response := "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\ntoo much, until the end"
				o.send(response)
				o.Close()
				x.got(client.reply("POST"), 413, "too much, until the end")
				x.want(wanted{uri: x.uri("/upload"), request: request, response: response, requestTruncated: "disconnect"})
				x.fine("/next")
			})
		})
		// What the origin has to say while it listens.
		t.Run(name+", the reply streams", func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				o, request := x.uploading(client, c.fields, c.body, c.body)
				response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
				o.send(response)
				x.waitToGet(client, "first")
				o.send("5\r\nother\r\n0\r\n\r\n")
				x.got(client.reply("POST"), 200, "firstother")
				x.want(wanted{uri: x.uri("/upload"), request: request, response: response + "5\r\nother\r\n0\r\n\r\n", requestTruncated: "disconnect"})
				x.fine("/next")
			})
		})
	}
}

// A client that never stops sending gets the reply of an origin that does not
// read.
func TestReplyWhileUploading(t *testing.T) {
	overBoth(t, func(x *scene) {
		client := x.client()
		sent, forwarded := x.ask("POST", "/upload", "Content-Length: 1000000000\r\n")
		part := strings.Repeat("0123456789abcdef", 1024)
		client.send(sent)
		sending := make(chan struct{})
		go func() { // ends when the proxy closes the connection, at the latest with the test
			defer close(sending)
			for client.trySend(part) == nil {
			}
		}()
		o := x.origin.next()
		request := o.upTo("\r\n\r\n")
		x.same("the head", request, forwarded)
		response := "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nstop"
		o.send(response)
		x.got(client.reply("POST"), 413, "stop")
		o.rest()
		<-sending
		x.closePeers()
		x.settled()
		x.wantUploadCut(response, forwarded)
	})
}

// wantUploadCut is for an exchange of whose request a part is recorded that
// the test cannot know.
func (x *scene) wantUploadCut(response, head string) {
	x.Helper()
	x.stop()
	for _, r := range x.readArchive() {
		if r.kind() == "request" && strings.HasPrefix(r.block, head) {
			rest := r.block[len(head):]
			if want := strings.Repeat("0123456789abcdef", len(rest)/16+1)[:len(rest)]; rest != want {
				x.Error("the request record has other octets than were sent")
			}
			x.want(wanted{uri: x.uri("/upload"), request: r.block, response: response, requestTruncated: "disconnect"})
		}
	}
}

// An origin must not take a part of an upload for the whole.
func TestUploadBreaksOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fields, body, upload string
		reset                      bool
	}{
		{"length", "Content-Length: 10\r\n", "four", "four", false},
		{"length, reset", "Content-Length: 10\r\n", "four", "four", true},
		{"chunked", "Transfer-Encoding: chunked\r\n", "4\r\nfour\r\n", "4\r\nfour\r\n", false},
		{"chunked, in the last chunk", "Transfer-Encoding: chunked\r\n", "4\r\nfour\r\n0\r\n", "", false},
		{"chunked, reset", "Transfer-Encoding: chunked\r\n", "4\r\nfour\r\n", "4\r\nfour\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				client := x.client()
				sent, forwarded := x.ask("POST", "/", c.fields)
				client.send(sent + c.body)
				o := x.origin.next()
				x.same("the request", o.take(len(forwarded+c.upload)), forwarded+c.upload)
				if c.reset {
					client.reset()
				} else {
					client.Close()
				}
				if rest, _ := o.rest(); strings.HasSuffix(rest, "0\r\n\r\n") || c.upload != "" && rest != "" {
					x.Errorf("the origin got more of a request than there is: %q", rest)
				}
				x.fine("/next")
				x.settled() // the failure is counted before the exchange has ended
				x.failures(1)
			})
		})
	}
}

// A broken chunk in an upload is refused, whatever has gone before.
func TestBadChunkInUpload(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"not a number":               "zz\r\nhello\r\n0\r\n\r\n",
		"negative":                   "-5\r\nhello\r\n0\r\n\r\n",
		"prefix":                     "0x5\r\nhello\r\n0\r\n\r\n",
		"overflow":                   "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"blank":                      "5 \r\nhello\r\n0\r\n\r\n",
		"bare LF":                    "5\nhello\n0\n\n",
		"data too long":              "4\r\nhello\r\n0\r\n\r\n",
		"1 MB of extension":          "5;" + strings.Repeat("x", 1<<20) + "\r\nhello\r\n0\r\n\r\n",
		"trailer line without colon": "0\r\nnonsense\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				c := x.client()
				sent, forwarded := x.ask("POST", "/", "Transfer-Encoding: chunked\r\n")
				c.send(sent + "3\r\nabc\r\n")
				o := x.origin.next()
				start := forwarded + "3\r\nabc\r\n"
				x.same("the request", o.take(len(start)), start)
				c.trySend(bad) // it may be refused before all has been sent
				x.refused(c.reply("POST"), 400, "the request body is not valid")
				if rest, _ := o.rest(); strings.HasSuffix(rest, "0\r\n\r\n") {
					x.Errorf("the origin got the end of a request: %q", rest)
				}
				x.fine("/next")
				x.failures(1)
			})
		})
	}
}

// Both directions at once.
func TestFullDuplex(t *testing.T) {
	overBoth(t, func(x *scene) {
		client := x.client()
		o, request := x.uploading(client, "Transfer-Encoding: chunked\r\n", "1\r\n0\r\n", "1\r\n0\r\n")
		response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		o.send(response)
		for i := range 5 {
			echo := fmt.Sprintf("1\r\n%d\r\n", i)
			o.send(echo)
			response += echo
			x.waitToGet(client, echo)
			next := fmt.Sprintf("1\r\n%d\r\n", i+1)
			client.send(next)
			got := o.take(len(next))
			x.same("what the origin got", got, next)
			request += got
		}
		client.send("0\r\n\r\n")
		request += o.take(len("0\r\n\r\n"))
		o.send("0\r\n\r\n")
		x.got(client.reply("POST"), 200, "01234")
		x.want(wanted{uri: x.uri("/upload"), request: request, response: response + "0\r\n\r\n"})
		x.fine("/next")
	})
}
