package coding

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/http1"
)

// The start of a payload is the same as that of all of it, also when a frame
// wants a large window.
func TestStart(t *testing.T) {
	text := strings.Repeat("some text, ", 100_000)
	zstdOf := func(text string, options ...zstd.EOption) string {
		return encode(t, func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, options...)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}, text)
	}
	large := zstdOf(text, zstd.WithWindowSize(8<<20))
	skippable := string(binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), 5)) + "skip!"
	z, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	single := string(z.EncodeAll([]byte(text), nil))
	for name, test := range map[string]struct{ codings, in, want string }{
		"none":              {"", text, text},
		"gzip":              {"gzip", encode(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, text), text},
		"br":                {"br", encode(t, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }, text), text},
		"zstd":              {"zstd", zstdOf(text, zstd.WithWindowSize(64<<10)), text},
		"large window":      {"zstd", large, text},
		"no checksum":       {"zstd", zstdOf(text, zstd.WithWindowSize(8<<20), zstd.WithEncoderCRC(false)), text},
		"single segment":    {"zstd", single, text},
		"behind a skipped":  {"zstd", skippable + skippable + large, text},
		"short":             {"zstd", "\x28\xb5\x2f\xfd\x00\x68\x89\x00\x00a little payload.", "a little payload."},
		"short, sum":        {"zstd", zstdOf("short", zstd.WithWindowSize(8<<20)), "short"},
		"twice":             {"zstd zstd", zstdOf(large, zstd.WithWindowSize(8<<20)), text},
		"two frames":        {"zstd", zstdOf("one ") + zstdOf("two "), "one two "},
		"zstd, then brotli": {"zstd br", encode(t, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }, large), text},
	} {
		got := make([]byte, 3072)
		for range 2 { // with decoders that were used before
			n, err := Start(strings.NewReader(test.in), strings.Fields(test.codings), got)
			want := test.want[:min(len(test.want), len(got))]
			if string(got[:n]) != want || (err != nil) != (len(want) < len(got)) {
				t.Errorf("%s: %.40q, %d octets of %d, %v", name, got[:n], n, len(want), err)
			}
		}
	}
	if n, err := Start(strings.NewReader("no zstd"), []string{"zstd"}, make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("what is no zstd: %d octets, %v", n, err)
	}
}

// A short reply that wants a large window does not get it, in whatever frame it
// says so.
func TestStartIsBounded(t *testing.T) {
	const frame = "\x28\xb5\x2f\xfd\x00\x68\x89\x00\x00a little payload."
	const empty = "\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00"
	const times = 100
	for _, in := range []string{frame, empty + frame, "\x50\x2a\x4d\x18\x00\x00\x00\x00" + frame} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			Start(strings.NewReader(in), []string{"zstd"}, make([]byte, 3072))
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 1<<20 {
			t.Errorf("%q takes %d bytes", in, each)
		}
	}
	// A skippable frame within a bomb is not gone over.
	skip := append(binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), 1<<30), make([]byte, 64<<20)...)
	bomb := strings.NewReader(encode(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, string(skip)))
	size := bomb.Len()
	if n, err := Start(bomb, []string{"zstd", "gzip"}, make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("%d octets, %v", n, err)
	}
	if read := size - bomb.Len(); read > 16<<10 {
		t.Errorf("%d octets of %d were read", read, size)
	}
}

// A decoder that was given back is as good as a new one.
func TestDecodersAreUsedAgain(t *testing.T) {
	text := strings.Repeat("some text, ", 1000)
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(z, text)
	z.Close()
	for _, in := range []string{packed.String(), packed.String()[:packed.Len()-5], "no zstd", packed.String(), "", packed.String()} {
		r, err := NewReader(strings.NewReader(in), []string{"zstd"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if whole := in == packed.String(); whole && (err != nil || string(got) != text) || in != "" && !whole && err == nil {
			t.Errorf("%.10q: %d octets, %v", in, len(got), err)
		}
		if n, again := r.Read(make([]byte, 1)); n != 0 || again == nil {
			t.Errorf("%.10q: behind the end %d octets, %v", in, n, again)
		}
	}
}

// BenchmarkBodyReader reads a body in chunks of one octet, and one of as many
// octets on the wire that is not in chunks.
func BenchmarkBodyReader(b *testing.B) {
	chunks := strings.Repeat("1\r\nx\r\n", 100_000) + "0\r\n\r\n"
	for name, framing := range map[string]http1.Framing{
		"plain":  {Kind: http1.Length, Length: int64(len(chunks))},
		"chunks": {Kind: http1.Chunked},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(chunks)))
			for b.Loop() {
				sum := sha256.New()
				if _, err := io.Copy(sum, NewBodyReader(bufio.NewReaderSize(strings.NewReader(chunks), 16<<10), framing)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
