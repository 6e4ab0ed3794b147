package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
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
