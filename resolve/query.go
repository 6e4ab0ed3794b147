package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"

	"github.com/miekg/dns"
)

// grace is how long one of the two look-ups of a host is still waited for when
// the other one has given addresses: some servers never answer AAAA.
const grace = 500 * time.Millisecond

// resolve asks the DNS for name. With a not-found error the answer has only the
// TTL.
func (r *Resolver) resolve(ctx context.Context, name string, now time.Time) (Answer, error) {
	c := r.config(now)
	var failure error
	ttl := time.Duration(math.MaxInt64)
	for _, fqdn := range c.names(name) {
		answer, err := r.both(ctx, c, fqdn)
		switch {
		case err == nil:
			answer.When = now
			return answer, nil
		case err.IsTimeout:
			return Answer{}, err
		case err.IsNotFound:
			ttl = min(ttl, answer.TTL)
		default:
			failure = err // perhaps this was the right one
		}
	}
	if failure != nil {
		return Answer{}, failure
	}
	return Answer{TTL: ttl}, notFound(trimDot(name))
}

// both asks for the IPv4 and the IPv6 addresses of a name. With a not-found error
// the answer has only the TTL.
func (r *Resolver) both(ctx context.Context, c *config, fqdn string) (Answer, *net.DNSError) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		reply *reply
		err   error
	}
	types := [2]uint16{dns.TypeA, dns.TypeAAAA}
	results := [2]chan result{make(chan result, 1), make(chan result, 1)}
	for i, qtype := range types {
		go func() { // ends with cancel at the latest
			reply, err := r.ask(ctx, c, fqdn, qtype)
			results[i] <- result{reply, err}
		}()
	}
	var got [2]result
	var late <-chan time.Time
	for left := 2; left > 0; {
		i := 0
		select {
		case got[0] = <-results[0]:
		case got[1] = <-results[1]:
			i = 1
		case <-late:
			cancel() // the other one ends at once
			late = nil
			continue
		}
		if left--; left > 0 && got[i].reply != nil && got[i].reply.settles(fqdn) {
			late = time.After(grace)
		}
	}

	a := Answer{Host: trimDot(fqdn)}
	missing, ttl := false, time.Duration(math.MaxInt64)
	for _, g := range got {
		if g.reply != nil {
			if err := a.add(fqdn, g.reply); err != nil {
				return Answer{}, &net.DNSError{Err: err.Error(), Name: a.Host, UnwrapErr: err, Server: g.reply.server.String()}
			}
			missing = missing || g.reply.Rcode == dns.RcodeNameError
			ttl = min(ttl, negativeTTL(g.reply))
		}
	}
	err := cmp.Or(got[0].err, got[1].err)
	switch {
	case len(a.Addrs) > 0:
		return a, nil
	case err == nil || missing:
		return Answer{TTL: ttl}, notFound(a.Host)
	}
	e := &net.DNSError{Err: err.Error(), Name: a.Host, UnwrapErr: err, IsTemporary: true}
	var asked *serverError
	if errors.As(err, &asked) {
		e.IsTimeout = asked.timeout
	}
	return Answer{}, e
}

// settles reports whether the reply makes one with addresses of the other kind
// dispensable: it has addresses, or cannot be used. Some servers say for AAAA that a name does not exist that has an
// A (RFC 4074 §4.2): that is why the other one is waited for at all.
func (r *reply) settles(name string) bool {
	var a Answer
	return a.add(name, r) != nil || len(a.Addrs) > 0 || r.Rcode == dns.RcodeNameError
}

// A serverError is why a server gave no answer.
type serverError struct {
	server  string // address
	reason  string
	timeout bool
	err     error // of the system, or nil
}

func (e *serverError) Unwrap() error { return e.err }

func (e *serverError) Error() string { return "the DNS server " + e.server + " " + e.reason }

// ask asks one server after the other, until one gives an answer.
func (r *Resolver) ask(ctx context.Context, c *config, fqdn string, qtype uint16) (*reply, error) {
	timeout := c.timeout
	if r.Timeout > 0 {
		timeout = r.Timeout
	}
	err := errors.New("/etc/resolv.conf names no DNS server that can be asked")
	for range c.attempts {
		for _, s := range c.inOrder(time.Now()) {
			var got *reply
			if got, err = s.exchange(ctx, timeout, fqdn, qtype); err == nil {
				return got, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			r.log.Debug("a DNS server gave no answer", "name", trimDot(fqdn), "type", dns.TypeToString[qtype], "error", err)
			if s.isDown(err, time.Now()) && len(c.servers) > 1 {
				r.log.Warn("a DNS server does not answer: others are asked first", "server", s.addr, "for", downTime)
			}
		}
	}
	return nil, err
}

// inOrder returns the servers, those behind which have not answered of late.
func (c *config) inOrder(now time.Time) []*server {
	var up, down []*server
	for _, s := range c.servers {
		if s.answers(now) {
			up = append(up, s)
		} else {
			down = append(down, s)
		}
	}
	return append(up, down...)
}

// exchange asks s, again without EDNS(0) if it does not understand that, and
// over TCP if the reply did not fit.
func (s *server) exchange(ctx context.Context, timeout time.Duration, fqdn string, qtype uint16) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q := new(dns.Msg)
	q.SetQuestion(fqdn, qtype)
	q.SetEdns0(udpSize, false)
	got, err := s.send(ctx, q)
	if err == nil && (got.Rcode == dns.RcodeFormatError || got.Rcode == dns.RcodeNotImplemented || got.Rcode == dns.RcodeBadVers) {
		q.Extra = nil
		got, err = s.send(ctx, q)
	}
	if err == nil && got.Truncated && s.network == "udp" {
		tcp := &server{network: "tcp", addr: s.addr}
		got, err = tcp.exchangeOnce(ctx, q)
	}
	switch {
	case err != nil:
		return nil, s.failure(err)
	case got.Rcode != dns.RcodeSuccess && got.Rcode != dns.RcodeNameError:
		return nil, &serverError{server: s.addr, reason: "answered " + rcode(got.Rcode)}
	case got.Rcode == dns.RcodeSuccess && len(got.Answer) == 0 && !got.RecursionAvailable && !got.Authoritative:
		return nil, &serverError{server: s.addr, reason: "does not look names up for others"}
	}
	return got, nil
}

func rcode(code int) string {
	if name, ok := dns.RcodeToString[code]; ok {
		return name
	}
	return fmt.Sprintf("with the error code %d", code)
}

// failure words what went wrong on the way to s and back.
func (s *server) failure(err error) error {
	var ne net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout() {
		return &serverError{server: s.addr, reason: "does not answer", timeout: true}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it closed the connection")
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	return &serverError{server: s.addr, reason: "cannot be asked: " + err.Error(), err: err}
}
