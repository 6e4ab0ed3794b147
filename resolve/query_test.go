package resolve

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

func TestFailover(t *testing.T) {
	bad, good := newTestServer(t, zone), newTestServer(t, zone)
	for _, code := range []int{dns.RcodeServerFailure, dns.RcodeRefused} {
		r := newTestResolver(t, bad.addr, good.addr)
		bad.set(withRcode(code))
		if a := r.found("example", "192.0.2.1"); a.Server.String() != good.addr {
			t.Errorf("Server is %s", a.Server)
		}
		good.set(withRcode(code))
		if err := r.fails("v6.example", "the DNS server "+good.addr+" answered "+dns.RcodeToString[code]); err.IsNotFound || err.IsTimeout || !err.IsTemporary {
			t.Errorf("the error is %+v", err)
		}
		good.set(nil)
		r.found("v6.example", "2001:db8::6") // the failure was not remembered
	}

	// A referral is no answer.
	bad.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		m := new(dns.Msg)
		m.SetReply(q)
		w.WriteMsg(m)
		return true
	})
	newTestResolver(t, bad.addr, good.addr).found("example", "192.0.2.1")
	newTestResolver(t, bad.addr).fails("example", "does not look names up for others")

	// Nobody listens there.
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.LocalAddr().String()
	l.Close()
	newTestResolver(t, closed, good.addr).found("example", "192.0.2.1")
	newTestResolver(t, closed).fails("example", closed+" cannot be asked: read: connection refused")
}

func TestTimeout(t *testing.T) {
	dead, good := newTestServer(t, zone), newTestServer(t, zone)
	dead.set(silent)
	r := newTestResolver(t, dead.addr, good.addr)
	r.Timeout = 50 * time.Millisecond
	r.found("example", "192.0.2.1")
	dead.wantQuestions("udp A example.", "udp AAAA example.")
	r.found("v6.example", "2001:db8::6")
	dead.wantQuestions() // others first, for a while
	if n := strings.Count(r.log.String(), "a DNS server does not answer"); n != 1 {
		t.Errorf("it was logged %d times, want once:\n%s", n, &r.log)
	}

	r = newTestResolver(t, dead.addr)
	r.Timeout = 50 * time.Millisecond
	if err := r.fails("example", dead.addr+" does not answer"); !err.IsTimeout || err.IsNotFound {
		t.Errorf("the error is %+v", err)
	}
	dead.wantQuestions("udp A example.", "udp A example.", "udp AAAA example.", "udp AAAA example.")
}

func TestOrderOfServers(t *testing.T) {
	c := &config{servers: []*server{{addr: "a"}, {addr: "b"}, {addr: "c"}}}
	now := time.Now()
	late := &serverError{timeout: true}
	if !c.servers[0].isDown(late, now) || c.servers[0].isDown(late, now) || c.servers[1].isDown(&serverError{}, now) {
		t.Error("which server is newly down is not told rightly")
	}
	for after, want := range map[time.Duration]string{0: "bca", downTime - 1: "bca", downTime: "abc"} {
		got := ""
		for _, s := range c.inOrder(now.Add(after)) {
			got += s.addr
		}
		if got != want {
			t.Errorf("after %s the order is %s, want %s", after, got, want)
		}
	}
}

func TestOneFamilyFails(t *testing.T) {
	s := newTestServer(t, zone)
	for name, test := range map[string]struct {
		qtype    uint16
		override func(w dns.ResponseWriter, q *dns.Msg) bool
		want     string
	}{
		"no AAAA ever":     {dns.TypeAAAA, silent, "192.0.2.2 192.0.2.3"},
		"AAAA fails":       {dns.TypeAAAA, withRcode(dns.RcodeServerFailure), "192.0.2.2 192.0.2.3"},
		"NXDOMAIN of AAAA": {dns.TypeAAAA, withRcode(dns.RcodeNameError), "192.0.2.2 192.0.2.3"},
		"A fails":          {dns.TypeA, withRcode(dns.RcodeServerFailure), "2001:db8::2"},
	} {
		t.Run(name, func(t *testing.T) {
			s.set(ofType(test.qtype, test.override))
			r := newTestResolver(t, s.addr)
			r.Timeout = patience // what is silent must not be waited for as long
			r.found("pool.example", strings.Fields(test.want)...)
		})
	}
	s.set(ofType(dns.TypeAAAA, withRcode(dns.RcodeServerFailure)))
	newTestResolver(t, s.addr).fails("empty.example", "SERVFAIL")
	newTestResolver(t, s.addr).fails("nowhere.example", "no such host")
}

// many is a zone whose answer does not fit in a datagram.
func many() (zone string, addrs []string) {
	for i := range 200 {
		addr := fmt.Sprintf("192.0.2.%d", i)
		zone += "many.example. 60 IN A " + addr + "\n"
		addrs = append(addrs, addr)
	}
	return zone, addrs
}

// truncating does over UDP what servers do.
func (s *testServer) truncating(w dns.ResponseWriter, q *dns.Msg) bool {
	m := s.reply(q)
	if w.RemoteAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		m.Truncate(size)
	}
	w.WriteMsg(m)
	return true
}

func TestTruncated(t *testing.T) {
	zone, addrs := many()
	s := newTestServer(t, zone)
	s.set(s.truncating)
	r := newTestResolver(t, s.addr)
	if a := r.found("many.example", addrs...); len(a.Records) != 200 || a.Server.String() != s.addr {
		t.Errorf("%d records from %s", len(a.Records), a.Server)
	}
	s.wantQuestions("tcp A many.example.", "udp A many.example.", "udp AAAA many.example.")

	// 40 addresses fit with EDNS(0) and do not without.
	s.setZone(strings.Join(strings.SplitAfter(zone, "\n")[:40], ""))
	newTestResolver(t, s.addr).found("many.example", addrs[:40]...)
	s.wantQuestions("udp A many.example.", "udp AAAA many.example.")
}

func TestServerWithoutEDNS(t *testing.T) {
	s := newTestServer(t, zone)
	s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		if q.IsEdns0() == nil {
			return false
		}
		m := new(dns.Msg)
		m.SetRcodeFormatError(q)
		m.Question = nil
		w.WriteMsg(m)
		return true
	})
	newTestResolver(t, s.addr).found("example", "192.0.2.1")
}

func TestWrongReplies(t *testing.T) {
	s := newTestServer(t, zone)
	lie := func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg)
		m.SetReply(q)
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A 203.0.113.66")
		if err != nil {
			t.Error(err)
		}
		m.Answer = append(m.Answer, rr)
		return m
	}
	wrong := map[string]func(m *dns.Msg){
		"ID":            func(m *dns.Msg) { m.Id++ },
		"name":          func(m *dns.Msg) { m.Question[0].Name = "other.example." },
		"type":          func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeTXT },
		"class":         func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		"no question":   func(m *dns.Msg) { m.Question = nil },
		"two questions": func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) },
		"a question":    func(m *dns.Msg) { m.Response = false },
	}
	for name, change := range wrong {
		t.Run(name, func(t *testing.T) {
			s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
				m := lie(q)
				change(m)
				w.WriteMsg(m)
				w.Write([]byte("garbage"))
				w.Write(nil)
				return false
			})
			newTestResolver(t, s.addr).found("example", "192.0.2.1")
			r := newTestResolver(t)
			r.config(time.Now()).servers = []*server{{network: "tcp", addr: s.addr}}
			r.fails("example", s.addr+" cannot be asked: it answers another question")
		})
	}

	// What stands in the reply but was not asked for is not believed, nor
	// kept.
	s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		m := s.reply(q)
		for _, text := range []string{"bank.example. 60 IN A 203.0.113.66", "example. 60 CH A 203.0.113.66", `example. 60 IN TXT "a\010b"`} {
			rr, err := dns.NewRR(text)
			if err != nil {
				t.Error(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		w.WriteMsg(m)
		return true
	})
	a := newTestResolver(t, s.addr).found("example", "192.0.2.1")
	if want := []string{"example. 60 IN A 192.0.2.1", "bank.example. 60 IN A 203.0.113.66"}; !slices.Equal(a.Records, want) {
		t.Errorf("the records are %q, want %q", a.Records, want)
	}

	// A name cannot add a line to the record.
	s.set(func(w dns.ResponseWriter, q *dns.Msg) bool {
		m := s.reply(q)
		m.Answer = append([]dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 1 << 31}, Target: `evil\010\013.example.`}}, m.Answer...)
		w.WriteMsg(m)
		return true
	})
	a = newTestResolver(t, s.addr).found("example", "192.0.2.1")
	if got := strings.Count(string(a.Block()), "\n"); got != 3 || a.TTL != 0 {
		t.Errorf("TTL is %s, the block %q", a.TTL, a.Block())
	}
}

func TestProtocols(t *testing.T) {
	zone, addrs := many()
	s := newTestServer(t, zone)
	s.set(s.truncating)
	// The first of two questions gets no reply before the second was asked: its
	// connection would be used again at once.
	met := make(chan struct{})
	together := func(w dns.ResponseWriter, q *dns.Msg) bool {
		if q.Question[0].Name == "many.example." {
			select {
			case met <- struct{}{}:
			case <-met:
			case <-time.After(patience): // the look-up has failed
			}
		}
		return s.truncating(w, q)
	}
	for _, test := range []struct {
		server string
		conns  int
	}{
		{"udp://" + s.addr, 1}, // the second half of a truncated reply
		{s.addr, 1},
		{"tcp://" + s.addr, 2},
		{"tls://" + s.tls, 2},
	} {
		t.Run(test.server, func(t *testing.T) {
			r := &testResolver{t: t, Resolver: &Resolver{Server: test.server, TLS: &tls.Config{RootCAs: s.roots}}}
			before := s.connections()
			keeps := strings.HasPrefix(test.server, "t")
			if keeps {
				s.set(together)
			}
			r.found("many.example", addrs...)
			if n := s.connections() - before; n != test.conns {
				t.Errorf("%d connections, want %d", n, test.conns)
			}
			if !keeps {
				return
			}
			for i := range 5 {
				r.fails(fmt.Sprint("nowhere", i, ".example"), "no such host")
			}
			if n := s.connections() - before; n != test.conns {
				t.Errorf("%d connections, want the first %d to be used again", n, test.conns)
			}
			// The connections are broken off meanwhile.
			r.config(time.Now()).attempts = 1
			v := r.config(time.Now()).servers[0]
			v.mu.Lock()
			for _, c := range v.idle {
				c.Close()
			}
			v.mu.Unlock()
			r.fails("nowhere.example", "no such host")
		})
	}
	r := &testResolver{t: t, Resolver: &Resolver{Server: "tls://" + s.tls}}
	r.fails("many.example", "certificate")
	r = &testResolver{t: t, Resolver: &Resolver{Server: "tls://" + s.addr, Timeout: 50 * time.Millisecond}}
	r.fails("many.example", s.addr)
}

func TestCheckServer(t *testing.T) {
	for _, test := range []struct{ server, want string }{
		{"192.0.2.1", "udp 192.0.2.1:53"},
		{"192.0.2.1:5353", "udp 192.0.2.1:5353"},
		{"2001:db8::1", "udp [2001:db8::1]:53"},
		{"[2001:db8::1]", "udp [2001:db8::1]:53"},
		{"[2001:db8::1]:54", "udp [2001:db8::1]:54"},
		{"tcp://192.0.2.1/", "tcp 192.0.2.1:53"},
		{"tls://192.0.2.1", "tls 192.0.2.1:853"},
		{"tls://dns.example", "tls dns.example:853"},
		{"tls://dns.example:443", "tls dns.example:443"},
		{"", "want an IP address"},
		{"udp://", "want an IP address"},
		{"udp://dns.example", "want an IP address"},
		{"tls://dns example", "want an IP address"},
		{"tls://user@192.0.2.1", "want an IP address"},
		{"https://192.0.2.1", "the protocol is none of udp, tcp and tls"},
		{"192.0.2.1:dns", "the port is no number"},
		{"192.0.2.1:65536", "the port is no number"},
	} {
		s, err := parseServer(test.server, nil)
		got := fmt.Sprint(err)
		if err == nil {
			got = s.network + " " + s.addr
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%q: got %s, want %s", test.server, got, test.want)
		}
		if (CheckServer(test.server) == nil) != (err == nil) {
			t.Errorf("CheckServer(%q) differs", test.server)
		}
	}
	r := &testResolver{t: t, Resolver: &Resolver{Server: "nonsense"}}
	r.fails("www.example", `the DNS server "nonsense"`)
	r.found("192.0.2.1", "192.0.2.1")
}

func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{keep: true}
		conns := make([]*testConn, maxIdle+1)
		for i := range conns {
			conns[i] = &testConn{}
			s.putIdle(&stream{Conn: &dns.Conn{Conn: conns[i]}})
		}
		last := len(conns) - 1
		if !conns[last].closed {
			t.Error("more than maxIdle connections are kept")
		}
		if c := s.takeIdle(); c.Conn.Conn != conns[last-1] {
			t.Error("it is not the latest that is used again")
		}
		time.Sleep(idleTime)
		synctest.Wait()
		for i, c := range conns[:last] {
			if c.closed != (i != last-1) {
				t.Errorf("connection %d: closed is %t", i, c.closed)
			}
		}
		if s.takeIdle() != nil {
			t.Error("a closed connection would be used")
		}
	})
}
