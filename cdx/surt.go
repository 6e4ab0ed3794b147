package cdx

import (
	"regexp"
	"strconv"
	"strings"
)

// SURT returns the key under which captures of a URL are sorted and found: a
// "Sort-friendly URI Reordering Transform". It is that of the Python library surt
// with its defaults, as pywb uses it, which goes back to the Wayback Machine; the
// rules are in docs/cdx.md. A key consists of printable ASCII without spaces.
// SURT takes any string: what cannot be understood as a URL is its own key.
func SURT(url string) string {
	switch {
	case url == "":
		return "-"
	case strings.HasPrefix(url, "filedesc"): // the first record of an ARC file
		return printable(url)
	}
	u, ok := parseURL(url)
	if !ok {
		return printable(url)
	}
	u.canonicalize()
	return u.key()
}

// parts are those of a URL that a key is made of.
type parts struct {
	scheme string
	host   string
	port   int // 0: none
	path   string
	query  string
}

var (
	removeLines     = strings.NewReplacer("\n", "", "\r", "", "\t", "")
	hasScheme       = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	repeatedSchemes = regexp.MustCompile(`^(https?://)+`)
)

// parseURL cuts a URL into its parts (RFC 2396 appendix B). It reports false when
// nothing is left of it, or its port is none.
func parseURL(url string) (*parts, bool) {
	url = removeLines.Replace(strings.Trim(url, " \t\n\r\v\f"))
	if url == "" {
		return nil, false
	}
	if !hasScheme.MatchString(url) {
		url = "http://" + url
	}
	if m := repeatedSchemes.FindStringSubmatch(url); m != nil {
		url = m[1] + url[len(m[0]):] // http://https://example.org
	}
	url, _, _ = strings.Cut(url, "#")
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, _ := strings.Cut(url, ":")
	u := &parts{scheme: scheme, query: query, path: rest}
	if after, found := strings.CutPrefix(rest, "//"); found {
		authority, path := after, ""
		if slash := strings.IndexByte(after, '/'); slash >= 0 {
			authority, path = after[:slash], after[slash:]
		}
		u.path = path
		if !u.setAuthority(strings.TrimRight(authority, ":")) {
			return nil, false
		}
	}
	if u.host == "" && u.path != "" && strings.HasPrefix(scheme, "http") {
		var path string
		u.host, path, _ = strings.Cut(strings.TrimLeft(u.path, "/"), "/") // http:////example.org
		u.path = "/" + path
	}
	return u, true
}

// setAuthority takes the host and the port, and reports whether the port is one.
func (u *parts) setAuthority(authority string) bool {
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	var port string
	if _, bracketed, found := strings.Cut(host, "["); found {
		u.host, port, _ = strings.Cut(bracketed, "]")
		_, port, _ = strings.Cut(port, ":")
	} else {
		u.host, port, _ = strings.Cut(host, ":")
	}
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	u.port = int(n)
	return err == nil
}

var digitsOfWWW = regexp.MustCompile(`^www[0-9]*\.`)

// canonicalize makes those URLs equal that most probably lead to the same thing.
func (u *parts) canonicalize() {
	if u.host != "" {
		u.host = canonicalHost(u.host)
		if u.scheme != "dns" {
			u.host = u.host[len(digitsOfWWW.FindString(u.host)):]
		}
	}
	switch scheme := lower(u.scheme); {
	case scheme == "http" && u.port == 80, scheme == "https" && u.port == 443:
		u.port = 0
	}
	path := unescape(u.path)
	if u.host != "" {
		path = normalizePath(path)
	}
	path = withoutSessions(lower(escape(path)), sessionsInPath)
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	u.path = path
	u.query = sortQuery(withoutSessions(lower(escape(unescape(u.query))), sessionsInQuery))
}

// normalizePath removes dot segments and empty segments. A ".." that has nothing
// to go up from stays.
func normalizePath(path string) string {
	var kept []string
	segments := strings.Split(path, "/")
	for _, s := range segments[1:] {
		switch {
		case s == ".":
		case s == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, s)
		}
	}
	var b strings.Builder
	b.WriteByte('/')
	for i, s := range kept {
		b.WriteString(s)
		if s != "" && i < len(kept)-1 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// key puts the parts together.
func (u *parts) key() string {
	var b strings.Builder
	if u.host == "" {
		b.WriteString(u.scheme)
		b.WriteByte(':')
	} else {
		for rest := u.host; ; {
			dot := strings.LastIndexByte(rest, '.')
			b.WriteString(rest[dot+1:])
			if dot < 0 {
				break
			}
			b.WriteByte(',')
			rest = rest[:dot]
		}
		if u.port != 0 {
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(u.port))
		}
		b.WriteByte(')')
	}
	if u.path == "" && u.query != "" {
		b.WriteByte('/')
	}
	b.WriteString(u.path)
	if u.query != "" {
		b.WriteByte('?')
		b.WriteString(u.query)
	}
	return b.String()
}
