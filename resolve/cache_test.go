package resolve

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// longChain is a reply that takes as much memory as a server can make it take: a
// chain of 20 CNAMEs whose names are as long as names can be, of octets that are
// escaped, and 40 addresses at its end.
func longChain(t testing.TB, name string) *reply {
	m := new(dns.Msg)
	owner := dns.Fqdn(name)
	for i := range 20 {
		label := fmt.Sprintf("%05d", i) + strings.Repeat(`\001`, 55)
		target := strings.Repeat(label+".", 4)
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 3600}, Target: target})
		owner = target
	}
	for i := range 40 {
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: []byte{192, 0, 2, byte(i)}})
	}
	return &reply{m, netip.MustParseAddrPort("192.0.2.53:53")}
}

// What is remembered takes the same memory however large the answers are.
func TestCacheMemory(t *testing.T) {
	const names = 4096
	r := &Resolver{CacheSize: names}
	r.once.Do(r.setup)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var answer Answer
	if err := answer.add("a.example.", longChain(t, "a.example")); err != nil || len(answer.Addrs) != 40 || len(answer.Records) != 60 {
		t.Fatalf("the answer has %d addresses and %d records, error %v", len(answer.Addrs), len(answer.Records), err)
	}
	before, now := heap(), time.Now()
	for i := range names {
		name := fmt.Sprintf("host-%d.%s.example", i, strings.Repeat("long", 12))
		a := Answer{Host: name, Addrs: slices.Clone(answer.Addrs), TTL: time.Hour}
		for _, record := range answer.Records {
			a.Records = append(a.Records, strings.Clone(record))
		}
		r.remember(name, a, nil, now)
	}
	each := (heap() - before) / names
	t.Logf("%d bytes for each name", each)
	if each > 2<<10 {
		t.Errorf("each name takes %d bytes, want at most 2 KiB", each)
	}
	got, ok := r.remembered(fmt.Sprintf("host-%d.%s.example", 7, strings.Repeat("long", 12)), now)
	if !ok || len(got.answer.Addrs) != maxTried || got.answer.Addrs[0] != netip.MustParseAddr("192.0.2.0") {
		t.Errorf("%d addresses are remembered", len(got.answer.Addrs))
	}
	runtime.KeepAlive(r)
}

// A small message can stand for much text.
func TestLargeAnswer(t *testing.T) {
	s := newTestServer(t, "")
	s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		m := longChain(t, q.Question[0].Name)
		end := m.Answer[len(m.Answer)-1].Header().Name
		for i := range 1000 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: end, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: []byte{198, 51, byte(i >> 8), byte(i)}})
		}
		m.SetReply(q)
		m.Compress = true
		if w.RemoteAddr().Network() == "udp" {
			m.Truncate(dns.MinMsgSize)
		}
		w.WriteMsg(m.Msg)
		return true
	})
	r := newTestResolver(t, s.addr)
	if a, err := r.Lookup(t.Context(), "large.example"); err == nil || !strings.Contains(err.Error(), "256 KiB") {
		t.Errorf("the answer has %d records, error %v", len(a.Records), err)
	}
}
