package recorder

import (
	"net"
	"net/url"
	"strings"

	"github.com/warctee/warctee/http1"
	"golang.org/x/net/idna"
)

// targetURI makes the WARC-Target-URI: an RFC 3986 URI of what the client
// asked for. Octets that such a URI cannot hold are percent-encoded; nothing
// else is changed.
//
// No valid URI tells the target /a\b from /a%5Cb, so both have the same. The
// request record has the target as sent. The keys of CDX indexes make no difference
// between the two either, whatever the URI is: they decode and encode anew.
func targetURI(scheme, authority, target string) string {
	target, _, _ = strings.Cut(target, "#")
	if target == "*" {
		target = "" // OPTIONS * asks the server itself (RFC 9112 §3.2.4)
	}
	return scheme + "://" + uriAuthority(scheme, authority) + http1.EscapeTarget(target)
}

// uriAuthority drops the default port and writes the host as A-labels.
func uriAuthority(scheme, authority string) string {
	host, port := splitAuthority(scheme, authority)
	if port == defaultPort(scheme) {
		port = ""
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		return host + ":" + port
	}
	return host
}

// splitAuthority returns the host, lower-case, as A-labels and without
// brackets, and the port, which is never empty.
func splitAuthority(scheme, authority string) (host, port string) {
	host = authority
	if strings.Contains(authority, ":") {
		var err error
		if host, port, err = net.SplitHostPort(authority); err != nil {
			host, port = authority, ""
		}
	}
	if port == "" {
		host, port = strings.Trim(host, "[]"), defaultPort(scheme)
	}
	if isPlainHost(host) {
		return host, port
	}
	if ascii, err := idna.Lookup.ToASCII(host); err == nil && !strings.Contains(host, ":") {
		return ascii, port
	}
	return strings.ToLower(host), port
}

// isPlainHost reports whether a host is nothing but lower-case letters,
// digits, dots and single hyphens, as nearly all are: idna would leave it as it
// is.
func isPlainHost(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.':
		case c == '-' && (i == 0 || host[i-1] != '-'):
		default:
			return false
		}
	}
	return true
}

// asciiAuthority writes the host of an authority as A-labels (RFC 5890); one
// that needs none stays as it is.
func asciiAuthority(authority string) string {
	if !strings.ContainsFunc(authority, func(c rune) bool { return c >= 0x80 }) {
		return authority
	}
	host, port, ok := strings.Cut(authority, ":")
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return authority // which is refused
	}
	if ok {
		return ascii + ":" + port
	}
	return ascii
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// sameAuthority reports whether authority, of which the host is in ASCII, is
// what text says, too: but for the case of letters, U-labels and the default
// port they are spelled alike. An origin may take any other spelling for another
// host, and the target URI would not tell.
func sameAuthority(scheme, text, authority string) bool {
	port := ":" + defaultPort(scheme)
	return strings.EqualFold(strings.TrimSuffix(asciiAuthority(text), port), strings.TrimSuffix(authority, port))
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// originForm returns the origin-form of a request target (RFC 9112 §3.2.1)
// and the authority of an absolute-form one, every octet as it was sent.
func originForm(method, target string) (origin, authority string) {
	target, _, _ = strings.Cut(target, "#")
	if strings.HasPrefix(target, "/") || target == "*" {
		return target, ""
	}
	_, rest, ok := strings.Cut(target, "://")
	if !ok {
		return target, ""
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, origin = rest[:end], rest[end:]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	switch {
	case origin == "" && method == "OPTIONS":
		origin = "*"
	case !strings.HasPrefix(origin, "/"):
		origin = "/" + origin
	}
	return origin, authority
}

// requestTarget is the origin-form target of a request that has no raw head.
func requestTarget(u *url.URL) string {
	if u.Opaque == "" && u.Path == "*" {
		return "*"
	}
	return u.RequestURI()
}
