package proxy

import (
	"net/netip"
	"slices"
)

// A kind is what the defaults make of an address.
type kind int

const (
	public kind = iota
	private
	reserved // nothing that anybody would want to record
)

// A meaning is what is special about the addresses of a network.
type meaning struct {
	network netip.Prefix
	kind    kind
	name    string
}

// meanings are those of the registries of special addresses (RFC 6890) that lead
// somewhere, and the metadata services of clouds, which give credentials of the
// machine to whoever asks.
var meanings = []meaning{
	{netip.MustParsePrefix("0.0.0.0/8"), reserved, "an address of no host"},
	{netip.MustParsePrefix("::/128"), reserved, "an address of no host"},
	{netip.MustParsePrefix("169.254.0.0/16"), reserved, "a link-local address, as metadata services of clouds have"},
	{netip.MustParsePrefix("fe80::/10"), reserved, "a link-local address"},
	{netip.MustParsePrefix("fd00:ec2::/32"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("fd20:ce::254/128"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("192.0.0.192/32"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("100.100.100.200/32"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("168.63.129.16/32"), reserved, "that of the metadata service of a cloud"},
	{netip.MustParsePrefix("224.0.0.0/4"), reserved, "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), reserved, "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), reserved, "the broadcast address"},
	{netip.MustParsePrefix("127.0.0.0/8"), private, "a loopback address"},
	{netip.MustParsePrefix("::1/128"), private, "a loopback address"},
	{netip.MustParsePrefix("10.0.0.0/8"), private, "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), private, "a private address"},
	{netip.MustParsePrefix("172.16.0.0/12"), private, "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), private, "a private address"},
	{netip.MustParsePrefix("192.168.0.0/16"), private, "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), private, "a private address"},
	{netip.MustParsePrefix("240.0.0.0/4"), private, "an address that is not in use"},
	{netip.MustParsePrefix("fc00::/7"), private, "a private address"},
	{netip.MustParsePrefix("fec0::/10"), private, "a private address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), private, "a private address"},
}

// kindOf is what there is to say about an address: the worst of what is special
// about it.
func (d *Destinations) kindOf(addr netip.Addr) meaning {
	var is meaning
	for _, form := range forms(addr) {
		for _, m := range meanings {
			if m.kind > is.kind && m.network.Contains(form) {
				is = m
			}
		}
	}
	if is.kind == public && !d.isLocal() && slices.ContainsFunc(forms(addr), isOwn) {
		return meaning{kind: private, name: "an address of the proxy's own machine"}
	}
	return is
}

// embeddings are the networks whose addresses carry one of IPv4, and where.
var embeddings = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible (RFC 4291 §2.5.5.1)
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (RFC 2765 §2.1)
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64 (RFC 6052 §2.1)
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4 (RFC 3056 §2)
	{teredo, 4},                                    // its server (RFC 4380 §4)
}

var teredo = netip.MustParsePrefix("2001::/32")

// forms returns addr and the IPv4 addresses in it, to which it may lead.
func forms(addr netip.Addr) []netip.Addr {
	all := []netip.Addr{addr}
	if addr.Is4() || addr.IsLoopback() || addr.IsUnspecified() {
		return all
	}
	b := addr.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at : at+4])) }
	for _, e := range embeddings {
		if e.network.Contains(addr) {
			all = append(all, v4(e.at))
		}
	}
	if teredo.Contains(addr) { // the client, inverted
		all = append(all, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP (RFC 5214 §6.1)
		all = append(all, v4(12))
	}
	return all
}
