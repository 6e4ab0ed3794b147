package coding

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/http1"
)

func encode(t *testing.T, make func(io.Writer) io.WriteCloser, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := make(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReader(t *testing.T) {
	text := strings.Repeat("some text, ", 1000)
	gzipped := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	brotlied := func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }
	gz := encode(t, gzipped, text)
	for _, test := range []struct{ name, codings, in, want, err string }{
		{"none", "", text, text, ""},
		{"identity", "identity", text, text, ""},
		{"gzip", "gzip", gz, text, ""},
		{"x-gzip", "X-GZIP", gz, text, ""},
		{"zlib", "deflate", encode(t, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, text), text, ""},
		{"bare deflate", "deflate", encode(t, func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 5); return f }, text), text, ""},
		{"brotli", "br", encode(t, brotlied, text), text, ""},
		{"zstd", "zstd", encode(t, func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }, text), text, ""},
		{"in order", "gzip br", encode(t, brotlied, gz), text, ""},
		{"cut", "gzip", gz[:len(gz)-9], text, "unexpected EOF"},
		{"not gzip", "gzip", text, "", "invalid header"},
		{"unknown", "compress", text, "", "unknown content-coding"},
		{"too many", "gzip gzip gzip gzip", gz, "", "more than 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := NewReader(strings.NewReader(test.in), strings.Fields(test.codings))
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
			}
			if message := ""; err != nil {
				if message = err.Error(); test.err == "" || !strings.Contains(message, test.err) {
					t.Errorf("error %q, want %q", message, test.err)
				}
			} else if test.err != "" {
				t.Errorf("no error, want %q", test.err)
			}
			if string(got) != test.want {
				t.Errorf("got %.40q, want %.40q", got, test.want)
			}
		})
	}
}

// A panicking reader stands for a library with a bug.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("index out of range") }

func TestPanicIsAnError(t *testing.T) {
	r := &decoded{coding: "br", r: panicking{}}
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), `"br"`) {
		t.Errorf("error %v", err)
	}
}

func TestBodyReader(t *testing.T) {
	for _, test := range []struct {
		name    string
		framing http1.Framing
		in      string
		want    string
		rest    string
		err     error
	}{
		{"none", http1.Framing{}, "next", "", "next", nil},
		{"length", http1.Framing{Kind: http1.Length, Length: 3}, "abcnext", "abc", "next", nil},
		{"short", http1.Framing{Kind: http1.Length, Length: 9}, "abc", "abc", "", io.ErrUnexpectedEOF},
		{"chunked", http1.Framing{Kind: http1.Chunked}, "1\r\na\r\n2;x=y\r\nbc\r\n0\r\nT: v\r\n\r\nnext", "abc", "next", nil},
		{"chunked, short", http1.Framing{Kind: http1.Chunked}, "3\r\nab", "ab", "", io.ErrUnexpectedEOF},
		{"until close", http1.Framing{Kind: http1.UntilClose}, "abc", "abc", "", nil},
	} {
		raw := bufio.NewReaderSize(strings.NewReader(test.in), 16)
		got, err := io.ReadAll(NewBodyReader(raw, test.framing))
		rest, _ := io.ReadAll(raw)
		if string(got) != test.want || !errors.Is(err, test.err) || string(rest) != test.rest {
			t.Errorf("%s: %q, %v, rest %q", test.name, got, err, rest)
		}
	}
	raw := bufio.NewReader(strings.NewReader("3\r\nabcd\r\n"))
	var bad *http1.Error
	if got, err := io.ReadAll(NewBodyReader(raw, http1.Framing{Kind: http1.Chunked})); !errors.As(err, &bad) || string(got) != "abc" {
		t.Errorf("broken chunk: %q, %v", got, err)
	}
}
