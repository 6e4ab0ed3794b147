package check

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

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

	framing http1.Framing
	body    *http1.Body
	bodyErr error
	start   byte  // of the body
	extra   int64 // octets behind the end, or behind the error
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
	for len(p) > 0 {
		if m.bodyErr != nil || m.body.Done() {
			m.extra += int64(len(p))
			return
		}
		n, data, err := m.body.Next(p)
		payload.write(data)
		m.bodyErr = err
		p = p[n:]
	}
}

// A first line of any version: RFC 9113 has none, but writers make one. The
// standard's example has HTTP/1.x.
var (
	statusLine  = regexp.MustCompile(`^HTTP/\S+( +[1-9][0-9][0-9](?: [^\r\n]*)?\r?\n)`)
	requestLine = regexp.MustCompile(`^([^ \r\n]+ [^ \r\n]+ )HTTP/[0-9.x]+(\r?\n)`)
)

// parse understands the head. A response is taken for that of a GET: where
// it answers a HEAD, there is no body to look at.
func (m *message) parse(head []byte) {
	if m.request {
		m.parseRequest(head)
	} else {
		s, err := http1.Recorded.ParseResponse(head, "GET")
		if err != nil && !tooLarge(err) && m.anyVersion && statusLine.Match(head) {
			s, err = http1.ParseResponse(statusLine.ReplaceAll(head, []byte("HTTP/1.1$1")), "GET")
		}
		if m.err = err; err == nil {
			m.status, m.framing, m.parsed = s.Status, s.Framing, true
		}
	}
	m.body = http1.NewBody(m.framing, false)
}

// parseRequest reads a request that is malformed as tolerantly as a response,
// where its first line allows that.
func (m *message) parseRequest(head []byte) {
	q, err := http1.Recorded.ParseRequest(head)
	line := requestLine.Find(head)
	if err != nil && !tooLarge(err) && m.anyVersion && line != nil {
		q, err = http1.Recorded.ParseRequest(requestLine.ReplaceAll(head, []byte("${1}HTTP/1.1$2")))
	}
	if m.err = err; err == nil {
		m.method, m.framing, m.parsed = q.Method, q.Framing, true
		return
	}
	if !m.anyVersion || line == nil || tooLarge(err) {
		return
	}
	s, err := http1.ParseResponse(append([]byte("HTTP/1.1 200 OK\r\n"), head[len(line):]...), "GET")
	if err == nil {
		method, _, _ := bytes.Cut(line, []byte{' '})
		m.method, m.framing, m.parsed = string(method), s.Framing, true
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
