package check

import (
	"bytes"
	"encoding/base64"
	"errors"
	"hash"
	"slices"
	"strings"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A block looks at the octets of a block as they pass.
type block struct {
	digest  *digest
	payload *digest
	raw     *digest  // of what is behind the head of a message, with its chunk framing
	message *message // nil: the payload is the block
	text    *bytes.Buffer
}

// maxText bounds a block of application/warc-fields that is looked into.
const maxText = 1 << 20

func newBlock(r *Record, p Profile) *block {
	payload := r.Header.Get("WARC-Payload-Digest")
	b := &block{digest: newDigest(r.Header.Get("WARC-Block-Digest")), payload: newDigest(payload)}
	switch content := http1.MediaType(r.Header.Get("Content-Type")); {
	case r.isMessage(content):
		b.message = &message{request: r.Type == warc.TypeRequest, anyVersion: p == Standard}
		b.raw = newDigest(payload)
	case content == "application/warc-fields" && r.BlockSize <= maxText:
		b.text = new(bytes.Buffer)
	}
	return b
}

// isMessage reports whether the block is an HTTP message (§6.3.2, §6.5.2, §6.7).
func (r *Record) isMessage(content string) bool {
	switch {
	case !r.is(warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit):
		return false
	case content == "application/http":
		return true
	case content == "message/http":
		return r.Type == warc.TypeRevisit
	}
	return content == "" && isHTTP(r.TargetURI) && r.BlockSize > 0
}

func (b *block) write(p []byte) {
	b.digest.write(p)
	switch {
	case b.message != nil:
		b.message.write(p, b.payload, b.raw)
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
	if d.want, d.err = parseDigest(value); d.err == nil {
		d.hash = d.want.Algorithm.New()
	}
	return d
}

// parseDigest understands a digest, also in Base64, which the standard does not
// rule out: RFC 3548, to which WARC 1.0 refers, has it beside the others.
func parseDigest(value string) (warc.Digest, error) {
	d, err := warc.ParseDigest(value)
	label, sum, _ := strings.Cut(value, ":")
	a, unknown := warc.ParseAlgorithm(label)
	if err == nil || unknown != nil {
		return d, err
	}
	sum = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(sum, "="))
	if b, err := base64.RawStdEncoding.DecodeString(sum); err == nil && len(b) == a.New().Size() {
		return warc.Digest{Algorithm: a, Sum: b}, nil
	}
	return d, err
}

func (d *digest) write(p []byte) {
	d.size += int64(len(p))
	if d.hash != nil {
		d.hash.Write(p)
	}
}

// got returns what the digest really is. It is called when there is a hash.
func (d *digest) got() warc.Digest {
	return warc.Digest{Algorithm: d.want.Algorithm, Sum: d.hash.Sum(nil)}
}

// ofNothing says that the value is the digest of no octets, if it is: GNU Wget
// has it on its revisits.
func (d *digest) ofNothing() string {
	if !d.want.Equal(warc.Digest{Algorithm: d.want.Algorithm, Sum: d.want.Algorithm.New().Sum(nil)}) {
		return ""
	}
	return "; it is that of no octets at all, which GNU Wget writes on revisits: that says nothing about the block"
}

// form checks how a digest is written.
func (f *file) form(r *Record, d *digest, field string) {
	switch {
	case d.value == "" && len(r.Header.Values(field)) > 0:
		f.addField(r, RuleDigestForm, field, "%s is empty", field)
	case d.value == "":
	case errors.Is(d.err, warc.ErrUnknownAlgorithm):
		f.addField(r, RuleDigestUnknown, field, "%s cannot be checked: %s", field, reason(d.err))
	case d.err != nil:
		f.addField(r, RuleDigestForm, field, "%s: %s", field, reason(d.err))
	case d.want.String() != d.value:
		f.add(r, RuleDigestSpelling, "%s %s is usually written %s", field, d.value, d.want)
	}
}

// reason is an error of package warc within a sentence.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "warc: ") }

// block reports what was seen of the block.
func (f *file) block(r *Record, b *block) {
	if b.digest.value == "" && r.is(warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit) {
		f.add(r, RuleDigestMissing, "WARC-Block-Digest is missing")
	}
	f.form(r, b.digest, "WARC-Block-Digest")
	if d := b.digest; d.hash != nil && !d.got().Equal(d.want) {
		f.add(r, RuleBlockDigest, "WARC-Block-Digest is %s, but the block of %d octets has %s%s", d.value, d.size, d.got(), d.ofNothing())
	}
	if b.text != nil {
		f.warcFields(r, b.text.String())
	}
	r.PayloadSize = b.payloadSize()
	if m := b.message; m != nil {
		f.message(r, m)
	}
	f.payload(r, b)
}

func (f *file) payload(r *Record, b *block) {
	d := b.payload
	f.form(r, d, "WARC-Payload-Digest")
	if d.value == "" {
		if r.Type == warc.TypeResponse || r.Type == warc.TypeRequest && b.message != nil && d.size > 0 {
			f.add(r, RuleDigestMissing, "WARC-Payload-Digest is missing")
		}
		return
	}
	switch {
	case b.message != nil && b.message.request && b.message.framing.Kind == http1.NoBody && f.options.Profile == Warctee:
		f.add(r, RuleNoBody, "WARC-Payload-Digest is on a request without a body")
	case r.Type == warc.TypeRevisit, r.segmented():
		// It is of something else: the original, the whole.
	case d.hash == nil, b.agrees(f.options.RawDigests):
	case r.Type == warc.TypeRequest && d.want.Equal(b.digest.want):
		f.add(r, RuleNoPayload, "WARC-Payload-Digest is that of the whole block, not that of the %s of the body of the request", octets(d.size))
	case b.message == nil && !r.is(warc.TypeResource, warc.TypeConversion, warc.TypeWarcinfo, warc.TypeMetadata):
		f.add(r, RuleNoPayload, "WARC-Payload-Digest is %s, but the block of %d octets has %s", d.value, d.size, d.got())
	case b.message != nil && !b.message.parsed:
		// There is no telling where the payload is, which is reported.
	default:
		f.add(r, RulePayloadDigest, "%s", b.disagreement())
	}
}

// payloadSize returns the octets of the payload.
func (b *block) payloadSize() int64 {
	if b.message != nil && b.message.overlong() {
		return b.raw.size
	}
	return b.payload.size
}

// agrees reports whether the payload digest is right. Where the framing is not what
// the head says, the octets as they are count too: nobody could remove it.
func (b *block) agrees(raw bool) bool {
	return slices.ContainsFunc(b.sums(raw), b.payload.want.Equal)
}

// sums returns the digests that the payload can have.
func (b *block) sums(raw bool) []warc.Digest {
	sums := []warc.Digest{b.payload.got()}
	if m := b.message; m != nil && (raw || m.bodyErr != nil || m.unframed() || m.overlong()) {
		sums = append(sums, b.raw.got())
	}
	return sums
}

// disagreement says how the payload digest is wrong.
func (b *block) disagreement() string {
	d, got := b.payload, b.payload.got()
	if b.message != nil && b.message.overlong() {
		got = b.raw.got()
	}
	s := "WARC-Payload-Digest is " + d.value + ", but the payload of " + octets(b.payloadSize()) + " has " + got.String()
	if b.message != nil && b.message.framing.Kind == http1.Chunked && b.raw.got().Equal(d.want) {
		s += "; it is that of the body with its chunk framing, which --digest-compat raw accepts"
	}
	return s
}

func (f *file) warcFields(r *Record, text string) {
	for line := range strings.Lines(text) {
		folded := line[0] == ' ' || line[0] == '\t'
		name, _, colon := strings.Cut(line, ":")
		if !strings.HasSuffix(line, "\r\n") || line != "\r\n" && !folded && (!colon || strings.ContainsAny(name, " \t")) {
			f.add(r, RuleWarcFields, "the line %.80q is not `name: value` CR LF", line)
			return
		}
	}
}

// message checks what the block says of its message.
func (f *file) message(r *Record, m *message) {
	r.Method, r.Status = m.method, m.status
	if r.Type == warc.TypeRevisit && r.BlockSize == 0 {
		return
	}
	r.headSeen = m.headSeen()
	if !r.segmented() || r.headSeen { // else the joined segments are looked at
		m.headFlaws(func(rule, format string, args ...any) { f.add(r, rule, format, args...) })
	}
	truncated := r.Header.Get("WARC-Truncated") != ""
	switch {
	case m.err != nil && !m.parsed, r.segmented() && r.Type != warc.TypeRevisit:
		return
	case !m.parsed && (truncated && r.Type != warc.TypeRevisit || m.interim != 0):
		return
	case !m.parsed:
		f.add(r, RuleHTTPHead, "%s", noHeadEnd)
		return
	case r.Type == warc.TypeRevisit:
		f.revisitMessage(r, m)
		return
	}
	r.incomplete = m.bodyFlaws(truncated, func(rule, format string, args ...any) { f.add(r, rule, format, args...) })
	if r.incomplete && (r.Type == warc.TypeRequest || r.Type == warc.TypeResponse && r.PayloadSize > 0) {
		f.add(r, RuleTruncated, "%s", tooShort)
		r.incomplete = false
	}
}

const (
	noHeadEnd = "the head has no end"
	tooShort  = "the HTTP body ends too early, and there is no WARC-Truncated"
)

// revisitMessage checks a head that a revisit keeps.
func (f *file) revisitMessage(r *Record, m *message) {
	if r.PayloadSize > 0 || m.extra > 0 || m.bodyErr != nil {
		f.add(r, RuleHTTPBody, "a revisit has more than the head")
	}
	if m.status != 304 && profile(r.Header.Get("WARC-Profile")) == notModified {
		f.add(r, RuleNotModified, "the response was %d, but WARC-Profile is server-not-modified, which stands for a 304", m.status)
	}
}
