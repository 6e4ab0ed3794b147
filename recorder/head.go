package recorder

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/warctee/warctee/http1"
	"golang.org/x/net/http/httpguts"
)

type clientHeadKey struct{}

// WithClientHead gives a request the head that its client sent, so that
// RoundTrip can forward and record those bytes instead of making a head from
// the fields of the [http.Request].
func WithClientHead(ctx context.Context, head *http1.Request) context.Context {
	return context.WithValue(ctx, clientHeadKey{}, head)
}

// An originRequest is the request as its origin gets it.
type originRequest struct {
	scheme    string // http or https
	authority string // as the client wrote it
	target    string // origin-form
	method    string
	head      []byte // with the empty line
	framing   http1.Framing
	expects   bool // 100-continue
	webSocket bool
}

// newOriginRequest makes the head for the origin. Of the client's own head
// only what concerns the hop to the proxy (RFC 9110 §7.6.1, RFC 9112 §3.2) or the
// proxy itself ([http1.IsControl]) is edited.
func newOriginRequest(req *http.Request) (*originRequest, error) {
	o := &originRequest{scheme: req.URL.Scheme, authority: asciiAuthority(req.URL.Host), method: req.Method}
	if o.method == "" {
		o.method = http.MethodGet
	}
	if o.scheme != "http" && o.scheme != "https" {
		return nil, badRequest("the scheme %q is neither http nor https", o.scheme)
	}
	if host, _ := splitAuthority(o.scheme, o.authority); host == "" || !httpguts.ValidHostHeader(o.authority) {
		return nil, badRequest("the URL names no valid host: %q", o.authority)
	}
	if raw, _ := req.Context().Value(clientHeadKey{}).(*http1.Request); raw != nil {
		o.fromClientHead(raw)
		return o, nil
	}
	return o, o.fromFields(req)
}

func badRequest(format string, args ...any) *Error {
	return &Error{Phase: PhaseRequest, Class: "bad-request", Status: http.StatusBadRequest, Err: fmt.Errorf(format, args...)}
}

// fromClientHead keeps order, spelling and bytes of the client's fields.
func (o *originRequest) fromClientHead(raw *http1.Request) {
	o.method, o.framing = raw.Method, raw.Framing
	if o.framing.Kind == http1.Length && o.framing.Length == 0 {
		o.framing = http1.Framing{} // nothing follows the head
	}
	o.target, _ = originForm(raw.Method, raw.Target)
	o.webSocket = isWebSocket(&raw.Head)
	o.expects = raw.Minor > 0 && raw.HasToken("Expect", "100-continue") && o.framing.Kind != http1.NoBody

	var head bytes.Buffer
	head.Grow(len(raw.Raw) + 64)
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\n", raw.Method, o.target)
	hosts := raw.Values("Host")
	if len(hosts) == 0 {
		fmt.Fprintf(&head, "Host: %s\r\n", o.authority)
	}
	named := namedBy(raw.Values("Connection"))
	for i := range raw.Fields {
		f := &raw.Fields[i]
		switch name := string(f.Name); {
		case f.Is("Host") && !sameAuthority(o.scheme, string(f.Value), o.authority):
			fmt.Fprintf(&head, "%s: %s\r\n", name, o.authority)
		case f.Is("Connection"):
			if line := o.connectionLine(f); line != nil {
				head.Write(line)
			}
		case o.isHopByHop(name, named):
		case f.Is("Trailer"):
			head.Write(trailerLine(f))
		default:
			head.Write(f.Raw)
		}
	}
	head.WriteString("\r\n")
	o.head = head.Bytes()
}

func isWebSocket(h *http1.Head) bool {
	return h.HasToken("Connection", "upgrade") && h.HasToken("Upgrade", "websocket")
}

// connectionLine is what is left of a Connection field: the options that the
// hop to the origin has too.
func (o *originRequest) connectionLine(f *http1.Field) []byte {
	var kept []string
	tokens := strings.Split(string(f.Value), ",")
	for _, t := range tokens {
		switch t = strings.Trim(t, " \t"); strings.ToLower(t) {
		case "close", "keep-alive":
			kept = append(kept, t)
		case "upgrade":
			if o.webSocket {
				kept = append(kept, t)
			}
		}
	}
	switch len(kept) {
	case 0:
		return nil
	case len(tokens):
		return f.Raw
	}
	return fmt.Appendf(nil, "%s: %s\r\n", f.Name, strings.Join(kept, ", "))
}

// trailerLine is a Trailer field without the names of fields that end at the
// proxy; nil when it names no other.
func trailerLine(f *http1.Field) []byte {
	names := strings.Split(string(f.Value), ",")
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return http1.IsControl(strings.Trim(name, " \t")) })
	switch len(kept) {
	case len(names):
		return f.Raw
	case 0:
		return nil
	}
	return fmt.Appendf(nil, "%s: %s\r\n", f.Name, strings.Trim(strings.Join(kept, ","), " \t"))
}

// isHopByHop reports whether a field ends at the proxy. The framing is the
// same on both hops and stays, whatever Connection says.
func (o *originRequest) isHopByHop(name string, named map[string]bool) bool {
	name = strings.ToLower(name)
	switch {
	case name == "transfer-encoding" || name == "content-length" || name == "host":
		return false
	case name == "upgrade":
		return !o.webSocket
	case name == "keep-alive" || strings.HasPrefix(name, "proxy-") || http1.IsControl(name):
		return true
	}
	return named[name]
}

// namedBy returns the field names, in lower case, that the values of Connection
// list. A client may list thousands.
func namedBy(values []string) map[string]bool {
	named := make(map[string]bool)
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			named[strings.ToLower(strings.Trim(name, " \t"))] = true
		}
	}
	return named
}

// fromFields makes the head of a request that came over HTTP/2 or from a Go
// program: Host first, then the fields sorted, in canonical spelling.
func (o *originRequest) fromFields(req *http.Request) error {
	o.target = requestTarget(req.URL)
	if strings.HasPrefix(req.RequestURI, "/") {
		o.target, _, _ = strings.Cut(req.RequestURI, "#") // HTTP/2: the :path as sent
	}
	if strings.ContainsFunc(o.target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return badRequest("the request target has a control character")
	}
	host := asciiAuthority(req.Host)
	if !isMethod(o.method) || !httpguts.ValidHostHeader(host) {
		return badRequest("the method %q or the host %q is not valid", o.method, host)
	}
	if !sameAuthority(o.scheme, host, o.authority) {
		host = o.authority
	}
	o.frameFields(req)
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", o.method, o.target, host)
	for _, name := range sortedNames(req.Header) {
		for _, v := range req.Header[name] {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
				return badRequest("the header field %q is not valid", name)
			}
			head = fmt.Appendf(head, "%s: %s\r\n", name, v)
		}
	}
	switch {
	case o.framing.Kind == http1.Chunked:
		head = append(head, "Transfer-Encoding: chunked\r\n"...)
	case o.framing.Kind == http1.Length || o.method == http.MethodPost || o.method == http.MethodPut || o.method == http.MethodPatch:
		head = append(head, "Content-Length: "+strconv.FormatInt(o.framing.Length, 10)+"\r\n"...)
	}
	o.head = append(head, "\r\n"...)
	return nil
}

func isMethod(m string) bool {
	return httpguts.ValidHeaderFieldName(m) // both are tokens
}

func (o *originRequest) frameFields(req *http.Request) {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
	case req.ContentLength > 0:
		o.framing = http1.Framing{Kind: http1.Length, Length: req.ContentLength}
	default:
		// Unknown: net/http says -1 on the server's side and 0 on the client's.
		o.framing = http1.Framing{Kind: http1.Chunked}
	}
	o.expects = o.framing.Kind != http1.NoBody && httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue")
}

// sortedNames leaves out what concerns one hop only, or the proxy itself, and what
// is written from elsewhere.
func sortedNames(h http.Header) []string {
	named := namedBy(h["Connection"])
	var names []string
	for name := range h {
		switch canonical := http.CanonicalHeaderKey(name); {
		case slices.Contains([]string{"Host", "Connection", "Keep-Alive", "Upgrade", "Te", "Transfer-Encoding", "Content-Length"}, canonical):
		case strings.HasPrefix(canonical, "Proxy-"), http1.IsControl(canonical), named[strings.ToLower(name)]:
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasMediaType compares the type and subtype of a Content-Type value.
func hasMediaType(contentType, want string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), want)
}
