package mitm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// An authority issues certificates for these tests.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool

	mu    sync.Mutex
	asked []string
}

var newAuthority = sync.OnceValue(func() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0), NotBefore: time.Unix(0, 0), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, DNSNames: []string{"ca"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	a := &authority{cert: cert, key: key, roots: x509.NewCertPool()}
	a.roots.AddCert(cert)
	return a
})

func (a *authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	a.asked = append(a.asked, host)
	a.mu.Unlock()
	if strings.HasPrefix(host, "no-certificate") {
		return nil, errors.New("no certificate for this one")
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Unix(0, 0), NotAfter: a.cert.NotAfter}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}

// A logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A proxy is an outer server with an interceptor behind it.
type proxy struct {
	t     *testing.T
	in    *Interceptor
	outer *Listener
	addr  string
	log   *logBuffer
	ca    *authority
}

func newProxy(t *testing.T, h http.HandlerFunc) *proxy { return newProxyWithin(t, Limits{}, h) }

func newProxyWithin(t *testing.T, limits Limits, h http.HandlerFunc) *proxy {
	p := &proxy{t: t, log: &logBuffer{}, ca: newAuthority()}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	p.in = &Interceptor{Handler: h, GetCertificate: p.ca.leaf, Logger: log, Limits: limits}
	t.Cleanup(func() { p.in.Close() })
	p.outer = listenWithin(t, limits, log, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			h(w, r)
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		p.in.ServeTunnel(c, r.Host)
	})
	p.addr = p.outer.Addr().String()
	return p
}

// connect opens a tunnel, sending early along with the CONNECT.
func (p *proxy) connect(authority, early string) *client {
	p.t.Helper()
	c := dial(p.t, p.addr)
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n" + early)
	c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
	return c
}

// tls opens a tunnel with TLS in it.
func (p *proxy) tls(authority string, config *tls.Config) (*client, error) {
	c := p.connect(authority, "")
	if config.RootCAs == nil {
		config.RootCAs = p.ca.roots
	}
	tc := tls.Client(c.Conn, config)
	if err := tc.Handshake(); err != nil {
		c.Close()
		return nil, err
	}
	return newClient(p.t, tc), nil
}

// until waits for what is about to happen in another goroutine.
// patience is longer than any step takes, on a busy machine too. Nothing waits
// for it unless the test fails.
const patience = 2 * time.Minute

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func tell(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %q %v %+v %v", r.Proto, r.Method, r.RequestURI, body, err, *TunnelOf(r.Context()), RequestOf(r.Context()) != nil)
}

func TestTunnels(t *testing.T) {
	p := newProxy(t, tell)
	h1 := func(s string) string { return "GET " + s + " HTTP/1.1\r\nHost: h\r\n\r\n" }

	c, err := p.tls("example.org:443", &tls.Config{ServerName: "www.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.send(h1("/%zz") + h1("/2"))
		c.want(200, `HTTP/1.1 GET /%25zz "" <nil> {Authority:example.org:443 TLS:true ServerName:www.example.org} true`)
		c.want(200, `HTTP/1.1 GET /2 "" <nil> {Authority:example.org:443 TLS:true ServerName:www.example.org} true`)
	}
	c.Close()

	c = p.connect("example.org:80", h1("/early"))
	c.want(200, `HTTP/1.1 GET /early "" <nil> {Authority:example.org:80 TLS:false ServerName:} true`)
	c.send("M-SEARCH_X /" + strings.Repeat("x", 8000) + " HTTP/1.0\r\n\r\n")
	c.want(200, `HTTP/1.0 M-SEARCH_X /`+strings.Repeat("x", 8000)+` "" <nil> {Authority:example.org:80 TLS:false ServerName:} true`)

	c = p.connect("example.org:80", "")
	for i := range 30 {
		c.send(h1("/drip")[i : i+1])
		runtime.Gosched()
	}
	c.send(h1("/drip")[30:])
	c.want(200, `HTTP/1.1 GET /drip "" <nil> {Authority:example.org:80 TLS:false ServerName:} true`)

	c = p.connect("example.org:80", "")
	c.send("GET /" + strings.Repeat("x", 60<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp, _ := c.answer(); resp.StatusCode != 200 {
		t.Errorf("long request line: %d", resp.StatusCode)
	}
	if got, want := p.in.Stats(), (Stats{TLS: 1, Plain: 3}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	if s := p.log.String(); s != "" {
		t.Errorf("logged %s", s)
	}
}

func TestCertificates(t *testing.T) {
	p := newProxy(t, tell)
	for _, tt := range []struct{ authority, sni, verify string }{
		{"example.org:443", "example.org", "example.org"},
		{"example.org:443", "other.example", "other.example"},
		{"example.org:443", "", "example.org"},
		{"example.org:443", "no-certificate.example", "example.org"},
		{"192.0.2.1:443", "", "192.0.2.1"},
		{"[::1]:8443", "", "::1"},
	} {
		c, err := p.tls(tt.authority, &tls.Config{
			ServerName: tt.sni, InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				if n := len(s.PeerCertificates[0].DNSNames) + len(s.PeerCertificates[0].IPAddresses); n != 1 {
					return fmt.Errorf("%d names", n)
				}
				return s.PeerCertificates[0].VerifyHostname(tt.verify)
			},
		})
		if err != nil {
			t.Errorf("CONNECT %s, SNI %q: %v", tt.authority, tt.sni, err)
			continue
		}
		c.Close()
	}
}

func TestHTTP2(t *testing.T) {
	p := newProxy(t, tell)
	tr := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: p.addr}),
		TLSClientConfig:   &tls.Config{RootCAs: p.ca.roots},
		ForceAttemptHTTP2: true,
	}
	defer tr.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			body := strings.Repeat("x", i*1000)
			resp, err := (&http.Client{Transport: tr}).Post("https://example.org/%25?a", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, _ := io.ReadAll(resp.Body)
			want := fmt.Sprintf(`HTTP/2.0 POST /%%25?a %q <nil> {Authority:example.org:443 TLS:true ServerName:example.org} false`, body)
			if resp.ProtoMajor != 2 || string(got) != want {
				t.Errorf("%s: got %.100q", resp.Proto, got)
			}
		})
	}
	wg.Wait()
}

// TestHTTP2Mismatch speaks something else than was agreed on.
func TestHTTP2Mismatch(t *testing.T) {
	p := newProxy(t, tell)
	c, err := p.tls("example.org:443", &tls.Config{ServerName: "h", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp, body := c.answer(); resp.StatusCode != 400 || !resp.Close {
		t.Errorf("HTTP/1 on HTTP/2: got %d %q", resp.StatusCode, body)
	}
	c, err = p.tls("example.org:443", &tls.Config{ServerName: "h", NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	c.send(http2.ClientPreface)
	if resp, body := c.answer(); resp.StatusCode != 505 {
		t.Errorf("HTTP/2 on HTTP/1: got %d %q", resp.StatusCode, body)
	}
}

func TestWebSocketInTunnel(t *testing.T) {
	p := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		io.Copy(c, io.LimitReader(c, 6))
	})
	c, err := p.tls("example.org:443", &tls.Config{ServerName: "h", NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	c.send(upgradeHead + "fra")
	c.wantText("HTTP/1.1 101 Switching Protocols\r\n\r\nfra")
	c.send("mes")
	c.wantText("mes")
	c.wantEOF()
	until(t, "the tunnel is forgotten", func() bool { return p.open() == 0 })
}

func (p *proxy) open() int {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return len(p.in.tunnels)
}

func TestPanicInTunnel(t *testing.T) {
	p := newProxy(t, func(w http.ResponseWriter, r *http.Request) { panic("handler broke") })
	p.in.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) { panic("dial broke") }
	p.connect("example.org:22", "SSH-2.0-x\r\n").wantEOF()
	p.connect("example.org:80", plainHead).wantEOF()
	for _, what := range []string{"dial broke", "handler broke"} {
		until(t, what+" is logged", func() bool { return strings.Contains(p.log.String(), what) })
	}
	until(t, "the tunnels are forgotten", func() bool { return p.open() == 0 })
}

func TestHandshakeFailures(t *testing.T) {
	p := newProxy(t, tell)
	for range 5 {
		if _, err := p.tls("example.org:443", &tls.Config{ServerName: "h", RootCAs: x509.NewCertPool()}); err == nil {
			t.Error("a client without our authority trusts us")
		}
		if _, err := p.tls("example.org:443", &tls.Config{ServerName: "h", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
			t.Error("TLS 1.1 is accepted")
		}
	}
	p.connect("example.org:443", "\x16garbage").wantEOF()
	c := p.connect("example.org:443", "\x16\x03\x01")
	c.Close()
	until(t, "all failures are counted", func() bool { return p.in.Stats().HandshakeFailures == 12 })
	until(t, "the tunnels are forgotten", func() bool { return p.open() == 0 })
	s := p.log.String()
	if strings.Count(s, "does not trust our certificate authority") != 1 || strings.Count(s, "\n") != 2 || strings.Contains(s, "tls: bad") {
		t.Errorf("logged\n%s", s)
	}
}

// TestUntrustingCurl checks how a program with OpenSSL rejects us.
func TestUntrustingCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	for _, version := range []string{"1.2", "1.3"} {
		p := newProxy(t, tell)
		exec.Command(curl, "-sS", "--max-time", "10", "--tlsv"+version, "--tls-max", version, "-x", "http://"+p.addr, "https://example.org/").Run()
		until(t, "the failure is logged", func() bool { return strings.Contains(p.log.String(), "\n") })
		if s := p.log.String(); !strings.Contains(s, "does not trust our certificate authority") {
			t.Errorf("TLS %s: logged %s", version, s)
		}
	}
}

// bubble starts an interceptor with one tunnel over net.Pipe.
func bubble(t *testing.T, in *Interceptor, authority string) *client {
	ours, theirs := net.Pipe()
	in.Logger = slog.New(slog.DiscardHandler)
	in.ServeTunnel(theirs, authority)
	t.Cleanup(func() { ours.Close(); in.Close() })
	c := newClient(t, ours)
	c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
	return c
}

func TestTunnelTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name, send string
		want       time.Duration
	}{
		{"TLS handshake", "\x16\x03\x01", 10 * time.Second},
		{"head of the first request", "GET / HTTP/1.1\r\nHost", 10 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 120 * time.Second},
		{"silence, then nobody to reach", "", 5 * time.Second},
		{"part of a line, then nobody to reach", "GET ", 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble(t, &Interceptor{
					Handler: http.HandlerFunc(tell),
					Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported },
				}, "example.org:443")
				start := time.Now()
				c.send(tt.send)
				if tt.name == "idle" {
					c.answer()
				}
				io.Copy(io.Discard, c.r)
				if got := time.Since(start); got != tt.want {
					t.Errorf("closed after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hint
		got := []int{h.count(), h.count(), h.count()}
		time.Sleep(hintEvery)
		got = append(got, h.count(), h.count())
		if fmt.Sprint(got) != "[1 0 0 3 0]" {
			t.Errorf("got %v", got)
		}
	})
}
