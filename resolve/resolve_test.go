package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const zone = soa +
	"example. 60 IN A 192.0.2.1\n" +
	"www.example. 300 IN CNAME Edge.Example.\n" +
	"edge.example. 200 IN CNAME pool.example.\n" +
	"pool.example. 100 IN A 192.0.2.2\n" +
	"pool.example. 100 IN A 192.0.2.3\n" +
	"pool.example. 50 IN AAAA 2001:db8::2\n" +
	"v6.example. 60 IN AAAA 2001:db8::6\n" +
	"empty.example. 60 IN TXT nothing\n" +
	"loop.example. 60 IN CNAME noose.example.\n" +
	"noose.example. 60 IN CNAME loop.example.\n" +
	"xn--bcher-kva.example. 60 IN A 192.0.2.4\n" +
	"under_score.example. 60 IN A 192.0.2.5\n" +
	"zero.example. 0 IN A 192.0.2.6\n" +
	"www.corp.example. 60 IN A 192.0.2.7\n"

func TestAnswer(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	begin := time.Now()
	a := r.found("WWW.Example", "192.0.2.2", "192.0.2.3", "2001:db8::2")
	if a.Host != "www.example" || a.URI() != "dns:www.example" {
		t.Errorf("Host is %q, URI %q", a.Host, a.URI())
	}
	if a.Server.String() != s.addr {
		t.Errorf("Server is %s, want %s", a.Server, s.addr)
	}
	if a.When.Before(begin) || a.When.After(time.Now()) {
		t.Errorf("When is %s", a.When)
	}
	if a.TTL != 50*time.Second {
		t.Errorf("TTL is %s, want that of the AAAA", a.TTL)
	}
	a.When = time.Date(2026, 9, 30, 21, 34, 27, 0, time.FixedZone("", 2*60*60))
	const want = "20260930193427\n" +
		"www.example. 300 IN CNAME Edge.Example.\n" +
		"edge.example. 200 IN CNAME pool.example.\n" +
		"pool.example. 100 IN A 192.0.2.2\n" +
		"pool.example. 100 IN A 192.0.2.3\n" +
		"pool.example. 50 IN AAAA 2001:db8::2\n"
	if got := string(a.Block()); got != want {
		t.Errorf("the block is\n%s, want\n%s", got, want)
	}
	told := r.told()
	if len(told) != 1 || !slices.Equal(told[0].Records, a.Records) {
		t.Errorf("OnAnswer was told %v", told)
	}
	s.wantQuestions("udp A www.example.", "udp AAAA www.example.")
	r.found("www.example", "192.0.2.2", "192.0.2.3", "2001:db8::2")
	s.wantQuestions()
	if told := r.told(); told != nil {
		t.Errorf("OnAnswer was told what came from memory: %v", told)
	}
}

func TestNames(t *testing.T) {
	s := newTestServer(t, zone)
	for _, test := range []struct {
		host string
		want string // address, or error
	}{
		{"example.", "192.0.2.1"},
		{"v6.example", "2001:db8::6"},
		{"xn--bcher-kva.example", "192.0.2.4"},
		{"under_score.example", "192.0.2.5"},
		{"nowhere.example", "no such host"},
		{"empty.example", "no such host"},
		{"loop.example", "no such host"},
		{"192.0.2.9", "192.0.2.9"},
		{"2001:db8::9", "2001:db8::9"},
		{"fe80::1%eth0", "fe80::1%eth0"},
	} {
		t.Run(test.host, func(t *testing.T) {
			r := newTestResolver(t, s.addr)
			if test.want == "no such host" {
				if err := r.fails(test.host, test.want); !err.IsNotFound || err.Name != test.host {
					t.Errorf("the error is %+v", err)
				}
				return
			}
			r.found(test.host, test.want)
		})
	}
}

func TestNamesNotAsked(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	for _, host := range []string{
		"", ".", "a..example", ".example", "bücher.example", "\u212a.example", "a b.example", "a\n.example", "[::1]", "127.1", "0x7f.1", "1.0x7f", "2130706433",
		"10.0.0.256", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "example",
	} {
		if err := r.fails(host, "neither a DNS name nor an IP address"); err.Name != host {
			t.Errorf("the error names %q, not %q", err.Name, host)
		}
	}
	for _, host := range []string{"x.invalid", "INVALID", "duckduckgo.onion."} {
		if err := r.fails(host, "no such host"); !err.IsNotFound {
			t.Errorf("the error is %+v", err)
		}
	}
	for _, host := range []string{"localhost", "LocalHost.", "a.b.localhost"} {
		r.found(host, "127.0.0.1", "::1")
	}
	s.wantQuestions()
	if told := r.told(); told != nil {
		t.Errorf("OnAnswer was told %v", told)
	}
}

func TestHostsFile(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	path := filepath.Join(t.TempDir(), "hosts")
	r.hosts.path = path
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# 192.0.2.66 example\n192.0.2.77\tExample. other # third\n2001:db8::77 example\nnonsense example\nlone\n127.0.0.5 localhost\n")
	now := time.Now()
	r.foundAt(now, "EXAMPLE.", "192.0.2.77", "2001:db8::77")
	r.foundAt(now, "other", "192.0.2.77")
	r.foundAt(now, "localhost", "127.0.0.5")
	s.wantQuestions()
	if told := r.told(); told != nil {
		t.Errorf("OnAnswer was told %v", told)
	}
	write("192.0.2.78 example\n")
	r.foundAt(now.Add(lookAgain-1), "example", "192.0.2.77", "2001:db8::77")
	r.foundAt(now.Add(lookAgain), "example", "192.0.2.78")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.foundAt(now.Add(2*lookAgain), "example", "192.0.2.1")
}

func TestSearchList(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	c := r.config(time.Now())
	c.search = []string{"none.example", "corp.example", "example"}
	if a := r.found("www", "192.0.2.7"); a.URI() != "dns:www.corp.example" {
		t.Errorf("URI is %s", a.URI())
	}
	s.wantQuestions("udp A www.corp.example.", "udp A www.none.example.", "udp AAAA www.corp.example.", "udp AAAA www.none.example.")
	r.fails("www.", "no such host")
	s.wantQuestions("udp A www.", "udp AAAA www.")
	r.found("example.", "192.0.2.1")
	s.questions()
	r.fails("www.corp", "no such host") // not www.corp.example
	s.wantQuestions("udp A www.corp.", "udp AAAA www.corp.")
	if err := r.fails("other", "lookup other: no such host"); !err.IsNotFound {
		t.Errorf("the error is %+v", err)
	}
	if asked := s.questions(); len(asked) != 8 || asked[3] != "udp A other.none.example." {
		t.Errorf("asked were %q", asked)
	}
	c.ndots = 2
	s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		return strings.Contains(q.Question[0].Name, "none") && withRcode(dns.RcodeServerFailure)(w, q)
	})
	r.found("v6.example", "2001:db8::6")
	r.fails("other.one", "SERVFAIL") // it may have been the right one
}

func TestCache(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	now := time.Now()
	asked := func(want int) {
		t.Helper()
		if got := s.questions(); len(got) != want {
			t.Errorf("the server was asked %q, want %d questions", got, want)
		}
	}
	r.foundAt(now, "www.example", "192.0.2.2", "192.0.2.3", "2001:db8::2")
	asked(2)
	s.setZone(soa + "www.example. 60 IN A 192.0.2.9\n")
	r.foundAt(now.Add(49*time.Second), "www.example", "192.0.2.2", "192.0.2.3", "2001:db8::2")
	asked(0)
	r.foundAt(now.Add(50*time.Second), "www.example", "192.0.2.9")
	asked(2)
	if n := len(r.told()); n != 2 {
		t.Errorf("OnAnswer was called %d times, want twice", n)
	}

	s.setZone(zone)
	r.foundAt(now, "zero.example", "192.0.2.6")
	r.foundAt(now, "zero.example", "192.0.2.6")
	asked(4)

	missing := func(host string, now time.Time) {
		t.Helper()
		var e *net.DNSError
		if _, err := r.lookup(context.Background(), host, now); !errors.As(err, &e) || !e.IsNotFound {
			t.Errorf("looking up %s: error %v", host, err)
		}
	}
	for _, host := range []string{"nowhere.example", "empty.example"} {
		missing(host, now)
		asked(2)
		missing(host, now.Add(30*time.Second-1)) // the last number of the SOA
		asked(0)
		missing(host, now.Add(30*time.Second))
		asked(2)
	}
	s.setZone("example. 60 IN A 192.0.2.1\n")
	missing("nosoa.example", now)
	missing("nosoa.example", now)
	asked(4)
}

func TestCacheBounds(t *testing.T) {
	r := &Resolver{CacheSize: 2}
	r.once.Do(r.setup)
	now := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		r.remember(name, Answer{TTL: time.Second}, nil, now)
	}
	if _, ok := r.remembered("a", now); ok || r.cache.Len() != 2 {
		t.Errorf("the cache holds %v", r.cache.Keys())
	}
	r.remember("long", Answer{TTL: 1000 * time.Hour}, nil, now)
	if _, ok := r.remembered("long", now.Add(maxTTL)); ok {
		t.Error("an answer is remembered for longer than maxTTL")
	}
	r.remember("none", Answer{TTL: time.Hour}, notFound("none"), now)
	if _, ok := r.remembered("none", now.Add(maxNegativeTTL)); ok {
		t.Error("that there is no answer is remembered for longer than maxNegativeTTL")
	}
	r.remember("failed", Answer{TTL: time.Hour}, &net.DNSError{}, now)
	if _, ok := r.remembered("failed", now); ok {
		t.Error("a failure is remembered")
	}
}

func TestOneLookupForMany(t *testing.T) {
	s := newTestServer(t, zone)
	r := newTestResolver(t, s.addr)
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	s.set(func(dns.ResponseWriter, *dns.Msg) bool {
		asked <- struct{}{}
		<-answer
		return false
	})
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error)
	go func() { // ends with cancel
		_, err := r.Lookup(ctx, "zero.example")
		first <- err
	}()
	<-asked
	<-asked
	var others sync.WaitGroup
	joined := make(chan struct{}, 10)
	for range 10 {
		others.Go(func() {
			joined <- struct{}{}
			if a, err := r.Lookup(context.Background(), "ZERO.example"); err != nil || len(a.Addrs) != 1 {
				t.Errorf("one of the others: %v, error %v", a, err)
			}
		})
	}
	for range 10 {
		<-joined
	}
	cancel()
	err := <-first
	var e *net.DNSError
	if !errors.As(err, &e) || !errors.Is(err, context.Canceled) || e.IsNotFound {
		t.Errorf("the first one, which was cancelled: %v", err)
	}
	close(answer)
	others.Wait()
	// The TTL is 0, so that one who came late may have asked again.
	if asked, told := len(s.questions()), len(r.told()); asked != 2*told || told > 5 {
		t.Errorf("%d questions and %d answers, want 2 and 1", asked, told)
	}
}

func TestConfigFile(t *testing.T) {
	c := parseConfig(strings.NewReader("# comment\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver dns.example\nnameserver 192.0.2.4\n" +
		"domain old.example\nsearch A.example. . b.example\noptions ndots:2 timeout:3 attempts:4 rotate edns0\n"))
	got := fmt.Sprint(c.timeout, c.attempts, c.ndots, c.search)
	if want := "3s 4 2 [a.example b.example]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(c.servers) != 2 || c.servers[0].addr != "192.0.2.1:53" || c.servers[1].addr != "[fe80::1%eth0]:53" {
		t.Errorf("the servers are %+v", c.servers)
	}
	c = parseConfig(strings.NewReader(""))
	if len(c.servers) != 2 || c.servers[0].addr != "127.0.0.1:53" || c.timeout != 5*time.Second || c.attempts != 2 || c.ndots != 1 {
		t.Errorf("an empty file means %+v", c)
	}
	c = parseConfig(strings.NewReader("nameserver nonsense\n"))
	if r := (&testResolver{Resolver: &Resolver{}, t: t}); len(c.servers) == 0 {
		r.once.Do(r.setup)
		r.config = func(time.Time) *config { return c }
		r.fails("www.example", "names no DNS server")
	}
}
