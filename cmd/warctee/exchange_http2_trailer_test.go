package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An h2Wire is a client that speaks HTTP/2 frame by frame.
type h2Wire struct {
	*http2.Framer
	x      *scene
	block  bytes.Buffer
	enc    *hpack.Encoder
	stream uint32
}

func (x *scene) http2Wire() *h2Wire {
	x.Helper()
	p := x.encrypt(x.tunnel(x.origin.authority), "h2")
	p.SetDeadline(time.Now().Add(patience))
	io.WriteString(p.Conn, http2.ClientPreface)
	w := &h2Wire{Framer: http2.NewFramer(p.Conn, p.Conn), x: x, stream: ^uint32(0)}
	w.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	w.enc = hpack.NewEncoder(&w.block)
	w.WriteSettings()
	return w
}

// encode makes a header block of fields, NAME VALUE.
func (w *h2Wire) encode(fields ...string) []byte {
	w.block.Reset()
	for _, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		w.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	return bytes.Clone(w.block.Bytes())
}

// open begins a POST, with all that a frame of headers can have.
func (w *h2Wire) open(end bool, fields ...string) {
	w.stream += 2
	all := append([]string{":method POST", ":scheme https", ":authority " + w.x.origin.authority, ":path /"}, fields...)
	block := w.encode(all...)
	w.WriteHeaders(http2.HeadersFrameParam{StreamID: w.stream, BlockFragment: block[:2], EndStream: end, PadLength: 7, Priority: http2.PriorityParam{Weight: 3}})
	w.WriteContinuation(w.stream, false, block[2:3])
	w.WriteContinuation(w.stream, true, block[3:])
}

// status waits for the answer.
func (w *h2Wire) status() (status int) {
	w.x.Helper()
	for {
		frame, err := w.ReadFrame()
		if err != nil {
			w.x.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		case *http2.MetaHeadersFrame:
			if frame.StreamID == w.stream {
				fmt.Sscan(frame.PseudoValue("status"), &status)
				return status
			}
		}
	}
}

// A trailer gets to the origin and into the record whether it was announced or
// not, as over HTTP/1. What cannot be forwarded is refused.
func TestHTTP2Trailers(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	w := x.http2Wire()
	for i, test := range []struct{ announced, trailer, forwarded []string }{
		{nil, nil, nil},
		{nil, []string{"x-end 1"}, []string{"X-End: 1"}},
		{nil, []string{"x-end 1", "x-end 2", "x-more a: b", "x-empty "}, []string{"X-Empty: ", "X-End: 1", "X-End: 2", "X-More: a: b"}},
		{[]string{"trailer x-end"}, []string{"x-end 1", "x-other 2"}, []string{"X-End: 1", "X-Other: 2"}},
		{[]string{"trailer x-end", "content-length 4"}, []string{"x-end 1"}, []string{"X-End: 1"}},
		{[]string{"trailer x-never"}, nil, nil},
		{nil, []string{"warctee-evil 1", "warcprox-meta {}", "x-end 1"}, []string{"X-End: 1"}},
	} {
		w.open(false, test.announced...)
		w.WriteData(w.stream, test.trailer == nil, []byte("body"))
		if test.trailer != nil {
			block := w.encode(test.trailer...)
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: w.stream, BlockFragment: block[:1], EndStream: true, PadLength: 3})
			w.WriteContinuation(w.stream, true, block[1:])
		}
		o := x.origin.next()
		request := o.request()
		want := x.forwarded("POST", "/", "Transfer-Encoding: chunked\r\n") + "4\r\nbody\r\n0\r\n"
		for _, line := range test.forwarded {
			want += line + "\r\n"
		}
		x.same("the request", request, want+"\r\n")
		response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ntrail%d", i)
		o.send(response)
		if got := w.status(); got != 200 {
			x.Fatalf("the client got status %d", got)
		}
		x.want(wanted{uri: x.uri("/"), request: request, response: response})
	}
	x.finish()
}

func TestHTTP2TrailersRefused(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	w := x.http2Wire()
	for _, test := range []struct {
		name, length, trailer string
		status                int
	}{
		{"after a body of known length", "content-length 4", "x-end 1", 400},
		{"too large", "x-a b", "x-end " + strings.Repeat("x", 5000), 400},
		{"that would frame the message", "x-a b", "transfer-encoding chunked", 0},
	} {
		w.open(false, test.length)
		w.WriteData(w.stream, false, []byte("body"))
		w.WriteHeaders(http2.HeadersFrameParam{StreamID: w.stream, BlockFragment: w.encode(test.trailer), EndStream: true, EndHeaders: true})
		if got := w.status(); got != test.status {
			x.Errorf("a trailer %s is answered with status %d", test.name, got)
		}
	}
	x.mu.Lock()
	for _, o := range x.origin.conns {
		if strings.HasSuffix(string(o.in), "0\r\n\r\n") || strings.HasSuffix(string(o.in), "\r\n\r\nbody") {
			x.Errorf("the origin got a whole request: %q", o.in)
		}
		o.in = nil
	}
	x.origin.conns = nil
	x.mu.Unlock()
	x.stop()
	if records := x.readArchive(); len(records) > 1 {
		x.Errorf("there are %d records", len(records))
	}
}
