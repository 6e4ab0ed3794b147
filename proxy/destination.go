package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Destinations says where the proxy connects to. In this order:
//
//	the proxy itself                     never: it would go round in a circle
//	a port that is not in Ports          no
//	what Deny names                      no
//	what Allow names                     yes, but for the next line
//	link-local addresses, metadata       only if Allow names the very address
//	services of clouds, multicast and
//	the like
//	private and loopback addresses, and  only if the proxy listens on a loopback
//	those of this machine                address: then its clients are here too
//	all others                           yes
//
// Names and ports are judged before a look-up, addresses each time that one is
// about to be connected to, whatever name led to it. An address that carries an
// IPv4 address (NAT64, 6to4 and others) is judged as that one too.
type Destinations struct {
	Listen net.Addr // of the proxy; has to be set
	Allow  []Destination
	Deny   []Destination
	Ports  []PortRange // default: 80, 443, 1024-65535
}

var defaultPorts = []PortRange{{80, 80}, {443, 443}, {1024, 65535}}

// judge is what can be said about host:port before a look-up; nil: nothing
// against it.
func (d *Destinations) judge(authority string) *refusal {
	host, port := splitAuthority(authority)
	ports := d.Ports
	if len(ports) == 0 {
		ports = defaultPorts
	}
	if !slices.ContainsFunc(ports, func(r PortRange) bool { return r.First <= port && port <= r.Last }) {
		return forbid("port %d is not one that this proxy connects to (--ports)", port)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return d.denied(host, netip.Addr{})
	}
	if d.isSelf(netip.AddrPortFrom(addr, port)) {
		return nil // Control says so, where a client sees it
	}
	return d.judgeAddr(host, bare(addr))
}

// Control judges an address of host that is about to be connected to. The error
// has a method HTTPStatus() int.
func (d *Destinations) Control(host string, to netip.AddrPort) error {
	if d.isSelf(to) {
		return &refusal{status: http.StatusLoopDetected, class: classPolicy, reason: "that is the address of this proxy itself; its own pages are there for programs that do not use it as a proxy"}
	}
	if e := d.judgeAddr(host, bare(to.Addr())); e != nil {
		return e
	}
	return nil
}

const classPolicy = "policy" // see docs/failures.md

func forbid(format string, args ...any) *refusal {
	e := refuse(http.StatusForbidden, format, args...)
	e.class = classPolicy
	return e
}

func (d *Destinations) judgeAddr(host string, addr netip.Addr) *refusal {
	if e := d.denied(host, addr); e != nil {
		return e
	}
	is := d.kindOf(addr)
	switch {
	case is.kind == public:
	case is.kind == private && (d.isLocal() || slices.ContainsFunc(d.Allow, func(p Destination) bool { return p.matches(host, addr) })):
	case is.kind == reserved && slices.ContainsFunc(d.Allow, func(p Destination) bool { return p.isExactly(addr) }):
	case is.kind == private:
		return forbid("%s is %s, and while this proxy listens for other machines it does not connect there (--allow-destination)", addr, is.name)
	default:
		return forbid("%s is %s, where this proxy does not connect to (unless --allow-destination names that very address)", addr, is.name)
	}
	return nil
}

// denied looks for host, and for addr if it is valid, in Deny.
func (d *Destinations) denied(host string, addr netip.Addr) *refusal {
	for _, p := range d.Deny {
		if p.matches(host, addr) {
			return forbid("%s is not to be connected to (--deny-destination %s)", host, p)
		}
	}
	return nil
}

// isLocal reports whether only programs on this machine reach the proxy.
func (d *Destinations) isLocal() bool {
	addr, ok := addrOf(d.Listen.String())
	return ok && addr.IsLoopback()
}

// splitAuthority takes a checked authority apart, without a port that of http.
func splitAuthority(authority string) (host string, port uint16) {
	host, digits, err := net.SplitHostPort(authority)
	if err != nil {
		return strings.Trim(authority, "[]"), 80
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		n = 0
	}
	return host, uint16(n)
}

// A Destination is a pattern of hosts and addresses.
type Destination struct {
	text   string
	name   string       // lower-case A-labels, no dot at the end; "" for addresses
	itself bool         // matches name
	below  bool         // matches the names below it
	addrs  netip.Prefix // addresses
}

// ParseDestination reads a host name, .DOMAIN for a name and all below it,
// *.DOMAIN for all below it, an IP address or a network in CIDR notation.
func ParseDestination(text string) (Destination, error) {
	if addrs, err := ParseAddresses(strings.Trim(text, "[]")); err == nil {
		return Destination{text: text, addrs: addrs}, nil
	}
	d := Destination{text: text, itself: true}
	name := text
	if rest, ok := strings.CutPrefix(text, "*."); ok {
		name, d.itself, d.below = rest, false, true
	} else if rest, ok := strings.CutPrefix(text, "."); ok {
		name, d.below = rest, true
	}
	ascii, ok := asciiHost(name)
	if !ok {
		return Destination{}, fmt.Errorf("%q is not a host name, .DOMAIN, *.DOMAIN, an address or a network such as 192.0.2.0/24", text)
	}
	d.name = strings.TrimSuffix(ascii, ".")
	return d, nil
}

// String is the pattern as it was given.
func (d Destination) String() string { return d.text }

// matches reports whether host, or addr if it is valid, is meant.
func (d Destination) matches(host string, addr netip.Addr) bool {
	if d.name == "" {
		return addr.IsValid() && slices.ContainsFunc(forms(addr), d.addrs.Contains)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return d.itself && host == d.name || d.below && strings.HasSuffix(host, "."+d.name)
}

// isExactly reports whether addr alone is meant.
func (d Destination) isExactly(addr netip.Addr) bool {
	return d.name == "" && d.addrs.IsSingleIP() && slices.Contains(forms(addr), d.addrs.Addr())
}

// asciiHost returns a host name in lower case and A-labels. The dot at its end
// stays.
func asciiHost(host string) (string, bool) {
	if !utf8.ValidString(host) || strings.ContainsRune(host, utf8.RuneError) {
		return "", false // to idna all of them are one host
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		ascii = strings.ToLower(host) // names with underscores and the like are in use
	}
	return ascii, isHostName(strings.TrimSuffix(ascii, "."))
}

// isHostName reports whether a name can be looked up: letters, digits, hyphens
// and underscores, in labels. One whose last label is a number is not, since for
// many programs it is an address in an odd spelling: 127.1, 0x7f.1 and the like.
func isHostName(name string) bool {
	last := ""
	for last = range strings.SplitSeq(name, ".") {
		if last == "" || len(last) > 63 || strings.ContainsFunc(last, isNotInLabel) {
			return false
		}
	}
	return len(name) <= 253 && strings.Trim(last, "0123456789") != "" &&
		!(strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "")
}

func isNotInLabel(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// A PortRange is the ports from First to Last.
type PortRange struct{ First, Last uint16 }

// ParsePorts reads a port or a range: 8080, 1024-65535.
func ParsePorts(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if errors.Join(err1, err2) != nil || from == 0 || to < from {
		return PortRange{}, fmt.Errorf("%q is not a port, such as 8080, or a range, such as 1024-65535", text)
	}
	return PortRange{uint16(from), uint16(to)}, nil
}

// String is the range as [ParsePorts] reads it.
func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}
