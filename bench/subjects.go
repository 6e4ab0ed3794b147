//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/elazarl/goproxy"

	"github.com/warctee/warctee/certs"
	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/proxy"
)

// A subject is what the traffic goes through.
type subject struct {
	name  string
	start func(b *bench, dir string) (*process, error) // nil: directly
	// records tells that it writes an archive into dir, and tells about it
	// as warctee does.
	records bool
}

// enough idle connections to the origin for all clients.
const enough = 1000

func subjects() []subject {
	return []subject{
		{name: "direct"},
		{name: "goproxy", start: ownProgram("goproxy", 0)},
		{name: "goproxy+", start: ownProgram("goproxy", enough)},
		{name: "unrecorded", start: ownProgram("unrecorded", enough)},
		{name: "warctee", start: (*bench).startWarctee, records: true},
		{name: "before", start: (*bench).startBefore, records: true},
	}
}

func (b *bench) startWarctee(dir string) (*process, error) {
	env := b.env()
	if b.profile != "" {
		env = append(env, "BENCH_PROFILE="+b.profile)
	}
	return startProcess(env, b.warctee, b.record(dir)...)
}

func (b *bench) startBefore(dir string) (*process, error) {
	return startProcess(b.env(), b.before(), b.record(dir)...)
}

// record is the command line of warctee: all defaults, but for what each run has
// of its own.
func (b *bench) record(dir string) []string {
	return []string{"record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", b.caDir}
}

// env makes a proxy trust the origin.
func (b *bench) env() []string { return []string{"SSL_CERT_FILE=" + filepath.Join(b.caDir, "ca.pem")} }

// programs are the proxies that are in this program: their arguments are the
// directory of the certificate authority and how many idle connections to an
// origin are kept.
var programs = map[string]func(l net.Listener, caDir string, idle int) error{
	"goproxy":    serveGoproxy,
	"unrecorded": serveUnrecorded,
}

func ownProgram(name string, idle int) func(*bench, string) (*process, error) {
	return func(b *bench, _ string) (*process, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return startProcess(b.env(), self, name, b.caDir, strconv.Itoa(idle))
	}
}

// runProgram is the process of such a proxy, until a SIGTERM.
func runProgram(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s is not for people", args[0])
	}
	idle, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { // ends with the process
		<-stop
		os.Exit(0)
	}()
	fmt.Fprintf(os.Stderr, "http://%s\n", l.Addr())
	return programs[args[0]](l, args[1], idle)
}

// serveGoproxy is the bare goproxy: all that it is told is to intercept, to
// keep the certificates that it makes, and how many connections it keeps. It
// does not verify the origin's certificate.
func serveGoproxy(l net.Listener, caDir string, idle int) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(caDir, "ca.pem"), filepath.Join(caDir, "ca-key.pem"))
	if err != nil {
		return err
	}
	if ca.Leaf, err = x509.ParseCertificate(ca.Certificate[0]); err != nil {
		return err
	}
	handler := goproxy.NewProxyHttpServer()
	handler.CertStore = &certStore{certs: make(map[string]*tls.Certificate)}
	handler.Tr.MaxIdleConnsPerHost = idle // 0: that of net/http, two
	mitm := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
	handler.OnRequest().HandleConnectFunc(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return mitm, host })
	return http.Serve(l, handler)
}

// A certStore keeps goproxy's certificates.
type certStore struct {
	mu    sync.Mutex
	certs map[string]*tls.Certificate
}

func (s *certStore) Fetch(host string, make func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.certs[host]; c != nil {
		return c, nil
	}
	c, err := make()
	if err == nil {
		s.certs[host] = c
	}
	return c, err
}

// serveUnrecorded is warctee without its recorder, in the place of which is a
// transport of net/http: what recording adds is the difference between the two.
func serveUnrecorded(l net.Listener, caDir string, idle int) error {
	authority, err := certs.Open(caDir)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	tunnels := &mitm.Interceptor{GetCertificate: authority.Leaf, Logger: log}
	handler := proxy.New(proxy.Options{
		Transport: &plainTransport{http.Transport{
			MaxIdleConns:        idle,
			MaxIdleConnsPerHost: idle,
			DisableCompression:  true,
			TLSClientConfig:     &tls.Config{NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0)},
		}},
		Intercept: tunnels.ServeTunnel,
		Tunnel: func(ctx context.Context) (string, bool, bool) {
			t := mitm.TunnelOf(ctx)
			if t == nil {
				return "", false, false
			}
			return t.Authority, t.TLS, true
		},
		Logger: log,
	})
	tunnels.Handler = handler
	return mitm.NewServer(handler, mitm.Limits{}, nil, log).Serve(mitm.NewListener(l, mitm.Limits{}, log))
}

// A plainTransport copies bodies through buffers that are used again: a new one
// for each, as io.Copy makes it, would be an expense that the recorder does not
// have.
type plainTransport struct{ http.Transport }

func (t *plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = plainBody{resp.Body}
	}
	return resp, err
}

type plainBody struct{ io.ReadCloser }

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (b plainBody) WriteTo(w io.Writer) (int64, error) {
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{b.ReadCloser}, buf[:])
}
