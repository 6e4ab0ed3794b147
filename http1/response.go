package http1

import (
	"bytes"
	"net/http"
	"strings"
)

// MaxResponseHead bounds the head of a response, in bytes.
const MaxResponseHead = 1 << 20

// A Response is the head of a response.
type Response struct {
	Head
	Status  int
	Reason  string // as sent, maybe empty
	Minor   int    // x in HTTP/1.x
	Framing Framing

	// Persistent tells whether the connection can carry another exchange
	// after this one (RFC 9112 §9.3): false also when the framing left a
	// doubt about where the message ends.
	Persistent bool
}

// ParseResponse understands the head of a response that ends with raw, which
// answers a request of that method. Tolerated are bare LF, white space around
// names, folded and colonless lines, a missing reason, equal lengths that are
// repeated, Transfer-Encoding identity or together with Content-Length. The
// error is an [*Error] with status 502.
//
// Where a field that frames the body is folded or has white space before its
// colon, it is read as Chromium and RFC 9112 §5.1 and §5.2 do, which remove the one
// and join the other. curl and wget overlook some of these fields and read on until
// the connection is closed. So that nobody can take anything else for the next
// message, such a response is not Persistent.
func ParseResponse(raw []byte, method string) (*Response, error) {
	r := &Response{Head: parseHead(raw)}
	for _, check := range []func() *Error{r.parseLine, r.checkBytes, func() *Error { return r.parseFraming(method) }} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Response) parseLine() *Error {
	version, rest, _ := bytes.Cut(r.Line, []byte{' '})
	if len(version) != 8 || !bytes.EqualFold(version[:7], []byte("HTTP/1.")) || version[7] < '0' || version[7] > '9' {
		return refuse(http.StatusBadGateway, "the reply starts with %.80q, not with an HTTP/1.1 status line", r.Line)
	}
	code, reason, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte{' '})
	if len(code) != 3 || code[0] < '1' || code[0] > '9' || code[1] < '0' || code[1] > '9' || code[2] < '0' || code[2] > '9' {
		return refuse(http.StatusBadGateway, "the reply has the status %.80q, not one of three digits", code)
	}
	r.Minor = min(int(version[7]-'0'), 1)
	r.Status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	r.Reason = string(bytes.TrimRight(reason, " \t"))
	return nil
}

// checkBytes refuses NUL, and CR that does not end a line (RFC 9110 §5.5).
func (r *Response) checkBytes() *Error {
	if bytes.IndexByte(r.Raw, 0) >= 0 {
		return refuse(http.StatusBadGateway, "the head of the reply has a NUL character")
	}
	if bytes.Count(r.Raw, []byte{'\r'}) != bytes.Count(r.Raw, []byte("\r\n")) {
		return refuse(http.StatusBadGateway, "the head of the reply has a CR that does not end a line")
	}
	return nil
}

// parseFraming finds where the body ends (RFC 9112 §6.3).
func (r *Response) parseFraming(method string) *Error {
	r.Persistent = r.persistent()
	chunked, err := r.transferCoding()
	if err != nil {
		return err
	}
	length, err := r.contentLength()
	switch {
	case r.Status < 200, r.Status == http.StatusNoContent, r.Status == http.StatusNotModified, method == http.MethodHead:
		r.Framing = Framing{Kind: NoBody}
	case method == http.MethodConnect && r.Status < 300:
		r.Framing = Framing{Kind: NoBody}
	case chunked:
		r.Framing = Framing{Kind: Chunked}
		if _, both := r.Get("Content-Length"); both || r.Minor == 0 {
			r.Persistent = false // RFC 9112 §6.1: somebody may see another end
		}
	case err != nil:
		return err
	case length >= 0:
		r.Framing = Framing{Kind: Length, Length: length}
	default:
		r.Framing = Framing{Kind: UntilClose}
		r.Persistent = false
	}
	return nil
}

func (r *Response) persistent() bool {
	switch {
	case r.HasToken("Connection", "close"), r.hasOddFraming():
		return false
	case r.Minor == 0:
		return r.HasToken("Connection", "keep-alive")
	}
	return true
}

// hasOddFraming reports whether a field that frames the body is written in a way
// that not all programs understand alike.
func (r *Response) hasOddFraming() bool {
	for i := range r.Fields {
		f := &r.Fields[i]
		if !f.Is("Content-Length") && !f.Is("Transfer-Encoding") {
			continue
		}
		if line, _ := cutLine(f.Raw); len(line) != len(f.Raw) || f.Raw[len(f.Name)] != ':' {
			return true
		}
	}
	return false
}

func (r *Response) transferCoding() (chunked bool, err *Error) {
	for _, t := range r.Tokens("Transfer-Encoding") {
		switch {
		case strings.EqualFold(t, "identity") && !chunked: // which comes last, or is not the framing
		case strings.EqualFold(t, "chunked") && !chunked:
			chunked = true
		default:
			return false, refuse(http.StatusBadGateway, "the reply has the Transfer-Encoding %.80q, which is not supported", t)
		}
	}
	return chunked, nil
}

// contentLength returns -1 when there is none. Repeated equal lengths count as
// one (RFC 9110 §8.6).
func (r *Response) contentLength() (int64, *Error) {
	length := int64(-1)
	for _, t := range r.Tokens("Content-Length") {
		n, ok := parseLength(t)
		if !ok {
			return -1, refuse(http.StatusBadGateway, "the reply has the Content-Length %.80q, which is not a length", t)
		}
		if length >= 0 && n != length {
			return -1, refuse(http.StatusBadGateway, "the reply has two lengths, %d and %d", length, n)
		}
		length = n
	}
	return length, nil
}
