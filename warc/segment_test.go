package warc

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// A segment has all that fits: never more bytes than it may, and hardly less;
// what follows in the block is left where it is.
func TestDeflateUpTo(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	noise := make([]byte, 400_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	text := strings.Repeat("all work and no play makes Jack a dull boy, ", 60_000)
	mixed := text[:300_000] + string(noise) + text
	for name, block := range map[string]string{"noise": string(noise), "text": text, "mixed": mixed, "zeros": string(make([]byte, 3<<20))} {
		for _, limit := range []int64{2000, 5000, 100_000, 399_000} {
			in := strings.NewReader(block)
			var out bytes.Buffer
			d, err := DeflateUpTo(&out, in, limit)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(flate.NewReader(bytes.NewReader(out.Bytes())))
			n := int64(len(got) - len(recordEnd))
			if err != nil || n < 0 || string(got) != block[:n]+recordEnd || d.Size != n+4 {
				t.Fatalf("%s, %d: %d octets come back of %d, error %v", name, limit, len(got), d.Size, err)
			}
			if left := int64(len(block)) - int64(in.Len()); left != n {
				t.Errorf("%s, %d: %d octets were read and %d compressed", name, limit, left, n)
			}
			size := int64(out.Len())
			if size > limit {
				t.Errorf("%s: %d bytes, may have %d", name, size, limit)
			}
			if in.Len() > 0 && limit-size > 2*spareShare+2*spareRoom {
				t.Errorf("%s: %d bytes of %d, and there was more", name, size, limit)
			}
		}
	}
}

// What is stored takes no more room than was said, and nearly all of it.
func TestStoredUpTo(t *testing.T) {
	for _, room := range []int64{0, 100, 150, 65_535 + spareRoom, 65_536 + spareRoom, 70_000, 131_000, 1_000_000} {
		n := StoredUpTo(room)
		var out bytes.Buffer
		if _, err := io.Copy(&out, StoredMember([]byte("WARC/1.1\r\n\r\n"), nil, bytes.NewReader(make([]byte, n)), n)); err != nil {
			t.Fatal(err)
		}
		over := int64(out.Len()) - room
		if n > 0 && (over > 0 || over < -2*spareRoom) {
			t.Errorf("%d octets take %d bytes of %d", n, out.Len(), room)
		}
	}
}
