package proxy

import (
	"net"
	"net/netip"
)

// isSelf reports whether an address leads back to the proxy.
func (d *Destinations) isSelf(to netip.AddrPort) bool {
	listen, err := netip.ParseAddrPort(d.Listen.String())
	if err != nil || to.Port() != listen.Port() {
		return false
	}
	self := bare(listen.Addr())
	for _, addr := range forms(bare(to.Addr())) {
		if addr == self || addr.IsUnspecified() || self.IsUnspecified() && isOwn(addr) {
			return true
		}
	}
	return false
}

// isOwn reports whether an address is one of this machine.
func isOwn(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}
