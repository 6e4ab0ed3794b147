package recorder

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// fileName is {prefix}-{timestamp17}-{serial5}-{token8}-{host}.warc.gz or the like. The
// token is drawn at the start: whatever the clock says, no name is given twice,
// also when the first file has been moved away or lost.
func (r *Recorder) fileName(series string, created time.Time, serial int) string {
	if series == "" {
		series = r.options.Prefix
	}
	stamp := strings.Replace(created.UTC().Format("20060102150405.000"), ".", "", 1)
	return fmt.Sprintf("%s-%s-%05d-%s-%s.warc%s", series, stamp, serial, r.token, safeHost(r.host), r.options.Compression.Suffix())
}

func newToken() string { return strings.ToLower(rand.Text()[:8]) }

func safeHost(host string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && isUnreserved(byte(c)) {
			return c
		}
		return '_'
	}, host)
}

// preambleOf returns what starts a file: its dictionary, and the warcinfo record
// (ISO 28500 §6.2), which has the id of the target.
func (r *Recorder) preambleOf(name string, to target) ([]byte, error) {
	conformsTo := "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-" + string(r.options.Version) + "/"
	fields := []warc.Field{
		{Name: "software", Value: r.options.Software},
		{Name: "hostname", Value: r.host},
		{Name: "format", Value: "WARC File Format " + string(r.options.Version)},
		{Name: "conformsTo", Value: conformsTo},
	}
	block := warcFields(append(fields, r.options.Warcinfo...))
	digest := r.options.Digest.New()
	digest.Write(block)
	p := part{length: int64(len(block))}
	p.header.Add("WARC-Type", warc.TypeWarcinfo)
	p.header.Add("WARC-Record-ID", to.warcinfoID)
	p.header.Add("WARC-Date", warc.FormatDate(time.Now(), r.options.Version))
	p.header.Add("WARC-Filename", name)
	p.header.Add("WARC-Block-Digest", r.options.Digest.Format(digest.Sum(nil)))
	p.header.Add("Content-Type", "application/warc-fields")
	to.warcinfoID = ""
	p.pack(r, to, block, nil)
	defer p.release()
	rec, _, err := p.encode(&r.options, to, nil)
	if err != nil {
		return nil, err
	}
	first, err := io.ReadAll(rec)
	return append(to.dictionary.AppendFrame(nil), first...), err
}

// warcFields is a block of application/warc-fields. Line ends in a value would
// make another field of its rest.
func warcFields(fields []warc.Field) []byte {
	var block []byte
	for _, f := range fields {
		value := strings.Map(func(c rune) rune {
			if isForbidden(c) {
				return ' '
			}
			return c
		}, f.Value)
		block = fmt.Appendf(block, "%s: %s\r\n", f.Name, value)
	}
	return block
}

// maxFields is how many fields the header of a record has, hardly ever more.
const maxFields = 20

// A part is a record whose header lacks only what depends on its file.
type part struct {
	header warc.Header
	length int64 // of the block

	// The block: packed and deflated, or with framed as a whole record in a zstd
	// frame, or else head and body as they are.
	packed   *spool
	deflated warc.Deflated
	framed   *framed
	stored   bool // body does not compress: it is not copied to packed
	head     []byte
	body     *spool // may be nil

	// What was done because it does not fit a file; see segments.go.
	window   *window // of the block; nil: all of it is in this part
	segments []*part // in place of the record
	large    bool    // it does not fit for certain
	undiv    bool    // it stays as it is nevertheless
	careful  bool    // its segments are to fit as if they were not compressed
}

// pack makes the block ready to be appended. It does not touch the ownership
// of body. Where there is no room for the compressed block it is left as it is,
// and compressed when it is appended.
func (p *part) pack(r *Recorder, to target, head []byte, body *spool) {
	p.hold(head, body)
	if r.options.Compression == warc.Plain {
		return
	}
	p.choose()
	r.training.add(p)
	if !p.stored {
		p.compress(r, to)
	}
}

// choose decides whether the body is compressed.
func (p *part) choose() {
	p.stored = p.body != nil && p.body.len() > 0 && !warc.Compresses(p.body.start())
}

// hold takes the block as it is.
func (p *part) hold(head []byte, body *spool) {
	p.head = head
	if body != nil {
		p.body = body.share()
	}
}

func (p *part) compress(r *Recorder, to target) {
	if places := r.packingPlaces(p.body); places != nil {
		places <- struct{}{}
		defer func() { <-places }()
	}
	packed := newSpool(r.space, r.options.Dir, -1)
	bounded := r.boundPacked(p, packed)
	var deflated warc.Deflated
	var framed *framed
	var err error
	if r.options.Compression == warc.Zstd {
		framed, err = p.frame(&r.options, to, bounded)
	} else {
		deflated, err = warc.Deflate(bounded, p.block())
	}
	if p.large = bounded.over(); p.large || bounded.dropped {
		packed.release()
		return
	}
	if err != nil {
		r.log.Debug("cannot keep a compressed block: it is compressed when it is appended", "error", err)
		packed.release()
		return
	}
	for _, s := range p.spools() {
		s.setDone(true)
	}
	p.release()
	p.packed, p.deflated, p.framed = packed, deflated, framed
}

// packingPlaces returns where a place is taken for compressing a block with that
// body. Heads alone need none, so that neither the writer nor a look-up of a
// host waits for one; and what is small does not wait for what is big.
func (r *Recorder) packingPlaces(body *spool) chan struct{} {
	switch {
	case body == nil || body.len() == 0:
		return nil
	case body.len() <= spoolMemory:
		return r.packing
	}
	return r.packingBig
}

func (p *part) block() io.Reader {
	if p.body == nil {
		return bytes.NewReader(p.head)
	}
	return io.MultiReader(bytes.NewReader(p.head), p.bodyReader())
}

// release gives up the block.
func (p *part) release() {
	for _, s := range p.spools() {
		s.release()
	}
	p.packed, p.head, p.body, p.framed, p.segments = nil, nil, nil, nil, nil
}

func (p *part) spools() (list []*spool) {
	for _, s := range []*spool{p.packed, p.body} {
		if s != nil {
			list = append(list, s)
		}
	}
	for _, s := range p.segments {
		if s.packed != nil { // the body is that of p
			list = append(list, s.packed)
		}
	}
	return list
}

// errEncode: a record that cannot be written, whatever the disk.
var errEncode = errors.New("the record cannot be made")

// appendHeader appends the whole header of the record to buf.
func (p *part) appendHeader(o *Options, to target, buf []byte) ([]byte, error) {
	h := p.header
	if to.warcinfoID != "" {
		h.Add("WARC-Warcinfo-ID", to.warcinfoID)
	}
	h.Add("Content-Length", strconv.FormatInt(p.length, 10))
	buf, err := h.Encode(buf, o.Version)
	if err != nil {
		return buf, fmt.Errorf("%w: %w", errEncode, err)
	}
	return buf, nil
}

// encode returns the record as it goes to the file, of which parts are appended
// to buf.
func (p *part) encode(o *Options, to target, buf []byte) (*record, []byte, error) {
	from := len(buf)
	buf, err := p.appendHeader(o, to, buf)
	if err != nil {
		return nil, buf, err
	}
	header := buf[from:len(buf):len(buf)]
	switch {
	case o.Compression == warc.Plain:
		return &record{start: header, block: p.block(), end: []byte("\r\n\r\n")}, buf, nil
	case o.Compression == warc.Zstd:
		rec, err := p.encodeFrame(o, to, header)
		return rec, buf, err
	case p.stored && o.SkipLengths:
		return &record{block: warc.SkippableStoredMember(header, p.head, p.bodyReader(), p.bodySize())}, buf, nil
	case p.stored:
		return &record{block: warc.StoredMember(header, p.head, p.bodyReader(), p.bodySize())}, buf, nil
	case p.packed == nil:
		return p.encodeLate(o, header), buf, nil
	}
	from = len(buf)
	if o.SkipLengths {
		buf = warc.AppendSkippableStart(buf, header, p.deflated, p.packed.len())
	} else {
		buf = warc.AppendMemberStart(buf, header)
	}
	end := len(buf)
	buf = warc.AppendMemberEnd(buf, header, p.deflated)
	return &record{start: buf[from:end], block: p.packed.reader(), end: buf[end:]}, buf, nil
}

// encodeLate deflates the block while it is read.
func (p *part) encodeLate(o *Options, header []byte) *record {
	header = bytes.Clone(header) // late may live longer than the buffer
	block := p.block()
	return late(o.Logger, warc.AppendMemberStart(nil, header), func(w io.Writer) error {
		deflated, err := p.deflateTo(w, block)
		if err == nil {
			_, err = w.Write(warc.AppendMemberEnd(nil, header, deflated))
		}
		return err
	})
}

// A capture is an exchange that has ended, on its way to the disk.
type capture struct {
	x        *exchange
	date     string
	single   bool // no exchange: response is a record that stands for itself
	request  part
	response part
	note     part           // a metadata record about them; of length 0 when there is none
	digest   string         // of the payload, when it can be or have an original
	revisit  bool           // response holds a revisit record …
	original *dedup.Capture // … of this one …
	whole    part           // … and this is the response, should the original get lost
	heads    int64          // memory that is taken for the heads

	// Owned by the writer.
	appended int64         // bytes in its file, 0 when it is in none
	counted  *atomic.Int64 // where it is counted
	tries    int           // in which it could not be read
	chain    *chain        // of files that it is in, to be committed
}

// newCapture makes the headers of the records. The request stands first in the
// file: of a record that was cut by a crash nothing whole is then left behind.
func (x *exchange) newCapture() *capture {
	c := &capture{x: x, date: warc.FormatDate(x.start, x.r.options.Version)}
	requestID, responseID := warc.NewRecordID(), warc.NewRecordID()

	x.describeRequest(c, requestID, responseID)
	h := &c.response.header
	x.startHeader(h, warc.TypeResponse, responseID, c.date)
	h.Add("WARC-Concurrent-To", requestID)
	payload := x.endHeader(h, x.received, true, "http/1."+strconv.Itoa(x.reply.Minor))
	if mediaType := x.identifiedType(); mediaType != "" {
		h.Add("WARC-Identified-Payload-Type", mediaType)
	}
	addTruncated(h, x.received.truncated)
	h.Add("Content-Type", "application/http; msgtype=response")
	c.response.length = int64(len(x.received.head)) + x.received.body.len()
	if x.isDuplicable() {
		c.digest = payload
		if strong := x.received.strong; strong != nil {
			c.digest += " " + warc.SHA256.Format(strong.Sum(nil))
		}
	}
	c.weigh(len(x.sent.head) + len(x.received.head))
	return c
}

// weigh takes memory for the heads until the capture is released.
func (c *capture) weigh(heads int) {
	c.heads = int64(heads)
	c.x.r.space.heads.Add(c.heads)
}

// describeRequest makes the header of the request record, and the note on the
// connection where there is one. The request names both others: so a file that
// ends before one of them is cut back to before all three.
func (x *exchange) describeRequest(c *capture, requestID, responseID string) {
	h := &c.request.header
	x.startHeader(h, warc.TypeRequest, requestID, c.date)
	h.Add("WARC-Concurrent-To", responseID)
	if noteID := x.addNote(c, responseID); noteID != "" {
		h.Add("WARC-Concurrent-To", noteID)
	}
	x.endHeader(h, x.sent, x.sent.size > 0, "http/1.1")
	addTruncated(h, x.sent.truncated)
	h.Add("Content-Type", "application/http; msgtype=request")
	c.request.length = int64(len(x.sent.head)) + x.sent.body.len()
}

func (x *exchange) startHeader(h *warc.Header, kind, id, date string) {
	*h = make(warc.Header, 0, maxFields)
	h.Add("WARC-Type", kind)
	h.Add("WARC-Record-ID", id)
	h.Add("WARC-Date", date)
	h.Add("WARC-Target-URI", x.uri)
	if addr := x.spoken.addr.Addr(); addr.IsValid() {
		h.Add("WARC-IP-Address", addr.String())
	}
}

// endHeader adds the digests and what was spoken, of which http is the version
// that the message itself names. It returns the payload digest.
func (x *exchange) endHeader(h *warc.Header, m *message, hasPayload bool, http string) (payload string) {
	algorithm := x.r.options.Digest
	h.Add("WARC-Block-Digest", algorithm.Format(m.block.Sum(nil)))
	if hasPayload {
		payload = algorithm.Format(m.payload.Sum(nil))
		h.Add("WARC-Payload-Digest", payload)
	}
	if !x.r.options.Strict {
		h.Add("WARC-Protocol", http)
	}
	x.addSpoken(h)
	return payload
}

// addSpoken adds what was spoken below HTTP.
func (x *exchange) addSpoken(h *warc.Header) {
	if x.spoken.tls != "" && !x.r.options.Strict {
		h.Add("WARC-Protocol", x.spoken.tls)
		h.Add("WARC-Cipher-Suite", x.spoken.cipher)
	}
}

func addTruncated(h *warc.Header, reason string) {
	if reason != "" {
		h.Add("WARC-Truncated", reason)
	}
}

// makeRevisit puts a revisit record of original in the place of the response,
// whose id it keeps (ISO 28500 §6.7.2).
func (c *capture) makeRevisit(original *dedup.Capture) {
	r, head := c.x.r, c.x.received.head
	block := r.options.Digest.New()
	block.Write(head)
	p := part{header: make(warc.Header, 0, maxFields), length: int64(len(head))}
	for _, f := range c.response.header {
		switch f.Name {
		case "WARC-Type":
			f.Value = warc.TypeRevisit
		case "WARC-Block-Digest":
			f.Value = r.options.Digest.Format(block.Sum(nil))
		case "Content-Type":
			p.header.Add("WARC-Profile", r.options.Version.IdenticalPayloadProfile())
			p.header.Add("WARC-Refers-To", original.RecordID)
			p.header.Add("WARC-Refers-To-Target-URI", original.TargetURI)
			p.header.Add("WARC-Refers-To-Date", original.Date)
			p.header.Add("WARC-Truncated", "length")
		}
		p.header.Add(f.Name, f.Value)
	}
	p.pack(r, c.x.target(), head, nil)
	c.whole, c.response = c.response, p
	c.revisit, c.original = true, original
}

// undoRevisit puts the response back in its place.
func (c *capture) undoRevisit() {
	c.response.release()
	c.response, c.whole = c.whole, part{}
	c.response.choose()
	c.revisit, c.original = false, nil
}

// asOriginal is what the index remembers of a response record.
func (c *capture) asOriginal(file string, offset, length int64) dedup.Capture {
	return dedup.Capture{
		RecordID:  c.response.header.Get("WARC-Record-ID"),
		TargetURI: c.x.uri,
		Date:      c.date,
		File:      file,
		Offset:    offset,
		Length:    length,
		Method:    c.x.request.method,
	}
}

// encode returns the records as they go to a file, and buf with what they need
// appended to it; the response is the second one, or the only one.
func (c *capture) encode(to target, buf []byte) (records []*record, used []byte, err error) {
	for _, p := range c.records() {
		var rec *record
		if rec, buf, err = p.encode(&c.x.r.options, to, buf); err != nil {
			for _, r := range records {
				r.close()
			}
			return nil, buf, err
		}
		records = append(records, rec)
	}
	return records, buf, nil
}

// records are those that there are, in their order.
func (c *capture) records() (list []*part) {
	for _, p := range []*part{&c.request, &c.response, &c.note} {
		if p.header != nil {
			list = append(list, p)
		}
	}
	return list
}

func (c *capture) parts() []*part { return []*part{&c.request, &c.response, &c.note, &c.whole} }

// release gives everything up.
func (c *capture) release() {
	for _, p := range c.parts() {
		p.release()
	}
	c.x.r.space.heads.Add(-c.heads)
	c.heads = 0
}

// needs tells how many bytes its records take on the disk, or somewhat more;
// a lot more where that is guessed, because a body is still to be compressed.
func (c *capture) needs() (n int64, guessed bool) {
	n = c.heads
	for _, p := range c.records() {
		for _, s := range p.spools() {
			n += s.len()
		}
		if p.body != nil && !p.stored && c.x.r.options.Compression != warc.Plain {
			guessed = true
		}
	}
	return n, guessed
}

// setDone tells whether it is in a file: then it needs no further space there.
func (c *capture) setDone(done bool) {
	for _, p := range c.parts() {
		for _, s := range p.spools() {
			s.setDone(done)
		}
	}
}
