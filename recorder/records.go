package recorder

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// fileName is {prefix}-{timestamp17}-{serial5}-{host}.warc.gz.
func (r *Recorder) fileName(series string, created time.Time, serial int) string {
	if series == "" {
		series = r.options.Prefix
	}
	stamp := strings.Replace(created.UTC().Format("20060102150405.000"), ".", "", 1)
	name := fmt.Sprintf("%s-%s-%05d-%s.warc", series, stamp, serial, safeHost(r.host))
	if !r.options.Plain {
		name += ".gz"
	}
	return name
}

func safeHost(host string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && isUnreserved(byte(c)) {
			return c
		}
		return '_'
	}, host)
}

// warcinfo makes the record that starts a file (ISO 28500 §6.2). The tag is
// its record id.
func (r *Recorder) warcinfo(series, name string) (record []byte, tag string, err error) {
	conformsTo := "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-" + string(r.options.Version) + "/"
	fields := []warc.Field{
		{Name: "software", Value: r.options.Software},
		{Name: "hostname", Value: r.host},
		{Name: "format", Value: "WARC File Format " + string(r.options.Version)},
		{Name: "conformsTo", Value: conformsTo},
	}
	block := warcFields(append(fields, r.options.Warcinfo...))
	id := warc.NewRecordID()
	digest := r.options.Digest.New()
	digest.Write(block)
	p := part{length: int64(len(block))}
	p.header.Add("WARC-Type", warc.TypeWarcinfo)
	p.header.Add("WARC-Record-ID", id)
	p.header.Add("WARC-Date", warc.FormatDate(time.Now(), r.options.Version))
	p.header.Add("WARC-Filename", name)
	p.header.Add("WARC-Block-Digest", r.options.Digest.Format(digest.Sum(nil)))
	p.header.Add("Content-Type", "application/warc-fields")
	if err := p.pack(r, block, nil); err != nil {
		return nil, "", err
	}
	readers, _, err := p.encode(r.options.Version, "")
	if err != nil {
		return nil, "", err
	}
	record, err = io.ReadAll(io.MultiReader(readers...))
	return record, id, err
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

// A part is a record whose header lacks only what depends on its file.
type part struct {
	header warc.Header
	length int64 // of the block

	packed   *spool // the deflated block
	deflated warc.Deflated
	head     []byte // in plain files: the block is head and body
	body     *spool
}

// pack makes the block ready to be appended. It does not touch the ownership
// of body.
func (p *part) pack(r *Recorder, head []byte, body *spool) error {
	if r.options.Plain {
		p.head = head
		if body != nil {
			p.body = body.share()
		}
		return nil
	}
	block := io.Reader(bytes.NewReader(head))
	if body != nil {
		block = io.MultiReader(block, body.reader())
	}
	p.packed = newSpool(r.options.Dir, -1)
	var err error
	p.deflated, err = warc.Deflate(p.packed, block)
	return err
}

// release gives up the block.
func (p *part) release() {
	if p.packed != nil {
		p.packed.release()
	}
	if p.body != nil {
		p.body.release()
	}
	p.packed, p.body = nil, nil
}

// encode returns the record in pieces, and its size in the file. warcinfoID
// is that of its file, or "" in a warcinfo record.
func (p *part) encode(v warc.Version, warcinfoID string) (pieces []io.Reader, size int64, err error) {
	h := p.header
	if warcinfoID != "" {
		h.Add("WARC-Warcinfo-ID", warcinfoID)
	}
	h.Add("Content-Length", strconv.FormatInt(p.length, 10))
	header, err := h.Encode(nil, v)
	if err != nil {
		return nil, 0, err
	}
	if p.packed == nil {
		pieces = append(pieces, bytes.NewReader(header), bytes.NewReader(p.head))
		if p.body != nil {
			pieces = append(pieces, p.body.reader())
		}
		return append(pieces, strings.NewReader("\r\n\r\n")), int64(len(header)) + p.length + 4, nil
	}
	start := warc.AppendMemberStart(nil, header)
	end := warc.AppendMemberEnd(nil, header, p.deflated)
	pieces = append(pieces, bytes.NewReader(start), p.packed.reader(), bytes.NewReader(end))
	return pieces, int64(len(start)) + p.packed.len() + int64(len(end)), nil
}

// A capture is an exchange that has ended, on its way to the disk.
type capture struct {
	x        *exchange
	date     string
	single   bool // no exchange: response is a record that stands for itself
	request  part
	response part
	digest   string         // of the payload, when it can be or have an original
	original *dedup.Capture // an older capture of the same payload, known before the writer
	revisit  bool           // response holds a revisit record …
	referred string         // … of an original in this file
}

// newCapture makes the headers of the records. The request stands first in the
// file: of a record that was cut by a crash nothing whole is then left behind.
func (x *exchange) newCapture() *capture {
	c := &capture{x: x, date: warc.FormatDate(x.start, x.r.options.Version)}
	requestID, responseID := warc.NewRecordID(), warc.NewRecordID()

	h := &c.request.header
	x.startHeader(h, warc.TypeRequest, requestID, c.date)
	h.Add("WARC-Concurrent-To", responseID)
	x.endHeader(h, x.sent, x.sent.size > 0, "http/1.1")
	addTruncated(h, x.sent.truncated)
	h.Add("Content-Type", "application/http; msgtype=request")
	c.request.length = int64(len(x.sent.head)) + x.sent.body.len()

	h = &c.response.header
	x.startHeader(h, warc.TypeResponse, responseID, c.date)
	h.Add("WARC-Concurrent-To", requestID)
	payload := x.endHeader(h, x.received, true, "http/1."+strconv.Itoa(x.reply.Minor))
	if mediaType := x.identify(); mediaType != "" {
		h.Add("WARC-Identified-Payload-Type", mediaType)
	}
	addTruncated(h, x.received.truncated)
	h.Add("Content-Type", "application/http; msgtype=response")
	c.response.length = int64(len(x.received.head)) + x.received.body.len()
	if x.isDuplicable() {
		c.digest = payload
	}
	return c
}

func (x *exchange) startHeader(h *warc.Header, kind, id, date string) {
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
	if x.r.options.Strict {
		return payload
	}
	h.Add("WARC-Protocol", http)
	if x.spoken.tls != "" {
		h.Add("WARC-Protocol", x.spoken.tls)
		h.Add("WARC-Cipher-Suite", x.spoken.cipher)
	}
	return payload
}

func addTruncated(h *warc.Header, reason string) {
	if reason != "" {
		h.Add("WARC-Truncated", reason)
	}
}

// makeRevisit replaces the response by a revisit record of original, which
// keeps its id (ISO 28500 §6.7.2).
func (c *capture) makeRevisit(original *dedup.Capture) error {
	r, head := c.x.r, c.x.received.head
	c.response.release()
	old := c.response.header
	block := r.options.Digest.New()
	block.Write(head)
	p := part{length: int64(len(head))}
	for _, f := range old {
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
	c.response, c.revisit, c.referred = p, true, original.File
	return c.response.pack(r, head, nil)
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
	}
}

func (c *capture) release() {
	c.request.release()
	c.response.release()
}
