package archive

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warctee/warctee/warc"
)

// A Place is where a record is.
type Place struct {
	File   *File
	Offset int64        // of the record, or of the gzip member or zstd frame in which it starts
	Nth    int          // how many records start there before it; 0 but in unusual files
	Record *warc.Record // its Raw is there once the place is opened
}

func (p *Place) String() string { return fmt.Sprintf("%s@%d", p.File.Path, p.Offset) }

// Open goes to the record, and returns its block.
func (p *Place) Open() (io.Reader, error) {
	z := p.File.Records(p.Offset)
	var rec *warc.Record
	var err error
	for range p.Nth + 1 {
		if rec, err = z.Next(); err == io.EOF {
			return nil, fmt.Errorf("%v: there is no record any more: somebody has changed the file", p)
		} else if err != nil {
			return nil, p.located(err)
		}
	}
	own := *rec
	own.Offset = p.Offset
	p.Record = &own
	return &placeReader{z, p}, nil
}

// located makes an error of a reader that started at a place tell where it is in
// the file.
func (p *Place) located(err error) error {
	if broken := (*warc.Error)(nil); errors.As(err, &broken) {
		err = &warc.Error{Offset: p.Offset + broken.Offset, Rule: broken.Rule, Err: broken.Err}
	}
	return fmt.Errorf("%s: %w", p.File.Path, err)
}

// A placeReader reads the block of a record.
type placeReader struct {
	z *warc.Reader
	p *Place
}

func (r *placeReader) Read(b []byte) (int, error) {
	n, err := r.z.Read(b)
	if err != nil && err != io.EOF {
		err = r.p.located(err)
	}
	return n, err
}

// errStop ends a Scan early.
var errStop = errors.New("stop")

// Scan calls visit for each record of a file, with a reader of its block, which
// need not be read. Where the file is damaged it goes on after the damage, with
// another reader; visit need not report damage in a block. A [warc.Error] of visit,
// as [Place.TooLarge] makes it, is damage of that record alone. Another error of visit
// or of reading ends the scan. Otherwise the error reports all damage, a line for
// each: the name of the file, a [warc.Error], and where it goes on.
func Scan(f *File, visit func(p *Place, z *warc.Reader) error) error {
	d := damage{Resumption: Resumption{File: f}}
	for offset, more := int64(0), true; more; {
		broken, err := scanFrom(f, offset, d.judge(visit))
		if err != nil {
			return err
		}
		if broken == nil {
			break
		}
		offset, more = d.pass(broken)
	}
	return errors.Join(d.errs...)
}

// scanFrom visits the records from an offset on to the end of the file, or to the
// first that is damaged, whose offset in the file is in the first error.
func scanFrom(f *File, start int64, visit func(p *Place, z *warc.Reader) error) (*warc.Error, error) {
	z := f.Records(start)
	last := Place{Offset: -1}
	for {
		rec, err := z.Next()
		if err == io.EOF {
			return nil, nil
		}
		if broken := (*warc.Error)(nil); errors.As(err, &broken) {
			return &warc.Error{Offset: start + broken.Offset, Rule: broken.Rule, Err: broken.Err}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		own := *rec
		own.Offset += start
		own.Raw = nil // the next record has its place
		p := &Place{File: f, Offset: own.Offset, Record: &own}
		if p.Offset == last.Offset {
			p.Nth = last.Nth + 1
		}
		last = *p
		if err := visit(p, z); err != nil {
			return nil, err
		}
	}
}

// scanAll goes over all files. What cannot be read of one is told at the end,
// unless visit has stopped it.
func scanAll(files []*File, visit func(p *Place) error) error {
	var errs []error
	for _, f := range files {
		err := Scan(f, func(p *Place, _ *warc.Reader) error { return visit(p) })
		if errors.Is(err, errStop) {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ErrNotFound is wrapped by errors about a record that is in none of the files.
var ErrNotFound = errors.New("not found")

// A notFoundError says where something is not.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string        { return e.text }
func (e *notFoundError) Is(target error) bool { return target == ErrNotFound }

// notFound is the error about something that is in none of the files, of which
// scanErr says why not all was looked at.
func notFound(what string, files []*File, scanErr error) error {
	where := fmt.Sprintf("in none of the %d files", len(files))
	if len(files) == 1 {
		where = "not in " + files[0].Path
	}
	return errors.Join(&notFoundError{what + " is " + where}, scanErr)
}

// FindOffset returns the record that starts at an offset of a file.
func FindOffset(f *File, offset int64) (*Place, error) {
	if offset < 0 || offset >= f.Size {
		return nil, &notFoundError{fmt.Sprintf("%s has %d octets: there is no offset %d", f.Path, f.Size, offset)}
	}
	p := &Place{File: f, Offset: offset}
	var err error
	if p.Record, err = f.Records(offset).Next(); err == io.EOF {
		return nil, &notFoundError{fmt.Sprintf("%s: behind offset %d there is no record", f.Path, offset)}
	} else if err != nil {
		return nil, p.located(err)
	}
	return p, nil
}

// FindID returns the first record with an id.
func FindID(files []*File, id string) (*Place, error) {
	id = CleanID(id)
	var found *Place
	err := scanAll(files, func(p *Place) error {
		if CleanID(p.Record.ID()) != id {
			return nil
		}
		found = p
		return errStop
	})
	if found == nil {
		return nil, notFound(fmt.Sprintf("the record <%s>", id), files, err)
	}
	return found, nil
}

// isCapture reports whether a record is what a URL gave.
func isCapture(rec *warc.Record) bool {
	switch rec.Type() {
	case warc.TypeResponse, warc.TypeRevisit, warc.TypeResource:
		return true
	}
	return false
}

// FindURL returns the capture of a URL that is nearest to a time, of two the
// earlier one. A zero time means the latest. With types given it is a record of
// one of these, else a response, revisit or resource.
func FindURL(files []*File, target string, at time.Time, types []string) (*Place, error) {
	clean := CleanURL(target)
	var best *Place
	var bestDate time.Time
	err := scanAll(files, func(p *Place) error {
		if uri := p.Record.TargetURI(); uri != target && uri != clean {
			return nil
		}
		if len(types) == 0 && !isCapture(p.Record) || len(types) > 0 && !anyOf(types, func(t string) bool { return t == p.Record.Type() }) {
			return nil
		}
		date, err := p.Record.Date()
		if err == nil && (best == nil || nearer(date, bestDate, at)) {
			best, bestDate = p, date
		}
		return nil
	})
	if best == nil {
		return nil, notFound("a capture of "+target, files, err)
	}
	return best, err
}

// nearer reports whether a is nearer to at than b.
func nearer(a, b, at time.Time) bool {
	if at.IsZero() {
		return a.After(b)
	}
	da, db := a.Sub(at).Abs(), b.Sub(at).Abs()
	return da < db || da == db && a.Before(b)
}

// maxRevisits is how many revisits of revisits are followed.
const maxRevisits = 8

// Original returns the record that holds the payload of a revisit: the one that
// WARC-Refers-To names, else the capture of WARC-Refers-To-Target-URI at
// WARC-Refers-To-Date, else one with the same WARC-Payload-Digest (WARC 1.1
// §6.7).
func Original(files []*File, revisit *Place) (*Place, error) {
	p := revisit
	for range maxRevisits {
		next, err := original(files, p)
		if err != nil {
			return nil, err
		}
		if next.Record.Type() != warc.TypeRevisit {
			return next, nil
		}
		p = next
	}
	return nil, fmt.Errorf("%v: the record %s is a revisit of a revisit of a revisit, without an end", revisit, revisit.Record.ID())
}

func original(files []*File, revisit *Place) (*Place, error) {
	h := revisit.Record.Header
	id, uri, digest := CleanID(h.Get("WARC-Refers-To")), h.Get("WARC-Refers-To-Target-URI"), h.Get("WARC-Payload-Digest")
	date, dateErr := warc.ParseDate(h.Get("WARC-Refers-To-Date"), warc.V1_1)
	uri = strings.TrimSuffix(strings.TrimPrefix(uri, "<"), ">")
	if uri == "" {
		uri = revisit.Record.TargetURI()
	}
	var byDate, byDigest, found *Place
	err := scanAll(files, func(p *Place) error {
		rec := p.Record
		switch {
		case !isCapture(rec) || CleanID(rec.ID()) == CleanID(revisit.Record.ID()):
		case id != "" && CleanID(rec.ID()) == id:
			found = p
			return errStop
		case byDate == nil && dateErr == nil && rec.TargetURI() == uri && sameSecond(rec, date) && !otherDigest(rec.Header.Get("WARC-Payload-Digest"), digest):
			byDate = p
		case byDigest == nil && rec.Type() != warc.TypeRevisit && sameDigest(rec.Header.Get("WARC-Payload-Digest"), digest):
			byDigest = p
		}
		return nil
	})
	for _, p := range []*Place{found, byDate, byDigest} {
		if p != nil {
			return p, nil
		}
	}
	var missing []string
	if id != "" {
		missing = append(missing, "<"+id+">")
	}
	if dateErr == nil {
		missing = append(missing, "the capture of "+uri+" at "+h.Get("WARC-Refers-To-Date"))
	}
	if digest != "" {
		missing = append(missing, "a record with the WARC-Payload-Digest "+digest)
	}
	what := strings.Join(missing, ", or ")
	if what == "" {
		what = "the revisit does not say which record that is"
	}
	err = errors.Join(fmt.Errorf("%v: the original of this revisit, which has its payload, was %w in the given files: %s; name the file that has it as well", revisit, ErrNotFound, what), err)
	return nil, err
}

// sameSecond compares dates as coarsely as WARC 1.0 writes them.
func sameSecond(rec *warc.Record, date time.Time) bool {
	d, err := rec.Date()
	return err == nil && d.Truncate(time.Second).Equal(date.Truncate(time.Second))
}

// otherDigest reports whether two digests are of the same kind and differ: of two
// captures in a second one can be of something else.
func otherDigest(a, b string) bool {
	da, errA := warc.ParseDigest(a)
	db, errB := warc.ParseDigest(b)
	return errA == nil && errB == nil && da.Algorithm == db.Algorithm && !da.Equal(db)
}

func sameDigest(a, b string) bool {
	da, errA := warc.ParseDigest(a)
	db, errB := warc.ParseDigest(b)
	return errA == nil && errB == nil && da.Equal(db)
}

// maxRelated bounds the headers of the records that Related returns, in octets.
const maxRelated = 8 << 20

// Related returns the records that a record names in WARC-Concurrent-To or
// WARC-Refers-To, and those that name it in WARC-Concurrent-To, at most 100, and fewer
// where their headers have more than 8 MiB.
func Related(files []*File, p *Place) ([]*Place, error) {
	named := make(map[string]bool)
	for _, name := range []string{"WARC-Concurrent-To", "WARC-Refers-To"} {
		for _, id := range p.Record.Header.Values(name) {
			named[id] = true
		}
	}
	var found []*Place
	octets := 0
	err := scanAll(files, func(q *Place) error {
		if len(found) == 100 || octets > maxRelated {
			return errStop
		}
		rec := q.Record
		if rec.ID() == p.Record.ID() {
			return nil
		}
		if named[rec.ID()] || anyOf(rec.Header.Values("WARC-Concurrent-To"), func(id string) bool { return id == p.Record.ID() }) {
			found = append(found, q)
			for _, field := range rec.Header {
				octets += len(field.Name) + len(field.Value)
			}
		}
		return nil
	})
	return found, err
}

// Follow opens a record for its payload: with its segments joined. A revisit has
// no payload of its own: see Original.
func Follow(files []*File, p *Place) (*Message, error) {
	block, err := p.Open()
	if err != nil {
		return nil, err
	}
	if IsFirst(p.Record) {
		segments, unread := Join(files)
		if segments == nil {
			return nil, unread
		}
		joined, err := segments.Block(p.Record, block)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%v: %w; name all files that have segments of it", p, err), unread)
		}
		block = joined
	}
	m, err := ReadMessage(p.Record, block)
	if err != nil {
		return nil, fmt.Errorf("%v: the record %s: %w", p, p.Record.ID(), err)
	}
	return m, nil
}
