package repair

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/warctee/warctee/warc"
)

// maxMembers is how many members are looked at within one whose checksum is
// wrong.
const maxMembers = 100

// A packed scans a file of gzip members or zstd frames.
//
// A record is whole when it is all of a member, and the member is whole. When that
// has a checksum, a WARC-Block-Digest that does not agree was wrong from the start;
// else it tells of damage. Members that are
// something else (many records, parts of one) are decompressed into a temporary
// file, which is then scanned as a plain one.
type packed struct {
	ctx   context.Context
	in    *source
	form  warc.Compression
	dir   string   // of the temporary file
	file  *os.File // it; nil: not needed so far
	find  *cursor
	dec   decoder
	br    *bufio.Reader // over dec
	ahead decoder       // nil: not needed so far
	peek  *bufio.Reader // over ahead
}

func newPacked(ctx context.Context, in *source, form warc.Compression, dir string) *packed {
	p := &packed{ctx: ctx, in: in, form: form, dir: dir, find: newCursor(in), br: newReader(), peek: newReader()}
	p.dec, p.ahead = decoderOf(form, in), decoderOf(form, in)
	return p
}

func (p *packed) close() {
	p.dec.close()
	p.ahead.close()
	if p.file != nil {
		p.file.Close()
		os.Remove(p.file.Name())
	}
}

// search returns the next place at which a member starts that starts a record.
func (p *packed) search(offset int64) (int64, error) {
	for {
		at, err := p.find.find(p.ctx, offset, magicOf(p.form))
		if err != nil || at == p.in.size || p.startsRecord(at) {
			return at, err
		}
		offset = at + 1
	}
}

// startsRecord reports whether a record starts in a member at offset.
func (p *packed) startsRecord(offset int64) bool {
	start, _ := p.start(offset)
	return string(start) == version
}

// start returns the first octets of what is in the member at offset, and whether
// there is one.
func (p *packed) start(offset int64) ([]byte, bool) {
	if p.ahead.start(offset) != nil {
		return nil, false
	}
	p.peek.Reset(p.ahead)
	start, err := p.peek.Peek(len(version))
	return start, err == nil || err == io.EOF
}

// examine looks at the member at offset.
func (p *packed) examine(offset int64, _ bool) (unit, error) {
	lost := unit{kind: Lost, end: offset + 1}
	if err := p.dec.start(offset); err != nil {
		lost.reason = reasonNothing
		return lost, nil
	}
	p.br.Reset(p.dec)
	start, err := p.br.Peek(len(version))
	switch {
	case err == io.EOF && len(start) == 0:
		if z, ok := p.dec.(*zstdDecoder); ok && z.skipped {
			return unit{kind: Kept, end: z.end()}, nil
		}
		return unit{kind: Rewritten, end: p.dec.end(), reason: "an empty " + memberOf(p.form)}, nil
	case string(start) == version:
		return p.record(offset, lost)
	case len(start) > 0 && (start[0] == '\r' || start[0] == '\n'):
		return p.spool(offset, lost)
	}
	lost.reason = reasonNothing
	if err != nil && err != io.EOF {
		lost.reason = fmt.Sprintf("a %s starts here, but is damaged: %v", memberOf(p.form), err)
	}
	return lost, nil
}

// record looks at a member that starts a record.
func (p *packed) record(offset int64, lost unit) (unit, error) {
	_, rec, err := readHead(p.br)
	if errors.As(err, &headError{}) {
		return p.spool(offset, lost) // it goes on in the next member, or others are behind it
	} else if err != nil {
		return p.damaged(err, nil, lost), nil
	}
	lost.record = rec
	d := newDigester(rec)
	switch _, err := io.CopyN(d, p.br, rec.Length); {
	case err == io.EOF:
		return p.spool(offset, lost) // it goes on in the next member, or its length is wrong
	case err != nil:
		return p.damaged(err, rec, lost), nil
	}
	t, err := readTail(p.br)
	switch {
	case err != nil:
		return p.damaged(err, rec, lost), nil
	case !t.normal() || t.more || d.known() && !d.agrees() && p.goesOn(p.dec.end()):
		return p.spool(offset, lost)
	}
	u := unit{kind: Kept, end: p.dec.end(), record: rec, rec: &found{rec: rec}}
	if d.known() && !d.agrees() {
		if !p.dec.checked() {
			lost.reason, lost.end, lost.definite = reasonDigest, u.end, true
			return lost, nil
		}
		u.reason = reasonDigest + ", but the checksum of its " + memberOf(p.form) + " is right: so it was written"
	}
	return u, nil
}

// damaged is about a member that breaks off before its first record is whole.
// When only its checksum is wrong, and another one follows, nothing else is lost.
func (p *packed) damaged(err error, rec *warc.Record, lost unit) unit {
	lost.reason = fmt.Sprintf("its %s is damaged: %v", memberOf(p.form), err)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		lost.reason = fmt.Sprintf("the file ends in the middle of its %s", memberOf(p.form))
	}
	if end := p.dec.end(); errors.Is(err, errChecksum) && rec != nil && (end == p.in.size || p.startsRecord(end)) {
		if lost.end, lost.definite = p.chain(lost.end, end); !lost.definite {
			return lost
		}
	}
	return lost
}

// chain looks for whole members between start and end, where a damaged one seems
// to end. When its own end was lost, decompressing went on into the next one, and
// may have ended with it. Members within its payload end before it does. It
// returns where the first of those that reach to end starts, or end and true.
func (p *packed) chain(start, end int64) (int64, bool) {
	for range maxMembers {
		first, err := p.search(start)
		if err != nil || first >= end {
			break
		}
		at := first
		for at < end && p.ahead.start(at) == nil {
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{p.ahead}); err != nil {
				break
			}
			at = p.ahead.end()
		}
		if at == end {
			return first, false
		}
		start = first + 1
	}
	return end, true
}

// goesOn reports whether there is a member at offset that does not start a
// record.
func (p *packed) goesOn(offset int64) bool {
	if offset == p.in.size {
		return false
	}
	start, ok := p.start(offset)
	return ok && len(start) > 0 && string(start) != version
}
