package proxy

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// routesToItself asks the kernel whether it would deliver packets for addr to this
// machine (rtnetlink(7)): also where no interface has the address, as after
// "ip route add local 192.0.2.0/24 dev lo". known is false when it cannot be asked.
func routesToItself(addr netip.Addr) (own, known bool) {
	s, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return false, false
	}
	defer syscall.Close(s)
	kernel := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}
	if err := syscall.Sendto(s, routeRequest(addr), 0, kernel); err != nil {
		return false, false
	}
	buf := make([]byte, 4096) // an answer has some 100 bytes
	n, _, err := syscall.Recvfrom(s, buf, 0)
	if err != nil {
		return false, false
	}
	messages, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || len(messages) == 0 {
		return false, false
	}
	m := messages[0]
	if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg {
		return false, false // no route, or not allowed to ask
	}
	const kind = 7 // of rtmsg: rtm_type
	return m.Data[kind] == syscall.RTN_LOCAL, true
}

// routeRequest is RTM_GETROUTE for one address.
func routeRequest(addr netip.Addr) []byte {
	family, dst := byte(syscall.AF_INET), addr.AsSlice()
	if !addr.Is4() {
		family = syscall.AF_INET6
	}
	size := syscall.SizeofNlMsghdr + syscall.SizeofRtMsg + syscall.SizeofRtAttr + len(dst)
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size)) // struct nlmsghdr
	b = binary.NativeEndian.AppendUint16(b, syscall.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, syscall.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...)       // sequence and port
	b = append(b, family, byte(8*len(dst))) // struct rtmsg
	b = append(b, make([]byte, syscall.SizeofRtMsg-2)...)
	b = binary.NativeEndian.AppendUint16(b, uint16(syscall.SizeofRtAttr+len(dst))) // struct rtattr
	b = binary.NativeEndian.AppendUint16(b, syscall.RTA_DST)
	return append(b, dst...)
}
