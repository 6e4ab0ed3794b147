package http1

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// Bounds on the head of a request. They are far above what browsers send.
const (
	MaxRequestFields = 64 << 10 // bytes of the fields
	MaxFieldCount    = 256
	MaxTarget        = 64 << 10 // bytes
	maxMethod        = 64       // bytes
)

// Limits bound the head of a request. Fields that are zero mean the default.
type Limits struct {
	Target     int // bytes of the request target; default MaxTarget
	Fields     int // bytes of the header fields; default MaxRequestFields
	FieldCount int // default MaxFieldCount
}

// WithDefaults returns the limits with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	return Limits{cmp.Or(l.Target, MaxTarget), cmp.Or(l.Fields, MaxRequestFields), cmp.Or(l.FieldCount, MaxFieldCount)}
}

// Head returns how many bytes a whole head can have.
func (l Limits) Head() int {
	l = l.WithDefaults()
	return maxMethod + l.Target + len("  HTTP/1.1\r\n") + l.Fields
}

// A Request is the head of a request.
type Request struct {
	Head
	Method  string
	Target  string // as sent: any octet but controls and SP
	Minor   int    // x in HTTP/1.x
	Framing Framing
}

// ParseRequest understands the head of a request that ends with raw, within the
// default limits.
func ParseRequest(raw []byte) (*Request, error) { return Limits{}.ParseRequest(raw) }

// ParseRequest understands the head of a request that ends with raw. What could
// be understood in two ways is refused; see RFC 9112 §3, §5, §6.1 and §6.3.
// The error is an [*Error].
func (l Limits) ParseRequest(raw []byte) (*Request, error) {
	l = l.WithDefaults()
	line, rest := cutLine(raw)
	r := &Request{Head: Head{Raw: raw, Line: trimLineEnd(line)}}
	// The first line is judged first: of a request line that makes no sense
	// nothing else does. The fields are counted before they are parsed, which
	// takes far more memory than a short line.
	if err := cmp.Or(r.parseLine(l.Target), l.checkSize(rest)); err != nil {
		return nil, err
	}
	r.Fields = parseFields(rest)
	for _, check := range requestChecks {
		if err := check(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

var requestChecks = []func(*Request) *Error{(*Request).checkLineEnds, (*Request).checkFields, (*Request).checkHost, (*Request).parseFraming}

func refuse(status int, format string, args ...any) *Error {
	return &Error{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// checkSize looks at a field section, which ends with an empty line.
func (l Limits) checkSize(fields []byte) *Error {
	if n := len(fields); n > l.Fields {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "the header fields have %d bytes, more than %d", n, l.Fields)
	}
	if n := bytes.Count(fields, []byte{'\n'}) - 1; n > l.FieldCount {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "there are %d header fields, more than %d", n, l.FieldCount)
	}
	return nil
}

func (r *Request) parseLine(maxTarget int) *Error {
	method, rest, ok1 := bytes.Cut(r.Line, []byte{' '})
	target, version, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || len(target) == 0 {
		return refuse(http.StatusBadRequest, "the request line is not METHOD TARGET VERSION")
	}
	if !isToken(method) || len(method) > maxMethod || bytes.ContainsFunc(method, isLower) {
		return refuse(http.StatusBadRequest, "the request method %.80q is not a known or valid one", method)
	}
	minor, err := parseVersion(version)
	if err != nil {
		return err
	}
	if len(target) > maxTarget {
		return refuse(http.StatusRequestURITooLong, "the request target has %d bytes, more than %d", len(target), maxTarget)
	}
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			return refuse(http.StatusBadRequest, "the request target has a control character")
		}
	}
	r.Method, r.Target, r.Minor = string(method), string(target), minor
	return nil
}

func isLower(c rune) bool { return 'a' <= c && c <= 'z' }

func parseVersion(v []byte) (minor int, err *Error) {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if len(v) != 8 || !bytes.HasPrefix(v, []byte("HTTP/")) || !digit(v[5]) || v[6] != '.' || !digit(v[7]) {
		return 0, refuse(http.StatusBadRequest, "the request line does not end in HTTP/1.1 or HTTP/1.0")
	}
	if v[5] == '0' {
		return 0, refuse(http.StatusBadRequest, "HTTP/0.9 is not supported")
	}
	if v[5] != '1' {
		return 0, refuse(http.StatusHTTPVersionNotSupported, "HTTP version %s is not supported on this connection", v[5:])
	}
	// A later minor version is compatible with 1.1 (RFC 9110 §2.5).
	return min(int(v[7]-'0'), 1), nil
}

// checkLineEnds refuses lines that do not end in CR LF, and CR or NUL elsewhere.
func (r *Request) checkLineEnds() *Error {
	lf, cr := bytes.Count(r.Raw, []byte{'\n'}), bytes.Count(r.Raw, []byte{'\r'})
	if crlf := bytes.Count(r.Raw, []byte("\r\n")); lf != crlf || cr != crlf {
		return refuse(http.StatusBadRequest, "a line of the request head does not end in CR LF")
	}
	if bytes.IndexByte(r.Raw, 0) >= 0 {
		return refuse(http.StatusBadRequest, "the request head has a NUL character")
	}
	return nil
}

func (r *Request) checkFields() *Error {
	for i := range r.Fields {
		f := &r.Fields[i]
		line, _ := cutLine(f.Raw)
		switch {
		case isBlank(f.Raw[0]) || len(line) != len(f.Raw):
			return refuse(http.StatusBadRequest, "a header field is folded over two lines")
		case f.Name == nil:
			return refuse(http.StatusBadRequest, "header line %d has no colon", i+1)
		case f.Raw[len(f.Name)] != ':':
			return refuse(http.StatusBadRequest, "there is white space between the header name %.80q and its colon", f.Name)
		case !isToken(f.Name):
			return refuse(http.StatusBadRequest, "the header name %.80q is not valid", f.Name)
		case hasControl(f.Value):
			return refuse(http.StatusBadRequest, "the value of header field %s has a control character", f.Name)
		}
	}
	return nil
}

func (r *Request) checkHost() *Error {
	hosts := r.Values("Host")
	switch {
	case len(hosts) > 1:
		return refuse(http.StatusBadRequest, "there are %d Host fields", len(hosts))
	case len(hosts) == 0 && r.Minor >= 1 && r.Method != http.MethodConnect:
		return refuse(http.StatusBadRequest, "the Host field is missing")
	case len(hosts) == 1 && strings.ContainsAny(hosts[0], " \t,/\\@?#"):
		return refuse(http.StatusBadRequest, "the Host field is not a host name with an optional port")
	}
	return nil
}

func (r *Request) parseFraming() *Error {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.Is("Transfer_Encoding") || f.Is("Content_Length") {
			return refuse(http.StatusBadRequest, "the header field %s looks like another one", f.Name)
		}
	}
	codings, lengths := r.Values("Transfer-Encoding"), r.Values("Content-Length")
	switch {
	case len(codings) > 0 && len(lengths) > 0:
		return refuse(http.StatusBadRequest, "there are both Transfer-Encoding and Content-Length")
	case len(codings) > 0 && r.Minor == 0:
		return refuse(http.StatusBadRequest, "Transfer-Encoding is not allowed in HTTP/1.0")
	case len(codings) > 1:
		return refuse(http.StatusBadRequest, "there are %d Transfer-Encoding fields", len(codings))
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return refuse(http.StatusNotImplemented, "the Transfer-Encoding %.80q is not supported", codings[0])
	case len(codings) == 1:
		r.Framing = Framing{Kind: Chunked}
	case len(lengths) > 1:
		return refuse(http.StatusBadRequest, "there are %d Content-Length fields", len(lengths))
	case len(lengths) == 1:
		n, ok := parseLength(lengths[0])
		if !ok {
			return refuse(http.StatusBadRequest, "the Content-Length %.80q is not a length", lengths[0])
		}
		r.Framing = Framing{Kind: Length, Length: n}
	}
	if r.Method == http.MethodConnect && (r.Framing.Kind == Chunked || r.Framing.Length > 0) {
		return refuse(http.StatusBadRequest, "a CONNECT request cannot have a body")
	}
	return nil
}
