package warc

import (
	"errors"
	"hash/maphash"
	"io"
)

// groupWindow is how many records can be between one that names another in
// WARC-Concurrent-To and that other. The records of an exchange are adjacent,
// and so it is far more than enough.
const groupWindow = 1024

// Whole returns the length of the longest prefix of a WARC file that its
// writer finished: of whole records, as a strict [Reader] sees them, and of
// whole groups. A record belongs to a group with those that it names in
// WARC-Concurrent-To; when one of them is not in the prefix, neither is the
// record. In a plain file, which has no checksums, the block has to agree with
// its WARC-Block-Digest.
//
// What comes after the prefix is not an error; only errors of r are. Memory is
// bounded whatever the input.
func Whole(r io.Reader) (good int64, err error) {
	z := NewReader(r)
	z.Strict = true
	buf := make([]byte, 64<<10)
	g := groups{seed: maphash.MakeSeed(), seen: make(map[uint64]bool), wanted: make(map[uint64]bool)}
	for {
		rec, err := z.Next()
		if err == nil {
			err = z.checkBlock(buf)
		}
		if err == nil && !g.add(rec) {
			return good, nil
		}
		if err != nil {
			if broken := (*Error)(nil); err == io.EOF || errors.As(err, &broken) || errors.Is(err, errDigest) {
				return good, nil
			}
			return good, err
		}
		if len(g.wanted) == 0 {
			good = z.InputOffset()
		}
	}
}

var errDigest = errors.New("warc: the block does not agree with its digest")

// checkBlock reads the block to its end, through buf.
func (r *Reader) checkBlock(buf []byte) error {
	want, err := ParseDigest(r.rec.Header.Get("WARC-Block-Digest"))
	if err != nil || r.compressed() {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	h := want.Algorithm.New()
	if _, err := io.CopyBuffer(h, r, buf); err != nil {
		return err
	}
	if !want.Equal(Digest{want.Algorithm, h.Sum(nil)}) {
		return errDigest
	}
	return nil
}

// groups remembers hashes of record ids: of the latest records, and of those
// that were named and not seen.
type groups struct {
	seed   maphash.Seed
	seen   map[uint64]bool
	latest [groupWindow]uint64 // ring, of what is in seen
	n      int
	wanted map[uint64]bool
}

// add reports whether the groups can still become whole.
func (g *groups) add(rec *Record) bool {
	id := maphash.String(g.seed, rec.ID())
	delete(g.wanted, id)
	slot := &g.latest[g.n%groupWindow]
	if g.n >= groupWindow {
		delete(g.seen, *slot)
	}
	*slot = id
	g.seen[id] = true
	g.n++
	for _, other := range rec.Header.Values("WARC-Concurrent-To") {
		if h := maphash.String(g.seed, other); !g.seen[h] {
			g.wanted[h] = true
		}
	}
	return len(g.wanted) <= groupWindow
}
