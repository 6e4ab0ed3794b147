package warc

import (
	"bytes"
	"compress/flate"
	"io"
	"testing"
	"testing/iotest"

	kpflate "github.com/klauspost/compress/flate"
)

// checkInflates reads a deflate stream with two readers that did not write it.
func checkInflates(t *testing.T, stream, want []byte) {
	t.Helper()
	for name, r := range map[string]io.Reader{
		"compress/flate": flate.NewReader(bytes.NewReader(stream)),
		"klauspost":      kpflate.NewReader(bytes.NewReader(stream)),
	} {
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d octets in %x were inflated to %d, %v", name, len(want), stream[:min(len(stream), 100)], len(got), err)
		}
	}
}

// last makes a stream of one block.
func last(src []byte, c *coding) []byte {
	var w bitWriter
	w.block(src, c, true)
	w.align()
	return w.b
}

var codings = map[string]*coding{"fixed": &fixed, "records": &ofRecords, "messages": &ofMessages}

// TestCodings: every code is complete, else readers refuse it, and so is the
// one that describes them.
func TestCodings(t *testing.T) {
	for name, c := range codings {
		for _, codes := range [][]code{c.literals[:], c.distances[:]} {
			sum := 0
			for _, c := range codes {
				if c.n > 0 {
					sum += 1 << 16 >> c.n
				}
			}
			if sum != 1<<16 {
				t.Errorf("%s: the codes take %d/65536 of all bits", name, sum)
			}
		}
	}
}

func TestBlock(t *testing.T) {
	sizes := []int{maxChunk - 1, maxChunk}
	for n := 0; n < 1200; n += 1 + n/100 {
		sizes = append(sizes, n)
	}
	mixed := append(prose(700), noise(maxChunk)...)
	for name, c := range codings {
		for _, n := range sizes {
			for kind, src := range map[string][]byte{"text": prose(n), "noise": noise(n), "zeros": make([]byte, n), "mixed": mixed[:n]} {
				b := last(src, c)
				checkInflates(t, b, src)
				if len(b) > n+6 {
					t.Fatalf("%s: %d octets of %s grew to %d", name, n, kind, len(b))
				}
			}
		}
	}
}

// TestBlockMatches: matches of every length, from every number of extra bits
// of the distance, also such as overlap what they make.
func TestBlockMatches(t *testing.T) {
	lengths := []int{0, 1, 2, 3, 4, 5, 10, 11, 12, 18, 19, 34, 35, 66, 67, 130, 131, 162, 163, 256, 257, 258, 259, 300, 600}
	for _, distance := range []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 200, 4096, 4097, maxChunk - 600} {
		before := noise(distance)
		for _, n := range lengths {
			src := append(bytes.Clone(before), make([]byte, n)...)
			for i := range n {
				src[distance+i] = src[i]
			}
			checkInflates(t, last(src, &fixed), src)
			for i := range src {
				src[i] = 'a' + src[i]&0xf
			}
			checkInflates(t, last(src, &ofMessages), src)
		}
	}
}

// TestBlocks: blocks of all kinds stand behind each other, wherever in an octet
// they start.
func TestBlocks(t *testing.T) {
	for n := range 100 {
		var w bitWriter
		var want []byte
		for i, c := range []*coding{&ofRecords, &fixed, &ofMessages} {
			src := append(prose(250+n), byte(i))
			w.block(src, c, false)
			w.block(src[:n], c, false)
			want = append(append(want, src...), src[:n]...)
			if i == 1 {
				w.stored(n, false)
				w.b = append(w.b, src[:n]...)
				want = append(want, src[:n]...)
			}
		}
		w.stored(0, true)
		checkInflates(t, w.b, want)
	}
}

// TestCodingsPay: for what they are made, the codings are not worse than codes
// that are made for just this text.
func TestCodingsPay(t *testing.T) {
	for _, c := range []struct {
		name   string
		src    []byte
		coding *coding
		more   int // per cent
	}{
		{"header", responseHeader, &ofRecords, 1},
		{"request", requestHead, &ofMessages, 4},
		{"response", responseHead, &ofMessages, 5},
		{"reply", append(bytes.Clone(responseHead), jsonText(1000)...), &ofMessages, 8},
	} {
		var best bytes.Buffer
		w, err := kpflate.NewWriter(&best, deflateLevel)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(c.src)
		w.Close()
		if got := len(last(c.src, c.coding)); got > best.Len()*(100+c.more)/100 {
			t.Errorf("%s: %d octets became %d, and %d with codes of their own", c.name, len(c.src), got, best.Len())
		}
	}
}

// FuzzBlock: what is written inflates to the same octets, between other blocks
// too.
func FuzzBlock(f *testing.F) {
	f.Add(responseHeader, 0)
	f.Add(requestHead, 13)
	f.Add(append(bytes.Clone(responseHead), noise(300)...), 250)
	f.Add(make([]byte, 700), 300)
	f.Add([]byte("ä"), 1)
	f.Fuzz(func(t *testing.T, src []byte, cut int) {
		if len(src) > maxChunk || cut < 0 || cut > len(src) {
			return
		}
		for _, c := range codings {
			checkInflates(t, last(src, c), src)
			var w bitWriter
			w.block(src[:cut], c, false)
			w.stored(cut, false)
			w.b = append(w.b, src[:cut]...)
			w.block(src[cut:], c, false)
			w.block(src, c, true)
			w.align()
			checkInflates(t, w.b, bytes.Join([][]byte{src[:cut], src[:cut], src[cut:], src}, nil))
		}
	})
}

// FuzzMember: a header and a block, read in pieces, become a member that
// inflates to them.
func FuzzMember(f *testing.F) {
	f.Add(responseHeader, append(bytes.Clone(responseHead), noise(5000)...), 100)
	f.Add(responseHeader, append(bytes.Clone(responseHead), jsonText(3000)...), 1)
	f.Add([]byte(nil), requestHead, 7)
	f.Add([]byte("ä"), []byte("\r\n\r\n"), 1000)
	f.Fuzz(func(t *testing.T, header, block []byte, times int) {
		// Longer than the input: several pieces.
		long := bytes.Repeat(block, max(1, min(times, 200_000/(len(block)+1))))
		member := assemble(t, header, bytes.NewReader(long))
		if got := inflate(t, member); string(got) != string(header)+string(long)+recordEnd {
			t.Fatalf("inflated to %d octets, not %d", len(got), len(header)+len(long)+4)
		}
		member, err := io.ReadAll(StoredMember(header, block, bytes.NewReader(long), int64(len(long))))
		if err != nil {
			t.Fatal(err)
		}
		if got := inflate(t, member); string(got) != string(header)+string(block)+string(long)+recordEnd {
			t.Fatalf("stored, inflated to %d octets, not %d", len(got), len(header)+len(block)+len(long)+4)
		}
	})
}

// TestPieceBorders: noise does not grow, around the sizes at which another piece
// is read.
func TestPieceBorders(t *testing.T) {
	payload := noise(3 * pieceSize)
	var sizes []int
	for n := range 12 {
		sizes = append(sizes, n, 2040+n, pieceSize-6+n, 2*pieceSize-6+n)
	}
	for _, head := range [][]byte{nil, responseHead, append(bytes.Repeat([]byte("ä"), 4000), "\r\n\r\n"...)} {
		for _, n := range sizes {
			for _, n := range []int{n, n - len(head)} {
				if n < 0 {
					continue
				}
				block := append(bytes.Clone(head), payload[:n]...)
				for _, r := range []io.Reader{bytes.NewReader(block), iotest.DataErrReader(bytes.NewReader(block))} {
					var b bytes.Buffer
					if _, err := Deflate(&b, r); err != nil {
						t.Fatal(err)
					}
					checkInflates(t, b.Bytes(), append(bytes.Clone(block), recordEnd...))
					if most := len(block) + 40; b.Len() > most {
						t.Errorf("%d octets behind a head of %d became %d", n, len(head), b.Len())
					}
				}
			}
		}
	}
}

// TestHeadIsCompressed also when its payload is not.
func TestHeadIsCompressed(t *testing.T) {
	for _, n := range []int{100, 1000, 3000, 100_000} {
		member, err := io.ReadAll(StoredMember(nil, responseHead, bytes.NewReader(noise(n)), int64(n)))
		if err != nil {
			t.Fatal(err)
		}
		if most := n + len(responseHead)*85/100 + 40; len(member) > most {
			t.Errorf("a head of %d octets and %d of noise became %d", len(responseHead), n, len(member))
		}
	}
}

// TestRareOctets: a short text of octets whose codes are long does not grow.
func TestRareOctets(t *testing.T) {
	block := noise(1000)
	for i, c := range block {
		block[i] = '#' + c&7
	}
	var b bytes.Buffer
	if _, err := Deflate(&b, bytes.NewReader(block)); err != nil {
		t.Fatal(err)
	}
	checkInflates(t, b.Bytes(), append(block, recordEnd...))
	if b.Len() > len(block)*3/4 {
		t.Errorf("%d octets became %d", len(block), b.Len())
	}
}
