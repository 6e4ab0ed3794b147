package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// TestCanStart: every start of what a coding makes can start it, and what is
// something else cannot.
func TestCanStart(t *testing.T) {
	random := make([]byte, 3000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	texts := []string{"", "x", "<!doctype html>", strings.Repeat("<p>wikipedia is an encyclopedia</p>\n", 200), string(random), strings.Repeat("\x00", 200_000)}
	for coding, writer := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"GZIP":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 5) },
		"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"Deflate": func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 5); return z },
	} {
		for _, text := range texts {
			var b bytes.Buffer
			w := writer(&b)
			io.WriteString(w, text)
			w.Close()
			for n := 0; n <= b.Len(); n += 1 + n/40 {
				if !CanStart([]string{"x-unknown", coding, "identity"}, b.Bytes()[:n]) {
					t.Errorf("%s of %.20q: false for its first %d octets", coding, text, n)
					break
				}
			}
		}
		for _, text := range []string{"<!doctype html><html><head>", `{"a": "some text", "b": [1, 2, 3]}`, "function f() { return 1 }", "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"} {
			if CanStart([]string{coding}, []byte(text)) {
				t.Errorf("%s: true for %q", coding, text)
			}
		}
	}
	for _, coding := range []string{"", "identity", "aws-chunked"} {
		if !CanStart([]string{coding}, []byte("x")) {
			t.Errorf("%q: false", coding)
		}
	}
	if !CanStart(nil, []byte("x")) || !CanStart([]string{"gzip", "aws-chunked"}, []byte("x")) {
		t.Error("false without a coding that is known")
	}
}
