package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	reasonNothing = "no record starts here"
	reasonZero    = "zero bytes, as a power failure leaves them"
	reasonDigest  = "its block does not agree with its WARC-Block-Digest"
)

// maxChain is how many headers are looked at within a record whose block is not
// what its digest says.
const maxChain = 1000

// A plain scans a file without compression.
//
// A record is whole when its header can be understood, CR LF CR LF or the next
// record is where its Content-Length says, and its block agrees with its
// WARC-Block-Digest, if there is one.
type plain struct {
	ctx   context.Context
	in    *source
	c     *cursor
	ahead *cursor // for second looks

	// strict says that something is damaged, so that a header which is not as the
	// standard has it is taken for damage too.
	strict bool
	// proof says that what has no digest may be damaged too.
	proof bool

	// spare is how many octets may still be read to find the ends of blocks
	// with a wrong Content-Length. Without it a file of such records would take
	// the square of its size.
	spare int64
}

func newPlain(ctx context.Context, in *source) *plain {
	return &plain{ctx: ctx, in: in, c: newCursor(in), ahead: newCursor(in), spare: 2*in.size + 1<<20}
}

func (p *plain) search(offset int64) (int64, error) {
	return p.c.find(p.ctx, offset, []byte(version))
}

// examine looks whether a record starts at offset.
func (p *plain) examine(offset int64, searching bool) (unit, error) {
	lost := unit{kind: Lost, end: offset + 1}
	p.c.seek(offset)
	if start, _ := p.c.br.Peek(len(version)); string(start) != version {
		lost.reason = reasonNothing
		return lost, nil
	}
	head, rec, err := readHead(p.c.br)
	if err == nil && (hasControls(head) || p.strict && !isStrict(head)) {
		err = headError{"its header has what no writer puts there"}
	}
	if bad := (headError{}); errors.As(err, &bad) {
		lost.reason = "a record starts here, but " + bad.why
		return lost, nil
	} else if err != nil {
		return lost, err
	}
	if searching && (rec.ID() == "" || rec.Type() == "") {
		return lost, nil
	}
	lost.record = rec
	f := &found{rec: rec, head: head, in: p.in, block: offset + int64(len(head)), length: rec.Length}
	if there := p.in.size - f.block; rec.Length > there {
		lost.reason = fmt.Sprintf("the file ends in the record: of the %d octets of its block %d are there", rec.Length, there)
		return p.otherLength(f, lost)
	}
	d := newDigester(rec)
	if _, err := io.CopyN(d, p.c.br, rec.Length); err != nil {
		return lost, err
	}
	t, err := readTail(p.c.br)
	if err != nil {
		return lost, err
	}
	return p.judge(f, d, t, lost)
}

// judge decides about a record whose block is there, and ends in t.
func (p *plain) judge(f *found, d digester, t tail, lost unit) (unit, error) {
	u := unit{kind: Kept, end: f.block + f.length + int64(len(recordEnd)), rec: f, record: f.rec}
	switch {
	case d.known() && !d.agrees():
		lost.reason = reasonDigest
		if !t.ended() || !t.clean() {
			return p.otherLength(f, lost)
		}
		inner, err := p.chain(f.block, f.block+f.length+t.length-int64(len(recordEnd)))
		if err != nil || inner >= 0 {
			lost.end = inner
			return lost, err
		}
		lost.end, lost.definite = f.block+f.length+t.length, true
		return lost, nil
	case p.proof && (!d.known() || f.length == 0): // the digest of an empty block is always right
		lost.reason = "the data is damaged somewhere, and no WARC-Block-Digest of a block proves that this record is not"
		return lost, nil
	case t.normal(), t.ended() && !t.clean():
		return u, nil
	case t.clean(), d.known():
		u.kind, u.end = Rewritten, f.block+f.length+t.length
		u.reason = fmt.Sprintf("behind the block there was %.20q, not CR LF CR LF", t.ends)
		if t.length == 0 {
			u.reason = "there was nothing between the block and what follows"
		}
		return u, nil
	}
	lost.reason = fmt.Sprintf("its block does not end where its Content-Length of %d says", f.length)
	return lost, nil
}

// otherLength looks whether the record is whole but for its Content-Length.
func (p *plain) otherLength(f *found, lost unit) (unit, error) {
	p.ahead.seek(f.block)
	n, err := lengthByDigest(p.ahead.br, newDigester(f.rec), p.spare)
	p.spare -= p.ahead.offset() - f.block
	if err != nil || n < 0 || n == f.length {
		return lost, err
	}
	p.c.seek(f.block + n)
	t, err := readTail(p.c.br)
	if err != nil {
		return lost, err
	}
	fixed := *f
	fixed.head, fixed.length = setLength(f.head, n), n
	reason := fmt.Sprintf("its Content-Length was %d; by its WARC-Block-Digest it is %d", f.length, n)
	return unit{kind: Rewritten, end: f.block + n + t.length, reason: reason, rec: &fixed, record: f.rec}, nil
}

// chain looks between block and end, which is what a record says of its block,
// and its digest denies: part of it, and of what came next, may be missing. Then
// whole records are there, and the block of the last of them ends at end too;
// while those of a WARC file that is its payload end before its own CR LF CR LF.
// It returns where the first of them starts, or -1.
func (p *plain) chain(block, end int64) (int64, error) {
	budget := maxChain
	for start := block; ; start++ {
		var err error
		if start, err = p.ahead.find(p.ctx, start, []byte(version)); err != nil || start >= end {
			return -1, err
		}
		for at := start; at < end; {
			if budget--; budget < 0 {
				return -1, nil
			}
			blockEnd, err := p.blockEnd(at)
			if err != nil {
				return -1, err
			}
			if blockEnd == end {
				return start, nil
			}
			if blockEnd < 0 || blockEnd > end {
				break
			}
			at = blockEnd + int64(len(recordEnd))
			p.ahead.seek(blockEnd)
			if next, _ := p.ahead.br.Peek(len(recordEnd) + len(version)); string(next) != recordEnd+version {
				break
			}
		}
	}
}

// blockEnd returns where the block of a record ends that seems to start at
// offset, or -1.
func (p *plain) blockEnd(offset int64) (int64, error) {
	p.ahead.seek(offset)
	head, rec, err := readHead(p.ahead.br)
	if bad := (headError{}); errors.As(err, &bad) {
		return -1, nil
	} else if err != nil {
		return -1, err
	}
	if rec.Length > p.in.size-offset-int64(len(head)) || rec.ID() == "" || rec.Type() == "" {
		return -1, nil
	}
	return offset + int64(len(head)) + rec.Length, nil
}
