package repair

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/warctee/warctee/warc"
)

// However many members are not one record each, one temporary file is made for
// them, and it is gone in the end.
func TestOneTemporaryFile(t *testing.T) {
	for _, form := range []warc.Compression{warc.Gzip, warc.Zstd} {
		var file, want []byte
		const members = 50
		for i := range members {
			text := append(recordText(fmt.Sprintf("<urn:%d>", 2*i), bytes.Repeat([]byte{'x'}, i*i), true), recordText(fmt.Sprintf("<urn:%d>", 2*i+1), nil, true)...)
			file, want = append(file, pack(form, text)...), append(want, text...)
		}
		dir := t.TempDir()
		names := make(map[string]bool)
		var out bytes.Buffer
		sum, err := Run(t.Context(), bytes.NewReader(file), int64(len(file)), Options{
			Create: func(warc.Compression) (io.Writer, error) { return &out, nil },
			Range: func(Range) error {
				entries, err := os.ReadDir(dir)
				for _, e := range entries {
					names[e.Name()] = true
				}
				return err
			},
			TempDir: dir,
		})
		if err != nil || sum.Rewritten != 2*members || sum.Losses > 0 {
			t.Errorf("%s: %+v, %v", form, sum, err)
		}
		if got := unpack(t, form, out.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("%s: %d octets come out, want %d", form, len(got), len(want))
		}
		if len(names) != 1 {
			t.Errorf("%s: there were %d temporary files", form, len(names))
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %q is left", form, left)
		}
	}
}
