package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// A decodedReader counts what comes out of a gzip member or zstd frame.
type decodedReader struct {
	r io.Reader
	n int64
}

func (d *decodedReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.n += int64(n)
	return n, err
}

func (r *Reader) compressed() bool { return r.gz != nil || r.zs != nil }

func (r *Reader) memberName() string {
	if r.zs != nil {
		return "zstd frame"
	}
	return "gzip member"
}

// sniff finds out how the input is compressed, and goes to its first record.
func (r *Reader) sniff() error {
	magic, err := r.raw.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return r.inputError(err)
	}
	switch {
	case len(magic) >= 2 && string(magic[:2]) == gzipHead[:2]:
		r.gz = new(gzip.Reader)
	case string(magic) == zstdMagic || isSkippable(magic):
		r.zs = &frameReader{in: r.raw, dict: r.Dictionary}
		if string(magic) == dictionaryFrameMagic {
			if r.zs.dict, err = readDictionary(r.raw); err != nil && r.count.err == nil {
				return r.broken(RuleMember, err)
			} else if err != nil {
				return r.inputError(err)
			}
		} else if r.Strict && string(magic) != zstdMagic {
			return r.broken(RuleMember, errors.New("the file starts with a skippable zstd frame that is no dictionary"))
		}
	default:
		r.in = r.raw
		return nil
	}
	r.in = bufio.NewReaderSize(nil, 32<<10)
	return r.nextMember()
}

// nextMember goes to the next gzip member or zstd frame. It returns io.EOF when
// there is none.
func (r *Reader) nextMember() error {
	if r.zs != nil {
		if err := r.passSkippable(); err != nil {
			return err
		}
	}
	r.member = r.InputOffset()
	if !r.inside {
		r.rec.Offset = r.member
	}
	_, err := r.raw.Peek(1)
	if err == io.EOF {
		return io.EOF
	}
	// The end of the input in what follows is damage, whatever error it gives.
	if r.zs != nil {
		err = r.zs.next()
	} else {
		err = r.gz.Reset(r.raw)
	}
	if err != nil {
		return r.inputError(err)
	}
	if r.zs != nil {
		r.out = decodedReader{r: r.zs.z}
		r.in.Reset(&r.out)
		if err := r.zs.check(); err != nil {
			r.flaw = err
		}
		return nil
	}
	r.gz.Multistream(false)
	r.sl = parseSkipLengths(r.gz.Extra)
	r.out = decodedReader{r: r.gz}
	r.in.Reset(&r.out)
	return nil
}

// FrameFlaw returns what the heads of the zstd frames lack that were read since
// the last call, or nil: a content size, a checksum, the id of the dictionary. The
// IIPC text demands them; but no writer that compresses a record as it comes knows
// its size, and most files have none.
func (r *Reader) FrameFlaw() error {
	err := r.flaw
	r.flaw = nil
	return err
}

// passSkippable leaves the skippable frames behind that come next.
func (r *Reader) passSkippable() error {
	for {
		start, _ := r.raw.Peek(len(zstdMagic)) // an error comes again
		if !isSkippable(start) {
			return nil
		}
		if !r.inside {
			r.rec.Offset = r.InputOffset()
		}
		if r.Strict && string(start) == dictionaryFrameMagic {
			return r.broken(RuleMember, errors.New("a dictionary is not at the start of the file"))
		}
		if err := skippable(r.raw); err != nil {
			return r.inputError(err)
		}
	}
}

// moreMembers is called at the end of the input or of a gzip member or zstd frame
// within a record. It goes to the next one if it may, and else returns io.EOF: the
// IIPC text allows several frames, the standard does not allow several members. One
// that starts another record is not taken for a part of this one.
func (r *Reader) moreMembers() error {
	if !r.compressed() || r.gz != nil && r.Strict {
		return io.EOF
	}
	if err := r.nextMember(); err != nil {
		return err
	}
	if start, _ := r.in.Peek(len("WARC/")); string(start) == "WARC/" {
		return io.EOF
	}
	return nil
}

// inputError tells an error of the input from damaged gzip or zstd.
func (r *Reader) inputError(err error) error {
	if r.count.err != nil {
		return fmt.Errorf("warc: reading at offset %d: %w", r.count.n, r.count.err)
	}
	if broken := (*Error)(nil); errors.As(err, &broken) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return r.broken(RuleMember, fmt.Errorf("the %s is damaged: %w", r.memberName(), err))
}
