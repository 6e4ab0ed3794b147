package mitm

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warctee/warctee/http1"
)

// A message is a request whose head a framing connection has read.
type message struct {
	raw      []byte         // the head as the client sent it
	req      *http1.Request // nil when refused
	refusal  *http1.Error   // what to answer instead, or nil
	target   string         // in the copy for net/http
	switches bool           // what follows may not be HTTP: CONNECT, or asks for an upgrade

	served bool // its handler has returned; guarded by conn.mu
}

// parseMessage understands a whole head, and makes the copy for net/http.
func parseMessage(raw []byte, l http1.Limits) (m *message, normal []byte) {
	req, err := l.ParseRequest(raw)
	if err != nil {
		return refusedMessage(raw, asRefusal(err))
	}
	target, refusal := normalTarget(req.Method, req.Target)
	if refusal != nil {
		return refusedMessage(raw, refusal)
	}
	m = &message{raw: raw, req: req, target: target}
	_, asks := req.Get("Upgrade")
	m.switches = req.Method == http.MethodConnect || asks && req.Minor > 0 && req.HasToken("Connection", "upgrade")
	return m, normalHead(req, target)
}

func asRefusal(err error) *http1.Error {
	if refusal, ok := errors.AsType[*http1.Error](err); ok {
		return refusal
	}
	return &http1.Error{Status: http.StatusBadRequest, Reason: err.Error()}
}

// refusedMessage makes a message that stands for one that is refused.
func refusedMessage(raw []byte, refusal *http1.Error) (m *message, normal []byte) {
	m = &message{raw: raw, refusal: refusal, target: "/"}
	method := http.MethodGet
	if bytes.HasPrefix(raw, []byte("HEAD ")) {
		method = http.MethodHead // whose answer has no body
	}
	return m, []byte(method + " / HTTP/1.1\r\nHost: refused.invalid\r\nConnection: close\r\n\r\n")
}

// agrees reports whether r is what net/http made of the copy of m. It would
// not be if net/http had another opinion than we where the request before
// ended. That is all in which a mistake could let one request pass for another.
func (m *message) agrees(r *http.Request) bool {
	if m.refusal != nil {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.RequestURI == m.target && r.Host == "refused.invalid"
	}
	length, chunked := int64(0), false
	switch f := m.req.Framing; f.Kind {
	case http1.Length:
		length = f.Length
	case http1.Chunked:
		length, chunked = -1, true
	}
	return r.Method == m.req.Method && r.RequestURI == m.target && r.ProtoMajor == 1 && r.ProtoMinor == m.req.Minor &&
		r.ContentLength == length && (len(r.TransferEncoding) > 0) == chunked
}

// normalHead returns a copy of the head with another target, and a Host field
// that net/http accepts.
func normalHead(req *http1.Request, target string) []byte {
	b := make([]byte, 0, len(req.Raw)+len(target)-len(req.Target)+64)
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1."...)
	b = append(b, '0'+byte(req.Minor))
	b = append(b, "\r\n"...)
	for i := range req.Fields {
		f := &req.Fields[i]
		if !strings.EqualFold(string(f.Name), "Host") {
			b = append(b, f.Raw...)
			continue
		}
		b = append(b, "Host: "...)
		b = append(b, http1.Escape(string(f.Value), isHostByte)...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// normalTarget returns the target in a form that url.ParseRequestURI takes: no
// fragment, no stray percent sign, and octets that are not allowed in a URI
// (RFC 3986) percent-encoded.
func normalTarget(method, target string) (string, *http1.Error) {
	if method == http.MethodConnect {
		return connectTarget(target)
	}
	target, _, _ = strings.Cut(target, "#")
	authority := ""
	if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.ContainsAny(scheme, "/?") {
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		authority = scheme + "://" + http1.Escape(rest[:end], isASCII)
		if strings.ContainsFunc(rest[:end], notInAuthority) {
			return "", badTarget(target)
		}
		target = rest[end:]
	}
	target = authority + http1.EscapeTarget(target)
	u, err := url.ParseRequestURI(target)
	switch {
	case err != nil, u.Opaque != "", target == "*" && method != http.MethodOptions:
		return "", badTarget(target)
	case u.Scheme != "" && (u.Hostname() == "" || u.Port() != "" && !isPort(u.Port())):
		return "", badTarget(target)
	}
	return target, nil
}

// connectTarget checks the authority-form (RFC 9112 §3.2.3). Its port must be
// there and valid (RFC 9110 §9.3.6).
func connectTarget(target string) (string, *http1.Error) {
	normal := http1.Escape(target, isASCII)
	u, err := url.ParseRequestURI("http://" + normal)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsFunc(target, notInAuthority) || strings.Contains(target, "%") || !isPort(u.Port()) {
		return "", badTarget(target)
	}
	return normal, nil
}

func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		n = min(n*10+int(s[i]-'0'), 1<<16)
	}
	return 0 < n && n < 1<<16
}

func badTarget(target string) *http1.Error {
	shown := target
	if i := strings.LastIndexByte(shown, '@'); i >= 0 {
		shown = "…" + shown[i:] // what stands before may be a password
	}
	if len(shown) > 80 {
		shown = shown[:80]
	}
	return &http1.Error{
		Status: http.StatusBadRequest,
		Reason: "the request target " + strconv.QuoteToASCII(shown) + " is not a URL with a valid host and port, nor a path, nor HOST:PORT for CONNECT",
	}
}

// notInAuthority reports whether c cannot stand in the authority of a URI
// (RFC 3986 §3.2) or IRI.
func notInAuthority(c rune) bool {
	return c < 0x80 && c != '@' && c != '%' && !isHostByte(byte(c))
}

func isASCII(c byte) bool { return c < 0x80 }

const hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:[]"

// isHostByte reports whether net/http lets c pass in a Host field.
func isHostByte(c byte) bool { return strings.IndexByte(hostBytes, c) >= 0 }
