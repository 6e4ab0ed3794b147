package check

import (
	"errors"
	"fmt"
	"io"

	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// segments are the segments of one record, as they come in the order of their
// numbers (§7).
type segments struct {
	origin  *fact // nil: not in the files
	last    *fact // of those seen; nil: none
	number  int64 // of the last
	sum     int64 // octets of the blocks
	missing bool  // some are not there
	broken  bool  // they do not fit together
	parts   []part
}

// A part is where a segment is.
type part struct {
	file   int
	offset int64
	block  int64  // octets
	id     string // as in a fact
}

// maxParts bounds how many segments of a record are remembered.
const maxParts = 10_000

func newSegments(origin *fact) *segments {
	s := &segments{origin: origin, number: 1}
	if origin != nil {
		s.sum = origin.block
		s.parts = []part{{origin.file, origin.offset, origin.block, origin.id}}
	}
	return s
}

// segment takes the next segment.
func (g *group) segment(x *fact) {
	s := g.segments
	switch {
	case s.origin == nil && s.last == nil:
		s.missing = true
		g.report(x, RuleSegmentMissing, "the first segment, %s, is not in these files", g.named())
	case s.origin != nil && s.last == nil && !s.origin.is(isFirst):
		s.broken = true
		g.report(s.origin, RuleSegment, "there is no WARC-Segment-Number of 1, but %s continues the record", x.id)
	}
	switch {
	case x.number == s.number:
		s.broken = true
		g.report(x, RuleSegment, "there are two segments %d of %s", x.number, g.named())
	case x.number > s.number+1 && (s.origin != nil || s.last != nil):
		s.missing = true
		g.report(x, RuleSegmentMissing, "this is segment %d of %s, but segment %d is not in these files", x.number, g.named(), s.number+1)
	}
	if s.last != nil && s.last.total >= 0 && x.number > s.number {
		s.broken = true
		g.report(s.last, RuleSegment, "WARC-Segment-Total-Length is on segment %d, which is not the last of %s", s.last.number, g.named())
	}
	if s.origin != nil && x.target != s.origin.target {
		g.report(x, RuleSegment, "WARC-Target-URI is not that of the first segment, %s", g.named())
	}
	s.number, s.last = x.number, x
	s.sum += x.block
	if len(s.parts) <= maxParts {
		s.parts = append(s.parts, part{x.file, x.offset, x.block, x.id})
	}
}

// endSegments is called behind the last segment.
func (g *group) endSegments() error {
	s := g.segments
	switch {
	case s.last == nil:
		g.report(s.origin, RuleSegmentMissing, "this is the first segment of a record, but the others are not in these files")
		return nil
	case s.origin == nil:
		return nil
	case s.last.total < 0:
		g.report(s.last, RuleSegmentMissing, "segment %d of %s has no WARC-Segment-Total-Length, but there are none behind it in these files", s.number, g.named())
		return nil
	case s.missing || s.broken:
		return nil
	case s.last.total != s.sum:
		g.report(s.last, RuleSegment, "WARC-Segment-Total-Length is %d, but the segments of %s have %d octets", s.last.total, g.named(), s.sum)
		return nil
	case s.origin.is(isDamaged), s.origin.recordType == warc.TypeRevisit:
		return nil
	case len(s.parts) > maxParts:
		g.report(s.origin, RuleNotChecked, "the record has more than %d segments: what they are together was not checked", maxParts)
		return nil
	}
	return g.joined()
}

// joined reads a segmented record once more, as a whole, for what its segments do
// not show by themselves.
func (g *group) joined() error {
	s := g.segments
	b, err := g.readParts(s.parts, newBlock)
	if b == nil || err != nil {
		return err
	}
	report := func(rule, format string, args ...any) {
		g.report(s.origin, rule, "joined from %d segments: "+format, append([]any{len(s.parts)}, args...)...)
	}
	if m := b.message; m != nil {
		if !s.origin.is(isHeadSeen) {
			m.headFlaws(report)
		}
		truncated := s.origin.is(isTruncated) || s.last.is(isTruncated)
		switch {
		case m.parsed:
			if m.bodyFlaws(truncated, report) && (m.request || b.payloadSize() > 0) {
				report(RuleTruncated, "%s", tooShort)
			}
		case m.err == nil && m.interim == 0 && !truncated:
			report(RuleHTTPHead, "%s", noHeadEnd)
		}
		if !m.parsed { // there is no telling where the payload is, which is reported
			return nil
		}
	}
	if b.payload.hash != nil && !b.agrees(g.options.RawDigests) {
		report(RuleSegmentDigest, "%s", b.disagreement())
	}
	return nil
}

// readParts reads the blocks of segments, or of one record, as one block. It returns
// nil where that cannot be done, which has been reported, or not be understood.
func (g *group) readParts(parts []part, start func(*Record, Profile) *block) (*block, error) {
	var b *block
	for _, p := range parts {
		r, err := g.readPart(p, &b, start)
		if broken := (*warc.Error)(nil); errors.As(err, &broken) || errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.paths[p.file], err)
		}
		if r.BlockSize != p.block || bounded(r.ID) != p.id { // one of several records in a gzip member
			return nil, nil
		}
		if b.message == nil && b.payload.hash == nil { // there is nothing to check
			return nil, nil
		}
	}
	return b, nil
}

// sumsOf reads the payload of a record and returns the hashes of the digests that
// it can have, none where it cannot be read.
func (g *group) sumsOf(x *fact, a warc.Algorithm) ([]uint64, error) {
	parts := []part{{x.file, x.offset, x.block, x.id}}
	if s := g.segments; s != nil {
		if s.last == nil || s.last.total != s.sum || s.missing || s.broken || len(s.parts) > maxParts {
			return nil, nil
		}
		parts = s.parts
	} else if x.is(isFirst) {
		return nil, nil
	}
	if x.is(isDamaged) || x.is(isTruncated) {
		return nil, nil
	}
	b, err := g.readParts(parts, func(r *Record, p Profile) *block {
		b := newBlock(r, p)
		b.digest, b.payload = newDigest(""), &digest{want: warc.Digest{Algorithm: a}, hash: a.New()}
		if b.raw != nil {
			b.raw = &digest{want: b.payload.want, hash: a.New()}
		}
		return b
	})
	if b == nil || err != nil || b.message != nil && !b.message.parsed {
		return nil, err
	}
	var sums []uint64
	for _, d := range b.sums(g.options.RawDigests) {
		sums = append(sums, hashed(string(d.Sum)))
	}
	return sums, nil
}

// readPart reads the block of a segment into b, which the first one starts.
func (g *group) readPart(p part, b **block, start func(*Record, Profile) *block) (*Record, error) {
	in, err := container.Open(g.paths[p.file])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	z, err := readerAt(in, p.offset, 1<<62)
	if err != nil {
		return nil, err
	}
	head, err := z.Next()
	if err != nil {
		return nil, err
	}
	r := &Record{Header: head.Header, ID: head.ID(), Type: head.Type(), TargetURI: head.TargetURI(), BlockSize: head.Length}
	if *b == nil {
		*b = start(r, g.options.Profile)
		(*b).text = nil
	}
	_, err = io.Copy(writerFunc((*b).write), z)
	return r, err
}

// A writerFunc is a function to write to.
type writerFunc func([]byte)

func (w writerFunc) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
