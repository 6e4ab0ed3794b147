package archive

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/warctee/warctee/warc"
)

// maxContinuations bounds the continuation records that are remembered, each of
// which takes some 30 bytes of memory.
const maxContinuations = 1 << 20

// maxSkipped bounds the octets of records that are read again, because the one
// that is looked for stands behind them in its gzip member or zstd frame: a member
// that holds very many records must not take very many times its own length.
const maxSkipped = 16 << 30

// maxSegments bounds the segments of one record.
const maxSegments = 100_000

// ErrIncomplete is wrapped by errors about a record whose segments cannot be
// joined: some are missing, or there too often, or in contradiction to each other.
var ErrIncomplete = errors.New("the segments of the record cannot be joined")

// A Segment is a continuation record (WARC 1.1 §6.9).
type Segment struct {
	File      *File
	Offset    int64
	Number    int    // WARC-Segment-Number, 2 or more
	Length    int64  // octets of its block
	Total     int64  // WARC-Segment-Total-Length; -1: it is not the last one
	Truncated string // WARC-Truncated
}

func (s *Segment) String() string { return fmt.Sprintf("%s offset %d", s.File.Path, s.Offset) }

// Segments knows where the continuation records of an archive are. It is safe
// for concurrent use.
type Segments struct {
	files []*File
	seed  maphash.Seed
	all   []place      // sorted
	left  atomic.Int64 // of maxSkipped
}

// A place is where a continuation record is. The id that it continues is read
// from there again: hashes may be equal by chance.
type place struct {
	origin uint64 // hash of WARC-Segment-Origin-ID
	number uint32
	file   uint32 // index
	offset int64
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// IsFirst reports whether a record is the first segment of a record in several
// segments (WARC 1.1 §7).
func IsFirst(rec *warc.Record) bool {
	n, ok := segmentNumber(rec)
	return ok && n == 1 && rec.Type() != warc.TypeContinuation
}

func segmentNumber(rec *warc.Record) (number int, ok bool) {
	n, err := strconv.ParseUint(rec.Header.Get("WARC-Segment-Number"), 10, 32)
	return int(n), err == nil && n <= math.MaxInt32
}

// Join looks for the continuation records in files, which stay open and in use,
// in one go over them that skips all blocks. They may stand in any order. The
// error tells which files could not be read to their ends; what was found in them
// counts nevertheless, unless the Segments are nil.
func Join(files []*File) (*Segments, error) {
	s := &Segments{files: files, seed: maphash.MakeSeed()}
	s.left.Store(maxSkipped)
	var errs []error
	for i, f := range files {
		if err := s.scan(f, i); err != nil {
			errs = append(errs, fmt.Errorf("look for segments in %s: %w", f.Path, err))
		}
		if len(s.all) > maxContinuations {
			return nil, fmt.Errorf("look for segments in %s: there are more than %d continuation records", f.Path, maxContinuations)
		}
	}
	slices.SortFunc(s.all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.origin, b.origin), cmp.Compare(a.number, b.number), cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
	})
	return s, errors.Join(errs...)
}

func (s *Segments) scan(f *File, index int) error {
	z := f.Records(0)
	for len(s.all) <= maxContinuations {
		rec, err := z.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		number, ok := segmentNumber(rec)
		if rec.Type() == warc.TypeContinuation && ok {
			origin := maphash.String(s.seed, rec.Header.Get("WARC-Segment-Origin-ID"))
			s.all = append(s.all, place{origin, uint32(number), uint32(index), rec.Offset})
		}
	}
	return nil
}

// Of returns the continuation records of the record with that id, with its angle
// brackets, by number: all that there are, also when some are missing or there
// twice.
func (s *Segments) Of(id string) ([]Segment, error) {
	hash := maphash.String(s.seed, id)
	start, _ := slices.BinarySearchFunc(s.all, hash, func(p place, hash uint64) int { return cmp.Compare(p.origin, hash) })
	end := start
	for end < len(s.all) && s.all[end].origin == hash {
		end++
	}
	// Those of one gzip member or zstd frame are read in one go.
	places := slices.Clone(s.all[start:end])
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset)) })
	var found []Segment
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n].file == places[0].file && places[n].offset == places[0].offset {
			n++
		}
		var err error
		if found, err = s.collect(found, places[0], n, id); err != nil {
			return nil, err
		}
		places = places[n:]
	}
	slices.SortStableFunc(found, func(a, b Segment) int { return cmp.Compare(a.Number, b.Number) })
	return found, nil
}

// collect adds to found the first n continuation records of the record with that
// id which start in the gzip member or zstd frame at p.
func (s *Segments) collect(found []Segment, p place, n int, id string) ([]Segment, error) {
	f := s.files[p.file]
	z := f.Records(p.offset)
	for ; n > 0; n-- {
		rec, err := s.find(f, p.offset, z, func(number int, origin string) bool { return origin == id })
		if rec == nil {
			return found, err
		}
		number, _ := segmentNumber(rec)
		seg := Segment{File: f, Offset: p.offset, Number: number, Length: rec.Length, Total: -1, Truncated: strings.Clone(cut(rec.Header.Get("WARC-Truncated"), 80))}
		if text := rec.Header.Get("WARC-Segment-Total-Length"); text != "" {
			total, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				return nil, fmt.Errorf("%w: %v: the WARC-Segment-Total-Length %.40q is no length", ErrIncomplete, &seg, text)
			}
			seg.Total = int64(total)
		}
		if found = append(found, seg); len(found) == maxSegments {
			return nil, fmt.Errorf("%w: %s has more than %d segments", ErrIncomplete, cut(id, 200), maxSegments)
		}
	}
	return found, nil
}

// find goes on in z, which reads the gzip member or zstd frame at offset, to the
// next continuation record that is wanted. It returns nil when the member holds
// no more of them.
func (s *Segments) find(f *File, offset int64, z *warc.Reader, wanted func(number int, origin string) bool) (*warc.Record, error) {
	for {
		rec, err := z.Next()
		if err == nil && rec.Offset > 0 || err == io.EOF { // the member or frame has ended
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s, offset %d: %w", f.Path, offset, err)
		}
		if n, ok := segmentNumber(rec); ok && rec.Type() == warc.TypeContinuation && wanted(n, rec.Header.Get("WARC-Segment-Origin-ID")) {
			return rec, nil
		}
		if s.left.Add(-int64(len(rec.Raw))-min(rec.Length, maxSkipped)) < 0 {
			return nil, fmt.Errorf("%w: %s, offset %d: there are too many records in one gzip member or zstd frame to find the segments among them; warctee repair writes each record into one of its own", ErrIncomplete, f.Path, offset)
		}
	}
}

// A Joined is the block of a logical record, to be read once.
type Joined struct {
	Length    int64     // octets
	Truncated string    // WARC-Truncated of the last segment
	Segments  []Segment // behind the first one

	s     *Segments
	id    string
	block io.Reader    // what is read now
	z     *warc.Reader // of it; nil: it is the first segment
	rest  []Segment    // what comes then
}

// Block returns the block of the logical record of which first is the first
// segment, and block the block of that. The block of a record that is not
// segmented is returned as it is. An error with [ErrIncomplete] says which segment
// is missing, or which two are the same.
func (s *Segments) Block(first *warc.Record, block io.Reader) (*Joined, error) {
	j := &Joined{Length: first.Length, Truncated: first.Header.Get("WARC-Truncated"), s: s, id: first.ID(), block: block}
	if !IsFirst(first) {
		return j, nil
	}
	segments, err := s.Of(j.id)
	if err == nil {
		err = checkSegments(j.id, segments)
	}
	if err != nil {
		return nil, err
	}
	for _, seg := range segments {
		j.Length += seg.Length
	}
	last := segments[len(segments)-1]
	if last.Total != j.Length {
		return nil, fmt.Errorf("%w: %s: the segments have %d octets together, and the last one says %d (%v)", ErrIncomplete, j.id, j.Length, last.Total, &last)
	}
	j.Truncated, j.Segments, j.rest = last.Truncated, segments, segments
	return j, nil
}

// checkSegments says what is wrong with the continuations of a record.
func checkSegments(id string, segments []Segment) error {
	next := 2
	for i := range segments {
		seg := &segments[i]
		switch {
		case seg.Number < 2:
			return fmt.Errorf("%w: a continuation of %s has the number %d (%v)", ErrIncomplete, id, seg.Number, seg)
		case seg.Number < next:
			return fmt.Errorf("%w: segment %d of %s is there twice: %v, and %v", ErrIncomplete, seg.Number, id, &segments[i-1], seg)
		case i > 0 && segments[i-1].Total >= 0:
			return fmt.Errorf("%w: segment %d of %s stands behind the last one, %v (%v)", ErrIncomplete, seg.Number, id, &segments[i-1], seg)
		case seg.Number > next:
			return missing(next, id)
		}
		next++
	}
	if n := len(segments); n == 0 || segments[n-1].Total < 0 {
		return missing(next, id)
	}
	return nil
}

func missing(number int, id string) error {
	return fmt.Errorf("%w: segment %d of %s is in none of the files", ErrIncomplete, number, id)
}

// Read reads the logical block.
func (j *Joined) Read(p []byte) (int, error) {
	for {
		n, err := j.block.Read(p)
		if err != io.EOF || n > 0 {
			if err == io.EOF {
				err = nil // it comes again
			}
			return n, err
		}
		if len(j.rest) == 0 {
			return 0, io.EOF
		}
		if err := j.next(); err != nil {
			return 0, err
		}
	}
}

// next goes on with the next segment: in the same gzip member or zstd frame behind
// the last one, if it is there.
func (j *Joined) next() error {
	seg := &j.rest[0]
	wanted := func(number int, origin string) bool { return number == seg.Number && origin == j.id }
	var rec *warc.Record
	var err error
	if n := len(j.Segments) - len(j.rest); n > 0 && j.Segments[n-1].File == seg.File && j.Segments[n-1].Offset == seg.Offset {
		rec, err = j.s.find(seg.File, seg.Offset, j.z, wanted)
	}
	if rec == nil && err == nil {
		j.z = seg.File.Records(seg.Offset)
		rec, err = j.s.find(seg.File, seg.Offset, j.z, wanted)
	}
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("%v: somebody has changed the file", seg)
	}
	j.block, j.rest = &segmentBlock{j.z, seg}, j.rest[1:]
	return nil
}

// A segmentBlock is the block of a segment; its errors say where that is.
type segmentBlock struct {
	z   *warc.Reader
	seg *Segment
}

func (b *segmentBlock) Read(p []byte) (int, error) {
	n, err := b.z.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read segment %d, %v: %w", b.seg.Number, b.seg, err)
	}
	return n, err
}
