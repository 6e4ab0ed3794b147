package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/warctee/warctee/warc"
)

// A forgiven record is one that only a tolerant reader can read.
type forgiven struct {
	record *Record
	block  *block
}

// maxForgiven bounds how many records are read from one gzip member.
const maxForgiven = 1000

// forgive reads on from where a strict reader stopped, with one that forgives
// what does not hide where a record ends. It returns the records that it could
// read, up to the first gzip member or record that a strict reader can start
// at, and where that is: not behind offset when there is none.
func (f *file) forgive(ctx context.Context, offset int64) (next int64, records []forgiven, err error) {
	if f.budget < 0 {
		return offset, nil, errBudget
	}
	s := f.section(ctx, offset)
	z := s.reader()
	defer f.spend(z)
	head, err := z.Next()
	for {
		if err != nil {
			return offset, records, notDamage(err)
		}
		r := f.record(head, s)
		b, err := f.readBlock(r, z)
		if err != nil {
			return offset, records, notDamage(err)
		}
		head, err = z.Next()
		broken := (*warc.Error)(nil)
		switch {
		case err == io.EOF:
			return f.size, append(records, forgiven{r, b}), nil
		case errors.As(err, &broken) && f.compressed && broken.Offset+s.start > r.Offset:
			return broken.Offset + s.start, append(records, forgiven{r, b}), nil
		case err != nil:
			return offset, records, notDamage(err)
		}
		records = append(records, forgiven{r, b})
		if next := head.Offset + s.start; next > r.Offset || len(records) == maxForgiven {
			if end := r.Offset + r.headSize + r.BlockSize + 4; !f.compressed && end < next && f.lineEnds(ctx, end-4) {
				next = end // more line ends come, which is a flaw of its own
			}
			return next, records, nil
		}
	}
}

// lineEnds reports whether there is the end of a record.
func (f *file) lineEnds(ctx context.Context, offset int64) bool {
	b := make([]byte, 4)
	n, _ := f.readAt(ctx, b, offset) // what cannot be read is none
	return string(b[:n]) == "\r\n\r\n"
}

// notDamage returns the errors that are not about what is in the file.
func notDamage(err error) error {
	if broken := (*warc.Error)(nil); err == io.EOF || errors.As(err, &broken) {
		return nil
	}
	return err
}

// resync returns where the next record behind offset starts, in a gzip member or
// zstd frame of its own or in a line, or the size of the file when there is
// none. A place that only looks like a start is tried and passed over.
func (f *file) resync(ctx context.Context, offset int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for at := offset; at < f.size; {
		n, err := f.readAt(ctx, buf, at)
		if err != nil && err != io.EOF {
			return at, err
		}
		for i := range candidates(buf[:n], f.patterns) {
			if ok, err := f.startsRecord(ctx, at+int64(i)); ok || err != nil {
				return at + int64(i), err
			}
		}
		if n < len(buf) {
			break
		}
		at += int64(n - len("WARC/"))
	}
	return f.size, nil
}

// candidates yields where in b, but not at its first byte, one of the patterns is.
func candidates(b []byte, patterns [][]byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		next := make([]int, len(patterns)) // where each is; len(b) for nowhere
		for i := 1; i < len(b); i++ {
			first := len(b)
			for k, p := range patterns {
				if next[k] < i {
					next[k] = len(b)
					if n := bytes.Index(b[i:], p); n >= 0 {
						next[k] = i + n
					}
				}
				first = min(first, next[k])
			}
			if i = first; i == len(b) {
				return
			}
			if !yield(i) {
				return
			}
		}
	}
}

func (f *file) startsRecord(ctx context.Context, offset int64) (bool, error) {
	if f.budget < 0 {
		return false, errBudget
	}
	z := f.section(ctx, offset).reader()
	defer f.spend(z)
	_, err := z.Next()
	if err == nil {
		return true, nil
	}
	f.budget -= attempt
	return false, notDamage(err)
}

// attempt is what it costs to look at a place where no record starts, in bytes
// of the budget: it takes longer than to read what is there.
const attempt = 1 << 10
