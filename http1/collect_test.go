package http1

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// walked is what a walk over a body has found.
type walked struct {
	data   []byte
	used   int
	done   bool
	err    string
	pieces int
}

// walkPieces goes over raw, which comes in pieces of those lengths.
func walkPieces(next func(p []byte) (int, []byte, error), done func() bool, raw []byte, lengths []int) (w walked) {
	for i := 0; len(raw) > 0 && !done(); i++ {
		p := raw[:min(len(raw), lengths[i%len(lengths)])]
		raw = raw[len(p):]
		for len(p) > 0 && !done() {
			n, data, err := next(p)
			w.data = append(w.data, data...)
			w.used += n
			p = p[n:]
			w.pieces++
			if err != nil {
				w.err = err.Error()
				return w
			}
		}
	}
	w.done = done()
	return w
}

// Collect finds what Next finds, whatever the body is cut into.
func TestCollect(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var raw bytes.Buffer
		for range rng.IntN(300) {
			size := []int{1, 1, 3, 20, 600, 5000}[rng.IntN(6)]
			fmt.Fprintf(&raw, []string{"%x", "00%x", "%X;a=b"}[rng.IntN(3)]+"\r\n", size)
			raw.Write(bytes.Repeat([]byte("x"), size))
			raw.WriteString("\r\n")
			if raw.Len() > 20_000 {
				break
			}
		}
		raw.WriteString([]string{"0\r\n\r\nnext", "0\r\nT: v\r\n\r\n", "x\r\n", "3\r\nabcd\r\n", ""}[rng.IntN(5)])
		lengths := []int{1 + rng.IntN(10), 1 + rng.IntN(5000), 1 + rng.IntN(20_000)}
		if rng.IntN(10) == 0 { // damaged
			raw.Bytes()[rng.IntN(raw.Len())] = '\n'
		}
		for _, strict := range []bool{false, true} {
			one := NewBody(Framing{Kind: Chunked}, strict)
			want := walkPieces(one.Next, one.Done, raw.Bytes(), lengths)
			all := NewBody(Framing{Kind: Chunked}, strict)
			got := walkPieces(all.Collect, all.Done, raw.Bytes(), lengths)
			if !bytes.Equal(got.data, want.data) || got.used != want.used || got.done != want.done || got.err != want.err || len(one.Trailer()) != len(all.Trailer()) {
				t.Fatalf("%.80q in pieces of %v: %d octets, %d used, done %v, error %q; want %d, %d, %v, %q", raw.Bytes(), lengths,
					len(got.data), got.used, got.done, got.err, len(want.data), want.used, want.done, want.err)
			}
		}
	}
}

// Small chunks do not make small pieces.
func TestCollectSmallChunks(t *testing.T) {
	raw := append(bytes.Repeat([]byte("1\r\nx\r\n"), 100_000), "0\r\n\r\n"...)
	b := NewBody(Framing{Kind: Chunked}, false)
	w := walkPieces(b.Collect, b.Done, raw, []int{16 << 10})
	if len(w.data) != 100_000 || !w.done || w.pieces > 2*len(raw)/collectSize {
		t.Errorf("%d octets in %d pieces", len(w.data), w.pieces)
	}
}

// A head is too large whatever its first line is, before its fields are parsed.
func TestRecordedRequestTooLarge(t *testing.T) {
	fields := strings.Repeat("a\n", Recorded.FieldCount+1) + "\r\n"
	for _, line := range []string{"GET / HTTP/1.1", "GET / HTTP/2", "g(t / HTTP/1.1", "nothing"} {
		_, _, err := ParseRecordedRequest([]byte(line + "\r\n" + fields))
		if !isTooLarge(err) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
