package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// RefuseSelf returns a Control function for the [net.Dialer] of the transport
// that refuses connections to the proxy's own address, which would go round in
// a circle. It sees the final address, whatever name led to it.
func RefuseSelf(listen net.Addr) func(network, address string, _ syscall.RawConn) error {
	self, err := netip.ParseAddrPort(listen.String())
	return func(_, address string, _ syscall.RawConn) error {
		to, toErr := netip.ParseAddrPort(address)
		if err != nil || toErr != nil || to.Port() != self.Port() {
			return nil
		}
		addr := to.Addr().Unmap().WithZone("")
		if addr == self.Addr().Unmap() || addr.IsUnspecified() || self.Addr().IsUnspecified() && isOwn(addr) {
			return &refusal{http.StatusLoopDetected, "that is the address of this proxy itself; its own pages are there for programs that do not use it as a proxy"}
		}
		return nil
	}
}

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

// HTTPStatus is the status of the answer.
func (e *refusal) HTTPStatus() int { return e.status }
