package check

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/warctee/warctee/warc"
)

// A uri is a URI taken apart (RFC 3986 §3).
type uri struct {
	scheme, authority, path, query, fragment string
	hasAuthority, hasFragment                bool
}

// parseURI takes a URI apart. It is false when there is no scheme.
func parseURI(s string) (u uri, ok bool) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isScheme(scheme) {
		return u, false
	}
	u.scheme = scheme
	rest, u.fragment, u.hasFragment = strings.Cut(rest, "#")
	rest, u.query, _ = strings.Cut(rest, "?")
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		u.hasAuthority = true
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		u.authority, rest = after[:end], after[end:]
	}
	u.path = rest
	return u, true
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if letter := 'a' <= c && c <= 'z'; !letter && (i == 0 || !isDigit(s[i]) && !strings.Contains("+.-", s[i:i+1])) {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// uriBytes may be in a path, and most of them elsewhere: pchar and the slash
// (§3.3).
var uriBytes = func() (is [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/" {
		is[c] = true
	}
	return is
}()

// isText reports whether s has the characters of uriBytes, those of more, and
// octets that are percent-encoded (§2.1), but none of except.
func isText(s, more, except string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case uriBytes[c] && (except == "" || strings.IndexByte(except, c) < 0):
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		case strings.IndexByte(more, c) < 0:
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// parts returns the parts of the authority (§3.2). The port has its colon.
func (u *uri) parts() (user, host, port string, hasUser bool) {
	host = u.authority
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		user, host, hasUser = host[:i], host[i+1:], true
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" && i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i:]
	}
	return user, host, port, hasUser
}

// isURI reports whether s has the characters of RFC 3986 where they may be.
func isURI(s string) bool {
	u, ok := parseURI(s)
	if !ok || !isText(u.path, "", "") || !isText(u.query, "?", "") || !isText(u.fragment, "?", "") {
		return false
	}
	user, host, _, _ := u.parts()
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && strings.Trim(inner, "0123456789abcdefABCDEF:.") == "" && inner != "" && isText(user, "", "@/")
	}
	return isText(host, "", ":@/") && isText(user, "", "@/")
}

// judgeURI says which rule a URI breaks, and how. The URIs of targets have one
// spelling.
func judgeURI(s string, v warc.Version, target bool) (rule, why string) {
	inner, open := strings.CutPrefix(s, "<")
	inner, end := strings.CutSuffix(inner, ">")
	u, ok := parseURI(inner)
	switch {
	case open != end:
		return RuleTargetURI, "has one angle bracket"
	case open && v == warc.V1_1:
		return RuleTargetURI, "is in angle brackets, which WARC 1.1 has no more"
	case strings.ContainsAny(inner, " \t\r\n"):
		return RuleTargetURI, "has white space"
	case !ok:
		return RuleTargetURI, "is not a URI: it has no scheme"
	case !isURI(inner):
		return RuleURICharacters, "has characters that RFC 3986 does not allow there"
	case open:
		return RuleURISpelling, "is in angle brackets"
	case !target:
		return "", ""
	}
	if why := u.badSpelling(); why != "" {
		return RuleURISpelling, why
	}
	return "", ""
}

// badSpelling says in which way the target is not written as warctee does.
func (u *uri) badSpelling() string {
	if u.hasFragment {
		return "has a fragment"
	}
	scheme := strings.ToLower(u.scheme)
	if scheme != "http" && scheme != "https" {
		return ""
	}
	_, host, port, hasUser := u.parts()
	switch {
	case hasUser:
		return "has user information"
	case host == "":
		return "has no host"
	case host[0] == '[' && !isIPv6(host[1:len(host)-1]):
		return fmt.Sprintf("has the host %s, which is not an IPv6 address", host)
	case port == ":", scheme == "http" && port == ":80", scheme == "https" && port == ":443":
		return "has a port that is to be left out"
	}
	return ""
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}
