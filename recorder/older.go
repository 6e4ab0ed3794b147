package recorder

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// Bounds on the search for the request of an original.
const (
	requestWindow = 64 << 10 // octets of the file in front of the response
	requestStarts = 16       // places that look like the start of a record
)

// answersGet reports whether an original answers a GET. An entry of the first
// release does not say which method it was; then the request record says it, which
// stands directly in front of the response. Where none is found there, the original
// is not used: the payload is stored once more.
func (r *Recorder) answersGet(original *dedup.Capture) bool {
	if original.Method != "" {
		return original.Method == http.MethodGet
	}
	path := filepath.Join(r.options.Dir, filepath.Base(original.File))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(path + ".open")
	}
	if err != nil {
		return false
	}
	defer f.Close()
	method, err := methodBefore(f, original)
	if err != nil {
		r.log.Debug("the method of an original is not known: its payload is stored again", "file", original.File, "offset", original.Offset, "error", err)
	}
	return method == "GET "
}

var errNoRequest = errors.New("there is no request in front of it")

// methodBefore returns the start of the request that is answered by the response
// record of a capture: four octets, enough to know a GET.
func methodBefore(f *os.File, c *dedup.Capture) (string, error) {
	from := max(0, c.Offset-requestWindow)
	window := make([]byte, c.Offset-from)
	if _, err := f.ReadAt(window, from); err != nil {
		return "", err
	}
	dictionary, err := warc.ReadDictionary(io.NewSectionReader(f, 0, c.Offset))
	if err != nil {
		return "", err
	}
	end := len(window)
	for range requestStarts {
		if end = lastStart(window[:end]); end < 0 {
			break
		}
		at := from + int64(end)
		z := warc.NewReader(io.NewSectionReader(f, at, c.Offset+c.Length-at))
		z.Dictionary = dictionary
		if method, ok := requestOf(z, c, c.Offset-at); ok {
			return method, nil
		}
	}
	return "", errNoRequest
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
