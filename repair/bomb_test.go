package repair

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/warctee/warctee/warc"
)

// A member that is no record and expands a thousand times takes no more of the disk than
// its bound, and the record at its start is saved.
func TestBomb(t *testing.T) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	z.Write(recordText("<urn:a>", []byte("block"), true))
	zeros := make([]byte, 1<<20)
	for range 200 {
		z.Write(zeros)
	}
	z.Close()
	dir := t.TempDir()
	limit, most := int64(spoolSpare+spoolTimes*file.Len()), int64(0)
	var out bytes.Buffer
	reasons := ""
	sum, err := Run(context.Background(), bytes.NewReader(file.Bytes()), int64(file.Len()), Options{
		TempDir: dir,
		Create: func(warc.Compression) (io.Writer, error) {
			entries, err := os.ReadDir(dir) // the member is decompressed, and its records are looked for
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					most = max(most, info.Size())
				}
			}
			return &out, err
		},
		Range: func(g Range) error {
			reasons += g.Reason + "\n"
			return nil
		},
	})
	if err != nil || sum.Rewritten != 1 || sum.Losses != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if most == 0 || most > limit {
		t.Errorf("the temporary file has %d octets, of at most %d", most, limit)
	}
	if !strings.Contains(reasons, "it holds more than 64 MB and 50 times its own size") {
		t.Errorf("the reasons are %q", reasons)
	}
}
