package archive

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A Message is the block of a record, with what HTTP says about it.
type Message struct {
	Request  *http1.Request  // of a request record; nil unless the block is an HTTP message
	Response *http1.Response // of a response or revisit record; nil unless the block is an HTTP message

	record  *warc.Record
	payload io.Reader
	body    *body    // nil where payload has nothing of a body
	flaws   []string // what is known without reading the body to its end
}

// ReadMessage understands the block of a record. It reads the head; the rest is
// read with Payload or Decoded, only one of them, and only once. The error is an
// *[http1.Error] when the head cannot be understood, and otherwise one of block.
//
// A response is taken for that of a GET. Where it answers a HEAD, or is a
// revisit, the payload is empty whatever the head says. Else it is all that the
// record has of the body, also where the head says that there is less.
func ReadMessage(rec *warc.Record, block io.Reader) (*Message, error) {
	m := &Message{record: rec, payload: block}
	if !holdsHTTP(rec) {
		return m, nil
	}
	raw := bufio.NewReaderSize(block, 16<<10)
	head, err := readHead(raw)
	if err != nil {
		return nil, err
	}
	var framing http1.Framing
	var doubt error
	if rec.Type() == warc.TypeRequest {
		if m.Request, doubt, err = http1.ParseRecordedRequest(head); err != nil {
			return nil, err
		}
		framing = m.Request.Framing
	} else {
		if m.Response, doubt, err = http1.ParseRecordedResponse(head); err != nil {
			return nil, err
		}
		framing = m.Response.Framing
	}
	if _, err := raw.Peek(1); err == io.EOF {
		m.payload = strings.NewReader("")
		return m, nil
	} // another error comes again
	if doubt != nil {
		m.flaw("%v: the payload is what follows the head", doubt)
	}
	if framing.Kind == http1.Chunked && !startsChunk(raw) {
		m.flaw("the head says that the body is chunked, but it has no chunk framing")
		framing = http1.Framing{Kind: http1.UntilClose}
	}
	m.body = &body{framing: framing, framed: coding.NewBodyReader(raw, framing), raw: raw}
	if !IsFirst(rec) && (framing.Kind == http1.Length || framing.Kind == http1.NoBody) {
		m.body.told = rec.Length - int64(len(head)) - framing.Length
	}
	m.payload = m.body
	return m, nil
}

func (m *Message) flaw(format string, args ...any) {
	m.flaws = append(m.flaws, fmt.Sprintf(format, args...))
}

// Flaws says in which ways the body is not as the head says, and yet has a payload,
// in a sentence each. Some are only known once the payload has been read to its end.
// A body that is too short or has broken chunk framing is an error of the payload.
func (m *Message) Flaws() []string {
	if m.body == nil {
		return m.flaws
	}
	if flaw := m.body.flaw(); flaw != "" {
		return append(slices.Clone(m.flaws), flaw)
	}
	return m.flaws
}

// A body reads the body of a message in a record: what its framing says, and what
// comes behind that. A Content-Length that is too small is common in records of
// tools that store a decoded body with the original head. What comes behind the last
// chunk is no part of the payload.
type body struct {
	framing http1.Framing
	framed  *coding.BodyReader
	raw     *bufio.Reader
	ended   bool  // framed has
	beyond  int64 // octets behind the framing that were read
	told    int64 // likewise of all, by the length of the record; 0 where that does not tell
}

func (b *body) Read(p []byte) (int, error) {
	if !b.ended {
		n, err := b.framed.Read(p)
		if b.ended = err == io.EOF; !b.ended {
			return n, err
		}
	}
	if b.framing.Kind == http1.Chunked {
		n, err := io.Copy(io.Discard, b.raw)
		b.beyond += n
		return 0, cmp.Or(err, io.EOF)
	}
	n, err := b.raw.Read(p)
	b.beyond += int64(n)
	return n, err
}

// flaw says what comes behind the framing, "" where nothing does.
func (b *body) flaw() string {
	n := max(b.beyond, b.told)
	switch {
	case n == 0:
		return ""
	case b.framing.Kind == http1.Chunked:
		return fmt.Sprintf("%d octets follow the last chunk of the body and are not in the payload", n)
	case b.framing.Kind == http1.NoBody:
		return fmt.Sprintf("the head says that there is no body, but %d octets follow it, which are the payload", n)
	}
	return fmt.Sprintf("Content-Length is %d, but the body in the record has %d octets, which are the payload", b.framing.Length, b.framing.Length+n)
}

// NoMessage reports whether an error of ReadMessage is about the message, which
// cannot be understood, and not about the record.
func NoMessage(err error) bool {
	var bad *http1.Error
	return errors.As(err, &bad)
}

// TooLarge reports whether an error of ReadMessage is about the head of a message
// that is beyond [http1.Recorded], and returns it as one about the record at p, nil
// when it is not.
func (p *Place) TooLarge(err error) error {
	var bad *http1.Error
	if !errors.As(err, &bad) || !bad.TooLarge() {
		return nil
	}
	return &warc.Error{Offset: p.Offset, Rule: warc.RuleMessage, Err: fmt.Errorf("its HTTP message was not read: %w", bad)}
}

// holdsHTTP reports whether the block of a record is an HTTP message: it says so
// (WARC 1.1 §6.3, §6.5, §6.7), or says nothing and is of http.
func holdsHTTP(rec *warc.Record) bool {
	switch rec.Type() {
	case warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit:
	default:
		return false
	}
	if rec.Length == 0 {
		return false
	}
	switch content := http1.MediaType(rec.Header.Get("Content-Type")); content {
	case "application/http":
		return true
	case "":
		scheme, _, _ := strings.Cut(strings.ToLower(rec.TargetURI()), ":")
		return scheme == "http" || scheme == "https"
	}
	return false
}

// readHead reads to the end of a head.
func readHead(raw *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := raw.ReadSlice('\n')
		scanned := len(head)
		head = append(head, line...)
		switch {
		case err == nil && http1.HeadLen(head, scanned) > 0:
			return head, nil
		case len(head) > http1.Recorded.Head():
			return nil, &http1.Error{Status: 431, Reason: fmt.Sprintf("the head has more than %d bytes", http1.Recorded.Head())}
		case err == io.EOF:
			return nil, &http1.Error{Status: 502, Reason: "the head has no end"}
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// startsChunk reports whether what comes next can be the line of a chunk (RFC
// 9112 §7.1), or is nothing.
func startsChunk(raw *bufio.Reader) bool {
	start, _ := raw.Peek(18)
	line := strings.TrimLeft(string(start), " \t")
	rest := strings.TrimLeft(line, "0123456789abcdefABCDEF")
	return len(start) == 0 || len(rest) < len(line) && (rest == "" || strings.ContainsRune("\r\n; \t", rune(rest[0])))
}

// Head returns the head of the message with the empty line, nil when there is
// none.
func (m *Message) Head() []byte {
	if h := m.head(); h != nil {
		return h.Raw
	}
	return nil
}

func (m *Message) head() *http1.Head {
	switch {
	case m.Request != nil:
		return &m.Request.Head
	case m.Response != nil:
		return &m.Response.Head
	}
	return nil
}

// Payload returns the entity body: the body without its framing, but with its
// content-codings. Where the block is no HTTP message it is the block.
func (m *Message) Payload() io.Reader { return m.payload }

// Decoded returns the payload without its content-codings. Where the payload cannot
// have them, since another tool has removed them and left the head as it was, it is
// returned as it is, which Flaws tells. The error wraps [coding.ErrUnknown] for one
// that is not known here.
func (m *Message) Decoded() (io.Reader, error) {
	h := m.head()
	if h == nil {
		return m.payload, nil
	}
	payload := bufio.NewReader(m.payload)
	m.payload = payload
	if _, err := payload.Peek(1); err == io.EOF {
		return payload, nil // of a HEAD, say: nothing is encoded
	}
	codings := h.Tokens("Content-Encoding")
	if start, _ := payload.Peek(payload.Size()); !coding.CanStart(codings, start) { // an error comes again
		m.flaw("Content-Encoding is %.80q, but the payload is not encoded so, and is taken as it is", strings.Join(codings, ", "))
		return payload, nil
	}
	r, err := coding.NewReader(payload, codings)
	if err != nil || m.body == nil {
		return r, err
	}
	return &decoded{r, m.body}, nil
}

// A decoded is a payload without its content-codings. It ends where something that
// is not gzip follows gzip, if that is behind the end which the head gives the body.
type decoded struct {
	r    io.Reader
	body *body
}

func (d *decoded) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if d.body.ended && d.body.beyond > 0 && errors.Is(err, gzip.ErrHeader) {
		err = io.EOF
	}
	return n, err
}

// MediaType returns the media type that the message declares for its payload, or
// the record where there is no HTTP message: lower-case, without parameters, ""
// when there is none.
func (m *Message) MediaType() string {
	if h := m.head(); h != nil {
		value, _ := h.Get("Content-Type")
		return http1.MediaType(value)
	}
	return http1.MediaType(m.record.Header.Get("Content-Type"))
}
