// Package repair saves what is whole of a damaged WARC file.
//
// Run goes over the file once, from place to place:
//
//	a whole record, alone in its gzip member or zstd frame   kept, byte for byte
//	a record or member in an unusual form                    rewritten, and said so
//	anything else                                            lost, with the reason
//
// Behind what is lost it searches for the next record. The ranges that it tells
// of cover the whole input, in order.
//
//	cursor    the input, from an offset on
//	plain     records in an uncompressed file        examine, search
//	packed    gzip members and zstd frames           examine, search
//	repairer  what is done with what they find
package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/warc"
)

// maxRefs is how many records a Range names.
const maxRefs = 100

// flushSize is how much of the input is kept before it is copied, while the
// system may still have it in memory.
const flushSize = 32 << 20

// A Kind says what became of a range of the input.
type Kind string

// The kinds of ranges.
const (
	Kept      Kind = "kept"      // whole records, copied byte for byte
	Rewritten Kind = "rewritten" // whole records, in another form than they had
	Lost      Kind = "lost"      // not in the output
)

// A Range is a part of the input.
type Range struct {
	Kind           Kind
	Offset, Length int64

	// Inside is -1, or this is a range of what comes out of the gzip member or
	// zstd frame at that offset of the input, which a later Range covers.
	Inside int64

	Records int    // in the output, from this range
	Reason  string // why it was lost or rewritten, or what is odd about what is kept
	Refs    []Ref  // records of which the header was found in what is lost, at most 100
	Unnamed int    // how many more there were

	Data io.Reader // the bytes of what is lost; until the function that got the Range returns
}

// A Ref names a record. What could not be read is empty.
type Ref struct {
	ID            string `json:"id"`
	Type          string `json:"type"`
	URL           string `json:"url,omitempty"`
	Date          string `json:"date,omitempty"`
	PayloadDigest string `json:"payload_digest,omitempty"`
	RefersTo      string `json:"refers_to,omitempty"`
}

func newRef(rec *warc.Record) Ref {
	h := rec.Header
	return Ref{shown(rec.ID()), shown(rec.Type()), shown(rec.TargetURI()), shown(h.Get("WARC-Date")), shown(h.Get("WARC-Payload-Digest")), shown(h.Get("WARC-Refers-To"))}
}

// maxShown bounds the fields of a Ref, in bytes. Only URLs are nearly as long.
const maxShown = 16 << 10

// shown returns a field as a Ref has it, with … where it is cut.
func shown(value string) string {
	if len(value) <= maxShown {
		return strings.Clone(value) // the header can be much longer
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "…"
}

// A Link is a field of a record in the output that names a record which is lost.
type Link struct {
	ID    string // of the record with the field
	Field string // WARC-Concurrent-To, WARC-Refers-To, …
	To    string // the id that is lost
}

// Options say what to do with what Run finds.
type Options struct {
	// Name is that of the file: its end tells how it is compressed when its
	// first bytes do not. Empty: as is what is found first in it.
	Name string

	// Create makes the output, which is the caller's to close, compressed as
	// it is told. It is called when the first difference to the input is found, and so
	// never for a file that is whole.
	Create func(warc.Compression) (io.Writer, error)

	// Range is called for each range of the input, in order. Nil: nobody wants
	// to know.
	Range func(Range) error

	// Link is called for each link that leads nowhere now.
	Link func(Link)

	// Progress is called with numbers of bytes of the input that are done.
	Progress func(n int64)

	// TempDir is where a member of several records is decompressed. Empty: that
	// of the system.
	TempDir string
}

// A Summary counts what Run did.
type Summary struct {
	Compression warc.Compression
	Kept        int64 // records
	Rewritten   int64 // records
	Losses      int64 // ranges
	LostBytes   int64 // of the input, or of what was decompressed
	LostRefs    int64 // records known to be lost
	Links       int64 // that lead nowhere
	Changed     bool  // there is an output
}

// A unit is what is at an offset of the input.
type unit struct {
	kind   Kind
	end    int64 // behind it; of what is lost: where to search on, or to go on when definite
	reason string

	definite bool         // what is lost ends at end, and something may start there
	rec      *found       // the record, when one could be read; nil: none
	spool    *spool       // a member that is not one record: what came out of it
	records  int          // that were saved from the spool
	record   *warc.Record // of rec, or of what is lost
}

// A scanner knows one form of files. Errors of the input are left to the cursor.
type scanner interface {
	// examine looks at what is at offset. Searching says that it is a guess
	// that something starts there.
	examine(offset int64, searching bool) (unit, error)
	// search returns the first offset from that one on at which a record may
	// start, or the size of the input.
	search(offset int64) (int64, error)
}

// Run repairs in, which has size bytes. Its memory is bounded. Errors are those
// of in, of the options' functions, and of ctx.
func Run(ctx context.Context, in io.ReaderAt, size int64, opts Options) (Summary, error) {
	r := &repairer{ctx: ctx, in: &source{in: in, size: size}, opts: opts, links: newLinks()}
	r.links.dangling = r.dangling
	err := r.run()
	r.links.end()
	if r.in.err != nil {
		err = fmt.Errorf("reading: %w", r.in.err)
	}
	return r.sum, err
}

// A repairer is one run over one file.
type repairer struct {
	ctx   context.Context
	in    *source
	opts  Options
	sum   Summary
	links *links

	out       io.Writer        // nil: no difference to the input so far
	dict      *warc.Dictionary // of the file
	kept      int64            // where the range of kept records starts that was not told yet
	copied    int64            // up to where it is in the output
	keptCount int              // how many records it has
	done      int64            // told to Progress
	buf       []byte
}

func (r *repairer) run() error {
	form, err := r.sniff()
	if err != nil {
		return err
	}
	r.sum.Compression = form
	if form == warc.Zstd {
		r.dict = readDictionary(r.in)
	}
	sc := r.scanner(form)
	if p, ok := sc.(*packed); ok {
		defer p.close()
	}
	if err := r.loop(sc, r.in.size, r); err != nil {
		return err
	}
	return r.flush(r.in.size, "")
}

func (r *repairer) scanner(form warc.Compression) scanner {
	if form == warc.Plain {
		return newPlain(r.ctx, r.in)
	}
	return newPacked(r.ctx, r.in, form, r.opts.TempDir)
}

// A taker does something with what a scanner found.
type taker interface {
	take(offset int64, u unit) error
	lose(g Range) error
}

// A walk goes over what a scanner scans.
type walk struct {
	r    *repairer
	sc   scanner
	t    taker
	loss *Range // that goes on until something is found; nil: none
}

func (r *repairer) loop(sc scanner, size int64, t taker) error {
	w := &walk{r: r, sc: sc, t: t}
	for pos := int64(0); pos < size; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		u, err := sc.examine(pos, w.loss != nil)
		if err == nil {
			pos, err = w.step(pos, u)
		}
		if err := errors.Join(err, r.in.err); err != nil {
			return err
		}
	}
	return w.endLoss(size)
}

// step does with a unit what is to be done, and returns where to look next.
func (w *walk) step(pos int64, u unit) (int64, error) {
	if w.r.in.err != nil {
		return pos, nil // what seems to be damage is none
	}
	if u.kind != Lost || u.definite {
		if err := w.endLoss(pos); err != nil {
			return pos, err
		}
	}
	var inner Range // what is lost of the spool
	if u.spool != nil {
		from := pos
		if w.loss != nil {
			from = w.loss.Offset
		}
		var err error
		if inner, err = w.r.unspool(from, pos, u); err != nil {
			return pos, err
		}
		if u.record = nil; u.kind != Lost && inner.Records == 0 && inner.Reason != "" {
			u.kind, u.definite, u.reason = Lost, true, inner.Reason
		}
	}
	if u.kind != Lost {
		u.records = inner.Records
		return u.end, w.t.take(pos, u)
	}
	if w.loss == nil {
		w.loss = &Range{Kind: Lost, Offset: pos, Inside: -1, Reason: u.reason}
	}
	w.r.refer(w.loss, u.record)
	w.loss.merge(inner)
	if u.definite {
		return u.end, w.endLoss(u.end)
	}
	return w.sc.search(u.end)
}

// endLoss ends what is lost, if anything is.
func (w *walk) endLoss(end int64) error {
	if w.loss == nil {
		return nil
	}
	g := *w.loss
	w.loss, g.Length = nil, end-g.Offset
	return w.t.lose(g)
}

// merge adds what was found in another range that is lost.
func (g *Range) merge(other Range) {
	g.Records += other.Records
	g.Unnamed += other.Unnamed
	for _, ref := range other.Refs {
		if len(g.Refs) == maxRefs {
			g.Unnamed++
			continue
		}
		g.Refs = append(g.Refs, ref)
	}
}

// refer adds a record to those that are lost.
func (r *repairer) refer(loss *Range, rec *warc.Record) {
	if rec == nil {
		return
	}
	r.sum.LostRefs++
	r.links.lose(rec.ID())
	if len(loss.Refs) == maxRefs {
		loss.Unnamed++
		return
	}
	loss.Refs = append(loss.Refs, newRef(rec))
}

// take puts a unit of the input into the output.
func (r *repairer) take(offset int64, u unit) error {
	r.progress(u.end)
	if u.kind == Kept {
		if u.reason != "" { // it is told of, by itself
			if err := r.flush(offset, ""); err != nil {
				return err
			}
		}
		if u.rec != nil {
			r.sum.Kept++
			r.keptCount++
			r.links.add(u.rec.rec)
		}
		if u.reason != "" {
			return r.flush(u.end, u.reason)
		}
		if r.out != nil && u.end-r.copied >= flushSize {
			return r.copyKept(u.end)
		}
		return nil
	}
	if err := r.differ(offset); err != nil {
		return err
	}
	n := u.records
	if u.rec != nil {
		n = 1
		if err := r.rewrite(u.rec); err != nil {
			return err
		}
	}
	return r.skip(Range{Kind: Rewritten, Offset: offset, Length: u.end - offset, Inside: -1, Records: n, Reason: u.reason})
}

func (r *repairer) lose(g Range) error {
	r.progress(g.Offset + g.Length)
	if err := r.differ(g.Offset); err != nil {
		return err
	}
	if g.Reason == reasonNothing && r.in.isZero(g.Offset, g.Length) {
		g.Reason = reasonZero
	}
	r.count(g)
	g.Data = io.NewSectionReader(r.in, g.Offset, g.Length)
	return r.skip(g)
}

// count counts a loss.
func (r *repairer) count(g Range) {
	r.sum.Losses++
	r.sum.LostBytes += g.Length
	r.links.gap()
}

// rewrite writes a record in the form of the file.
func (r *repairer) rewrite(rec *found) error {
	r.sum.Rewritten++
	r.links.add(rec.rec)
	if err := r.write(rec); err != nil {
		return fmt.Errorf("writing record %s: %w", rec.rec.ID(), err)
	}
	return nil
}

// skip tells of a range that is not kept; the next one starts behind it.
func (r *repairer) skip(g Range) error {
	r.kept = g.Offset + g.Length
	r.copied = r.kept
	return r.tell(g)
}

func (r *repairer) tell(g Range) error {
	if r.opts.Range == nil {
		return nil
	}
	return r.opts.Range(g)
}

// differ is called when what is at offset will not be in the output as it is.
func (r *repairer) differ(offset int64) error {
	if r.out == nil {
		var err error
		if r.out, err = r.opts.Create(r.sum.Compression); err != nil {
			return err
		}
		r.sum.Changed = true
	}
	return r.flush(offset, "")
}

// flush ends the range of kept records at offset.
func (r *repairer) flush(offset int64, reason string) error {
	if r.out != nil {
		if err := r.copyKept(offset); err != nil {
			return err
		}
	}
	if offset > r.kept {
		g := Range{Kind: Kept, Offset: r.kept, Length: offset - r.kept, Inside: -1, Records: r.keptCount, Reason: reason}
		r.kept, r.keptCount = offset, 0
		return r.tell(g)
	}
	return nil
}

// copyKept copies the input up to offset, as far as it is not in the output yet.
func (r *repairer) copyKept(offset int64) error {
	if r.buf == nil {
		r.buf = make([]byte, 256<<10)
	}
	part := io.NewSectionReader(r.in, r.copied, offset-r.copied)
	n, err := io.CopyBuffer(r.out, part, r.buf)
	r.copied += n
	if err == nil && r.copied != offset {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (r *repairer) progress(done int64) {
	if r.opts.Progress != nil && done > r.done {
		r.opts.Progress(done - r.done)
		r.done = done
	}
}

func (r *repairer) dangling(l Link) {
	r.sum.Links++
	if r.opts.Link != nil {
		r.opts.Link(l)
	}
}
