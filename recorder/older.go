package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// Bounds on the search for the request of an original.
const (
	requestWindow = 64 << 10 // octets of the file in front of the response
	requestStarts = 16       // places that look like the start of a record
)

var errNotGet = errors.New("no GET is directly in front of it")

// answersGet returns an error with errNotGet unless an original is known to
// answer a GET. An entry of the first release does not say which method it was;
// the request record says it, which is directly in front of the response in f.
func (o *originals) answersGet(f *os.File, c *dedup.Capture, dictionary *warc.Dictionary) error {
	from := max(0, c.Offset-requestWindow)
	window := make([]byte, c.Offset-from)
	if _, err := f.ReadAt(window, from); err != nil {
		return err
	}
	end := len(window)
	for range requestStarts {
		if end = lastStart(window[:end]); end < 0 {
			break
		}
		at := from + int64(end)
		z := warc.NewReader(o.until(io.NewSectionReader(f, at, c.Offset+c.Length-at)))
		z.Dictionary = dictionary
		switch start, ok := requestOf(z, c, c.Offset-at); {
		case ok && start == "GET ":
			return nil
		case ok:
			return fmt.Errorf("%w: it answers %q", errNotGet, start)
		}
	}
	return errNotGet
}

// lastStart returns where the last record in b may start: plain, as a gzip member,
// or as a zstd frame; -1: nowhere.
func lastStart(b []byte) int {
	last := -1
	for _, magic := range []string{"WARC/1.", "\x1f\x8b\x08", "\x28\xb5\x2f\xfd"} {
		last = max(last, bytes.LastIndex(b, []byte(magic)))
	}
	return last
}

// requestOf reads the start of the request from a reader at its record. It returns
// false unless the record is that request: the response comes next, at an offset,
// and is WARC-Concurrent-To with it.
func requestOf(z *warc.Reader, response *dedup.Capture, offset int64) (start string, ok bool) {
	rec, err := z.Next()
	if err != nil || rec.Type() != warc.TypeRequest {
		return "", false
	}
	id := rec.ID()
	method := make([]byte, 4)
	if _, err := io.ReadFull(z, method); err != nil {
		return "", false
	}
	rec, err = z.Next()
	if err != nil || rec.Offset != offset || rec.ID() != response.RecordID {
		return "", false
	}
	return string(method), slices.Contains(rec.Header.Values("WARC-Concurrent-To"), id)
}
