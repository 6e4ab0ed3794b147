package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/certs"
)

// The tests of whole exchanges play both ends of the proxy over raw sockets. A
// scene is one running proxy, one origin and any number of clients; the test
// says, step by step and in one goroutine, what each end sends and what it has
// to get. At the end the proxy stops and the archive has to hold exactly the
// exchanges that the test wanted, byte for byte.

// patience is longer than any step takes, on a busy machine too. Nothing waits
// for it unless the test fails.
const patience = 2 * time.Minute

// shortTimeout is for tests in which a time-out passes. What has to happen before
// it passes does so on a busy machine too.
const shortTimeout = 2 * time.Second

// originCA signs the certificates of the origins; the proxy trusts it.
var originCA *certs.Authority

func TestMain(m *testing.M) {
	// A process inherits what nohup ignores, and a shell cannot trap it then. A
	// signal that is handled here has its default action in the programs of the
	// tests.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(withOriginCA(m))
}

func withOriginCA(m *testing.M) int {
	dir, err := os.MkdirTemp("", "warctee-origin-ca-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if originCA, err = certs.Open(filepath.Join(dir, "ca")); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", originCA.CertPath())
	os.Setenv("SSL_CERT_DIR", dir)
	return m.Run()
}

// A scene is a test with a proxy and an origin.
type scene struct {
	*testing.T
	https bool // of the origin and of the requests to it
	flags *recordFlags
	proxy *server // nil when stopped
	log   *syncBuffer

	origin *origin
	wants  []wanted
	onStop []func() // what closes further clients

	mu      sync.Mutex // guards what the peers have read, and the origin's list
	changed sync.Cond
	peers   []*peer
}

// overBoth runs a test over http and over https.
func overBoth(t *testing.T, run func(x *scene)) {
	overBothWith(t, func(*recordFlags) {}, run)
}

// overBothWith starts the proxy with other flags.
func overBothWith(t *testing.T, flags func(f *recordFlags), run func(x *scene)) {
	t.Helper()
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, scheme == "https", flags)
			run(x)
			x.finish()
		})
	}
}

func newScene(t *testing.T, https bool, flags func(f *recordFlags)) *scene {
	x := &scene{T: t, https: https, flags: &recordFlags{}, log: &syncBuffer{}}
	x.changed.L = &x.mu
	x.flags.register(pflag.NewFlagSet("record", pflag.PanicOnError))
	x.flags.listen = "127.0.0.1:0"
	x.flags.dir = filepath.Join(t.TempDir(), "warcs")
	x.flags.caDir = filepath.Join(t.TempDir(), "ca")
	x.flags.dedup = "memory:"
	flags(x.flags)
	t.Cleanup(func() {
		if x.proxy != nil {
			x.stop()
		}
		if x.Failed() {
			x.Logf("log of the proxy:\n%s", x.log)
		}
	})
	x.start()
	x.origin = x.newOrigin("127.0.0.1:0", https)
	return x
}

// start starts the proxy, also again after stop.
func (x *scene) start() {
	x.Helper()
	s, err := x.flags.start(context.Background(), slog.New(slog.NewTextHandler(x.log, nil)))
	if err != nil {
		x.Fatal(err)
	}
	x.proxy = s
}

// stop closes all connections of the test and stops the proxy.
func (x *scene) stop() {
	x.Helper()
	x.closePeers()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := x.proxy.stop(ctx); err != nil {
		x.Errorf("stopping the proxy: %v", err)
	}
	x.proxy = nil
}

func (x *scene) closePeers() {
	x.mu.Lock()
	peers := x.peers
	x.peers = nil
	x.mu.Unlock()
	for _, p := range peers {
		p.Close()
	}
	for _, f := range x.onStop {
		f()
	}
}

// finish stops the proxy and judges the archive.
func (x *scene) finish() {
	x.Helper()
	x.noMoreRequests()
	if x.proxy != nil {
		x.closePeers()
		x.settled()
		if lost := x.proxy.recorder.Status().Lost; lost > 0 {
			x.Errorf("%d responses are lost", lost)
		}
		x.stop()
	}
	x.checkArchive()
}

// A syncBuffer may be written to by many.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An origin accepts the connections of the proxy.
type origin struct {
	x         *scene
	https     bool
	authority string
	listener  net.Listener
	conns     []*peer // guarded by x.mu

	certificate atomic.Pointer[func() (*tls.Certificate, error)] // nil: a good one
}

func (x *scene) newOrigin(address string, https bool) *origin {
	x.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		x.Fatal(err)
	}
	o := &origin{x: x, https: https, authority: l.Addr().String(), listener: l}
	x.Cleanup(func() { l.Close() })
	go o.serve() // ends when the listener is closed
	return o
}

func (o *origin) serve() {
	for {
		c, err := o.listener.Accept()
		if err != nil {
			return
		}
		go o.open(c) // ends with the handshake, or when the proxy closes
	}
}

func (o *origin) open(c net.Conn) {
	top := c
	if o.https {
		t := tls.Server(c, &tls.Config{
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if other := o.certificate.Load(); other != nil {
					return (*other)()
				}
				if hello.ServerName != "" {
					return originCA.Leaf(hello.ServerName)
				}
				return originCA.Leaf(o.listener.Addr().(*net.TCPAddr).IP.String())
			},
			NextProtos: []string{"http/1.1"},
		})
		if t.Handshake() != nil {
			c.Close()
			return
		}
		top = t
	}
	p := o.x.newPeer("the origin", top, c.(*net.TCPConn))
	o.x.mu.Lock()
	o.conns = append(o.conns, p)
	o.x.changed.Broadcast()
	o.x.mu.Unlock()
	p.listen()
}

// next returns the connection on which something has come, new or not.
func (o *origin) next() (p *peer) {
	o.x.Helper()
	o.x.wait(func() string { return "a request at the origin" }, func() bool {
		i := slices.IndexFunc(o.conns, func(c *peer) bool { return len(c.in) > 0 })
		if i >= 0 {
			p = o.conns[i]
		}
		return i >= 0
	})
	return p
}

// newConn is next, and fails when it is one of old.
func (o *origin) newConn(old ...*peer) *peer {
	o.x.Helper()
	p := o.next()
	if slices.Contains(old, p) {
		o.x.Fatal("the proxy has used a connection again that it must not")
	}
	return p
}

func (x *scene) noMoreRequests() {
	x.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.origin == nil {
		return
	}
	for i, c := range x.origin.conns {
		if len(c.in) > 0 {
			x.Errorf("on its connection %d the origin got, not taken by the test: %.500q", i, c.in)
		}
	}
}

// connections is how many connections the origin has had.
func (o *origin) connections() int {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	return len(o.conns)
}

// client connects to the proxy, and where the scene is https through it to the
// origin.
func (x *scene) client() *peer {
	x.Helper()
	if !x.https {
		p := x.direct()
		go p.listen() // ends with stop
		return p
	}
	p := x.encrypt(x.tunnel(x.origin.authority), "http/1.1")
	go p.listen() // ends with stop
	return p
}

// direct connects to the proxy. Nobody listens yet.
func (x *scene) direct() *peer {
	x.Helper()
	c, err := net.Dial("tcp", x.proxy.listener.Addr().String())
	if err != nil {
		x.Fatal(err)
	}
	return x.newPeer("the client", c, c.(*net.TCPConn))
}

// tunnel makes a tunnel in which nothing has been said, and nobody listens yet.
func (x *scene) tunnel(authority string) *peer {
	x.Helper()
	p := x.direct()
	p.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n")
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	got := make([]byte, len(established))
	p.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(p, got); err != nil || string(got) != established {
		x.Fatalf("CONNECT %s: got %q, error %v", authority, got, err)
	}
	p.SetReadDeadline(time.Time{})
	return p
}

// encrypt speaks TLS in a tunnel, as a client that trusts the proxy.
func (x *scene) encrypt(p *peer, protocol string) *peer {
	x.Helper()
	host, _, _ := net.SplitHostPort(x.origin.authority)
	t := tls.Client(p.Conn, &tls.Config{RootCAs: x.proxyRoots(), ServerName: host, NextProtos: []string{protocol}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		x.Fatalf("TLS with the proxy: %v", err)
	}
	if got := t.ConnectionState().NegotiatedProtocol; got != protocol {
		x.Fatalf("ALPN: agreed on %q, want %q", got, protocol)
	}
	p.Conn = t
	return p
}

func (x *scene) proxyRoots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(x.proxy.authority.Certificate())
	return roots
}
