package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A framing is a request that asks for two views of where it ends. Behind it
// comes a second request, which nobody may get but as one of its own.
type framing struct {
	name    string
	request string // TARGET is /path or http://HOST/path, HOST is the origin's authority

	status int    // of the refusal, which ends the connection; 0: both requests are forwarded
	origin string // what the origin has to get, byte for byte; HOST is its authority
}

const post, head = "POST TARGET HTTP/1.1\r\nHost: HOST\r\n", "POST /path HTTP/1.1\r\nHost: HOST\r\n"

var framings = []framing{
	// Refused: two programs could see two ends.
	{name: "two lengths", request: post + "Content-Length: 3\r\nContent-Length: 33\r\n\r\nabc", status: 400},
	{name: "two lengths, the first one short", request: post + "Content-Length: 0\r\nContent-Length: 33\r\n\r\n", status: 400},
	{name: "equal lengths", request: post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", status: 400},
	{name: "list of equal lengths", request: post + "Content-Length: 3,3\r\n\r\nabc", status: 400},
	{name: "length with a plus sign", request: post + "Content-Length: +3\r\n\r\nabc", status: 400},
	{name: "length of minus zero", request: post + "Content-Length: -0\r\n\r\n", status: 400},
	{name: "length with an underscore", request: post + "Content-Length: 1_0\r\n\r\n0123456789", status: 400},
	{name: "hexadecimal length", request: post + "Content-Length: 0x3\r\n\r\nabc", status: 400},
	{name: "length with an exponent", request: post + "Content-Length: 1e1\r\n\r\n0123456789", status: 400},
	{name: "length with a fraction", request: post + "Content-Length: 3.0\r\n\r\nabc", status: 400},
	{name: "length with a parameter", request: post + "Content-Length: 3;x\r\n\r\nabc", status: 400},
	{name: "length of two words", request: post + "Content-Length: 3 3\r\n\r\nabc", status: 400},
	{name: "length and VT", request: post + "Content-Length: 3\x0b\r\n\r\nabc", status: 400},
	{name: "length and NBSP", request: post + "Content-Length: \xa03\r\n\r\nabc", status: 400},
	{name: "length in Arabic digits", request: post + "Content-Length: \u0663\r\n\r\nabc", status: 400},
	{name: "length of 2^63", request: post + "Content-Length: 9223372036854775808\r\n\r\nabc", status: 400},
	{name: "length that is 3 in 64 bits", request: post + "Content-Length: 18446744073709551619\r\n\r\nabc", status: 400},
	{name: "length that is 3 in 32 bits", request: post + "Content-Length: 4294967299\r\nContent-Length: 3\r\n\r\nabc", status: 400},
	{name: "no length", request: post + "Content-Length: \t\r\n\r\nabc", status: 400},

	{name: "length and chunked", request: post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "chunked and length", request: post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", status: 400},
	{name: "identity and length", request: post + "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", status: 400},
	{name: "unknown coding and length", request: post + "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\nabc", status: 400},
	{name: "no coding and length", request: post + "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc", status: 400},
	{name: "chunked and length that is none", request: post + "Transfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n", status: 400},

	{name: "chunked twice", request: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "chunked and identity", request: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", status: 400},
	{name: "list with chunked twice", request: post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", status: 501},
	{name: "chunked is not the last coding", request: post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", status: 501},
	{name: "identity alone", request: post + "Transfer-Encoding: identity\r\n\r\n", status: 501},
	{name: "no coding", request: post + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", status: 501},
	{name: "comma in front of chunked", request: post + "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", status: 501},
	{name: "comma behind chunked", request: post + "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", status: 501},
	{name: "chunked with a parameter", request: post + "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n", status: 501},
	{name: "quoted chunked", request: post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", status: 501},
	{name: "chunked and NBSP", request: post + "Transfer-Encoding: chunked\xa0\r\n\r\n0\r\n\r\n", status: 501},
	{name: "Unicode space and chunked", request: post + "Transfer-Encoding: \u2003chunked\r\n\r\n0\r\n\r\n", status: 501},
	{name: "FF and chunked", request: post + "Transfer-Encoding: \x0cchunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "chunked and NUL", request: post + "Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", status: 400},
	{name: "chunked with a long s", request: post + "Tran\u017ffer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "Transfer-Encoding with an en dash", request: post + "Transfer\u2013Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "chunked in HTTP/1.0", request: strings.Replace(post, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},

	{name: "space before the colon of Transfer-Encoding", request: post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "tab before the colon of Content-Length", request: post + "Content-Length\t: 3\r\n\r\nabc", status: 400},
	{name: "VT before the colon", request: post + "Content-Length\x0b: 3\r\n\r\nabc", status: 400},
	{name: "space before Transfer-Encoding", request: post + " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "space before the first field", request: "POST TARGET HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: HOST\r\n\r\n0\r\n\r\n", status: 400},
	{name: "folded Transfer-Encoding", request: post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "Transfer-Encoding in a folded line", request: post + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "folded empty line", request: post + "X: y\r\n \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "bare LF before Transfer-Encoding", request: post + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "bare CR before Transfer-Encoding", request: post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "CR CR LF", request: post + "X: y\r\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "bare CR before the end of the head", request: post + "Content-Length: 3\r\n\rabc\r\n\r\n", status: 400},
	{name: "NUL before Transfer-Encoding", request: post + "\x00Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "NUL in a name", request: post + "Transfer-Encoding\x00: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "underscore in Transfer-Encoding", request: post + "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
	{name: "underscore in Content-Length", request: post + "content_length: 3\r\n\r\nabc", status: 400},
	{name: "version in the target", request: "GET TARGET HTTP/1.1 HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400},
	{name: "tab instead of a space", request: "GET\tTARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", status: 400},
	{name: "space behind the version", request: "GET TARGET HTTP/1.1 \r\nHost: HOST\r\n\r\n", status: 400},
	{name: "two Host fields", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nHost: elsewhere.example\r\n\r\n", status: 400},

	// Forwarded, in a form of which there is one view.
	{name: "empty lines in front", request: "\r\n\r\nGET TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n", origin: "GET /path HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{name: "white space around a length", request: post + "Content-Length: \t 3 \t\r\n\r\nabc", origin: head + "Content-Length: \t 3 \t\r\n\r\nabc"},
	{name: "length with zeros in front", request: post + "Content-Length: 0003\r\n\r\nabc", origin: head + "Content-Length: 0003\r\n\r\nabc"},
	{name: "later minor version", request: "GET TARGET HTTP/1.2\r\nHost: HOST\r\n\r\n", origin: "GET /path HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{name: "spelling of chunked", request: post + "TRANSFER-encoding: \tcHUNKED \r\n\r\n3\r\nabc\r\n0\r\n\r\n", origin: head + "TRANSFER-encoding: \tcHUNKED \r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "GET with a length", request: "GET TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc", origin: "GET /path HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc"},
	{name: "OPTIONS with chunks", request: "OPTIONS TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		origin: "OPTIONS /path HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "a request in the body", request: post + "Content-Length: 39\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: other\r\n\r\n", origin: head + "Content-Length: 39\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: other\r\n\r\n"},
	{name: "chunk framing in the body", request: post + "Content-Length: 5\r\n\r\n0\r\n\r\n", origin: head + "Content-Length: 5\r\n\r\n0\r\n\r\n"},
	{name: "chunk extensions", request: post + "Transfer-Encoding: chunked\r\n\r\n3;a=\"b;c\";d\r\nabc\r\n0;last\r\n\r\n", origin: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "chunk sizes with zeros in front", request: post + "Transfer-Encoding: chunked\r\n\r\n0000000000000003\r\nabc\r\n0000\r\n\r\n", origin: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "framing in the trailer", request: post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nContent-Length: 30\r\nTransfer-Encoding: identity\r\nHost: other\r\n\r\n",
		origin: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"},
	{name: "Connection that names the length", request: post + "Connection: close, Content-Length\r\nContent-Length: 3\r\n\r\nabc", origin: head + "Connection: close\r\nContent-Length: 3\r\n\r\nabc"},
	{name: "Connection that names the coding", request: post + "Connection: Transfer-Encoding, Host, X\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		origin: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
}

func TestRequestFraming(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, scheme == "https", func(*recordFlags) {})
			var lines []failureLine
			for _, f := range framings {
				if f.status != 0 {
					x.step(f.name, func() { f.refused(x) })
					lines = append(lines, failureLine{Phase: "client", Class: "bad-request", Status: f.status})
				}
			}
			x.fine("/between")
			for _, f := range framings {
				if f.status == 0 {
					x.step(f.name, func() { f.forwarded(x) })
				}
			}
			x.finish()
			x.failureLines(lines...)
		})
	}
}

// step is a subtest that goes on with the scene.
func (x *scene) step(name string, f func()) {
	outer := x.T
	defer func() { x.T = outer }()
	outer.Run(name, func(t *testing.T) {
		x.T = t
		f()
	})
}

// fill replaces TARGET and HOST.
func (x *scene) fill(message string) string {
	target := "/path"
	if !x.https {
		target = "http://HOST/path"
	}
	return strings.ReplaceAll(strings.ReplaceAll(message, "TARGET", target), "HOST", x.origin.authority)
}

func (f *framing) refused(x *scene) {
	second, _ := x.ask("GET", "/second", "")
	c := x.client()
	c.trySend(x.fill(f.request) + second) // what is refused may not be taken whole
	x.refused(c.reply("GET"), f.status, "")
	if rest, _ := c.rest(); rest != "" {
		x.Errorf("behind the refusal the client got %q", rest)
	}
	if n := x.origin.connections(); n > 0 {
		x.Errorf("the origin has had %d connections", n)
	}
	c.Close()
}

func (f *framing) forwarded(x *scene) {
	second, forwarded := x.ask("GET", "/second", "")
	c := x.client()
	c.send(x.fill(f.request) + second)
	want := x.fill(f.origin)
	o := x.origin.next()
	request := o.take(len(want))
	x.same("the request", request, want)
	if strings.Contains(want, "Connection: close\r\n") {
		x.answer(c, o, "/path", request, "last")
		c.ends() // and the second is no request any more
		return
	}
	x.answer(c, o, "/path", request, "first")
	o = x.origin.next()
	request = o.request()
	x.same("the second request", request, forwarded)
	x.answer(c, o, "/second", request, "second")
	c.Close()
}

// answer lets the origin answer and the client get it. The body is never the
// same.
func (x *scene) answer(c, o *peer, target, request, body string) {
	x.Helper()
	body = fmt.Sprintf("%s %d", body, len(x.wants))
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	o.send(response)
	x.got(c.reply("GET"), 200, body)
	x.want(wanted{uri: x.uri(target), request: request, response: response})
}

// failureLines compares the failure log of a scene that has ended: its phases,
// classes and status codes.
func (x *scene) failureLines(want ...failureLine) {
	x.Helper()
	if _, err := os.Stat(filepath.Join(x.flags.dir, "failures.jsonl")); err != nil && len(want) == 0 {
		return
	}
	var got []failureLine
	for _, l := range failuresOf(x) {
		got = append(got, failureLine{Phase: l.Phase, Class: l.Class, Status: l.Status})
	}
	if !slices.Equal(got, want) {
		x.Errorf("in the failure log is\n%+v\nwant\n%+v", got, want)
	}
}

// Tricks with chunks in an upload: the origin never gets what it could take for
// the end of the request, and nothing of what comes behind.
func TestChunkTricks(t *testing.T) {
	t.Parallel()
	tricks := map[string]string{
		"size with a sign":                    "+5\r\nhello\r\n0\r\n\r\n",
		"negative size":                       "-1\r\nhello\r\n0\r\n\r\n",
		"size of minus zero":                  "-0\r\n\r\n",
		"size with a prefix":                  "0x5\r\nhello\r\n0\r\n\r\n",
		"zero with a prefix":                  "0x0\r\n\r\n",
		"size with an underscore":             "1_0\r\n0123456789abcdef\r\n0\r\n\r\n",
		"size with a space in front":          " 5\r\nhello\r\n0\r\n\r\n",
		"size with a space behind":            "5 \r\nhello\r\n0\r\n\r\n",
		"size with a tab and extension":       "5\t;x\r\nhello\r\n0\r\n\r\n",
		"size of 2^64":                        "10000000000000000\r\nhello\r\n0\r\n\r\n",
		"size of 2^64-1":                      "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"size of 2^63":                        "8000000000000000\r\nhello\r\n0\r\n\r\n",
		"size that is 5 in 64 bits":           "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"size with NUL":                       "5\x00\r\nhello\r\n0\r\n\r\n",
		"no size":                             "\r\nhello\r\n0\r\n\r\n",
		"extension without size":              ";x=y\r\nhello\r\n0\r\n\r\n",
		"bare LF behind the size":             "5\nhello\r\n0\r\n\r\n",
		"bare LF in an extension":             "5;a\nhello\r\n0\r\n\r\n",
		"bare CR in an extension":             "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"bare CR behind the size":             "5\rhello\r\n0\r\n\r\n",
		"CR CR LF behind the size":            "5\r\r\nhello\r\n0\r\n\r\n",
		"NUL in an extension":                 "5;a\x00b\r\nhello\r\n0\r\n\r\n",
		"data too long":                       "4\r\nhello\r\n0\r\n\r\n",
		"data too short":                      "6\r\nhello\r\n0\r\n\r\n",
		"bare LF behind the data":             "5\r\nhello\n0\r\n\r\n",
		"bare CR behind the data":             "5\r\nhello\r0\r\n\r\n",
		"nothing behind the data":             "5\r\nhello0\r\n\r\n",
		"two line ends behind the data":       "5\r\nhello\r\n\r\n0\r\n\r\n",
		"bare LF behind the last chunk":       "5\r\nhello\r\n0\n\r\n",
		"bare LF at the end":                  "5\r\nhello\r\n0\r\n\n",
		"64 KB of extension":                  "5;" + strings.Repeat("x", 64<<10) + "\r\nhello\r\n0\r\n\r\n",
		"size without end":                    strings.Repeat("0", 64<<10),
		"trailer line without a colon":        "5\r\nhello\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
		"trailer with space before the colon": "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
		"folded trailer":                      "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
		"NUL in the trailer":                  "5\r\nhello\r\n0\r\nX: \x00\r\n\r\n",
		"bare CR in the trailer":              "5\r\nhello\r\n0\r\nX: a\rb\r\n\r\n",
		"size with too many zeros in front":   "00000000000000005\r\nhello\r\n0\r\n\r\n",
		"64 KB of trailer":                    "5\r\nhello\r\n0\r\n" + strings.Repeat("X: y\r\n", 11_000) + "\r\n",
		"bad line far down in the trailer":    "5\r\nhello\r\n0\r\n" + strings.Repeat("X: y\r\n", 600) + "X y\r\n\r\n",
		"far more extensions than data":       strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\nx\r\n", 500) + "0\r\n\r\n",
	}
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, scheme == "https", func(*recordFlags) {})
			var lines []failureLine
			for name, body := range tricks {
				x.step(name, func() { x.trick(body) })
				lines = append(lines, failureLine{Phase: "client", Class: "bad-request", Status: 400})
			}
			x.fine("/next")
			x.finish()
			x.failureLines(lines...)
		})
	}
}

func (x *scene) trick(body string) {
	x.Helper()
	sent, forwarded := x.ask("POST", "/trick", "Transfer-Encoding: chunked\r\n")
	second, _ := x.ask("GET", "/second", "")
	before := x.origin.connections()
	c := x.client()
	c.trySend(sent + body + second)
	x.refused(c.reply("POST"), 400, "the request body is not valid")
	if rest, _ := c.rest(); rest != "" {
		x.Errorf("behind the refusal the client got %q", rest)
	}
	c.Close()
	o := x.origin.next()
	if n := x.origin.connections() - before; n != 1 {
		x.Errorf("the origin has had %d connections", n)
	}
	got, _ := o.rest()
	if !strings.HasPrefix(got, forwarded) {
		x.Errorf("the origin got %.300q, want at first %q", got, forwarded)
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(got)))
	if err != nil {
		x.Fatal(err)
	}
	if b, err := io.ReadAll(r.Body); err == nil {
		x.Errorf("the origin got a whole request, with the body %q: %.300q", b, got)
	}
}
