package archive

import (
	"bytes"
	"fmt"

	"github.com/warctee/warctee/warc"
)

// recordStarts are what a record can begin with: the version, the head of a gzip
// member, that of a zstd frame.
var recordStarts = [][]byte{[]byte("WARC/"), {0x1f, 0x8b, 8}, {0x28, 0xb5, 0x2f, 0xfd}}

// Bounds on the places in a file that look like the start of a record and are looked
// at: a file could be made of such alone.
const (
	maxStarts = 1000
	maxLooked = 64 << 20 // octets of the file that they cost
)

// maxDamage bounds how many places of damage are told of a file.
const maxDamage = 100

// A Resumption finds where the records of a damaged file go on.
type Resumption struct {
	File   *File
	starts int   // that were looked at
	looked int64 // octets of the file
}

// Next returns where the next record behind an offset starts, for what comes after
// damage: what starts like one, at the start of a line when it is plain, and has a
// header with an id and a type. It reports false when there is none, or too much
// in the file has looked like one.
func (r *Resumption) Next(offset int64) (int64, bool) {
	const overlap = 8
	buf := make([]byte, 64<<10)
	for offset++; offset < r.File.Size && !r.exhausted(); {
		n, _ := r.File.ReadAt(buf, offset)
		if n == 0 {
			break // a damaged disk; the reading of records has told it, or will
		}
		for i := range n {
			if r.startsRecord(buf[:n], i, offset) {
				return offset + int64(i), true
			}
		}
		offset += int64(max(n-overlap, 1))
	}
	return 0, false
}

func (r *Resumption) exhausted() bool { return r.starts >= maxStarts || r.looked >= maxLooked }

// startsRecord reports whether a record starts at buf[i], where buf is what the
// file holds from offset on.
func (r *Resumption) startsRecord(buf []byte, i int, offset int64) bool {
	for k, start := range recordStarts {
		if !bytes.HasPrefix(buf[i:], start) || k == 0 && (i == 0 || buf[i-1] != '\n') {
			continue
		}
		if r.exhausted() {
			return false
		}
		z := r.File.Records(offset + int64(i))
		rec, err := z.Next()
		r.starts++
		r.looked += z.InputOffset()
		return err == nil && rec.ID() != "" && rec.Type() != ""
	}
	return false
}

// A damage collects what is damaged in a file.
type damage struct {
	Resumption
	errs []error
}

// judge returns visit, with what is wrong with a record alone noted as damage.
func (d *damage) judge(visit func(p *Place, z *warc.Reader) error) func(p *Place, z *warc.Reader) error {
	return func(p *Place, z *warc.Reader) error {
		err := visit(p, z)
		broken, ok := err.(*warc.Error)
		if !ok {
			return err
		}
		d.note(fmt.Errorf("%s: %w", d.File.Path, broken))
		return nil
	}
}

// note notes damage, unless there is too much of it.
func (d *damage) note(err error) {
	switch {
	case len(d.errs) > maxDamage:
	case len(d.errs) == maxDamage:
		d.errs = append(d.errs, fmt.Errorf("%s: further damage is not reported", d.File.Path))
	default:
		d.errs = append(d.errs, err)
	}
}

// pass notes damage, whose offset is that in the file, and returns where the
// records go on behind it.
func (d *damage) pass(broken *warc.Error) (next int64, more bool) {
	next, more = d.Next(broken.Offset)
	if more {
		d.note(fmt.Errorf("%s: %w: left out up to offset %d", d.File.Path, broken, next))
	} else {
		d.note(fmt.Errorf("%s: %w: left out from there on", d.File.Path, broken))
	}
	return next, more
}
