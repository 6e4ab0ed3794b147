package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// A movingDNS is a DNS server whose answers the test changes; none may be kept.
type movingDNS struct {
	t       testing.TB
	address string

	mu    sync.Mutex
	addrs []string // of every name
	asked []string // names
}

func startMovingDNS(t testing.TB) *movingDNS {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &movingDNS{t: t, address: conn.LocalAddr().String()}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(m.answer)}
	go server.ActivateAndServe() // ends with Shutdown
	<-started
	t.Cleanup(func() { server.Shutdown() })
	return m
}

func (m *movingDNS) answer(w dns.ResponseWriter, q *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(q)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q.Question[0].Name)
	for _, addr := range m.addrs {
		kind := " 0 IN A "
		if strings.Contains(addr, ":") {
			kind = " 0 IN AAAA "
		}
		rr, err := dns.NewRR(q.Question[0].Name + kind + addr)
		if err != nil {
			m.t.Error(err)
			continue
		}
		if rr.Header().Rrtype == q.Question[0].Qtype {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	w.WriteMsg(reply)
}

// moves gives every name other addresses.
func (m *movingDNS) moves(addrs ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addrs = addrs
}

// questions returns which names were asked for.
func (m *movingDNS) questions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// forOthers makes the proxy listen for other machines. The origin's address is
// as good as a public one.
func forOthers(f *recordFlags) {
	f.listen = "0.0.0.0:0"
	set(&f.access.allowClients, "127.0.0.0/8,::1")
	set(&f.access.allowDestinations, "127.0.0.1")
}

// overMovingDNS runs a test of such a proxy, which asks a server of its own.
func overMovingDNS(t *testing.T, run func(x *scene, server *movingDNS)) {
	t.Helper()
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			server := startMovingDNS(t)
			x := newScene(t, scheme == "https", func(f *recordFlags) {
				forOthers(f)
				f.resolver, f.noDNS = "udp://"+server.address, true
			})
			x.at("moving.test")
			run(x, server)
			x.finish()
		})
	}
}

// refusedAt asks for a page of the origin, which the proxy must refuse.
func (x *scene) refusedAt(status int, sentence string) {
	x.Helper()
	sent, _ := x.ask("GET", "/", "")
	c := x.client()
	c.send(sent)
	x.refused(c.reply("GET"), status, sentence)
}

// policies are the lines of the failure log about destinations.
func policies(x *scene) (lines []failureLine) {
	x.Helper()
	for _, l := range failuresOf(x) {
		if l.Class == "policy" {
			lines = append(lines, l)
		}
	}
	return lines
}

// refusals checks that so many are counted, apart from failures, and that the
// log tells of them once a minute.
func (x *scene) refusals(n int64) {
	x.Helper()
	s := x.proxy.status(x.flags)
	if s.Forbidden != n || s.Failures != 0 {
		x.Errorf("%d refusals and %d failures are counted, want %d and none", s.Forbidden, s.Failures, n)
	}
	if got := summary(s, 1, "ca.pem"); !strings.Contains(got, fmt.Sprintf("; %d requests refused because of where they go", n)) {
		x.Errorf("the summary is %q", got)
	}
	log := x.log.String()
	if n := strings.Count(log, "refused because of where it goes"); n != 1 || strings.Contains(log, "no response") {
		x.Errorf("the log tells %d times of refusals:\n%s", n, log)
	}
}

// A proxy for other machines does not lead them to what is private, whatever
// name leads there: the address decides, with every connection anew.
func TestRebinding(t *testing.T) {
	overMovingDNS(t, func(x *scene, server *movingDNS) {
		server.moves("127.0.0.1")
		x.dialled("/public")
		private := []string{
			"127.0.0.2", "10.0.0.1", "192.168.1.1", "172.16.5.4", "100.64.0.1", "169.254.169.254", "100.100.100.200", "0.0.0.0", "224.0.0.1", "255.255.255.255",
			"::1", "fd00:ec2::254", "fe80::1", "fd12::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254",
			"2002:7f00:2::1", "::", "::10.0.0.1", "ff02::1",
		}
		for _, addr := range private {
			server.moves(addr)
			x.refusedAt(403, "--allow-destination")
		}
		// One that is allowed among them is used, wherever it stands.
		server.moves("10.0.0.1", "fd12::1", "127.0.0.1", "169.254.169.254")
		x.dialled("/among-others")
		server.moves("fd12::1", "10.0.0.1", "169.254.169.254")
		x.refusedAt(403, "--allow-destination")
		server.moves("127.0.0.1")
		x.dialled("/public-again")
		x.failures(int64(len(private)) + 1)
		x.settled()
		x.refusals(int64(len(private)) + 1)
		x.stop()
		lines := policies(x)
		if len(lines) != len(private)+1 {
			x.Errorf("%d lines about destinations, want %d: %+v", len(lines), len(private)+1, lines)
		}
		for _, l := range lines {
			if l.Phase != "connect" || l.Status != 403 || l.URL != x.uri("/") || l.Address != x.origin.authority {
				x.Errorf("odd line %+v", l)
			}
		}
		if n := x.origin.connections(); n != 3 {
			x.Errorf("the origin has had %d connections, want 3", n)
		}
	})
}

// Also when a request is sent again because its connection was closed.
func TestRebindingOnRetry(t *testing.T) {
	overMovingDNS(t, func(x *scene, server *movingDNS) {
		server.moves("127.0.0.1")
		c := x.client()
		o := x.fineOn(c, "/first")
		x.settled()
		server.moves("10.0.0.1")
		sent, forwarded := x.ask("GET", "/second", "")
		c.send(sent)
		x.same("the request", o.request(), forwarded)
		o.Close()
		x.refused(c.reply("GET"), 403, "10.0.0.1 is a private address")
	})
}

// What is neither TLS nor HTTP is no way around it.
func TestRebindingInBlindTunnel(t *testing.T) {
	t.Parallel()
	server := startMovingDNS(t)
	server.moves("10.0.0.1", "169.254.169.254")
	x := newScene(t, false, func(f *recordFlags) { forOthers(f); f.resolver, f.noDNS = "udp://"+server.address, true })
	c := x.tunnel("moving.test:5432")
	go c.listen() // ends with stop
	c.send("\x00\x01binary")
	c.ends()
	x.finish()
	if lines := policies(x); len(lines) != 1 || lines[0].Address != "moving.test:5432" || lines[0].Bytes != 0 {
		t.Errorf("the failure log tells %+v", lines)
	}
}

// What is certain before a look-up is said at once, also to a CONNECT, and no
// name gets to the DNS.
func TestRefusedDestinations(t *testing.T) {
	t.Parallel()
	server := startMovingDNS(t)
	server.moves("127.0.0.1")
	x := newScene(t, false, func(f *recordFlags) {
		forOthers(f)
		f.resolver, f.noDNS = "udp://"+server.address, true
		set(&f.access.denyDestinations, "exact.test,.tree.test,*.below.test,198.51.100.0/24")
		set(&f.access.ports, "80,443,1024-49151")
	})
	cases := []struct{ authority, sentence string }{
		{"a.test:25", "port 25 is not one that this proxy connects to (--ports)"},
		{"a.test:22", "--ports"}, {"a.test:1023", "--ports"}, {"a.test:65535", "--ports"}, {"127.0.0.1:6", "--ports"},
		{"exact.test:80", "exact.test is not to be connected to (--deny-destination exact.test)"},
		{"EXACT.test.:443", "--deny-destination exact.test"},
		{"tree.test:80", "--deny-destination .tree.test"}, {"a.b.tree.test:80", "--deny-destination .tree.test"},
		{"a.below.test:80", "--deny-destination *.below.test"},
		{"198.51.100.9:80", "--deny-destination 198.51.100.0/24"}, {"[::ffff:198.51.100.9]:80", "--deny-destination"},
		{"10.0.0.1:80", "10.0.0.1 is a private address"}, {"127.0.0.2:80", "loopback"}, {"[::1]:8080", "loopback"},
		{"169.254.169.254:80", "link-local"}, {"[fd00:ec2::254]:80", "metadata"}, {"0.0.0.0:80", "no host"}, {"[64:ff9b::a9fe:a9fe]:80", "link-local"},
	}
	for _, test := range cases {
		for _, request := range []string{"CONNECT " + test.authority, "GET http://" + test.authority + "/", "GET https://" + test.authority + "/"} {
			c := x.client()
			c.send(request + " HTTP/1.1\r\nHost: a.test\r\n\r\n")
			x.refused(c.reply("GET"), 403, test.sentence)
			c.ends()
		}
	}
	if asked := server.questions(); len(asked) > 0 {
		t.Errorf("the DNS was asked for %q", asked)
	}
	x.at("below.test")
	x.fine("/")
	x.at("other-exact.test")
	x.fine("/")
	x.settled()
	x.refusals(int64(3 * len(cases)))
	x.stop()
	if lines := policies(x); len(lines) != 3*len(cases) {
		t.Errorf("%d lines about destinations, want %d", len(lines), 3*len(cases))
	}
}

// Nothing leads back to the proxy, by whatever name or address.
func TestAliasesOfTheProxy(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:FFFF:127.0.0.1]", "0.0.0.0", "[::]", "１２７.０.０.１", "loopback.test"}
	everywhere := append(slices.Clone(own), "127.0.0.2", "[::1]", hostname)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil {
			everywhere = append(everywhere, ip.String())
		}
	}
	for _, test := range []struct {
		listen string
		names  []string
	}{
		{"127.0.0.1:0", own},
		{"[::1]:0", []string{"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "loopback.test"}},
		{"0.0.0.0:0", everywhere},
	} {
		t.Run(test.listen, func(t *testing.T) {
			if l, err := net.Listen("tcp", test.listen); err != nil {
				t.Skip("cannot listen there: ", err)
			} else {
				l.Close()
			}
			server := startMovingDNS(t)
			server.moves("127.0.0.1", "::1")
			x := newScene(t, false, func(f *recordFlags) {
				f.listen, f.resolver, f.noDNS = test.listen, "udp://"+server.address, true
				set(&f.access.allowClients, "127.0.0.0/8,::1")
			})
			_, port, _ := net.SplitHostPort(x.proxy.listener.Addr().String())
			for _, name := range test.names {
				for _, scheme := range []string{"http", "https"} {
					c := x.client()
					c.send("GET " + scheme + "://" + name + ":" + port + "/status HTTP/1.1\r\nHost: x\r\n\r\n")
					x.refused(c.reply("GET"), 508, "that is the address of this proxy itself")
				}
				c := x.tunnel(name + ":" + port)
				go c.listen() // ends with stop
				c.send("GET /status HTTP/1.1\r\nHost: " + name + ":" + port + "\r\n\r\n")
				x.refused(c.reply("GET"), 508, "that is the address of this proxy itself")
			}
			x.failures(int64(3 * len(test.names)))
			x.settled()
			x.stop()
			if lines := policies(x); len(lines) != 3*len(test.names) {
				t.Errorf("%d lines, want %d", len(lines), 3*len(test.names))
			}
		})
	}
}

// The proxies that the environment names are for others.
func TestNoOtherProxy(t *testing.T) {
	plain, encrypted := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	defer plain.Close()
	defer encrypted.Close()
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy of the environment was asked for %s", r.RequestURI)
	}))
	defer trap.Close()
	server := startMovingDNS(t) // for a loopback address nobody asks a proxy
	server.moves("127.0.0.1")
	cmd := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "warcs"),
		"--ca-dir", filepath.Join(t.TempDir(), "ca"), "--resolver", "udp://"+server.address, "--insecure-upstream")
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		cmd.Env = append(cmd.Env, name+"="+trap.URL)
	}
	p := startCommand(t, cmd)
	for _, u := range []string{plain.URL, encrypted.URL} {
		resp, err := p.client(false).Get(strings.Replace(u, "127.0.0.1", "origin.test", 1))
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Fatalf("%s: %v, %v", u, resp, err)
		}
		resp.Body.Close()
	}
	p.stop()
}
