package cdx

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// aLabels turns a host into A-labels as IDNA 2003 does, as far as that is known
// here: it maps what later versions of IDNA tell apart, such as ß and ss.
var aLabels = idna.New(idna.MapForLookup(), idna.Transitional(true), idna.StrictDomainName(false), idna.ValidateLabels(false))

// canonicalHost returns a host in lower case, of A-labels, and addresses of IPv4
// in their usual form.
func canonicalHost(host string) string {
	host = unescape(host)
	if !isASCII(host) {
		host = hostOfALabels(host)
	}
	host = strings.Trim(strings.ReplaceAll(host, "..", "."), ".")
	if address, ok := parseIPv4(host); ok {
		return address.String()
	}
	return lower(escape(lower(host)))
}

// hostOfALabels drops what is not UTF-8. A host with labels that cannot be stays
// as it is.
func hostOfALabels(host string) string {
	ascii := strings.ToValidUTF8(host, "")
	if ascii == "" {
		return ""
	}
	if !isASCII(ascii) {
		var err error
		if ascii, err = aLabels.ToASCII(ascii); err != nil {
			return host
		}
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(ascii, "."), ".") {
		if label == "" || len(label) > 63 {
			return host
		}
	}
	return ascii
}

var (
	onlyDigits  = regexp.MustCompile(`^[0-9]+$`)
	numericHost = regexp.MustCompile(`^(?:[1-9][0-9]*(?:\.[0-9]+){0,3}|0[0-7]*(?:\.[0-7]+){0,3})$`)
)

// parseIPv4 understands the many forms that inet_aton does: fewer than four
// numbers, of which the last one fills what is left, and octal ones. A single
// number is taken modulo 2³², as in the archives of an old proxy.
func parseIPv4(host string) (netip.Addr, bool) {
	var sum uint64
	switch {
	case onlyDigits.MatchString(host):
		for _, c := range []byte(host) {
			sum = (sum*10 + uint64(c-'0')) & 0xffff_ffff
		}
	case numericHost.MatchString(host):
		numbers := strings.Split(host, ".")
		for i, s := range numbers {
			base, bits := 10, 8
			if len(s) > 1 && s[0] == '0' {
				base = 8
			}
			if i == len(numbers)-1 {
				bits = 8 * (5 - len(numbers))
			}
			n, err := strconv.ParseUint(s, base, bits)
			if err != nil {
				return netip.Addr{}, false
			}
			sum = sum<<bits | n
		}
	default:
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// A session is how the identifier of one looks in a URL.
type session struct {
	sign    string // that it is worth to look closer
	pattern *regexp.Regexp
}

// sessionsInPath are those of ASP.NET.
var sessionsInPath = []session{
	{".aspx", regexp.MustCompile(`^(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^?]+\.aspx.*)$`)},
	{".aspx", regexp.MustCompile(`^(.*/)(?:\([0-9a-z]{24}\)/)([^?]+\.aspx.*)$`)},
}

var sessionsInQuery = []session{
	{"jsessionid=", regexp.MustCompile(`^(.*)(?:jsessionid=[0-9a-z]{32})(?:&(.*))?$`)},
	{"phpsessid=", regexp.MustCompile(`^(.*)(?:phpsessid=[0-9a-z]{32})(?:&(.*))?$`)},
	{"sid=", regexp.MustCompile(`^(.*)(?:sid=[0-9a-z]{32})(?:&(.*))?$`)},
	{"aspsessionid", regexp.MustCompile(`^(.*)(?:aspsessionid[a-z]{8}=[a-z]{24})(?:&(.*))?$`)},
	{"cfid=", regexp.MustCompile(`^(.*)(?:cfid=[^&]+&cftoken=[^&]+)(?:&(.*))?$`)},
}

// withoutSessions removes identifiers of sessions, one of each kind.
func withoutSessions(s string, kinds []session) string {
	for _, k := range kinds {
		if strings.Contains(s, k.sign) {
			s = k.pattern.ReplaceAllString(s, "$1$2")
		}
	}
	return s
}

// sortQuery sorts the arguments of a query by name, then by value; one without a
// value comes first.
func sortQuery(query string) string {
	if !strings.Contains(query, "&") || query == "&" {
		return query
	}
	arguments := strings.Split(query, "&")
	slices.SortFunc(arguments, func(a, b string) int {
		nameA, valueA, _ := strings.Cut(a, "=")
		nameB, valueB, _ := strings.Cut(b, "=")
		if c := strings.Compare(nameA, nameB); c != 0 {
			return c
		}
		if c := strings.Compare(valueA, valueB); c != 0 {
			return c
		}
		return len(a) - len(b) // "a" before "a="
	})
	return strings.Join(arguments, "&")
}

// unescape removes percent-encoding until none is left: %2541 is A.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	// An octet that ends an encoding may be the part of another one, so the
	// result is looked at from its end. No two encodings overlap, and therefore
	// this is what repeated passes over the whole would give.
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out); n >= 3 && out[n-3] == '%'; n = len(out) {
			high, low := hexDigit(out[n-2]), hexDigit(out[n-1])
			if high < 0 || low < 0 {
				break
			}
			out = append(out[:n-3], byte(high<<4|low))
		}
	}
	return string(out)
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return int(c - 'A' + 10)
	}
	return -1
}

// escape percent-encodes what is not printable ASCII, spaces, "#" and "%".
func escape(s string) string {
	return percentEncode(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '#' && c != '%' })
}

// printable percent-encodes what cannot stand in a field of a line.
func printable(s string) string {
	return percentEncode(s, func(c byte) bool { return c > ' ' && c < 0x7f })
}

func percentEncode(s string, keep func(byte) bool) string {
	i := 0
	for i < len(s) && keep(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if keep(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// lower turns the letters of ASCII to lower case, and no others.
func lower(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
