package http1

import "strings"

// EscapeTarget percent-encodes the octets of a request target in origin-form
// that RFC 3986 §3.3 and §3.4 do not allow in a path and a query, and the
// percent signs that start no encoded octet. Everything else stays. So two targets
// become one if they differ in nothing but that one has such an octet as it is, and
// the other one encoded: /a\b and /a%5Cb, ?q=100% and ?q=100%25.
func EscapeTarget(target string) string { return Escape(target, isURIByte) }

// Escape percent-encodes the octets of s that keep does not want, and the
// percent signs that start no encoded octet.
func Escape(s string, keep func(byte) bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	done := 0
	for i := range len(s) {
		c := s[i]
		if c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) || c != '%' && keep(c) {
			continue
		}
		b.WriteString(s[done:i])
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		done = i + 1
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

func isURIByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("-._~!$&'()*+,;=:@/?", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isHex(c byte) bool {
	_, ok := hexDigit(c)
	return ok
}
