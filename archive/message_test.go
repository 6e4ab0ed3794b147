package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// record returns a record of an HTTP message, or of what content says.
func record(kind, content, block string) (*warc.Record, io.Reader) {
	r := &warc.Record{Header: warc.Header{{Name: "WARC-Type", Value: kind}, {Name: "WARC-Target-URI", Value: "http://origin.example/"}}, Length: int64(len(block))}
	if content != "" {
		r.Header.Add("Content-Type", content)
	}
	return r, strings.NewReader(block)
}

func gz(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func TestMessage(t *testing.T) {
	const request, response = "application/http; msgtype=request", "application/http;msgtype=response"
	for _, test := range []struct{ name, kind, content, block, payload, decoded, media string }{
		{"length", "response", response, "HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=x\r\nContent-Length: 3\r\n\r\nabc", "abc", "abc", "text/html"},
		{"chunked", "response", response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc", "abc", ""},
		{"chunked in its head only", "response", response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>", "<html>", "<html>", ""},
		{"gzip", "response", response, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gz("abc"), gz("abc"), "abc", ""},
		{"longer than its length", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abcdef", "abcdef", ""},
		{"a body with a length of zero", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nabc", "abc", "abc", ""},
		{"a body of a 204", "response", response, "HTTP/1.1 204 OK\r\n\r\nabc", "abc", "abc", ""},
		{"a body of a 304", "response", response, "HTTP/1.1 304 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", "abc", ""},
		{"two lengths", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcdef", "abcdef", "abcdef", ""},
		{"two equal lengths", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabcdef", "abcdef", "abcdef", ""},
		{"a length that is none", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc", "abc", "abc", ""},
		{"chunked with a length", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", "abc", ""},
		{"a length, and chunked in its head only", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n<html>", "<html>", "<html>", ""},
		{"octets behind the last chunk", "response", response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nxy", "abc", "abc", ""},
		{"gzip longer than its length", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Encoding: gzip\r\n\r\n" + gz("abc"), gz("abc"), "abc", ""},
		{"gzip, and something else behind its length", "response", response, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Encoding: gzip\r\n\r\n%s\r\n--------", len(gz("abc")), gz("abc")), gz("abc") + "\r\n--------", "abc", ""},
		{"gzip in its head only", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabcdef", "abcdef", "abcdef", ""},
		{"br in its head only", "response", response, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n<!doctype html><p>", "<!doctype html><p>", "<!doctype html><p>", ""},
		{"request longer than its length", "request", request, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nabc", "abc", "abc", ""},
		{"request without a length", "request", request, "POST / HTTP/1.1\r\nHost: x\r\n\r\nabc", "abc", "abc", ""},
		{"request with two lengths", "request", request, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc", "abc", "abc", ""},
		{"request, chunked with a length", "request", request, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", "abc", ""},
		{"to a HEAD", "response", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\n", "", "", ""},
		{"request", "request", request, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "abc", "abc", ""},
		{"revisit", "revisit", response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "", "", ""},
		{"revisit without a block", "revisit", "", "", "", "", ""},
		{"resource", "resource", "image/PNG", "HTTP/1.1 200 OK\r\n\r\nabc", "HTTP/1.1 200 OK\r\n\r\nabc", "HTTP/1.1 200 OK\r\n\r\nabc", "image/png"},
		{"no Content-Type", "response", "", "HTTP/1.0 200\n\nabc", "abc", "abc", ""},
		{"of dns", "response", "text/dns", "20260101\na", "20260101\na", "20260101\na", "text/dns"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := ReadMessage(record(test.kind, test.content, test.block))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(m.Payload()); err != nil || string(got) != test.payload {
				t.Errorf("payload %q, %v; want %q", got, err, test.payload)
			}
			if m.MediaType() != test.media {
				t.Errorf("media type %q, want %q", m.MediaType(), test.media)
			}
			m, _ = ReadMessage(record(test.kind, test.content, test.block))
			if r, err := m.Decoded(); err != nil {
				if !strings.Contains(err.Error(), test.decoded) {
					t.Errorf("decoded: %v", err)
				}
			} else if got, err := io.ReadAll(r); err != nil || string(got) != test.decoded {
				t.Errorf("decoded %q, %v; want %q", got, err, test.decoded)
			}
		})
	}
}

// TestFlaws: what a payload has though the head says otherwise is told.
func TestFlaws(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct{ block, want string }{
		{head + "Content-Length: 3\r\n\r\nabc", ""},
		{head + "\r\nabc", ""},
		{head + "Content-Length: 3\r\n\r\n", ""},
		{head + "Content-Length: 3\r\n\r\nabcdef", "Content-Length is 3, but the body in the record has 6 octets"},
		{head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nabc", "3 octets follow the last chunk"},
		{head + "Transfer-Encoding: chunked\r\n\r\n<html>", "it has no chunk framing"},
		{"HTTP/1.1 204 OK\r\n\r\nabc", "there is no body, but 3 octets follow it"},
		{head + "Content-Length: 3, 5\r\n\r\nabc", "two lengths, 3 and 5"},
		{head + "Content-Encoding: gzip\r\n\r\nabc", "is not encoded so"},
		{head + "Content-Encoding: gzip\r\n\r\n" + gz("x"), ""},
	} {
		for _, joined := range []bool{false, true} {
			rec, block := record("response", "application/http", test.block)
			if joined {
				rec.Header.Add("WARC-Segment-Number", "1")
				rec.Length = 3
			}
			m, err := ReadMessage(rec, block)
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.Decoded()
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, r)
			if got := strings.Join(m.Flaws(), "; "); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("%q: %q, want %q", test.block, got, test.want)
			}
		}
	}
}

func TestMessageBroken(t *testing.T) {
	var bad *http1.Error
	for name, block := range map[string]string{"no end": "HTTP/1.1 200 OK\r\nA: b\r\n", "no HTTP": "hello\r\n\r\n", "empty head": "\r\n\r\n"} {
		if m, err := ReadMessage(record("response", "application/http", block)); !errors.As(err, &bad) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	m, err := ReadMessage(record("response", "application/http", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Encoding: x-y\r\n\r\nabc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Decoded(); !errors.Is(err, coding.ErrUnknown) {
		t.Errorf("unknown coding: %v", err)
	}
	if got, err := io.ReadAll(m.Payload()); !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "abc" {
		t.Errorf("short body: %q, %v", got, err)
	}
	failing := io.MultiReader(strings.NewReader("HTTP/1.1 200"), failure{})
	rec, _ := record("response", "application/http", "x")
	if _, err := ReadMessage(rec, failing); !errors.Is(err, errFailure) {
		t.Errorf("failing block: %v", err)
	}
}

var errFailure = errors.New("disk on fire")

type failure struct{}

func (failure) Read([]byte) (int, error) { return 0, errFailure }
