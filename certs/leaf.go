package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	maxLeaves = 4096 // unless KeepLeaves says otherwise

	// Well below what clients put up with (199 days, CA/Browser Forum
	// ballot SC-081), and long enough for any run; a leaf is minted anew when
	// half of its life is over.
	leafLife = 14 * 24 * time.Hour
)

// Leaf returns a certificate for host, which is a DNS name (in ASCII) or an IP
// address without brackets or zone. The name is in the subject alternative
// name and nowhere else, and it is never a wildcard. The certificate comes from
// memory, minted before by this process, where possible; it must not be changed.
func (a *Authority) Leaf(host string) (*tls.Certificate, error) {
	name, ip, err := parseHost(host)
	if err != nil {
		return nil, err
	}
	if leaf := a.fresh(name); leaf != nil {
		return leaf, nil
	}
	leaf, err, _ := a.minting.Do(name, func() (any, error) {
		if leaf := a.fresh(name); leaf != nil {
			return leaf, nil
		}
		leaf, err := a.mint(name, ip, time.Now())
		if err != nil {
			return nil, fmt.Errorf("cannot make a certificate for %s: %w", name, err)
		}
		a.leaves.Add(name, leaf)
		return leaf, nil
	})
	if err != nil {
		return nil, err
	}
	return leaf.(*tls.Certificate), nil
}

// KeepLeaves bounds how many certificates of hosts are kept in memory; those that
// were used last. Without it 4096 are.
func (a *Authority) KeepLeaves(n int) { a.leaves.Resize(n) }

// fresh returns the leaf for name in memory, nil when there is none, it is old,
// or the clock was ahead when it was made.
func (a *Authority) fresh(name string) *tls.Certificate {
	leaf, ok := a.leaves.Get(name)
	if !ok || time.Now().Before(leaf.Leaf.NotBefore) || time.Until(leaf.Leaf.NotAfter) < leafLife/2 && leaf.Leaf.NotAfter.Before(a.cert.NotAfter) {
		return nil
	}
	return leaf
}

func (a *Authority) mint(name string, ip net.IP, now time.Time) (*tls.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	id, err := keyID(a.leafKey.Public())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          id,
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The authority's own certificate comes along, which TLS does not ask for:
	// Chromium's --ignore-certificate-errors-spki-list looks for its key in
	// what the server sends.
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leafKey, Leaf: leaf}, nil
}

// parseHost returns the form of host that is in its certificate: an IP address
// in its shortest form, or a DNS name in lower case without the final dot.
func parseHost(host string) (name string, ip net.IP, err error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", nil, fmt.Errorf("%.80q: an address with a zone cannot be in a certificate", host)
		}
		addr = addr.Unmap()
		return addr.String(), addr.AsSlice(), nil
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(name) > 253 {
		return "", nil, fmt.Errorf("%.80q… has %d characters, more than a DNS name can have (253)", host, len(host))
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return "", nil, fmt.Errorf("%.80q is neither a DNS name nor an IP address", host)
		}
	}
	return name, nil, nil
}

// isLabel reports whether s is a label of a DNS name. The underscore is not in
// the standard for host names (RFC 1123 §2.1), but in use.
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 63
}
