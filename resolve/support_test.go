package resolve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A testServer is a DNS server with a zone in the form of a master file. A name
// that is not in it does not exist.
type testServer struct {
	t     *testing.T
	addr  string // host:port, for UDP and TCP
	tls   string // host:port
	roots *x509.CertPool

	mu       sync.Mutex
	zone     []dns.RR
	override func(w dns.ResponseWriter, q *dns.Msg) bool // reports whether it has dealt with q
	asked    []string                                    // "udp A name."
	conns    map[string]bool                             // remote addresses over TCP and TLS
}

// patience is longer than any look-up takes. Nothing waits for it unless the
// test fails.
const patience = 20 * time.Second

const soa = "example. 600 IN SOA ns.example. root.example. 1 2 3 4 30\n"

func newTestServer(t *testing.T, zone string) *testServer {
	s := &testServer{t: t, conns: make(map[string]bool)}
	s.setZone(zone)
	udp, tcp := listenBoth(t)
	s.addr = udp.LocalAddr().String()
	config := s.certificate()
	encrypted, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s.tls = encrypted.Addr().String()
	for network, server := range map[string]*dns.Server{"udp": {PacketConn: udp}, "tcp": {Listener: tcp}, "tls": {Listener: encrypted}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.handle(network, w, q) })
		go server.ActivateAndServe() // ends with Shutdown
		<-started
		t.Cleanup(func() { server.Shutdown() })
	}
	return s
}

// listenBoth listens on a port that is free for UDP and for TCP.
func listenBoth(t *testing.T) (udp net.PacketConn, tcp net.Listener) {
	for range 100 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if tcp, err := net.Listen("tcp", udp.LocalAddr().String()); err == nil {
			return udp, tcp
		}
		udp.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

func (s *testServer) certificate() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func (s *testServer) setZone(zone string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone = nil
	p := dns.NewZoneParser(strings.NewReader(zone), ".", "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		s.zone = append(s.zone, rr)
	}
	if err := p.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// set makes override deal with questions.
func (s *testServer) set(override func(w dns.ResponseWriter, q *dns.Msg) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.override = override
}

func (s *testServer) handle(network string, w dns.ResponseWriter, q *dns.Msg) {
	s.mu.Lock()
	s.asked = append(s.asked, network+" "+dns.TypeToString[q.Question[0].Qtype]+" "+q.Question[0].Name)
	if network != "udp" {
		s.conns[w.RemoteAddr().String()] = true
	}
	override := s.override
	s.mu.Unlock()
	if override != nil && override(w, q) {
		return
	}
	w.WriteMsg(s.reply(q))
}

// reply answers from the zone.
func (s *testServer) reply(q *dns.Msg) *dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	m.Rcode = dns.RcodeNameError
	name := q.Question[0].Name
	for again := true; again; {
		again = false
		for _, rr := range s.zone {
			if !strings.EqualFold(rr.Header().Name, name) {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if c, ok := rr.(*dns.CNAME); ok && !slices.Contains(m.Answer, rr) {
				name, again = c.Target, true
				m.Answer = append(m.Answer, rr)
				break
			}
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	for _, rr := range s.zone {
		if rr.Header().Rrtype == dns.TypeSOA {
			m.Ns = append(m.Ns, rr)
		}
	}
	return m
}

// questions returns what has been asked since the last call, in order of the
// alphabet.
func (s *testServer) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	slices.Sort(asked)
	return asked
}

// connections returns on how many connections questions have come.
func (s *testServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *testServer) wantQuestions(want ...string) {
	s.t.Helper()
	if got := s.questions(); !slices.Equal(got, want) {
		s.t.Errorf("the server was asked %q, want %q", got, want)
	}
}

// withRcode returns an override that answers everything with an error.
func withRcode(code int) func(w dns.ResponseWriter, q *dns.Msg) bool {
	return func(w dns.ResponseWriter, q *dns.Msg) bool {
		m := new(dns.Msg)
		m.SetRcode(q, code)
		w.WriteMsg(m)
		return true
	}
}

func silent(dns.ResponseWriter, *dns.Msg) bool { return true }

// ofType makes override deal with questions of a type only.
func ofType(qtype uint16, override func(w dns.ResponseWriter, q *dns.Msg) bool) func(w dns.ResponseWriter, q *dns.Msg) bool {
	return func(w dns.ResponseWriter, q *dns.Msg) bool {
		return q.Question[0].Qtype == qtype && override(w, q)
	}
}

// A testResolver takes down its answers.
type testResolver struct {
	*Resolver
	t   *testing.T
	log bytes.Buffer

	mu      sync.Mutex
	answers []Answer
}

// newTestResolver asks servers in turn, over UDP, waiting a second for each.
func newTestResolver(t *testing.T, servers ...string) *testResolver {
	r := &testResolver{t: t}
	r.Resolver = &Resolver{
		HostsFile: filepath.Join(t.TempDir(), "none"),
		Logger:    slog.New(slog.NewTextHandler(&r.log, nil)),
		OnAnswer: func(a Answer) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answers = append(r.answers, a)
		},
	}
	r.once.Do(r.setup)
	c := &config{timeout: time.Second, attempts: 2, ndots: 1}
	for _, addr := range servers {
		c.servers = append(c.servers, &server{network: "udp", addr: addr})
	}
	r.config = func(time.Time) *config { return c }
	return r
}

// told returns the answers that OnAnswer was given since the last call.
func (r *testResolver) told() []Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := r.answers
	r.answers = nil
	return answers
}

// found looks host up, which must be found.
func (r *testResolver) found(host string, want ...string) Answer {
	r.t.Helper()
	return r.foundAt(time.Now(), host, want...)
}

func (r *testResolver) foundAt(now time.Time, host string, want ...string) Answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := r.lookup(ctx, host, now)
	if err != nil {
		r.t.Fatalf("looking up %s: %v", host, err)
	}
	var addrs []netip.Addr
	for _, addr := range want {
		addrs = append(addrs, netip.MustParseAddr(addr))
	}
	if !slices.Equal(a.Addrs, addrs) {
		r.t.Errorf("%s has the addresses %v, want %v", host, a.Addrs, addrs)
	}
	return a
}

// fails looks host up, which must fail with a text.
func (r *testResolver) fails(host, text string) *net.DNSError {
	r.t.Helper()
	a, err := r.Lookup(context.Background(), host)
	var e *net.DNSError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		r.t.Fatalf("looking up %s: %v, error %v, want one with %q", host, a, err, text)
	}
	return e
}
