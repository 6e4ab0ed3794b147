package convert

import (
	"strings"

	"github.com/warctee/warctee/http1"
)

// targetURI makes a URI (RFC 3986) of a URL that may hold anything: the octets
// that a URI cannot have are percent-encoded, and nothing else is changed.
func targetURI(url string) string {
	before, host, after := splitHost(url)
	escaped := escape(before)
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		escaped += "[" + escape(host[1:len(host)-1]) + "]"
	} else {
		escaped += escape(host)
	}
	after, fragment, ok := strings.Cut(after, "#")
	if escaped += escape(after); ok {
		escaped += "#" + escape(fragment)
	}
	return escaped
}

// splitHost divides a URL before and behind its host: "http://user@", "[::1]",
// ":80/path". A URL without an authority is all behind it.
func splitHost(url string) (before, host, after string) {
	start := strings.Index(url, "://")
	if start < 0 {
		return "", "", url
	}
	start += len("://")
	end := start + len(url[start:])
	if i := strings.IndexAny(url[start:], "/?#"); i >= 0 {
		end = start + i
	}
	if i := strings.LastIndexByte(url[start:end], '@'); i >= 0 {
		start += i + 1
	}
	host = url[start:end]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return url[:start], host, url[start+len(host):]
}

func escape(s string) string { return http1.EscapeTarget(s) }
