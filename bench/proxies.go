//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/elazarl/goproxy"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// A process is a running proxy.
type process struct {
	cmd   *exec.Cmd
	url   *url.URL
	said  bytes.Buffer  // on stderr
	ended chan struct{} // closed when it says no more
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// startProxy starts a proxy, the first line on stderr of which tells its URL.
func startProxy(b *bench, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(b.caDir, "ca.pem"))
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	in := bufio.NewReader(r)
	line, _ := in.ReadString('\n') // an error: it has ended
	go func() {                    // ends with the process
		defer close(p.ended)
		defer r.Close()
		io.Copy(&p.said, in)
	}()
	if p.url, err = url.Parse(listening.FindString(line)); err != nil || p.url.Host == "" {
		p.kill()
		return nil, fmt.Errorf("%s does not start:\n%s%s", program, line, p.said.String())
	}
	return p, nil
}

// stop ends the process and waits until it has.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		<-p.ended
		return fmt.Errorf("%s: %w; it said:\n%s", p.cmd.Path, err, p.said.String())
	}
	return nil
}

// kill ends a process that was not stopped.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
	<-p.ended
}

// cpu is the processor time that the process has used in its life, in seconds.
func (p *process) cpu() float64 {
	return (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
}

// rss is the most memory that the process has had so far, in MB; 0 where there
// is no /proc. (What getrusage tells is no less than what this process had when
// it started that one.)
func (p *process) rss() float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	fmt.Sscanf(text, "%f kB", &kib)
	return kib * 1024 / 1e6
}

func startWarctee(b *bench, dir string) (*process, error) {
	return startProxy(b, b.warctee, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", b.caDir)
}

// checkArchive finds whether the archive is right and has all of the traffic.
func checkArchive(dir string, t traffic) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.warc*")) // also what is not finished: a mistake
	if err != nil {
		return err
	}
	report, err := check.Files(names...)
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		return fmt.Errorf("the archive has %d mistakes, the first: %s", len(report.Findings), f)
	}
	var got traffic
	for _, r := range report.Records {
		if r.Type == warc.TypeResponse && r.Status == http.StatusOK && r.Header.Get("WARC-Truncated") == "" {
			got.requests++
			got.octets += r.PayloadSize
		}
	}
	if got != t {
		return fmt.Errorf("the archive has %+v, the clients have got %+v", got, t)
	}
	return nil
}

func startGoproxy(idle int) func(*bench, string) (*process, error) {
	return func(b *bench, _ string) (*process, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return startProxy(b, self, "goproxy", b.caDir, strconv.Itoa(idle))
	}
}

// serveGoproxy is the process of the bare goproxy: all that it is told is to
// intercept, to keep the certificates that it makes, and how many connections
// to an origin it keeps.
func serveGoproxy(caDir string, idle int) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(caDir, "ca.pem"), filepath.Join(caDir, "ca-key.pem"))
	if err != nil {
		return err
	}
	if ca.Leaf, err = x509.ParseCertificate(ca.Certificate[0]); err != nil {
		return err
	}
	handler := goproxy.NewProxyHttpServer()
	handler.CertStore = &certStore{certs: make(map[string]*tls.Certificate)}
	handler.Tr.MaxIdleConnsPerHost = idle // 0: those of net/http, two
	mitm := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
	handler.OnRequest().HandleConnectFunc(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return mitm, host })
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
