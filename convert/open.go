package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/warc"
)

// ErrNoRecords says that a file has none: it is empty, or is nothing but line
// ends.
var ErrNoRecords = errors.New("there is no record in it")

// A Form says what a file is.
type Form struct {
	ARC         bool
	Compression warc.Compression
}

// FormOf says what a file is, by its start. A file that is neither WARC nor ARC
// gives an [*arc.Error] if its name or its start says that it should be one, and
// else a [*warc.Error].
func FormOf(file io.ReadSeeker, name string) (Form, error) {
	var form Form
	start := make([]byte, len("filedesc:"))
	n, err := io.ReadFull(file, start)
	if err == io.EOF {
		return form, ErrNoRecords
	}
	if err != nil && err != io.ErrUnexpectedEOF {
		return form, err
	}
	switch text := string(start[:n]); {
	case strings.HasPrefix(text, "\x1f\x8b"):
		form.Compression = warc.Gzip
	case strings.HasPrefix(text, "\x28\xb5\x2f\xfd"), n >= 4 && text[0]&0xf0 == 0x50 && text[1:4] == "\x2a\x4d\x18": // RFC 8878 §3.1.1, §3.1.2
		form.Compression = warc.Zstd
	default:
		form.Compression = warc.Plain
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return form, err
	}
	_, warcErr := warc.NewReader(file).Next()
	if _, err := file.Seek(0, io.SeekStart); err != nil || warcErr == nil {
		return form, err
	}
	_, arcErr := arc.NewReader(file).Next()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return form, err
	}
	name = strings.ToLower(name)
	switch {
	case arcErr == nil:
		form.ARC = true
		return form, nil
	case warcErr == io.EOF:
		return form, ErrNoRecords
	case string(start) == "filedesc:", strings.HasSuffix(name, ".arc"), strings.HasSuffix(name, ".arc.gz"):
		return form, arcErr
	}
	return form, warcErr
}

// File converts a file of that form: with [ARC] or [WARC].
func File(ctx context.Context, form Form, out io.Writer, in io.Reader, o Options) (Result, error) {
	if form.ARC {
		return ARC(ctx, out, in, o)
	}
	return WARC(ctx, out, in, o)
}

// What is read to train a dictionary, as a recording does it: so many records, of
// each its start, and all of that; and how large the dictionary is.
const (
	trainRecords = 1000
	trainStart   = 4 << 10
	trainMemory  = 1 << 20
	trainSize    = 32 << 10
)

// Train makes a dictionary of the first records that File would write.
func Train(ctx context.Context, form Form, in io.Reader, o Options) (*warc.Dictionary, error) {
	o.Compression, o.Dictionary, o.Transform, o.Found = warc.Plain, nil, nil, nil
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() { // ends with the input, or when r is closed below
		defer close(done)
		_, err := File(ctx, form, w, in, o)
		w.CloseWithError(err)
	}()
	samples := readSamples(warc.NewReader(r))
	r.Close()
	<-done
	d, err := warc.TrainDictionary(samples, trainSize)
	if err != nil {
		return nil, fmt.Errorf("%w: the records may be too few, or have too little in common", err)
	}
	return d, nil
}

// readSamples reads the starts of records. Damage is not told: converting will
// meet it again.
func readSamples(z *warc.Reader) (samples [][]byte) {
	for size := 0; size < trainMemory && len(samples) < trainRecords; {
		rec, err := z.Next()
		if err != nil {
			return samples
		}
		sample := append([]byte(nil), rec.Raw[:min(len(rec.Raw), trainStart)]...)
		if room := trainStart - len(sample); room > 0 {
			start, _ := io.ReadAll(io.LimitReader(z, int64(room)))
			sample = append(sample, start...)
		}
		sample = sample[:min(len(sample), trainStart)]
		samples, size = append(samples, sample), size+len(sample)
	}
	return samples
}
