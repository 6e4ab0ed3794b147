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

// isOwn reports whether an address is one of this machine: an interface has it, even
// one that is not up yet, or what is sent there does not leave the machine.
func isOwn(addr netip.Addr) bool {
	if addr.IsLoopback() || isOnInterface(addr) {
		return true
	}
	if own, known := routesToItself(addr); known {
		return own
	}
	return comesBack(addr)
}

func isOnInterface(addr netip.Addr) bool {
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

// comesBack looks at the address from which the system would send to addr: that
// itself, or a loopback address. Nothing is sent.
func comesBack(addr netip.Addr) bool {
	const discard = 9 // any port will do
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, discard)))
	if err != nil {
		return false
	}
	defer c.Close()
	from, ok := addrOf(c.LocalAddr().String())
	return ok && (from == addr || from.IsLoopback())
}
