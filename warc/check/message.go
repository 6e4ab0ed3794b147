package check

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
)

const maxInterims = 20

// A message is an HTTP/1.x message that passes.
type message struct {
	request    bool
	anyVersion bool // heads of other versions are read as if of HTTP/1.1

	head    []byte // as long as it is incomplete
	parsed  bool
	err     error // of the head; when parsed, it could be understood all the same
	interim int   // the first status, when that is of an interim response
	method  string
	status  int

	interims int // how many of those were seen

	version string   // "HTTP/2" or a later one, where the first line says so
	pseudo  string   // the first pseudo-header field of the head
	codings []string // Content-Encoding

	framing  http1.Framing
	body     *http1.Body
	bodyErr  error
	start    byte   // of the body
	extra    int64  // octets behind the end, or behind the error
	sample   []byte // the start of the payload, where there are codings
	rawStart []byte // likewise of the body with its chunk framing
}

// maxSample bounds how much of a payload is kept to look at its content-coding, in
// bytes.
const maxSample = 4 << 10

// overlong reports whether there are octets behind the end that the head gives the
// body. They belong to the payload: tools that store a decoded body leave the
// Content-Length of the encoded one.
func (m *message) overlong() bool {
	return m.parsed && m.extra > 0 && (m.framing.Kind == http1.Length || m.framing.Kind == http1.NoBody)
}

// unframed reports whether the body has no chunk framing though the head says
// so, and no line end by which a body would have seen that.
func (m *message) unframed() bool {
	return m.framing.Kind == http1.Chunked && m.start != 0 && !strings.ContainsRune("0123456789abcdefABCDEF \t", rune(m.start)) && m.bodyErr == nil && !m.body.Done()
}

// write takes the next octets of the block, and writes those of the entity
// body to payload, and those behind the head to raw.
func (m *message) write(p []byte, payload, raw *digest) {
	if m.err != nil && !m.parsed {
		return
	}
	for !m.parsed {
		scanned := len(m.head)
		m.head = append(m.head, p...)
		n := http1.HeadLen(m.head, scanned)
		if n == 0 {
			if len(m.head) > http1.Recorded.Head() {
				m.err = errors.New("it is too long")
			}
			return
		}
		p = m.head[n:]
		if m.parse(m.head[:n]); m.err != nil && !m.parsed {
			return
		}
		m.head = nil
		if !m.request && m.status < 200 && m.status != 101 && m.err == nil { // the next one may follow
			if m.interim == 0 {
				m.interim = m.status
			}
			if m.interims++; m.interims > maxInterims {
				m.parsed, m.err = false, errors.New("there are too many interim responses")
				return
			}
			m.parsed = false
			if len(p) == 0 {
				return
			}
		}
	}
	if raw.size == 0 && len(p) > 0 {
		m.start = p[0]
	}
	raw.write(p)
	m.rawStart = m.keep(m.rawStart, p)
	for len(p) > 0 {
		if m.bodyErr != nil || m.body.Done() {
			m.extra += int64(len(p))
			return
		}
		n, data, err := m.body.Collect(p)
		payload.write(data)
		m.sample = m.keep(m.sample, data)
		m.bodyErr = err
		p = p[n:]
	}
}

// keep adds what there is room for to a sample.
func (m *message) keep(sample, p []byte) []byte {
	if len(m.codings) == 0 {
		return nil
	}
	return append(sample, p[:min(len(p), maxSample-len(sample))]...)
}

// miscoded reports whether the payload cannot be in the content-codings of the head.
func (m *message) miscoded() bool {
	start := m.sample
	if len(start) == 0 && (m.unframed() || m.bodyErr != nil) || m.framing.Kind == http1.NoBody {
		start = m.rawStart
	}
	return !coding.CanStart(m.codings, start)
}

// headSeen reports whether all that headFlaws looks at has been seen.
func (m *message) headSeen() bool {
	return m.err != nil || m.parsed && (len(m.codings) == 0 || m.start != 0 || m.framing.Kind == http1.NoBody)
}

// headFlaws reports what is wrong with the head, and with the payload by its start.
func (m *message) headFlaws(report func(rule, format string, args ...any)) {
	if m.interim != 0 {
		report(RuleInterim, "the block starts with an interim response, %d", m.interim)
	}
	if m.err != nil {
		report(RuleHTTPHead, "%v", m.err)
	}
	if m.version != "" {
		report(RuleHTTPVersion, "the first line says %s, whose messages have no such line: this is a retelling of the message", m.version)
	}
	if m.pseudo != "" {
		report(RulePseudoField, "the head has the pseudo-header field %.80q", m.pseudo)
	}
	if m.parsed && m.miscoded() {
		report(RuleContentEncoding, "Content-Encoding is %.80q, but the payload does not begin as such a payload does", strings.Join(m.codings, ", "))
	}
}

// bodyFlaws reports what is wrong with the body of a message with a whole head. It
// returns whether the body ends before its head says, and nobody has said so.
func (m *message) bodyFlaws(truncated bool, report func(rule, format string, args ...any)) (incomplete bool) {
	switch {
	case m.bodyErr != nil && !truncated:
		report(RuleHTTPBody, "%v, and the record is not marked as truncated", m.bodyErr)
	case m.unframed():
		report(RuleHTTPBody, "the head says that the body is chunked, but it has no chunk framing")
	case m.bodyErr == nil && m.extra > 0:
		report(RuleHTTPBody, "%s", m.beyond())
	}
	return !m.body.Done() && m.bodyErr == nil && m.framing.Kind != http1.UntilClose && !truncated && !m.unframed()
}

// beyond says which octets are behind the end of the message.
func (m *message) beyond() string {
	switch {
	case m.framing.Kind == http1.Length:
		return fmt.Sprintf("Content-Length is %d, but the body in the record has %s", m.framing.Length, octets(m.framing.Length+m.extra))
	case m.framing.Kind == http1.Chunked:
		return octets(m.extra) + " follow the last chunk of the body"
	case m.request:
		return octets(m.extra) + " follow the head, which has no Content-Length"
	}
	return fmt.Sprintf("%s follow the head, but a response with the status %d has no body", octets(m.extra), m.status)
}

// A first line of any version: RFC 9113 has none, but writers make one. The
// standard's example has HTTP/1.x.
var (
	statusLine  = regexp.MustCompile(`^HTTP/\S+( +[1-9][0-9][0-9](?: [^\r\n]*)?\r?\n)`)
	requestLine = regexp.MustCompile(`^([^ \r\n]+ [^ \r\n]+ )HTTP/[0-9.x]+(\r?\n)`)
	laterStatus = regexp.MustCompile(`^(HTTP/[2-9][0-9.]*)[ \r\n]`)
	laterTarget = regexp.MustCompile(`^[^ \r\n]+ [^ \r\n]+ (HTTP/[2-9][0-9.]*)\r?\n`)
	pseudoField = regexp.MustCompile(`^:[a-z]+`)
)

// parse understands the head. A response is taken for that of a GET: where
// it answers a HEAD, there is no body to look at.
func (m *message) parse(head []byte) {
	if m.request {
		m.parseRequest(head)
	} else {
		if later := laterStatus.FindSubmatch(head); later != nil {
			m.version = string(later[1])
		}
		s, err := http1.Recorded.ParseResponse(head, "GET")
		if err != nil && !tooLarge(err) && (m.anyVersion || m.version != "") && statusLine.Match(head) {
			s, err = http1.Recorded.ParseResponse(statusLine.ReplaceAll(head, []byte("HTTP/1.1$1")), "GET")
		}
		if m.err = err; err == nil {
			m.status, m.framing, m.parsed = s.Status, s.Framing, true
			m.fields(&s.Head)
		}
	}
	m.body = http1.NewBody(m.framing, false)
}

// fields takes from the fields of the head what is checked.
func (m *message) fields(h *http1.Head) {
	m.codings = h.Tokens("Content-Encoding")
	for i := range h.Fields {
		if name := pseudoField.Find(h.Fields[i].Raw); name != nil && m.pseudo == "" {
			m.pseudo = string(name)
		}
	}
}

// parseRequest reads a request that is malformed as tolerantly as a response,
// where its first line allows that.
func (m *message) parseRequest(head []byte) {
	if later := laterTarget.FindSubmatch(head); later != nil {
		m.version = string(later[1])
	}
	q, err := http1.Recorded.ParseRequest(head)
	line := requestLine.Find(head)
	if err != nil && !tooLarge(err) && (m.anyVersion || m.version != "") && line != nil {
		q, err = http1.Recorded.ParseRequest(requestLine.ReplaceAll(head, []byte("${1}HTTP/1.1$2")))
	}
	if m.err = err; err == nil {
		m.method, m.framing, m.parsed = q.Method, q.Framing, true
		m.fields(&q.Head)
		return
	}
	if !m.anyVersion || line == nil || tooLarge(err) {
		return
	}
	s, err := http1.Recorded.ParseResponse(append([]byte("HTTP/1.1 200 OK\r\n"), head[len(line):]...), "GET")
	if err == nil {
		method, _, _ := bytes.Cut(line, []byte{' '})
		m.method, m.framing, m.parsed = string(method), s.Framing, true
		m.fields(&s.Head)
	}
}

// tooLarge reports whether a head is beyond [http1.Recorded].
func tooLarge(err error) bool {
	bad := (*http1.Error)(nil)
	return errors.As(err, &bad) && bad.TooLarge()
}

func octets(n int64) string {
	if n == 1 {
		return "1 octet"
	}
	return fmt.Sprintf("%d octets", n)
}
