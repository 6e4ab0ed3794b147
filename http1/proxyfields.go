package http1

import "strings"

// ProxyStatus is the value of the Proxy-Status field (RFC 9209) by which an
// answer of the proxy itself is known. kind is an error type of RFC 9209 §2.3, ""
// for none; class is one of docs/failures.md, "" for none. Both are letters,
// digits, hyphens and underscores, so nothing is to be escaped.
func ProxyStatus(kind, class string) string {
	value := "warctee"
	if kind != "" {
		value += "; error=" + kind
	}
	if class != "" {
		value += `; details="` + class + `"`
	}
	return value
}

// IsControl reports whether a request field is from a client to the recording
// proxy and concerns nobody else: Warctee-* and, of warcprox, Warcprox-Meta.
func IsControl(name string) bool {
	const ours, warcprox = "warctee-", "warcprox-meta"
	return len(name) >= len(ours) && strings.EqualFold(name[:len(ours)], ours) || strings.EqualFold(name, warcprox)
}
