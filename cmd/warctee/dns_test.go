package main

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc/warctest"
)

// dnsZone is what the server of these tests knows. What is not in it does not
// exist, but for broken.test, about which it fails.
var dnsZone = []string{
	"site.test. 300 IN CNAME cdn.test.",
	"cdn.test. 60 IN A 127.0.0.1",
	"moving.test. 0 IN A 127.0.0.1",
}

// startDNS starts a DNS server and returns its address.
func startDNS(t testing.TB) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(answerDNS)}
	go server.ActivateAndServe() // ends with Shutdown
	<-started
	t.Cleanup(func() { server.Shutdown() })
	return conn.LocalAddr().String()
}

func answerDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	m.Rcode = dns.RcodeNameError
	name := q.Question[0].Name
	if name == "broken.test." {
		m.Rcode = dns.RcodeServerFailure
	}
	for _, line := range dnsZone {
		rr, err := dns.NewRR(line)
		if err != nil {
			panic(err)
		}
		if rr.Header().Name != name {
			continue
		}
		m.Rcode = dns.RcodeSuccess
		if c, ok := rr.(*dns.CNAME); ok {
			name = c.Target
		} else if rr.Header().Rrtype != q.Question[0].Qtype {
			continue
		}
		m.Answer = append(m.Answer, rr)
	}
	w.WriteMsg(m)
}

// overDNS runs a test in which the proxy asks a server of its own. The test
// ends with resources.
func overDNS(t *testing.T, flags func(f *recordFlags), run func(x *scene)) {
	t.Helper()
	server := startDNS(t)
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			run(newScene(t, scheme == "https", func(f *recordFlags) {
				f.resolver = "udp://" + server
				flags(f)
			}))
		})
	}
}

// at gives the origin a name.
func (x *scene) at(host string) {
	x.Helper()
	_, port, err := net.SplitHostPort(x.origin.authority)
	if err != nil {
		x.Fatal(err)
	}
	x.origin.authority = net.JoinHostPort(host, port)
}

// dialled makes an exchange behind which the next one needs another connection.
func (x *scene) dialled(target string) {
	x.Helper()
	x.fine(target).Close()
	x.settled()
}

// resources stops the proxy and returns the resource records of the archive.
func (x *scene) resources() (resources []*stored) {
	x.Helper()
	x.settled()
	x.stop()
	warctest.Check(x.T, x.flags.dir)
	exchanges := 0
	for _, r := range x.readArchive() {
		switch r.kind() {
		case "resource":
			resources = append(resources, r)
		case "response":
			exchanges++
		}
		if got := r.Get("WARC-IP-Address"); r.kind() != "warcinfo" && got != "127.0.0.1" {
			x.Errorf("WARC-IP-Address of the %s is %q", r.kind(), got)
		}
	}
	if exchanges != len(x.wants) {
		x.Errorf("the archive has %d responses, want %d", exchanges, len(x.wants))
	}
	return resources
}

func TestDNSRecords(t *testing.T) {
	t.Parallel()
	overDNS(t, func(*recordFlags) {}, func(x *scene) {
		x.at("site.test")
		x.dialled("/one")
		x.dialled("/two") // within the TTL
		x.at("moving.test")
		x.dialled("/three") // with a TTL of 0
		x.dialled("/four")
		x.at("127.0.0.1")
		x.dialled("/five")
		x.at("localhost")
		x.dialled("/six")
		want := map[string]string{
			"dns:site.test":   "site.test. 300 IN CNAME cdn.test.\ncdn.test. 60 IN A 127.0.0.1\n",
			"dns:moving.test": "moving.test. 0 IN A 127.0.0.1\n",
		}
		count := map[string]int{}
		for _, r := range x.resources() {
			uri := r.Get("WARC-Target-URI")
			count[uri]++
			begin, records, _ := strings.Cut(r.block, "\n")
			date := strings.NewReplacer("-", "", "T", "", ":", "").Replace(r.Get("WARC-Date"))
			if len(begin) != 14 || !strings.HasPrefix(date, begin+".") {
				x.Errorf("the block begins with %q, WARC-Date is %s", begin, r.Get("WARC-Date"))
			}
			x.same("the block of "+uri, records, want[uri])
			for name, want := range map[string]string{"Content-Type": "text/dns", "WARC-Concurrent-To": "", "WARC-Protocol": "", "WARC-Cipher-Suite": ""} {
				if got := r.Get(name); got != want {
					x.Errorf("%s of %s is %q, want %q", name, uri, got, want)
				}
			}
		}
		if len(count) != 2 || count["dns:site.test"] != 1 || count["dns:moving.test"] != 2 {
			x.Errorf("the resource records are %v, want one of site.test and two of moving.test", count)
		}
	})
}

func TestNoDNSRecords(t *testing.T) {
	t.Parallel()
	overDNS(t, func(f *recordFlags) { f.noDNS = true }, func(x *scene) {
		x.at("site.test")
		x.fine("/")
		if n := len(x.resources()); n != 0 {
			x.Errorf("the archive has %d resource records", n)
		}
	})
}

func TestDNSFailures(t *testing.T) {
	t.Parallel()
	overDNS(t, func(*recordFlags) {}, func(x *scene) {
		refused := func(host string, status int, sentence string) {
			x.Helper()
			x.at(host)
			sent, _ := x.ask("GET", "/", "")
			c := x.client()
			c.send(sent)
			x.refused(c.reply("GET"), status, sentence)
		}
		refused("nowhere.test", 502, "cannot find the host nowhere.test: no such host in the DNS")
		refused("broken.test", 502, "cannot find the host broken.test: the DNS server "+strings.TrimPrefix(x.flags.resolver, "udp://")+" answered SERVFAIL")
		origin := x.origin.authority
		x.origin.authority = x.proxy.listener.Addr().String()
		refused("moving.test", 508, "that is the address of this proxy itself")
		x.origin.authority = origin
		x.failures(3)
		x.at("site.test")
		x.fine("/")
		if n := len(x.resources()); n != 2 {
			x.Errorf("the archive has %d resource records, want those of moving.test and site.test", n)
		}
	})
}

func TestResolverFlag(t *testing.T) {
	for _, server := range []string{"dns.example", "https://192.0.2.1/dns-query", "udp://192.0.2.1:http"} {
		f := &recordFlags{}
		f.register(pflag.NewFlagSet("record", pflag.PanicOnError))
		f.resolver = server
		var usage usageError
		if err := f.check(); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--resolver: the DNS server \""+server) {
			t.Errorf("--resolver %s: %v", server, err)
		}
	}
}
