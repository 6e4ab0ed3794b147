package recorder

import (
	"errors"
	"fmt"
	"io"

	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc"
)

// Where the records of a capture go.
type placing int

const (
	toCurrent placing = iota // the current file
	toNext                   // a new one: they do not fit the current one any more
	toChain                  // several new ones
)

// A chain is the files of a capture that does not fit one. They are made beside
// the current file of its series, and all get their names together when all is
// durable: so the records of an exchange are in the archive or none is.
type chain struct {
	*rotate.Chain
	file   *rotate.File // the last one …
	target target       // … and what records need to know of it
	files  int64
	total  int64 // bytes appended

	response       []*rotate.File // in which the response is, or its segments …
	offset, length int64          // … and where in the first one
}

// errInChain: the current file of the series is not to blame.
var errInChain = errors.New("write the files of what does not fit one")

// errChainLost: somebody took a file away before all of them had their names.
var errChainLost = errors.New("a part of it is gone")

// place tells where the records of a capture go.
func (w *writer) place(c *capture, out *output) (placing, error) {
	o := &w.r.options
	if o.Oversize == OversizeWhole {
		return toCurrent, nil
	}
	need, divided := int64(0), false
	for _, p := range c.records() {
		divided = divided || p.segments != nil
		need += p.sizeAtMost(o)
	}
	if divided {
		return toChain, nil
	}
	used := out.file.Size()
	if used+need <= o.MaxSize {
		return toCurrent, nil
	}
	need, err := c.size(out.target)
	switch {
	case err != nil:
		return 0, err
	case used+need <= o.MaxSize:
		return toCurrent, nil
	case used > out.file.Preamble() && out.file.Preamble()+need <= o.MaxSize+preambleRoom:
		return toNext, nil
	}
	return toChain, nil
}

// size is what the records of a capture take in a file.
func (c *capture) size(to target) (total int64, err error) {
	for _, p := range c.records() {
		n, err := p.size(&c.x.r.options, to)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func (p *part) size(o *Options, to target) (int64, error) {
	rec, _, err := p.encode(o, to, nil)
	if err != nil {
		return 0, err
	}
	defer rec.close()
	n, err := io.Copy(io.Discard, rec)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", rotate.ErrSource, err)
	}
	return n, nil
}

// appendChain writes a capture that does not fit one file. Nobody is told of it
// before it is durable.
func (w *writer) appendChain(c *capture, out *output) error {
	// A chain may take long: what was appended before does not wait for it. And a
	// revisit may be of something in the current file.
	if err := w.syncOutput(out); err != nil {
		return err
	}
	if c.revisit && !w.r.originals.has(c.original) {
		c.undoRevisit()
		return w.append(c)
	}
	err := w.startChain(c)
	for errors.Is(err, errReckoned) { // once for each record, at most
		if err := w.abortChain(c, err); errors.Is(err, errAbort) {
			return err
		}
		err = w.startChain(c)
	}
	if c.chain == nil {
		return fmt.Errorf("%w: %w", errInChain, err)
	}
	if err != nil {
		if w.isTooBig(err, c.chain.file) {
			err = fmt.Errorf("%w: %w", errTooBig, err)
		}
		return w.abortChain(c, err)
	}
	return w.commitChain(c)
}

// startChain writes the files of a chain.
func (w *writer) startChain(c *capture) error {
	started, err := w.set.Chain(c.x.series)
	if err != nil {
		return err
	}
	c.chain = &chain{Chain: started}
	return w.fillChain(c)
}

// errReckoned: a segment has become longer than it should, for once. With zstd,
// where that can be, the next attempt is more careful.
var errReckoned = errors.New("a segment does not fit its file")

// abortChain takes a chain back because of err.
func (w *writer) abortChain(c *capture, err error) error {
	ch := c.chain
	c.chain = nil
	if e := ch.Abort(); e != nil {
		err = fmt.Errorf("%w; %w: %w", err, errAbort, e)
	}
	return fmt.Errorf("%w: %w", errInChain, err)
}

var errAbort = errors.New("and the files cannot be removed")

// fillChain writes the records: first those in segments, whose first one starts a
// file, and then the others behind the last segment.
func (w *writer) fillChain(c *capture) error {
	parts := c.records()
	if err := w.startFile(c); err != nil {
		return err
	}
	for _, p := range parts {
		if p.isLarge(&w.r.options) && p.segments == nil && p.window == nil && !p.undiv {
			if err := c.fit(p); err != nil {
				return fmt.Errorf("%w: %w", rotate.ErrSource, err)
			}
		}
	}
	for _, divided := range []bool{true, false} {
		for _, p := range parts {
			if divided != (p.segments != nil) {
				continue
			}
			if err := w.addToChain(c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// addToChain writes a record, or its segments, to files in which there is room.
func (w *writer) addToChain(c *capture, p *part) error {
	for _, s := range p.segments {
		if err := w.putInChain(c, p, s, true); err != nil {
			return err
		}
	}
	if p.segments != nil {
		return nil
	}
	fits, err := w.fitsChain(c, p)
	if err != nil {
		return err
	}
	if fits {
		return w.putInChain(c, p, p, false)
	}
	if err := w.startFile(c); err != nil {
		return err
	}
	if fits, err = w.fitsChain(c, p); err != nil {
		return err
	}
	if !fits && !p.undiv {
		if err := c.fit(p); err != nil {
			return fmt.Errorf("%w: %w", rotate.ErrSource, err)
		}
		if p.segments != nil {
			return w.addToChain(c, p)
		}
	}
	return w.putInChain(c, p, p, false)
}

// fitsChain reports whether there is room for a record in the last file.
func (w *writer) fitsChain(c *capture, p *part) (bool, error) {
	o, file := &w.r.options, c.chain.file
	if file == nil {
		return false, nil
	}
	if file.Size()+p.sizeAtMost(o) <= o.MaxSize {
		return true, nil
	}
	n, err := p.size(o, c.chain.target)
	return file.Size()+n <= o.MaxSize, err
}

// startFile starts another file of the chain, unless there is nothing in the
// last one.
func (w *writer) startFile(c *capture) (err error) {
	ch := c.chain
	if ch.file != nil && ch.file.Size() == ch.file.Preamble() {
		return nil
	}
	if ch.file, err = ch.Next(); err != nil {
		return err
	}
	ch.files++
	ch.target = w.r.newTarget()
	return w.begin(ch.file, ch.target)
}

// putInChain appends a record, which is p or a segment of it.
func (w *writer) putInChain(c *capture, p, record *part, fresh bool) error {
	ch := c.chain
	if fresh || ch.file == nil {
		if err := w.startFile(c); err != nil {
			return err
		}
	}
	rec, _, err := record.encode(&w.r.options, ch.target, nil)
	if err != nil {
		return err
	}
	defer rec.close()
	offset, length, err := ch.file.Append(rec)
	if err != nil {
		return err
	}
	if w.r.options.Compression == warc.Zstd && p.segments != nil && ch.file.Size() > w.r.options.MaxSize && !p.careful {
		p.careful, p.segments = true, nil
		return errReckoned
	}
	ch.total += length
	if p == &c.response {
		if len(ch.response) == 0 {
			ch.offset, ch.length = offset, length
		}
		ch.response = append(ch.response, ch.file)
	}
	return nil
}

// commitChain gives the files of a chain their names, and makes its original
// known: it is durable.
func (w *writer) commitChain(c *capture) error {
	ch := c.chain
	err := ch.Commit()
	switch {
	case errors.Is(err, rotate.ErrLost):
		w.r.damaged(err)
		c.chain = nil
		return fmt.Errorf("%w: %w", errChainLost, err)
	case err != nil && !ch.Committed():
		return w.abortChain(c, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errInChain, err)
	}
	c.chain = nil
	c.appended = ch.total
	w.r.counts.written.Add(ch.total)
	w.r.space.appended.Add(ch.total)
	w.files.Add(ch.files)
	if c.digest != "" && !c.revisit && w.index != nil {
		w.r.originals.wroteChain(ch.response, ch.offset)
		known := &recent{Capture: c.asOriginal(ch.response[0].Name(), ch.offset, ch.length)}
		w.remember(c.digest, known)
		w.index.commit([]string{c.digest}, []*recent{known})
	}
	c.release()
	return nil
}
