package recorder

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc"
)

// Oversize says what becomes of a record that does not fit a file of
// Options.MaxSize, even when there is nothing else in it.
type Oversize int

const (
	// OversizeWhole lets the file get larger.
	OversizeWhole Oversize = iota
	// OversizeSegment divides the record into segments, each in a file of
	// its own (WARC 1.1 §7).
	OversizeSegment
	// OversizeTruncate cuts the block (WARC-Truncated: length).
	OversizeTruncate
)

// headerRoom is what the header of a record takes besides the fields that it has
// before it is encoded: those of its file and segment, and what compression adds
// to a text that it does not make shorter.
const headerRoom = 384

// preambleRoom is how much longer the start of one file may be than that of
// another.
const preambleRoom = 64

// A window is the part of a block that a record has.
type window struct {
	from, size int64 // of the body
	limit      int64 // bytes that the compressed block has at most
}

// bodyReader reads what the record has of the body.
func (p *part) bodyReader() io.Reader {
	if p.window == nil {
		return p.body.reader()
	}
	return p.body.section(p.window.from, p.window.size)
}

func (p *part) bodySize() int64 {
	if p.window == nil {
		return p.body.len()
	}
	return p.window.size
}

// deflateTo compresses the block, each time to the same bytes.
func (p *part) deflateTo(w io.Writer, block io.Reader) (warc.Deflated, error) {
	if p.window == nil {
		return warc.Deflate(w, block)
	}
	return warc.DeflateUpTo(w, block, p.window.limit)
}

// section returns a reader of size octets, from the one with the number from.
func (s *spool) section(from, size int64) io.Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return &memReader{s.mem[from:][:size]}
	}
	inFile := s.inFileLocked()
	file := io.NewSectionReader(s.file, from, max(0, min(size, inFile-from)))
	if from+size <= inFile {
		return file
	}
	return io.MultiReader(file, &memReader{s.tail[max(0, from-inFile) : from+size-inFile]})
}

// weighPreamble learns how long the start of a file is, and refuses one that
// leaves little of it.
func (r *Recorder) weighPreamble() error {
	if r.options.Oversize == OversizeWhole {
		return nil
	}
	first, err := r.preambleOf(r.fileName("", time.Now(), 0), r.newTarget())
	r.preamble.Store(int64(len(first)))
	if most := r.options.MaxSize / 4; err == nil && int64(len(first)) > most {
		return fmt.Errorf("recorder: a file starts with %s, the dictionary and what describes it: that is more than a quarter of the size that no file may exceed, %s", size(int64(len(first))), size(r.options.MaxSize))
	}
	return err
}

func (r *Recorder) notePreamble(f *rotate.File) {
	r.preamble.Store(max(r.preamble.Load(), f.Preamble()))
}

// roomFor returns how many bytes a file surely has for the block of a record
// with that header, or for all of it when it has none, and nothing else but the
// start of the file.
func (r *Recorder) roomFor(h warc.Header) int64 {
	return r.options.MaxSize - r.preamble.Load() - preambleRoom - headerSize(h)
}

// headerSize is what a header takes at most, with what it is still to get.
func headerSize(h warc.Header) int64 {
	n := int64(headerRoom)
	for _, f := range h {
		n += int64(len(f.Name) + len(f.Value) + len(": \r\n"))
	}
	return n
}

// A boundedSpool keeps what is written to it, unless that is too much for a
// file.
type boundedSpool struct {
	*spool
	n         int64
	keep, max int64
	dropped   bool // it may fit, but nothing was kept
}

var errLarge = errors.New("the record does not fit a file")

// boundPacked bounds the compressed block of a record.
func (r *Recorder) boundPacked(p *part, packed *spool) *boundedSpool {
	b := &boundedSpool{spool: packed, keep: Unlimited, max: Unlimited}
	if r.options.Oversize != OversizeWhole {
		b.keep, b.max = r.roomFor(p.header), r.options.MaxSize
	}
	return b
}

func (b *boundedSpool) Write(p []byte) (int, error) {
	b.n += int64(len(p))
	switch {
	case b.n > b.max:
		return 0, errLarge
	case b.n > b.keep:
		b.dropped = true
		return len(p), nil
	}
	return b.spool.Write(p)
}

func (b *boundedSpool) over() bool { return b.n > b.max }

// fitLarge makes those records fit of which it is certain that they do not. It
// takes its time, so it is not left to the writer. A zstd frame depends on its
// file, but hardly in its length: see errReckoned.
func (c *capture) fitLarge() {
	r := c.x.r
	o := &r.options
	if o.Oversize == OversizeWhole {
		return
	}
	for _, p := range []*part{&c.request, &c.response} {
		if !p.isLarge(o) {
			continue
		}
		if err := c.fitAside(p); err != nil {
			r.log.Debug("cannot make a record fit a file: it is tried again when it is appended", "url", c.x.uri, "error", err)
		}
	}
}

// isLarge reports whether it is certain that a record does not fit a file.
func (p *part) isLarge(o *Options) bool {
	asItIs := p.packed == nil && (o.Compression == warc.Plain || p.stored)
	return p.large || asItIs && p.length > o.MaxSize
}

// fitAside is fit for when others may do the same.
func (c *capture) fitAside(p *part) error {
	if places := c.x.r.packingPlaces(p.body); places != nil {
		places <- struct{}{}
		defer func() { <-places }()
	}
	return c.fit(p)
}

// fit divides or cuts a record that does not fit a file alone. One whose header
// leaves little of a file stays as it is.
func (c *capture) fit(p *part) error {
	r := c.x.r
	room := r.roomFor(p.header)
	if p.undiv = room < r.options.MaxSize/2; p.undiv {
		r.log.Warn("the header of a record takes most of a file: the file gets larger than it should", "url", c.x.uri)
		return nil
	}
	if r.options.Oversize == OversizeSegment {
		return p.divide(r)
	}
	// What belongs together should be in one file.
	if beside := c.sizeBeside(p); beside < room/2 {
		room -= beside
	}
	return c.cut(p, room)
}

// sizeBeside tells how many bytes the other records of a capture take at most,
// if they fit a file.
func (c *capture) sizeBeside(p *part) (n int64) {
	for _, other := range c.records() {
		if other != p {
			n += other.sizeAtMost(&c.x.r.options)
		}
	}
	return n
}

// sizeAtMost is what a record takes in a file, or somewhat more.
func (p *part) sizeAtMost(o *Options) int64 {
	n := headerSize(p.header)
	switch {
	case p.packed != nil:
		return n + p.packed.len()
	case o.Compression == warc.Plain:
		return n + p.length
	}
	return n + p.length + p.length>>10
}

// A cursor walks over the block of a record that does not fit a file.
type cursor struct {
	p    *part
	r    *Recorder
	at   int64 // octets of the block that have been taken
	rest io.Reader
}

func (p *part) cursor(r *Recorder) *cursor { return &cursor{p: p, r: r, rest: p.block()} }

// take makes of what comes next in the block, as much as fits into that much
// room, the block of a record without a header. It returns its digest.
func (c *cursor) take(room int64) (seg *part, digest string, err error) {
	sum := c.r.options.Digest.New()
	from, left := c.at, c.p.length-c.at
	seg = &part{body: c.p.body, stored: c.p.stored}
	n := min(left, room-int64(len("\r\n\r\n")))
	switch {
	case c.r.options.Compression == warc.Plain:
		_, err = io.CopyN(sum, c.rest, n)
	case c.p.stored:
		inHead := max(0, int64(len(c.p.head))-from)
		n = min(left, warc.StoredUpTo(room-inHead>>10))
		_, err = io.CopyN(sum, c.rest, n)
	case c.r.options.Compression == warc.Zstd:
		if n, err = c.frameUpTo(room); err == nil {
			_, err = io.CopyN(sum, c.rest, n)
		}
	default:
		n, err = c.deflate(seg, room, sum)
	}
	if err == io.EOF || err == nil && n <= 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		releasePacked([]*part{seg})
		return nil, "", err
	}
	c.at += n
	seg.setWindow(c.p, from, n, room)
	return seg, c.r.options.Digest.Format(sum.Sum(nil)), nil
}

// setWindow makes n octets of the block of p that of a segment.
func (seg *part) setWindow(p *part, from, n, limit int64) {
	inHead := int64(len(p.head))
	seg.head = p.head[min(from, inHead):min(from+n, inHead)]
	seg.length = n
	seg.window = &window{from: max(0, from-inHead), size: n - int64(len(seg.head)), limit: limit}
}

// frameUpTo returns how many octets fit into that much room as a zstd frame. With
// all of a block at hand the encoder may do a lot better than with its pieces, so
// more is tried, a few times.
func (c *cursor) frameUpTo(room int64) (n int64, err error) {
	left := c.p.length - c.at
	if c.p.careful {
		return min(left, warc.StoredUpTo(room)), nil
	}
	seg := &part{body: c.p.body}
	seg.setWindow(c.p, c.at, left, 0)
	if n, err = warc.FrameUpTo(c.r.dictionary(), seg.block(), room); err != nil {
		return 0, err
	}
	for try, attempts := n, 0; attempts < 4; attempts++ {
		seg.setWindow(c.p, c.at, try, 0)
		size := new(counter)
		if err := warc.WriteFrame(size, c.r.dictionary(), nil, seg.block(), try); err != nil {
			return 0, err
		}
		if int64(*size) > room {
			if attempts == 0 { // it is longer in one go than in pieces
				n = min(left, warc.StoredUpTo(room))
			}
			return n, nil
		}
		n = try
		if n == left || int64(*size) > room/16*15 {
			return n, nil
		}
		try = min(left, int64(float64(n)*float64(room)/float64(*size)*31/32))
	}
	return n, nil
}

// A counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// deflate compresses what fits, to be kept if there is room for that, and else
// again when it is appended.
func (c *cursor) deflate(seg *part, room int64, sum hash.Hash) (n int64, err error) {
	kept := &forgetful{spool: newSpool(c.r.space, c.r.options.Dir, -1)}
	d, err := warc.DeflateUpTo(kept, io.TeeReader(c.rest, sum), room)
	if err != nil || kept.err != nil {
		kept.spool.release()
		return d.Size - int64(len("\r\n\r\n")), err
	}
	seg.packed, seg.deflated = kept.spool, d
	return d.Size - int64(len("\r\n\r\n")), nil
}

// A forgetful spool stops to keep what is written when there is no room.
type forgetful struct {
	spool *spool
	err   error
}

func (f *forgetful) Write(p []byte) (int, error) {
	if f.err == nil {
		_, f.err = f.spool.Write(p)
	}
	return len(p), nil
}

// divide puts segments in the place of a record (WARC 1.1 §7). It may be a single
// one, when a compressed block is longer as a whole than in pieces: then the
// record stays as it is, and its file gets a few bytes longer than it should.
func (p *part) divide(r *Recorder) (err error) {
	var segments []*part
	defer func() {
		if err != nil {
			releasePacked(segments)
		}
	}()
	h, truncated := p.firstHeader()
	for c := p.cursor(r); c.at < p.length; {
		seg, digest, err := c.take(r.roomFor(h))
		if err != nil {
			return err
		}
		segments = append(segments, seg)
		h.Set("WARC-Block-Digest", digest)
		if seg.header = h; c.at < p.length {
			h = p.continuation(len(segments) + 1)
			continue
		}
		seg.header.Add("WARC-Segment-Total-Length", strconv.FormatInt(p.length, 10))
		addTruncated(&seg.header, truncated)
	}
	packed := true
	for _, s := range segments {
		packed = packed && s.packed != nil
	}
	if p.undiv = len(segments) < 2; p.undiv {
		releasePacked(segments)
		return nil
	}
	if packed {
		p.dropBlock()
	}
	p.segments = segments
	return nil
}

func releasePacked(segments []*part) {
	for _, s := range segments {
		if s.packed != nil {
			s.packed.release()
		}
	}
}

// firstHeader is the header of the first segment, which has all but what is said
// on the last one.
func (p *part) firstHeader() (h warc.Header, truncated string) {
	h = slices.Clone(p.header)
	truncated = h.Get("WARC-Truncated")
	h.Del("WARC-Truncated")
	insertField(&h, "Content-Type", "WARC-Segment-Number", "1")
	return h, truncated
}

// continuation is the header of a further segment. It has nothing that it need
// not have (§7), but for its digest.
func (p *part) continuation(number int) (h warc.Header) {
	h.Add("WARC-Type", warc.TypeContinuation)
	h.Add("WARC-Record-ID", warc.NewRecordID())
	h.Add("WARC-Date", p.header.Get("WARC-Date"))
	h.Add("WARC-Target-URI", p.header.Get("WARC-Target-URI"))
	h.Add("WARC-Block-Digest", p.header.Get("WARC-Block-Digest")) // as long as the one to come
	h.Add("WARC-Segment-Number", strconv.Itoa(number))
	h.Add("WARC-Segment-Origin-ID", p.header.Get("WARC-Record-ID"))
	return h
}

// cut makes of a record that does not fit a file a truncated one.
func (c *capture) cut(p *part, room int64) error {
	r := c.x.r
	seg, digest, err := p.cursor(r).take(room)
	if err != nil {
		return err
	}
	h := &p.header
	if h.Get("WARC-Payload-Digest") != "" {
		payload, err := c.payloadDigest(p, seg, digest)
		if err != nil {
			return err
		}
		h.Set("WARC-Payload-Digest", payload)
	}
	h.Set("WARC-Block-Digest", digest)
	h.Del("WARC-Truncated")
	insertField(h, "Content-Type", "WARC-Truncated", "length")
	switch p {
	case &c.response:
		c.digest = "" // it is no original
		if c.x.received != nil {
			c.x.received.truncated, c.x.incomplete = "length", true
		}
	case &c.request:
		c.x.incomplete = true
	}
	if seg.packed != nil {
		p.dropBlock()
		seg.body = nil
	}
	seg.header = p.header
	*p = *seg
	return nil
}

// dropBlock gives the block up: there is a compressed copy.
func (p *part) dropBlock() {
	for _, s := range p.spools() {
		s.setDone(true)
	}
	p.release()
}

// payloadDigest is that of a record of which only the block of seg is left.
func (c *capture) payloadDigest(p, seg *part, block string) (string, error) {
	framing := http1.Framing{}
	switch {
	case p == &c.request:
		framing = c.x.request.framing
	case c.x.received != nil:
		framing = c.x.reply.Framing
	default: // a resource
		return block, nil
	}
	sum := c.x.r.options.Digest.New()
	var source io.Reader = bytes.NewReader(nil)
	if p.body != nil {
		source = p.body.section(seg.window.from, seg.window.size)
	}
	_, err := io.Copy(sum, coding.NewBodyReader(bufio.NewReader(source), framing))
	var broken *http1.Error
	if err != nil && err != io.ErrUnexpectedEOF && !errors.As(err, &broken) {
		return "", err
	}
	return c.x.r.options.Digest.Format(sum.Sum(nil)), nil
}

// insertField adds a field in front of another one.
func insertField(h *warc.Header, before, name, value string) {
	i := slices.IndexFunc(*h, func(f warc.Field) bool { return f.Name == before })
	if i < 0 {
		i = len(*h)
	}
	*h = slices.Insert(*h, i, warc.Field{Name: name, Value: value})
}
