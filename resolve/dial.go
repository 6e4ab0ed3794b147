package resolve

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const (
	// attemptDelay is the head start of an address before the next one (RFC
	// 8305 §5).
	attemptDelay = 250 * time.Millisecond

	// A host may have any number of addresses; more are not tried.
	maxTried = 16
)

// DialContext connects to addr, host:port, over network: tcp, tcp4 or tcp6. It
// tries the addresses of the host, IPv6 and IPv4 in turn, each a quarter of a
// second after the one before or as soon as that has failed, and returns the
// first connection (RFC 8305). The error is a [net.OpError]; where the host was
// not found, it holds a [net.DNSError].
func (r *Resolver) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	answer, err := r.Lookup(ctx, host)
	if err != nil {
		return fail(err)
	}
	addrs := inTurn(answer.Addrs, network)
	if len(addrs) == 0 {
		return fail(&net.AddrError{Err: "the host has no address for " + network, Addr: host})
	}
	return race(ctx, addrs, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		return r.dialOne(ctx, network, host, net.JoinHostPort(ip.String(), port))
	})
}

// A refusal is an error of Resolver.Control.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }

// dialOne connects to an address of host.
func (r *Resolver) dialOne(ctx context.Context, network, host, addr string) (net.Conn, error) {
	var d net.Dialer
	if r.Control != nil {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			final, err := netip.ParseAddrPort(address)
			if err == nil {
				err = r.Control(host, final)
			}
			if err != nil {
				return refusal{err}
			}
			return nil
		}
	}
	return d.DialContext(ctx, network, addr)
}

// inTurn returns the addresses for network, IPv6 and IPv4 in turn.
func inTurn(addrs []netip.Addr, network string) []netip.Addr {
	var families [2][]netip.Addr
	for _, addr := range addrs {
		switch {
		case addr.Is4() || addr.Is4In6():
			if network != "tcp6" {
				families[1] = append(families[1], addr)
			}
		case network != "tcp4":
			families[0] = append(families[0], addr)
		}
	}
	var turns []netip.Addr
	for i := 0; i < len(families[0]) || i < len(families[1]); i++ {
		for _, family := range families {
			if i < len(family) {
				turns = append(turns, family[i])
			}
		}
	}
	return turns[:min(len(turns), maxTried)]
}

// race dials addrs, which are at least one, and returns the first connection.
// When all have failed it returns the first refusal, or the first error that
// says something about the host.
func race(ctx context.Context, addrs []netip.Addr, dial func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer close(done)
	defer cancel() // ends the losers; a connection that is there already stays
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	running := 0
	start := func() {
		addr := addrs[0]
		addrs = addrs[1:]
		running++
		go func() { // ends with cancel at the latest
			conn, err := dial(ctx, addr)
			select {
			case results <- result{conn, err}:
			case <-done:
				if conn != nil {
					conn.Close()
				}
			}
		}()
	}
	start()
	delay := time.NewTimer(attemptDelay)
	defer delay.Stop()
	var first, refused error
	for running > 0 {
		select {
		case <-delay.C:
			if len(addrs) > 0 {
				start()
				delay.Reset(attemptDelay)
			}
		case got := <-results:
			running--
			var no refusal
			switch {
			case got.err == nil:
				return got.conn, nil
			case errors.As(got.err, &no):
				refused = cmp.Or(refused, got.err)
			case first == nil || isNoRoute(first):
				first = got.err
			}
			if len(addrs) > 0 {
				start()
				delay.Reset(attemptDelay)
			}
		}
	}
	return nil, cmp.Or(refused, first)
}

// isNoRoute reports whether err says that this machine does not speak IPv6, or
// is not connected at all.
func isNoRoute(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}
