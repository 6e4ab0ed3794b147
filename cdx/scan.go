package cdx

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A scanner makes the entries of one file.
type scanner struct {
	file *archive.File
	name string // for the entries
	opts *Options
	emit func(*Entry) error

	records int64
	done    int64 // octets of the file that Progress was told of
	damaged []error
	shared  bool // it was told that members hold more than one record
	window  window
}

// scan reads the file. Where it is damaged it goes on behind the damage. An error
// is one of input, of emit, or of ctx.
func (s *scanner) scan(ctx context.Context) error {
	if s.isARC() {
		return s.scanARC(ctx)
	}
	resumption := archive.Resumption{File: s.file}
	for offset, more := int64(0), true; more; {
		broken, err := s.scanFrom(ctx, offset)
		if err != nil {
			return err
		}
		if broken == nil {
			break
		}
		damage := fmt.Errorf("%s: %w", s.file.Path, broken)
		if offset, more = resumption.Next(broken.Offset); more {
			s.tell(fmt.Errorf("%w: not indexed up to offset %d", damage, offset))
		} else {
			s.tell(fmt.Errorf("%w: not indexed from there on", damage))
		}
	}
	for _, h := range s.window.held {
		if err := s.write(h); err != nil {
			return err
		}
	}
	return nil
}

// scanFrom reads records from an offset to the end of the file, or to the first
// that is damaged, whose offset in the file is in the error.
func (s *scanner) scanFrom(ctx context.Context, start int64) (*warc.Error, error) {
	r := s.file.Records(start)
	plain := s.plain(start)
	var last *held // whose end is not known yet
	for {
		rec, err := r.Next()
		s.progress(start + r.InputOffset())
		if err == nil {
			err = ctx.Err()
		}
		var broken *warc.Error
		switch {
		case err == io.EOF:
			return nil, s.whole(last, start+r.InputOffset())
		case errors.As(err, &broken):
			broken = &warc.Error{Offset: start + broken.Offset, Rule: broken.Rule, Err: broken.Err}
			if last == nil || broken.Offset <= last.offset {
				return broken, nil
			}
			return broken, s.whole(last, broken.Offset)
		case err != nil:
			return nil, err
		}
		s.records++
		offset := start + rec.Offset
		if last != nil && last.offset == offset && !plain {
			s.sharedMember(offset)
			continue
		}
		if err := s.whole(last, offset); err != nil {
			return nil, err
		}
		end := int64(0)
		if plain {
			end = start + r.InputOffset() + rec.Length
		}
		last = s.read(rec, offset, r)
		last.end = end
	}
}

// progress tells that the file is read up to an offset.
func (s *scanner) progress(offset int64) {
	if s.opts.Progress != nil && offset > s.done {
		s.opts.Progress(offset - s.done)
		s.done = offset
	}
}

// plain reports whether the record at an offset is not compressed.
func (s *scanner) plain(offset int64) bool {
	var start [5]byte
	n, _ := s.file.ReadAt(start[:], offset)
	return string(start[:n]) == "WARC/"
}

// sharedMember tells that a record cannot be indexed because it does not start
// where a member does.
func (s *scanner) sharedMember(offset int64) {
	if !s.shared {
		s.tell(fmt.Errorf("%s: member at offset %d: more than one record in it, of which an index can only name the first", s.file.Path, offset))
	}
	s.shared = true
}

// tell notes what is damaged.
func (s *scanner) tell(err error) {
	switch {
	case len(s.damaged) < maxDamaged:
		s.damaged = append(s.damaged, err)
	case len(s.damaged) == maxDamaged:
		s.damaged = append(s.damaged, fmt.Errorf("%s: more of this is not told", s.file.Path))
	}
}

// read looks at a record at an offset, and at as much of its block as it takes to
// describe it.
func (s *scanner) read(rec *warc.Record, offset int64, block io.Reader) *held {
	h := &held{
		id:           strings.Clone(rec.ID()), // the header can be much longer
		target:       strings.Clone(rec.TargetURI()),
		concurrentTo: rec.Header.Values("WARC-Concurrent-To"),
		offset:       offset,
	}
	for i, id := range h.concurrentTo {
		h.concurrentTo[i] = strings.Clone(id)
	}
	kind := rec.Type()
	wanted := Indexed(rec) || s.opts.All && h.target != ""
	if !wanted && kind != warc.TypeRequest {
		return h
	}
	var response *http1.Response
	var noHTTP *http1.Error
	m, err := archive.ReadMessage(rec, block)
	switch {
	case errors.As(err, &noHTTP):
		// It is indexed with what its record says.
		if noHTTP.TooLarge() {
			s.tell(fmt.Errorf("%s: record at offset %d: its HTTP message was not read: %w: indexed without it", s.file.Path, offset, noHTTP))
		}
	case err != nil:
		return h // the block is damaged, which Next will tell
	case m.Request != nil:
		h.request = requestOf(m)
	default:
		response = m.Response
	}
	if !wanted {
		return h
	}
	e, err := NewEntry(rec, response, h.request)
	if err != nil {
		h.err = fmt.Errorf("%s: record at offset %d: %w", s.file.Path, offset, err)
		return h
	}
	if date, err := rec.Date(); err == nil && s.opts.Milliseconds && date.Nanosecond() >= int(time.Millisecond) {
		e.Timestamp += date.UTC().Format(".000")[1:]
	}
	if e.Digest == "" && m != nil && kind != warc.TypeRevisit && kind != warc.TypeRequest {
		sum := sha1.New()
		io.Copy(sum, m.Payload()) // damage shows again at Next; a body that is too short counts as it is
		e.Digest = warc.SHA1.Format(sum.Sum(nil))
	}
	h.entry = &e
	h.capture = kind == warc.TypeResponse || kind == warc.TypeRevisit
	return h
}

// requestOf takes from a request what the index needs. Only some have a body that
// does.
func requestOf(m *archive.Message) *Request {
	r := &Request{Method: strings.Clone(m.Request.Method[:min(len(m.Request.Method), maxField)])}
	value, _ := m.Request.Get("Content-Type")
	r.ContentType = strings.Clone(value[:min(len(value), maxField)])
	if method := strings.ToUpper(r.Method); method == "POST" || method == "PUT" {
		r.Body, _ = io.ReadAll(io.LimitReader(m.Payload(), MaxRequestBody)) // damage shows again at Next
	}
	return r
}

// whole takes a record that has its end at an offset, and so is known to be whole.
func (s *scanner) whole(h *held, end int64) error {
	if h == nil {
		return nil
	}
	if h.err != nil {
		s.tell(h.err)
	}
	if h.entry != nil {
		if h.end != 0 {
			end = min(h.end, end) // a length in an ARC file can be too large
		}
		h.entry.Offset, h.entry.Length, h.entry.Filename = h.offset, end-h.offset, s.name
	}
	if h.request == nil && !h.capture {
		return s.write(h)
	}
	done := s.window.add(h)
	for _, h := range done {
		if err := s.write(h); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) write(h *held) error {
	if h.entry == nil {
		return nil
	}
	return s.emit(h.entry)
}
