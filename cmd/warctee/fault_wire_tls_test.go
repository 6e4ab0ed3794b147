package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authorityKey reads the key of the authority that the proxy trusts.
func authorityKey(t *testing.T) crypto.Signer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(originCA.CertPath()), "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(crypto.Signer)
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serverCertificate() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// signed makes a certificate of the trusted authority.
func signed(t *testing.T, key crypto.Signer, change func(c *x509.Certificate)) tls.Certificate {
	t.Helper()
	template := serverCertificate()
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, originCA.Certificate(), key.Public(), authorityKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// selfSigned is a certificate that no authority has signed, of about that size.
func selfSigned(t *testing.T, size int) tls.Certificate {
	t.Helper()
	key, template := newKey(t), serverCertificate()
	for n := 0; n < size; n += 100 {
		template.DNSNames = append(template.DNSNames, strings.Repeat("long.", 18)+"example")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const overTLS = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntls"

// serveTLS makes an origin that answers one request on each connection.
func (x *scene) serveTLS(config *tls.Config) (served *atomic.Int64) {
	x.Helper()
	served = new(atomic.Int64)
	x.serveRaw(func(c net.Conn) {
		s := tls.Server(c, config)
		buf := make([]byte, 4096)
		for got := ""; !strings.HasSuffix(got, "\r\n\r\n"); {
			n, err := s.Read(buf)
			if err != nil {
				return
			}
			got += string(buf[:n])
		}
		served.Add(1)
		io.WriteString(s, overTLS)
		s.Close()
	})
	return served
}

// serveRaw makes an origin.
func (x *scene) serveRaw(serve func(c net.Conn)) {
	x.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { l.Close() })
	x.origin.authority = l.Addr().String()
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with serve, which the proxy ends
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				serve(c)
			}()
		}
	}()
}

// A tlsOrigin is an origin with which something is wrong in TLS, or only odd.
type tlsOrigin struct {
	name      string
	config    func(t *testing.T) *tls.Config
	fine      bool   // it is served all the same
	class     string // of the failure
	sentence  string // in the answer to the client
	untrusted string // with --insecure-upstream it is served, and this noted; "" when it is not
}

func withCertificate(certificate func(t *testing.T) tls.Certificate) func(t *testing.T) *tls.Config {
	return func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	}
}

func withChange(change func(c *x509.Certificate)) func(t *testing.T) *tls.Config {
	return withCertificate(func(t *testing.T) tls.Certificate { return signed(t, newKey(t), change) })
}

func good(t *testing.T) tls.Certificate {
	return signed(t, newKey(t), func(*x509.Certificate) {})
}

var handshakes = []tlsOrigin{
	{name: "good", config: withCertificate(good), fine: true},
	{name: "expired", config: withChange(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), class: "untrusted-certificate", sentence: "expired", untrusted: "x509: certificate has expired"},
	{name: "not yet valid", config: withChange(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), class: "untrusted-certificate", sentence: "not yet valid", untrusted: "not yet valid"},
	{name: "self-signed", config: withCertificate(func(t *testing.T) tls.Certificate { return selfSigned(t, 0) }), class: "untrusted-certificate", sentence: "unknown authority", untrusted: "unknown authority"},
	{name: "another host", config: withChange(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }), class: "untrusted-certificate", sentence: "127.0.0.2", untrusted: "valid for 127.0.0.2"},
	{name: "common name alone", config: withChange(func(c *x509.Certificate) { c.IPAddresses = nil }), class: "untrusted-certificate", sentence: "SANs", untrusted: "SANs"},
	{name: "for clients", config: withChange(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), class: "untrusted-certificate", sentence: "key usage", untrusted: "key usage"},
	{name: "SHA-1", config: withChange(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 }), class: "untrusted-certificate", sentence: "SHA1", untrusted: "SHA1"},
	{name: "RSA of 1024 bits", config: withCertificate(func(t *testing.T) tls.Certificate {
		key, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		return signed(t, key, func(*x509.Certificate) {})
	}), fine: true}, // as in browsers; less than 1024 is refused by crypto/rsa
	{name: "2000 names", config: withChange(func(c *x509.Certificate) {
		for range 2000 {
			c.DNSNames = append(c.DNSNames, "a-name-of-many.example")
		}
	}), fine: true},
	{name: "chain of 100 KB", config: withCertificate(func(t *testing.T) tls.Certificate {
		c := good(t)
		c.Certificate = append(c.Certificate, selfSigned(t, 100_000).Certificate...)
		return c
	}), fine: true},
	{name: "chain of 300 KB", config: withCertificate(func(t *testing.T) tls.Certificate {
		c := good(t)
		c.Certificate = append(c.Certificate, selfSigned(t, 300_000).Certificate...)
		return c
	}), class: "tls-handshake", sentence: "maximum"},

	{name: "TLS 1.2", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, MaxVersion: tls.VersionTLS12}
	}, fine: true},
	{name: "TLS 1.1", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	}, class: "tls-handshake", sentence: "no TLS 1.2 or newer"},
	{name: "RC4", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA}}
	}, class: "tls-handshake", sentence: "refused the handshake"},
	{name: "client certificate, TLS 1.3", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, ClientAuth: tls.RequireAnyClientCert}
	}, class: "client-certificate", sentence: "demands the certificate of a client"},
	{name: "client certificate, TLS 1.2", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
	}, class: "client-certificate", sentence: "demands the certificate of a client"},
	{name: "client certificate that may be left out", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, ClientAuth: tls.RequestClientCert}
	}, fine: true},
	{name: "no HTTP/1.1", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, NextProtos: []string{"h2c", "h3"}}
	}, class: "tls-handshake", sentence: "no HTTP/1.1"},
	{name: "HTTP/2 and HTTP/1.1", config: func(t *testing.T) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good(t)}, NextProtos: []string{"h2", "http/1.1"}}
	}, fine: true},
}

func TestOriginTLS(t *testing.T) {
	t.Parallel()
	for _, insecure := range []bool{false, true} {
		name := "verified"
		if insecure {
			name = "insecure"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(f *recordFlags) { f.insecure, f.dedup = insecure, "off" })
			good := x.origin
			var lines []failureLine
			for _, h := range handshakes {
				x.origin = &origin{x: x, https: true}
				x.step(h.name, func() { lines = h.run(x, insecure, lines) })
			}
			x.origin = good
			x.fine("/last")
			x.finish()
			for i := range lines {
				lines[i].Status = 502
			}
			x.failureLines(lines...)
		})
	}
}

func (h *tlsOrigin) run(x *scene, insecure bool, lines []failureLine) []failureLine {
	served := x.serveTLS(h.config(x.T))
	authority := x.origin.authority
	c := x.client()
	target := "/" + url.PathEscape(h.name)
	sent, forwarded := x.ask("GET", target, "")
	c.send(sent)
	got := c.reply("GET")
	if !h.fine && (!insecure || h.untrusted == "") {
		x.refused(got, 502, h.sentence)
		x.refused(got, 502, "no TLS connection with "+authority)
		if h.untrusted != "" {
			x.refused(got, 502, "--insecure-upstream")
		}
		phase := "tls"
		if h.name == "client certificate, TLS 1.3" {
			phase = "reply-head" // there the handshake of the client is over before that of the server
		}
		return append(lines, failureLine{Phase: phase, Class: h.class})
	}
	x.got(got, 200, "tls")
	w := wanted{uri: x.uri(target), request: forwarded, response: overTLS, untrusted: h.untrusted, tls12: h.name == "TLS 1.2"}
	x.want(w)
	if served.Load() != 1 {
		x.Errorf("the origin was asked %d times", served.Load())
	}
	return lines
}

// An origin that ends the handshake in ways that Go's server does not know.
func TestOriginHandshakeEnds(t *testing.T) {
	t.Parallel()
	const alpn = "\x16\x03\x03\x00\x3b" + "\x02\x00\x00\x37\x03\x03" + "0123456789abcdef0123456789abcdef" + "\x00\xc0\x2b\x00" + "\x00\x0f" + "\x00\x10\x00\x0b\x00\x09\x08garbage!"
	for _, c := range []struct {
		name, bytes, class, sentence string
		reset                        bool
	}{
		{name: "unrecognized name", bytes: "\x15\x03\x03\x00\x02\x02\x70", class: "tls-handshake", sentence: "unrecognized name"},
		{name: "HTTP/2 alone", bytes: "\x15\x03\x03\x00\x02\x02\x78", class: "tls-handshake", sentence: "no HTTP/1.1"},
		{name: "handshake failure", bytes: "\x15\x03\x03\x00\x02\x02\x28", class: "tls-handshake", sentence: "handshake failure"},
		{name: "a protocol that was not offered", bytes: alpn, class: "tls-handshake", sentence: "no HTTP/1.1"},
		{name: "close", class: "tls-handshake", sentence: "closed the connection"},
		{name: "reset", reset: true, class: "reset", sentence: "connection reset"},
		{name: "plain HTTP", bytes: "HTTP/1.1 400 Bad Request\r\n\r\n", class: "not-tls", sentence: "does not speak TLS"},
		{name: "a banner", bytes: "SSH-2.0-OpenSSH_9.6\r\n", class: "not-tls", sentence: "does not speak TLS"},
		{name: "half a record", bytes: "\x16\x03\x03\x40\x00abc", class: "tls-handshake", sentence: "closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, true, func(*recordFlags) {})
			good := x.origin
			x.origin = &origin{x: x, https: true}
			x.serveRaw(func(nc net.Conn) {
				if n, err := nc.Read(make([]byte, 16<<10)); n == 0 || err != nil { // the ClientHello
					return
				}
				io.WriteString(nc, c.bytes)
				if c.reset {
					nc.(*net.TCPConn).SetLinger(0)
				}
			})
			client := x.client()
			sent, _ := x.ask("GET", "/", "")
			client.send(sent)
			x.refused(client.reply("GET"), 502, c.sentence)
			x.origin = good
			x.fine("/next")
			x.finish()
			x.failureLines(failureLine{Phase: "tls", Class: c.class, Status: 502})
		})
	}
}

// Whom the log has told of a bad certificate it does not tell again; each
// capture is noted.
func TestUntrustedIsNoted(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(f *recordFlags) { f.insecure, f.strict = true, false })
	certificate := selfSigned(t, 0)
	get := func() (*tls.Certificate, error) { return &certificate, nil }
	x.origin.certificate.Store(&get)
	c := x.client()
	for range 2 { // on one connection to the origin
		x.reusable(c)
	}
	for range 2 { // on new ones
		o, request := x.get(c, "/new")
		response := "HTTP/1.1 200 OK\r\n\r\nuntil the end"
		o.send(response)
		o.Close()
		x.got(c.reply("GET"), 200, "until the end")
		x.want(wanted{uri: x.uri("/new"), request: request, response: response})
	}
	o, request := x.get(c, "/bad")
	o.send("SSH-2.0-x\r\n")
	x.refused(c.reply("GET"), 502, "SSH")
	x.want(wanted{uri: x.uri("/bad"), request: request, response: "SSH-2.0-x\r\n", instead: true, truncated: "unspecified"})
	x.wants[1].revisitOf = &x.wants[0]
	x.wants[3].revisitOf = &x.wants[2]
	for i := range x.wants {
		x.wants[i].untrusted = "unknown authority"
	}
	x.settled()
	if s := x.proxy.recorder.Status(); s.Others != 6 { // five notes, one that is no reply
		x.Errorf("%d other records are counted", s.Others)
	}
	x.finish()
	if n := strings.Count(x.log.String(), "certificate of an origin is not trusted"); n != 1 {
		x.Errorf("the log tells it %d times", n)
	}
}

// Nobody is asked about a certificate.
func TestNoRevocationRequests(t *testing.T) {
	t.Parallel()
	asked := new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	at := "http://" + l.Addr().String() + "/"
	for _, insecure := range []bool{false, true} {
		x := newScene(t, true, func(f *recordFlags) { f.insecure = insecure })
		certificate := signed(t, newKey(t), func(c *x509.Certificate) {
			c.OCSPServer, c.CRLDistributionPoints, c.IssuingCertificateURL = []string{at + "ocsp"}, []string{at + "crl"}, []string{at + "ca"}
		})
		get := func() (*tls.Certificate, error) { return &certificate, nil }
		x.origin.certificate.Store(&get)
		x.fine("/")
		x.finish()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("there were %d connections to the addresses in the certificate", n)
	}
}
