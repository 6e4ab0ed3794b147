package recorder

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxIdlePerOrigin = 32
	maxIdle          = 512
	idleTimeout      = 90 * time.Second

	// A request that must not be sent twice only goes out on a connection
	// that was used so shortly before that its server cannot have given it
	// up meanwhile.
	freshIdle = 2 * time.Second
)

// A pool holds the connections to origins that wait for another exchange.
type pool struct {
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls      *tls.Config
	timeout  time.Duration
	places   *places
	maxConns int // to one origin
	space    *space
	log      *slog.Logger

	maxHead, maxFields int // of replies

	mu     sync.Mutex
	warned map[string]bool          // hosts whose certificates are not trusted and taken all the same
	idle   map[string][]*originConn // by scheme and address, the latest last
	total  int
	open   map[*originConn]struct{} // idle or in use
	closed bool
	served sync.WaitGroup // of the goroutines of the connections
}

func newPool(o *Options, space *space) *pool {
	config := o.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"http/1.1"}
	config.InsecureSkipVerify = config.InsecureSkipVerify || o.InsecureUpstream
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS12
	}
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1024)
	}
	return &pool{
		dial:     o.Dial,
		tls:      config,
		timeout:  o.Timeout,
		places:   newPlaces(o),
		maxConns: o.MaxConnsPerOrigin,
		space:    space,

		maxHead:   o.MaxReplyHead,
		maxFields: o.MaxReplyFields,

		idle:   make(map[string][]*originConn),
		open:   make(map[*originConn]struct{}),
		log:    o.Logger,
		warned: make(map[string]bool),
	}
}

// origin returns the address that a request goes to, and the key of its origin
// in the pool.
func (o *originRequest) origin() (addr, key string) {
	host, port := splitAuthority(o.scheme, o.authority)
	addr = net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	return addr, o.scheme + " " + addr
}

// get returns a connection to the origin that a has been put on, and whether
// it has been used before.
func (p *pool) get(ctx context.Context, a *attempt) (c *originConn, reused bool, err error) {
	addr, key := a.x.request.origin()
	if !a.fresh {
		if c := p.takeIdle(key, a); c != nil {
			return c, true, nil
		}
	}
	p.makeRoom(key)
	c, err = p.connect(ctx, a.x.request.scheme, addr)
	if err != nil {
		return nil, false, err
	}
	c.key = key
	c.attempt = a
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.nc.Close()
		return nil, false, admissionError("shutting-down", errClosed)
	}
	p.open[c] = struct{}{}
	p.served.Add(1)
	go func() { // ends when the connection is closed, at the latest by pool.close
		defer p.served.Done()
		c.serve()
	}()
	return c, false, nil
}

// takeIdle puts a on the connection that was used last.
func (p *pool) takeIdle(key string, a *attempt) *originConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		list := p.idle[key]
		if len(list) == 0 {
			return nil
		}
		c := list[len(list)-1]
		if !a.x.request.isIdempotent() && time.Since(c.idleSince) > freshIdle {
			return nil
		}
		p.removeLocked(c)
		if c.assign(a) {
			return c
		}
	}
}

// makeRoom closes an idle connection that cannot be taken, where another one
// would be too many.
func (p *pool) makeRoom(key string) {
	used := p.places.used(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.idle[key]; len(list) > 0 && used+len(list) > p.maxConns {
		c := list[0]
		p.removeLocked(c)
		c.close()
	}
}

// put makes c wait for another exchange. It returns false when there is no
// room.
func (p *pool) put(c *originConn) bool {
	used := p.places.used(c.key) // the exchange that ends is one of them
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.total >= maxIdle || len(p.idle[c.key]) >= maxIdlePerOrigin || used+len(p.idle[c.key]) > p.maxConns {
		return false
	}
	c.idleSince = time.Now()
	p.idle[c.key] = append(p.idle[c.key], c)
	p.total++
	return true
}

func (p *pool) removeLocked(c *originConn) {
	list := p.idle[c.key]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	p.total--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(p.idle, c.key)
	} else {
		p.idle[c.key] = list
	}
}

// forget is called when a connection is closed for good.
func (p *pool) forget(c *originConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(c)
	delete(p.open, c)
}

// close closes all connections and waits for their goroutines.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.close()
	}
	p.mu.Unlock()
	p.served.Wait()
}

// connect dials the origin and speaks TLS with it where the scheme says so.
func (p *pool) connect(ctx context.Context, scheme, addr string) (*originConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	nc, err := p.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, upstreamError(PhaseConnect, addr, err)
	}
	c := &originConn{pool: p, addr: addr, nc: nc, buf: make([]byte, readBuffer)}
	remote, _ := netip.ParseAddrPort(nc.RemoteAddr().String())
	if scheme != "https" {
		c.spoken = newSpoken(remote, nil)
		return c, nil
	}
	config := p.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	if config.GetClientCertificate == nil && len(config.Certificates) == 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.asksCertificate = true
			return new(tls.Certificate), nil // none
		}
	}
	c.below = &socket{Conn: nc}
	t := tls.Client(c.below, config)
	if err := t.HandshakeContext(ctx); err != nil {
		nc.Close()
		if c.asksCertificate && isRemoteAlert(err) {
			return nil, certificateDemanded(PhaseTLS, addr, err)
		}
		return nil, upstreamError(PhaseTLS, addr, err)
	}
	state := t.ConnectionState()
	c.nc, c.spoken = t, newSpoken(remote, &state)
	if config.InsecureSkipVerify {
		c.spoken.untrusted = p.verify(config, &state)
	}
	return c, nil
}
