package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// A spool is what was in members that are not one record each. It is in a
// temporary file, which the next spool takes over.
type spool struct {
	*source
	damaged error // why there is not more of it; nil: it is all
}

// temporary returns the file of the spools, with nothing in it.
func (p *packed) temporary() (*os.File, error) {
	if p.file == nil {
		f, err := os.CreateTemp(p.dir, ".warctee-repair-*")
		p.file = f
		return f, err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return p.file, p.file.Truncate(0)
}

// A temporary file has at most so many octets, and besides so many times those that the
// input has for it: what is made to fill disks is a thousand times as large.
const (
	spoolSpare = 64 << 20
	spoolTimes = 50
)

var errBomb = fmt.Errorf("it holds more than %d MB and %d times its own size, and was decompressed no further; if it should, decompress the file yourself and repair what comes out", spoolSpare>>20, spoolTimes)

// spool decompresses the member at offset, and those behind it that do not start
// a record.
func (p *packed) spool(offset int64, lost unit) (unit, error) {
	f, err := p.temporary()
	if err != nil {
		return lost, err
	}
	s := &spool{}
	out := &contextWriter{ctx: p.ctx, w: f, limit: func() int64 { return spoolSpare + spoolTimes*max(p.dec.end()-offset, 0) }}
	end, members := offset, 0
	for members == 0 || p.goesOn(end) {
		if s.damaged = p.dec.start(end); s.damaged != nil {
			break
		}
		_, s.damaged = io.Copy(out, struct{ io.Reader }{p.dec})
		if out.err != nil {
			return lost, fmt.Errorf("decompressing what is at offset %d: %w", offset, out.err)
		}
		end = p.dec.end()
		members++
		if s.damaged != nil {
			break
		}
	}
	s.source = &source{in: f, size: out.n}
	u := unit{kind: Rewritten, end: end, spool: s, record: lost.record}
	u.reason = fmt.Sprintf("a %s that holds more or less than one record and CR LF CR LF", memberOf(p.form))
	if members > 1 {
		u.reason = fmt.Sprintf("%d %ss that hold more or less than one record each", members, memberOf(p.form))
	}
	if s.damaged != nil {
		bad := p.damaged(s.damaged, lost.record, lost)
		u.kind, u.reason, u.end, u.definite = Lost, bad.reason, bad.end, bad.definite
	}
	return u, nil
}

// A contextWriter counts what it writes, and keeps its error apart from those of
// what is copied.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64
	err error

	limit func() int64 // of n
}

func (w *contextWriter) Write(p []byte) (int, error) {
	if w.err = w.ctx.Err(); w.err != nil {
		return 0, w.err
	}
	if w.n+int64(len(p)) > w.limit() {
		return 0, errBomb
	}
	n, err := w.w.Write(p)
	w.n, w.err = w.n+int64(n), err
	return n, err
}

// unspool saves what is whole of a spool, which was found at offset. The output
// holds the input up to from. It returns what is lost, and how many records are
// not.
func (r *repairer) unspool(from, offset int64, u unit) (Range, error) {
	if err := r.differ(from); err != nil {
		return Range{}, err
	}
	damaged := u.kind == Lost
	t := &spoolTaker{r: r, spool: u.spool, offset: offset, silent: damaged}
	sc := newPlain(r.ctx, u.spool.source)
	sc.strict = damaged
	// Where a file was cut off, what is there is as it was.
	sc.proof = damaged && !errors.Is(u.spool.damaged, io.ErrUnexpectedEOF)
	err := r.loop(sc, u.spool.size, t)
	t.lost.Records = t.records
	return t.lost, errors.Join(err, u.spool.err)
}

// A spoolTaker writes the records of a spool to the output.
type spoolTaker struct {
	r       *repairer
	spool   *spool
	offset  int64 // of the member in the input
	records int
	silent  bool  // all of the member will be told as lost
	lost    Range // of the spool, that was not told
}

func (t *spoolTaker) take(_ int64, u unit) error {
	if t.records++; t.records == 1 && !t.silent && t.lost.Length > 0 {
		if err := t.tell(t.lost); err != nil {
			return err
		}
		t.lost = Range{}
	}
	return t.r.rewrite(u.rec)
}

func (t *spoolTaker) lose(g Range) error {
	if t.records > 0 && !t.silent {
		return t.tell(g)
	}
	if t.lost.Reason == "" {
		t.lost = g
		return nil
	}
	t.lost.Length = g.Offset + g.Length - t.lost.Offset
	t.lost.merge(g)
	return nil
}

func (t *spoolTaker) tell(g Range) error {
	g.Inside, g.Data = t.offset, io.NewSectionReader(t.spool, g.Offset, g.Length)
	t.r.count(g)
	return t.r.tell(g)
}
