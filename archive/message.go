package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A Message is the block of a record, with what HTTP says about it.
type Message struct {
	Request  *http1.Request  // of a request record; nil unless the block is an HTTP message
	Response *http1.Response // of a response or revisit record; nil unless the block is an HTTP message

	// Unframed tells that the body has no chunk framing though its head says
	// so: other tools write records of decoded bodies with the original head.
	Unframed bool

	record  *warc.Record
	payload io.Reader
}

// ReadMessage understands the block of a record. It reads the head; the rest is
// read with Payload or Decoded, only one of them, and only once. The error is an
// *[http1.Error] when the head cannot be understood, and otherwise one of block.
//
// A response is taken for that of a GET. Where it answers a HEAD, or is a
// revisit, the payload is empty whatever the head says.
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
	if rec.Type() == warc.TypeRequest {
		if m.Request, err = http1.Recorded.ParseRequest(head); err != nil {
			return nil, err
		}
		framing = m.Request.Framing
	} else {
		if m.Response, err = http1.Recorded.ParseResponse(head, "GET"); err != nil {
			return nil, err
		}
		framing = m.Response.Framing
	}
	if framing.Kind == http1.Chunked && !startsChunk(raw) {
		m.Unframed, framing = true, http1.Framing{Kind: http1.UntilClose}
	}
	switch _, err := raw.Peek(1); {
	case err == io.EOF:
		m.payload = strings.NewReader("")
	default: // another error comes again
		m.payload = coding.NewBodyReader(raw, framing)
	}
	return m, nil
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

// Decoded returns the payload without its content-codings. The error wraps
// [coding.ErrUnknown] for one that is not known here.
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
	return coding.NewReader(payload, h.Tokens("Content-Encoding"))
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
