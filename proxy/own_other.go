//go:build !linux

package proxy

import "net/netip"

// routesToItself is for systems that can be asked.
func routesToItself(netip.Addr) (own, known bool) { return false, false }
