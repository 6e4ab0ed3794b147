// Package resolve looks hosts up in the DNS such that the answers can be
// archived, and connects to them.
//
// [net.Resolver] tells addresses only. A [Resolver] also tells the resource
// records that the server sent, the chain of CNAMEs included, and which server
// that was. Its DialContext takes the place of [net.Dialer.DialContext]:
//
//	r := &resolve.Resolver{OnAnswer: func(a resolve.Answer) { … }}
//	client := &http.Client{Transport: &http.Transport{DialContext: r.DialContext}}
//
// The way of a look-up; the first that knows the host ends it:
//
//	an IP address                          stands for itself
//	the hosts file                         files.go
//	localhost, *.localhost                 the loopback addresses (RFC 6761 §6.3)
//	*.invalid, *.onion                     not found (RFC 6761 §6.4, RFC 7686)
//	memory, as long as the TTL says
//	the DNS: A and AAAA at once            query.go, server.go, answer.go
//
// Only the last one gives an answer to be recorded. Several look-ups of one
// host at one time share it.
//
// Other sources that a system may be configured to use (nsswitch.conf, multicast
// DNS) are not asked. Windows tells no servers in a file: there the system does
// the look-ups, and there are no answers, unless Resolver.Server is set.
package resolve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// A Resolver looks up hosts and connects to them. The zero value asks the
// servers of the system. It is safe for concurrent use; its fields must not
// change after the first use.
type Resolver struct {
	// Server is asked in place of those of /etc/resolv.conf: udp://192.0.2.1,
	// tcp://192.0.2.1 or tls://dns.example (RFC 7858), each with or without a
	// port (53, 853); an address alone means udp. Names are then absolute:
	// there is no search list. See [CheckServer].
	Server string
	// HostsFile comes before the DNS; default the system's. A file that
	// cannot be read is as good as an empty one.
	HostsFile string
	// Timeout bounds the wait for one reply of one server. Default: what
	// /etc/resolv.conf says, or 5 s. Each server is asked again after that;
	// how often, /etc/resolv.conf says too; by default twice.
	Timeout time.Duration
	// CacheSize is how many names are remembered; default 4096.
	CacheSize int
	// TLS is the base of the configuration towards a tls:// server.
	TLS *tls.Config

	// Control is called before each connection to an address of host, at the
	// last moment (see [net.Dialer]). Its error keeps the address from being
	// connected to; the others of the host are tried. When none of them can be
	// connected to, the error is that of DialContext. Control is not called for
	// connections to DNS servers.
	Control func(host string, addr netip.AddrPort) error
	// OnAnswer is told each answer with addresses that came from the DNS,
	// before there is a connection. It must not block.
	OnAnswer func(Answer)
	// Logger gets warnings, and what servers answer wrongly at the level of
	// debugging; default [slog.Default].
	Logger *slog.Logger

	once    sync.Once
	err     error // why there is no look-up at all
	log     *slog.Logger
	hosts   *watched[map[string][]netip.Addr]
	config  func(now time.Time) *config
	native  bool // the system does the look-ups
	cache   *lru.Cache[string, cached]
	flights singleflight.Group
}

func (r *Resolver) setup() {
	r.log = r.Logger
	if r.log == nil {
		r.log = slog.Default()
	}
	hosts := r.HostsFile
	if hosts == "" {
		hosts = systemHosts()
	}
	r.hosts = &watched[map[string][]netip.Addr]{path: hosts, parse: parseHosts}
	size := r.CacheSize
	if size <= 0 {
		size = 4096
	}
	r.cache, _ = lru.New[string, cached](size) // fails for sizes below 1 only
	if r.Server != "" {
		s, err := parseServer(r.Server, r.TLS)
		fixed := &config{servers: []*server{s}, timeout: 5 * time.Second, attempts: 2}
		r.config, r.err = func(time.Time) *config { return fixed }, err
		return
	}
	r.native = runtime.GOOS == "windows"
	file := &watched[*config]{path: "/etc/resolv.conf", parse: parseConfig}
	r.config = file.get
}

// Lookup returns the addresses of host, which is a name in ASCII or an IP
// address. A name with a dot at its end is absolute: the search list of the
// system is not used.
//
// The error is a [net.DNSError]. A name that does not exist and one that has no
// addresses both are IsNotFound.
func (r *Resolver) Lookup(ctx context.Context, host string) (Answer, error) {
	return r.lookup(ctx, host, time.Now())
}

func (r *Resolver) lookup(ctx context.Context, host string, now time.Time) (Answer, error) {
	r.once.Do(r.setup)
	if addr, err := netip.ParseAddr(host); err == nil {
		return Answer{Host: host, Addrs: []netip.Addr{addr}}, nil
	}
	if !isName(trimDot(host)) {
		return Answer{}, &net.DNSError{Err: "that is neither a DNS name nor an IP address", Name: host}
	}
	name := strings.ToLower(host)
	bare := trimDot(name)
	if addrs := r.hosts.get(now)[bare]; len(addrs) > 0 {
		return Answer{Host: bare, Addrs: addrs}, nil
	}
	switch bare[strings.LastIndexByte(bare, '.')+1:] {
	case "localhost":
		return Answer{Host: bare, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}, nil
	case "invalid", "onion":
		return Answer{}, notFound(bare)
	}
	if r.err != nil {
		return Answer{}, &net.DNSError{Err: r.err.Error(), Name: bare}
	}
	if r.native {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		return Answer{Host: bare, Addrs: addrs}, err
	}
	if found, ok := r.remembered(name, now); ok {
		return found.answer, found.err
	}
	return r.share(ctx, name, now)
}

// share looks name up together with everybody else who does so now.
func (r *Resolver) share(ctx context.Context, name string, now time.Time) (Answer, error) {
	flight := r.flights.DoChan(name, func() (any, error) {
		if found, ok := r.remembered(name, now); ok { // since a moment ago
			return found.answer, found.err
		}
		// The others do not stop waiting when the first one does. It ends
		// when all servers have been asked.
		answer, err := r.resolve(context.WithoutCancel(ctx), name, now)
		if err == nil && r.OnAnswer != nil {
			r.OnAnswer(answer)
		}
		r.remember(name, answer, err, now)
		return answer, err
	})
	select {
	case result := <-flight:
		return result.Val.(Answer), result.Err
	case <-ctx.Done():
		err := context.Cause(ctx)
		return Answer{}, &net.DNSError{
			Err: "the look-up was given up: " + err.Error(), Name: trimDot(name),
			UnwrapErr: err, IsTimeout: errors.Is(err, context.DeadlineExceeded),
		}
	}
}

// isName reports whether name can be looked up as a host: letters, digits, hyphens
// and underscores in labels. The last one is not a number, since a.b.c.4 is
// for many clients an address, however odd its spelling.
func isName(name string) bool {
	if len(name) > 253 {
		return false
	}
	last := ""
	for last = range strings.SplitSeq(name, ".") {
		if last == "" || len(last) > 63 || strings.ContainsFunc(last, isOdd) {
			return false
		}
	}
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(strings.ToLower(last), "0x")
}

func isOdd(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

func notFound(host string) *net.DNSError {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func trimDot(name string) string { return strings.TrimSuffix(name, ".") }
