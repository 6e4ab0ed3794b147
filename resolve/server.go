package resolve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// udpSize is what passes through all networks in one piece (RFC 9715 §3).
	udpSize = 1232

	// A server that does not answer is asked last for downTime.
	downTime = 30 * time.Second

	// Connections to a tcp:// or tls:// server wait so long for another
	// question, and so many of them (RFC 7766 §6.2).
	idleTime = 8 * time.Second
	maxIdle  = 8
)

// A server is a DNS server.
type server struct {
	network string      // udp, tcp, tls
	addr    string      // host:port
	tls     *tls.Config // where network is tls
	keep    bool        // connections are used again

	down atomic.Pointer[time.Time] // until when it counts as not answering, by the monotonic clock

	mu   sync.Mutex
	idle []*stream
}

// A stream is a connection over TCP, with or without TLS.
type stream struct {
	*dns.Conn
	expiry *time.Timer // closes it when it is idle
}

// CheckServer says what is wrong with a Resolver.Server.
func CheckServer(s string) error {
	_, err := parseServer(s, nil)
	return err
}

func parseServer(s string, config *tls.Config) (*server, error) {
	network, addr, ok := strings.Cut(s, "://")
	if !ok {
		network, addr = "udp", s
	}
	port := "53"
	switch network {
	case "udp", "tcp":
	case "tls":
		port = "853"
	default:
		return nil, fmt.Errorf("the DNS server %q: the protocol is none of udp, tcp and tls", s)
	}
	addr = strings.TrimSuffix(addr, "/")
	host := addr
	if h, p, err := net.SplitHostPort(addr); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]") {
		host = addr[1 : len(addr)-1]
	}
	if _, err := netip.ParseAddrPort("0.0.0.0:" + port); err != nil {
		return nil, fmt.Errorf("the DNS server %q: the port is no number up to 65535", s)
	}
	if _, err := netip.ParseAddr(host); err != nil && (network != "tls" || !isName(host)) {
		return nil, fmt.Errorf("the DNS server %q: want an IP address, as in udp://192.0.2.1:53 or tcp://[2001:db8::1]; after tls:// it may be a name", s)
	}
	v := &server{network: network, addr: net.JoinHostPort(host, port), keep: network != "udp"}
	if network == "tls" {
		if v.tls = config.Clone(); v.tls == nil {
			v.tls = new(tls.Config)
		}
		if v.tls.ServerName == "" {
			v.tls.ServerName = host
		}
	}
	return v, nil
}

// isDown takes down that s gave err, and reports whether that is new.
func (s *server) isDown(err error, now time.Time) bool {
	var e *serverError
	if !errors.As(err, &e) || !e.timeout {
		return false
	}
	until := now.Add(downTime)
	before := s.down.Swap(&until)
	return before == nil || before.Before(now)
}

// answers reports whether s has answered of late, or not been asked.
func (s *server) answers(now time.Time) bool {
	until := s.down.Load()
	return until == nil || !until.After(now)
}

// send asks q on a connection that is left from another question, if there is
// one.
func (s *server) send(ctx context.Context, q *dns.Msg) (*reply, error) {
	if c := s.takeIdle(); c != nil {
		if got, err := s.ask(ctx, c, q); err == nil || ctx.Err() != nil {
			return got, err
		}
		// The server has closed it meanwhile.
	}
	return s.exchangeOnce(ctx, q)
}

// exchangeOnce asks q on a new connection.
func (s *server) exchangeOnce(ctx context.Context, q *dns.Msg) (*reply, error) {
	network := s.network
	if network == "tls" {
		network = "tcp"
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, s.addr)
	if err != nil {
		return nil, err
	}
	if s.tls != nil {
		t := tls.Client(nc, s.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		nc = t
	}
	return s.ask(ctx, &stream{Conn: &dns.Conn{Conn: nc, UDPSize: 4096}}, q)
}

// ask sends q and waits for the reply to it. It closes c or keeps it.
func (s *server) ask(ctx context.Context, c *stream, q *dns.Msg) (_ *reply, err error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop() && err == nil && s.keep {
			s.putIdle(c)
		} else {
			c.Close()
		}
	}()
	q.Id = dns.Id()
	if err := c.WriteMsg(q); err != nil {
		return nil, err
	}
	remote, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	for {
		m, err := c.ReadMsg()
		if err == nil && answers(m, q) {
			return &reply{m, netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())}, nil
		}
		var ne net.Error
		switch {
		case s.network == "udp" && !errors.As(err, &ne):
			// Anybody can send a datagram: the right one may still come.
		case err != nil:
			return nil, err
		default:
			return nil, errors.New("it answers another question than it was asked")
		}
	}
}

// answers reports whether m is the answer to q (RFC 5452 §9.1).
func answers(m, q *dns.Msg) bool {
	if !m.Response || m.Id != q.Id {
		return false
	}
	if len(m.Question) == 0 {
		return m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError
	}
	got, want := m.Question[0], q.Question[0]
	return len(m.Question) == 1 && got.Qtype == want.Qtype && got.Qclass == want.Qclass && strings.EqualFold(got.Name, want.Name)
}

func (s *server) takeIdle() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		c := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if c.expiry.Stop() { // else it is about to be closed
			return c
		}
	}
	return nil
}

func (s *server) putIdle(c *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) >= maxIdle {
		c.Close()
		return
	}
	c.expiry = time.AfterFunc(idleTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle = slices.DeleteFunc(s.idle, func(other *stream) bool { return other == c })
		c.Close()
	})
	s.idle = append(s.idle, c)
}
