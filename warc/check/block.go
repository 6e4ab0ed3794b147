package check

import (
	"bytes"
	"errors"
	"hash"
	"strings"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A block looks at the octets of a block as they pass.
type block struct {
	digest  *digest
	payload *digest
	message *message // nil: the payload is the block
	text    *bytes.Buffer
}

// maxText bounds a block of application/warc-fields that is looked into.
const maxText = 1 << 20

func newBlock(r *Record) *block {
	b := &block{digest: newDigest(r.Header.Get("WARC-Block-Digest")), payload: newDigest(r.Header.Get("WARC-Payload-Digest"))}
	switch content := mediaType(r.Header.Get("Content-Type")); {
	case content == "application/http" && r.is(warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit):
		b.message = &message{request: r.Type == warc.TypeRequest}
	case content == "application/warc-fields" && r.BlockSize <= maxText:
		b.text = new(bytes.Buffer)
	}
	return b
}

func (b *block) write(p []byte) {
	b.digest.write(p)
	switch {
	case b.message != nil:
		b.message.write(p, b.payload)
		return
	case b.text != nil:
		b.text.Write(p)
	}
	b.payload.write(p)
}

// A digest is the value of a digest field, and the hash to compare it with.
type digest struct {
	value string
	want  warc.Digest
	err   error
	hash  hash.Hash // nil: the value cannot be checked
	size  int64     // octets written
}

func newDigest(value string) *digest {
	d := &digest{value: value}
	if value == "" {
		return d
	}
	if d.want, d.err = warc.ParseDigest(value); d.err == nil {
		d.hash = d.want.Algorithm.New()
	}
	return d
}

func (d *digest) write(p []byte) {
	d.size += int64(len(p))
	if d.hash != nil {
		d.hash.Write(p)
	}
}

func (p *Report) digest(r *Record, d *digest, rule string) {
	switch {
	case d.value == "":
	case errors.Is(d.err, warc.ErrUnknownAlgorithm):
		p.add(r, rule, "cannot be checked: %v", d.err)
	case d.err != nil:
		p.add(r, RuleDigestForm, "%v", d.err)
	case d.want.String() != d.value:
		p.add(r, RuleDigestForm, "%s should be written %s", d.value, d.want)
	}
	if d.hash == nil {
		return
	}
	if got := (warc.Digest{Algorithm: d.want.Algorithm, Sum: d.hash.Sum(nil)}); !got.Equal(d.want) {
		p.add(r, rule, "%s is written, but it is %s, of %d octets", d.value, got, d.size)
	}
}

// block reports what was seen of the block.
func (p *Report) block(r *Record, b *block) {
	if b.digest.value == "" && r.is(warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit) {
		p.add(r, RuleDigestMissing, "WARC-Block-Digest is missing")
	}
	p.digest(r, b.digest, RuleBlockDigest)
	if b.text != nil {
		p.warcFields(r, b.text.String())
	}
	r.PayloadSize = b.payload.size
	if m := b.message; m != nil {
		p.message(r, m)
	}
	p.payload(r, b)
}

func (p *Report) payload(r *Record, b *block) {
	d := b.payload
	if d.value == "" {
		missing := r.is(warc.TypeResponse, warc.TypeRevisit) || r.Type == warc.TypeRequest && b.message != nil && d.size > 0
		if missing {
			p.add(r, RuleDigestMissing, "WARC-Payload-Digest is missing")
		}
		return
	}
	segment := r.Header.Get("WARC-Segment-Number") != ""
	if r.Type == warc.TypeRevisit || segment {
		d.hash = nil // it is of something else: the original, the whole
	}
	if b.message != nil && b.message.request && b.message.framing.Kind == http1.NoBody {
		p.add(r, RulePayloadDigest, "on a request without a body")
		return
	}
	p.digest(r, d, RulePayloadDigest)
}

func (p *Report) warcFields(r *Record, text string) {
	for line := range strings.Lines(text) {
		folded := line[0] == ' ' || line[0] == '\t'
		name, _, colon := strings.Cut(line, ":")
		if !strings.HasSuffix(line, "\r\n") || line != "\r\n" && !folded && (!colon || strings.ContainsAny(name, " \t")) {
			p.add(r, RuleWarcFields, "the line %.80q is not `name: value` CR LF", line)
			return
		}
	}
}

// limits bound the memory that a head takes: a recording can be told to let heads
// pass that are nearly as large, of which a URL and the fields may have 64 MiB.
var limits = http1.Limits{Target: 65 << 20, Fields: 65 << 20, FieldCount: 65 << 20}

// A message is an HTTP/1.x message that passes.
type message struct {
	request bool
	head    []byte // as long as it is incomplete
	parsed  bool
	err     error // of the head
	method  string
	status  int
	framing http1.Framing
	body    *http1.Body
	bodyErr error
	extra   int64 // octets behind the end, or behind the error
}

// write takes the next octets of the block, and writes those of the entity
// body to payload.
func (m *message) write(p []byte, payload *digest) {
	if m.err != nil {
		return
	}
	if !m.parsed {
		scanned := len(m.head)
		m.head = append(m.head, p...)
		n := http1.HeadLen(m.head, scanned)
		if n == 0 {
			if len(m.head) > limits.Head() {
				m.err = errors.New("it is too long")
			}
			return
		}
		p = m.head[n:]
		if m.parse(m.head[:n]); m.err != nil {
			return
		}
		m.head = nil
	}
	for len(p) > 0 {
		if m.body.Done() || m.bodyErr != nil {
			m.extra += int64(len(p))
			return
		}
		n, data, err := m.body.Next(p)
		payload.write(data)
		m.bodyErr = err
		p = p[n:]
	}
}

// parse understands the head. A response is taken for that of a GET: where
// it answers a HEAD, there is no body to look at.
func (m *message) parse(head []byte) {
	m.parsed = true
	if m.request {
		q, err := limits.ParseRequest(head)
		if m.err = err; err == nil {
			m.method, m.framing = q.Method, q.Framing
		}
	} else {
		s, err := http1.ParseResponse(head, "GET")
		if m.err = err; err == nil {
			m.status, m.framing = s.Status, s.Framing
		}
	}
	m.body = http1.NewBody(m.framing, false)
}

func (p *Report) message(r *Record, m *message) {
	r.Method, r.Status = m.method, m.status
	if r.Type == warc.TypeRevisit && r.BlockSize == 0 {
		return
	}
	truncated := r.Header.Get("WARC-Truncated") != ""
	switch {
	case m.err != nil:
		p.add(r, RuleHTTPHead, "%v", m.err)
		return
	case !m.parsed && truncated && r.Type != warc.TypeRevisit:
		return
	case !m.parsed:
		p.add(r, RuleHTTPHead, "the head has no end")
		return
	}
	if r.Type != warc.TypeRequest && m.status < 200 && m.status != 101 {
		p.add(r, RuleInterim, "the block starts with an interim response, %d", m.status)
		return
	}
	switch {
	case r.Type == warc.TypeRevisit:
		if r.PayloadSize > 0 || m.extra > 0 || m.bodyErr != nil {
			p.add(r, RuleHTTPBody, "a revisit has more than the head")
		}
	case m.bodyErr != nil && !truncated:
		p.add(r, RuleHTTPBody, "%v, and the record is not marked as truncated", m.bodyErr)
	case m.bodyErr == nil && m.extra > 0:
		p.add(r, RuleHTTPBody, "%d octets are behind the end of the message", m.extra)
	}
	segment := r.Header.Get("WARC-Segment-Number") != ""
	r.incomplete = !m.body.Done() && m.bodyErr == nil && m.framing.Kind != http1.UntilClose && !segment
}
