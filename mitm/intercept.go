package mitm

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A Tunnel is what a client made with CONNECT.
type Tunnel struct {
	Authority  string // HOST:PORT as in the CONNECT request; it decides where requests go
	TLS        bool   // whether the client spoke TLS in it
	ServerName string // that it named in the TLS handshake (SNI); may be empty
}

// An Interceptor serves the requests inside CONNECT tunnels. Fields must not be
// changed after the first call of a method. Methods are safe for concurrent use.
type Interceptor struct {
	// Handler gets the requests, as that of a [NewServer].
	Handler http.Handler

	// GetCertificate returns the certificate for a server name that the client
	// named in the TLS handshake or, where it named none or there is an
	// error, for the host of the CONNECT request: a DNS name, or an IP address
	// without brackets.
	GetCertificate func(host string) (*tls.Certificate, error)

	// Dial connects to the origin of a tunnel that is neither TLS nor HTTP.
	// nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// OnFailure, unless nil, is told of what is not recorded.
	OnFailure func(Failure)

	Logger *slog.Logger // nil means slog.Default()

	Limits      Limits
	PeekTimeout time.Duration // for the first bytes of the client; 0 means 5 s

	setUp      sync.Once
	limits     Limits       // with defaults
	server     *http.Server // of the requests inside tunnels
	listener   *tunnelListener
	tlsConfig  *tls.Config
	handshakes chan struct{} // holds one for each that is computed
	untrusted  hint          // for clients that reject our certificates
	badTLS     hint          // for other failures of the handshake
	stats      counters

	mu      sync.Mutex // guards the rest
	gone    sync.Cond  // a tunnel was closed
	tunnels map[*tunnelConn]bool
	closing bool // no new tunnels
}

// Stats counts tunnels since the start.
type Stats struct {
	TLS               int64 // intercepted, client spoke TLS
	Plain             int64 // intercepted, client spoke HTTP without TLS
	Blind             int64 // not recorded
	BlindBytes        int64 // bytes that went through those, both ways
	HandshakeFailures int64 // of TLS with the client
}

type counters struct {
	tls, plain, blind, blindBytes, handshakeFailures atomic.Int64
}

// Stats returns the counts of now.
func (in *Interceptor) Stats() Stats {
	c := &in.stats
	return Stats{
		TLS:               c.tls.Load(),
		Plain:             c.plain.Load(),
		Blind:             c.blind.Load(),
		BlindBytes:        c.blindBytes.Load(),
		HandshakeFailures: c.handshakeFailures.Load(),
	}
}

// start sets up the server of the requests inside tunnels.
func (in *Interceptor) start() {
	in.setUp.Do(func() {
		in.limits = in.Limits.withDefaults()
		in.gone.L = &in.mu
		in.tunnels = map[*tunnelConn]bool{}
		in.listener = &tunnelListener{conns: make(chan net.Conn), done: make(chan struct{})}
		in.tlsConfig = &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"h2", "http/1.1"},
			GetCertificate: in.certificateFor,
		}
		in.handshakes = make(chan struct{}, in.limits.MaxHandshakes)
		in.server = NewServer(in.Handler, in.limits, in.OnFailure, in.Logger)
		in.server.Protocols.SetUnencryptedHTTP2(true) // TLS is taken off before
		go in.server.Serve(in.listener)               // stopped by Shutdown and Close
	})
}

func (in *Interceptor) logger() *slog.Logger { return orDefault(in.Logger) }

// ServeTunnel answers a CONNECT request, of which nothing has been answered
// yet, and serves what the client then sends through conn. It returns at once
// and owns conn.
func (in *Interceptor) ServeTunnel(conn net.Conn, authority string) {
	in.start()
	ctx, cancel := context.WithCancel(context.Background())
	c := &tunnelConn{Conn: conn, tunnel: &Tunnel{Authority: authority}, ctx: ctx, heads: shareOf(conn), opening: true}
	c.onClose = func() {
		cancel()
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.tunnels, c)
		in.gone.Broadcast()
	}
	in.mu.Lock()
	closing := in.closing
	if !closing {
		in.tunnels[c] = true
	}
	in.mu.Unlock()
	if closing {
		c.Close()
		return
	}
	go func() { // stopped by closing c, which timeouts, Shutdown and Close do
		defer in.recovered(c)
		in.open(c)
	}()
}

// recovered is deferred in goroutines of a tunnel: a panic costs no more than
// the tunnel.
func (in *Interceptor) recovered(c *tunnelConn) {
	if v := recover(); v != nil {
		in.logger().Error("panic in a tunnel", "authority", c.tunnel.Authority, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		c.Close()
	}
}

// open finds out what the client speaks.
func (in *Interceptor) open(c *tunnelConn) {
	start, patience := time.Now(), cmp.Or(in.PeekTimeout, 5*time.Second)
	c.SetDeadline(start.Add(patience))
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		c.Close()
		return
	}
	kind, why := c.peek()
	c.heads.hold(0) // at most a few KiB are left, which are read soon
	c.SetDeadline(time.Time{})
	switch kind {
	case saysNothing:
		c.Close()
	case speaksTLS:
		in.terminate(c)
	case speaksHTTP:
		in.stats.plain.Add(1)
		in.serve(c, in.newConn(c, c))
	case isSilent:
		in.opened(c)
		in.blind(c, fmt.Sprintf("the client sent nothing for %s", patience), start)
	default:
		in.opened(c)
		in.blind(c, why, start)
	}
}

// terminate takes TLS off the tunnel.
func (in *Interceptor) terminate(c *tunnelConn) {
	tc := tls.Server(c, in.tlsConfig)
	if err := in.shake(c, tc); err != nil {
		in.handshakeFailed(c, err)
		c.Close() // after the report: Shutdown waits for it
		return
	}
	in.stats.tls.Add(1)
	state := tc.ConnectionState()
	c.tunnel.TLS = true
	c.tunnel.ServerName = state.ServerName
	if state.NegotiatedProtocol == "h2" {
		in.serve(c, newBareConn(tc, c.tunnel, c.heads, in.limits.maxHeaderBytes()))
		return
	}
	in.serve(c, in.newConn(c, tc))
}

// newConn is a framing connection in a tunnel, on top of c.
func (in *Interceptor) newConn(c *tunnelConn, top net.Conn) *conn {
	fc := newConn(top, c.tunnel, in.limits.head())
	fc.heads = c.heads
	return fc
}

// shake performs the TLS handshake in its turn, which it gives back also when
// GetCertificate panics.
func (in *Interceptor) shake(c *tunnelConn, tc *tls.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), in.limits.HeaderTimeout)
	defer cancel()
	c.turn = &turn{slots: in.handshakes, ctx: ctx}
	c.shaking.Store(true)
	defer func() {
		c.shaking.Store(false)
		c.heads.hold(0)
		c.turn.give()
		c.turn = nil
	}()
	if err := c.turn.take(); err != nil {
		return err
	}
	return tc.HandshakeContext(ctx)
}

// serve gives the connection, which is c or on top of it, to the server.
func (in *Interceptor) serve(c *tunnelConn, top net.Conn) {
	switch top := top.(type) {
	case *conn:
		in.listener.silent.watch(top, &top.onHead)
	case *bareConn:
		in.listener.silent.watch(top, &top.onRead)
	}
	in.opened(c)
	in.listener.deliver(top)
}

// opened says that the tunnel is past its opening.
func (in *Interceptor) opened(c *tunnelConn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	c.opening = false
}

// certificateFor is for tls.Config.
func (in *Interceptor) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if in.GetCertificate == nil {
		return nil, errors.New("mitm: no GetCertificate")
	}
	if hello.ServerName != "" {
		if cert, err := in.GetCertificate(hello.ServerName); err == nil {
			return cert, nil
		}
	}
	authority := hello.Conn.(*tunnelConn).tunnel.Authority
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	return in.GetCertificate(host)
}

// Shutdown stops. It closes the connections that are idle or have not sent a
// request yet, and waits for the others. When ctx ends first, it closes those
// too and returns the error of ctx.
func (in *Interceptor) Shutdown(ctx context.Context) error {
	in.start()
	in.closeTunnels(func(c *tunnelConn) bool { return c.opening })
	if err := in.server.Shutdown(ctx); err != nil {
		in.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.gone.Broadcast()
	})
	defer stop()
	in.mu.Lock()
	for len(in.tunnels) > 0 && ctx.Err() == nil {
		in.gone.Wait()
	}
	left := len(in.tunnels)
	in.mu.Unlock()
	if left == 0 {
		return nil
	}
	in.Close()
	return ctx.Err()
}

// Close stops and closes all connections at once.
func (in *Interceptor) Close() error {
	in.start()
	in.closeTunnels(func(*tunnelConn) bool { return true })
	return in.server.Close()
}

// closeTunnels closes the tunnels that match, and lets nobody in any more.
func (in *Interceptor) closeTunnels(match func(*tunnelConn) bool) {
	in.mu.Lock()
	in.closing = true
	var conns []*tunnelConn
	for c := range in.tunnels {
		if match(c) {
			conns = append(conns, c)
		}
	}
	in.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}
