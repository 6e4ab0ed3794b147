package coding

import (
	"bytes"
	"io"
	"testing"
)

// FuzzReader: nothing that an origin sends does harm, and reading is bounded by
// whoever reads.
func FuzzReader(f *testing.F) {
	f.Add("gzip", []byte("\x1f\x8b\x08"))
	f.Add("br", []byte("\x8b\x02\x80abc"))
	f.Add("zstd", []byte("\x28\xb5\x2f\xfd"))
	f.Add("deflate", []byte("\x78\x9c"))
	f.Fuzz(func(t *testing.T, coding string, raw []byte) {
		r, err := NewReader(bytes.NewReader(raw), []string{coding})
		if err != nil {
			return
		}
		const bound = 1 << 16
		if n, _ := io.Copy(io.Discard, io.LimitReader(r, bound)); n > bound {
			t.Fatal(n)
		}
	})
}
