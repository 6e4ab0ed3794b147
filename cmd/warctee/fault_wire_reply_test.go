package main

import (
	"strings"
	"testing"
)

// An ending is a reply that asks for two views of where it ends. Behind it comes
// a forged one, on a connection that stays open.
type ending struct {
	name  string
	reply string

	entity    string // that the client gets
	truncated string // the client gets the entity and the connection ends; the reason in the record
	bad       bool   // the client gets 502, and what came is recorded as no response
	close     bool   // the origin closes, which is the end of the body
}

const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"

const ok, chunks = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n"

var endings = []ending{
	// One view, that of browsers.
	{name: "equal lengths", reply: ok + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", entity: "abc"},
	{name: "list of equal lengths", reply: ok + "Content-Length: 3, 3\r\n\r\nabc", entity: "abc"},
	{name: "equal lengths, one with zeros", reply: ok + "Content-Length: 3, 003\r\n\r\nabc", entity: "abc"},
	{name: "length and white space", reply: ok + "Content-Length:\t 3 \t\r\n\r\nabc", entity: "abc"},
	{name: "space before the colon", reply: ok + "Content-Length : 3\r\n\r\nabc", entity: "abc"},
	{name: "folded length", reply: ok + "Content-Length:\r\n 3\r\n\r\nabc", entity: "abc"},
	{name: "length in a folded line", reply: ok + "X: y\r\n Content-Length: 30\r\nContent-Length: 3\r\n\r\nabc", entity: "abc"},
	{name: "space before a first field", reply: ok + " Content-Length: 30\r\nContent-Length: 3\r\n\r\nabc", entity: "abc"},
	{name: "another name with a length in it", reply: ok + "Content_Length: 30\r\nX-Content-Length: 30\r\nContent-Length: 3\r\n\r\nabc", entity: "abc"},
	{name: "bare line feeds", reply: "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", entity: "abc"},
	{name: "line ends of two kinds", reply: "HTTP/1.1 200 OK\nContent-Length: 3\r\nX: y\n\r\nabc", entity: "abc"},
	{name: "chunked and a length", reply: ok + "Transfer-Encoding: chunked\r\nContent-Length: 30\r\n\r\n3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "a length and chunked", reply: ok + "Content-Length: 30\r\n" + chunks + "3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "two lengths and chunked", reply: ok + "Content-Length: 30\r\nContent-Length: 31\r\n" + chunks + "3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "spelling of chunked", reply: ok + "transfer-ENCODING:\tcHUNKED \r\n\r\n3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "space before the colon of chunked", reply: ok + "Transfer-Encoding : chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "folded chunked", reply: ok + "Transfer-Encoding:\r\n chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "identity and chunked", reply: ok + "Transfer-Encoding: identity, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "identity and a length", reply: ok + "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", entity: "abc"},
	{name: "chunked in HTTP/1.0", reply: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + chunks + "3\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "chunk lines with bare LF", reply: ok + chunks + "3\nabc\n0\n\n", entity: "abc"},
	{name: "bare LF behind the data of a chunk", reply: ok + chunks + "4\r\nabc\r\n0\r\n\r\n", entity: "abc\r"},
	{name: "chunk sizes with white space", reply: ok + chunks + "3 \t\r\nabc\r\n0 \r\n\r\n", entity: "abc"},
	{name: "chunk sizes with zeros in front", reply: ok + chunks + "00000000000000000000003\r\nabc\r\n000\r\n\r\n", entity: "abc"},
	{name: "controls in a chunk extension", reply: ok + chunks + "3;\x00\x16\r\nabc\r\n0\r\n\r\n", entity: "abc"},
	{name: "chunk extensions", reply: ok + chunks + "3;x=\"\\\"0\\r\\n\"; y\r\nabc\r\n0;z\r\n\r\n", entity: "abc"},
	{name: "framing in the trailer", reply: ok + chunks + "3\r\nabc\r\n0\r\nContent-Length: 30\r\nTransfer-Encoding: identity\r\nno field\r\n\r\n", entity: "abc"},
	{name: "a response in a response", reply: ok + "Content-Length: 44\r\n\r\n" + forged[:44], entity: forged[:44]},
	{name: "an empty list of lengths", reply: ok + "Content-Length: ,\r\n\r\nabc", entity: "abc" + forged, close: true},
	{name: "no framing at all", reply: ok + "\r\nabc", entity: "abc" + forged, close: true},

	// No view at all.
	{name: "two lengths", reply: ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", bad: true},
	{name: "list of two lengths", reply: ok + "Content-Length: 3, 4\r\n\r\nabc", bad: true},
	{name: "length with a sign", reply: ok + "Content-Length: +3\r\n\r\nabc", bad: true},
	{name: "negative length", reply: ok + "Content-Length: -3\r\n\r\nabc", bad: true},
	{name: "hexadecimal length", reply: ok + "Content-Length: 0x3\r\n\r\nabc", bad: true},
	{name: "length of two words", reply: ok + "Content-Length: 3 3\r\n\r\nabc", bad: true},
	{name: "length with a parameter", reply: ok + "Content-Length: 3;x\r\n\r\nabc", bad: true},
	{name: "length and VT", reply: ok + "Content-Length: \x0b3\r\n\r\nabc", bad: true},
	{name: "length and NBSP", reply: ok + "Content-Length: 3\xa0\r\n\r\nabc", bad: true},
	{name: "length of 2 to the 63rd", reply: ok + "Content-Length: 9223372036854775808\r\n\r\nabc", bad: true},
	{name: "length that is 3 in 64 bits", reply: ok + "Content-Length: 18446744073709551619\r\n\r\nabc", bad: true},
	{name: "unknown coding", reply: ok + "Transfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", bad: true},
	{name: "gzip and chunked", reply: ok + "Transfer-Encoding: gzip\r\n" + chunks + "0\r\n\r\n", bad: true},
	{name: "chunked is not the last coding", reply: ok + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", bad: true},
	{name: "identity behind chunked", reply: ok + "Transfer-Encoding: chunked, identity\r\nContent-Length: 3\r\n\r\nabc", bad: true},
	{name: "chunked twice", reply: ok + "Transfer-Encoding: chunked\r\n" + chunks + "0\r\n\r\n", bad: true},
	{name: "chunked with a parameter", reply: ok + "Transfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n", bad: true},
	{name: "quoted chunked", reply: ok + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", bad: true},
	{name: "chunked and VT", reply: ok + "Transfer-Encoding: chunked\x0b\r\n\r\n0\r\n\r\n", bad: true},
	{name: "chunked and NBSP", reply: ok + "Transfer-Encoding: \xa0chunked\r\n\r\n0\r\n\r\n", bad: true},
	{name: "NUL in a value", reply: ok + "X: a\x00Content-Length: 30\r\nContent-Length: 3\r\n\r\nabc", bad: true},
	{name: "NUL in a name", reply: ok + "Content-Length\x00: 3\r\n\r\nabc", bad: true},
	{name: "NUL in the reason", reply: "HTTP/1.1 200 O\x00K\r\nContent-Length: 3\r\n\r\nabc", bad: true},
	{name: "bare CR before a length", reply: ok + "X: a\rContent-Length: 30\r\nContent-Length: 3\r\n\r\nabc", bad: true},
	{name: "bare CR in the reason", reply: "HTTP/1.1 200 OK\rContent-Length: 30\r\nContent-Length: 3\r\n\r\nabc", bad: true},
	{name: "CR CR LF", reply: ok + "Content-Length: 3\r\r\n\r\nabc", bad: true},
	{name: "bare CR before the end of the head", reply: ok + "Content-Length: 3\r\n\rX: y\r\n\r\nabc", bad: true},
	{name: "empty line in front", reply: "\r\n" + ok + "Content-Length: 3\r\n\r\nabc", bad: true},
	{name: "a banner", reply: "SSH-2.0-OpenSSH_9.6\r\n", bad: true},
	{name: "a mail server", reply: "220 mail.example ESMTP\r\n", bad: true},
	{name: "HTTP/2 frames", reply: "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80", bad: true},

	// One view that ends in the middle.
	{name: "chunk size with a sign", reply: ok + chunks + "3\r\nabc\r\n+3\r\ndef\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "chunk size with a prefix", reply: ok + chunks + "3\r\nabc\r\n0x3\r\ndef\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "chunk size of 2 to the 64th", reply: ok + chunks + "3\r\nabc\r\n10000000000000000\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "chunk size that is 3 in 64 bits", reply: ok + chunks + "3\r\nabc\r\n10000000000000003\r\ndef\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "no chunk size", reply: ok + chunks + "3\r\nabc\r\n;x\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "white space in front of a chunk size", reply: ok + chunks + "3\r\nabc\r\n\x0b0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "bare CR behind a chunk size", reply: ok + chunks + "3\r\nabc\r\n3\rdef\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "bare CR in a chunk extension", reply: ok + chunks + "3\r\nabc\r\n3;x\ry\r\ndef\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "chunk too long", reply: ok + chunks + "3\r\nabcd\r\n0\r\n\r\n", entity: "abc", truncated: "unspecified"},
	{name: "chunk too short", reply: ok + chunks + "5\r\nabc\r\n0\r\n\r\n", entity: "abc\r\n", truncated: "unspecified"},
	{name: "not chunked at all", reply: ok + chunks + "<html>abc", truncated: "unspecified"},
}

// However a reply is framed: client, record and the next exchange have the same
// view of it, and the forged reply behind it reaches nobody.
func TestReplyFraming(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, scheme == "https", func(f *recordFlags) { f.dedup = "off" })
			var lines []failureLine
			for _, e := range endings {
				x.step(e.name, func() { e.run(x) })
				if e.bad {
					lines = append(lines, failureLine{Phase: "reply-head", Class: "bad-reply", Status: 502})
				}
			}
			x.finish()
			x.failureLines(lines...)
		})
	}
}

func (e *ending) run(x *scene) {
	c := x.client()
	target := "/" + strings.ReplaceAll(e.name, " ", "-")
	o, request := x.get(c, target)
	o.send(e.reply + forged)
	w := wanted{uri: x.uri(target), request: request, response: e.reply}
	if e.close {
		o.Close()
		w.response += forged
	}
	switch got := c.reply("GET"); {
	case e.bad:
		x.refused(got, 502, "not valid HTTP/1.1")
		w.response, w.instead, w.atLeast, w.truncated = e.reply+forged, true, 1, "unspecified"
	case e.truncated != "":
		x.gotCut(got, e.entity)
		c.ends()
		c = x.client()
		w.response, w.atLeast, w.truncated = e.reply+forged, len(e.reply)-len(forged), e.truncated
	default:
		x.got(got, 200, e.entity)
	}
	x.want(w)
	if !e.close {
		o.ends()
	}
	if next := x.fineOn(c, "/next"); next == o {
		x.Error("the proxy has used the connection again")
	}
	c.Close()
}
