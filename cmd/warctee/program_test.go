package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be the program itself: the processes of these
// tests are the code under test, built as the tests are.
const asProgram = "TEST_BINARY_IS_WARCTEE"

// quickExit keeps the race detector from waiting a second at each exit.
const quickExit = "GORACE=atexit_sleep_ms=10"

func init() {
	if os.Getenv(asProgram) != "" {
		main()
	}
}

// programPatience is how long a test waits for what should come at once.
const programPatience = 4 * time.Minute

// A program is a running warctee.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string
	proxy  *url.URL
	caFile string
	exited chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	stderr  bytes.Buffer
}

var startLine = regexp.MustCompile(`(?m)^warctee: recording (http://\S+) into (\S+) \(CA certificate: (\S+)\)$`)

// startProgram starts `warctee record` on a free port, with a certificate
// authority of its own, and waits until it listens.
func startProgram(t testing.TB, dir string, args ...string) *program {
	t.Helper()
	args = append([]string{"record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca")}, args...)
	p := startCommand(t, programCommand(t, args...))
	p.dir = dir
	return p
}

// startCommand starts a program that records. It has a session of its own, and
// so no terminal, unless the command asks for one.
func startCommand(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, exited: make(chan struct{})}
	p.changed.L = &p.mu
	inOwnSession(cmd)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("warctee's log:\n%.20000s", p.log())
		}
	})
	go p.readStderr(stderr) // ends with the process
	p.waitForLog("warctee: recording ")
	m := startLine.FindStringSubmatch(p.log())
	if m == nil {
		t.Fatalf("warctee starts with %q", p.log())
	}
	if p.caFile = m[3]; !filepath.IsAbs(p.caFile) {
		p.caFile = filepath.Join(cmd.Dir, p.caFile)
	}
	if p.proxy, err = url.Parse(m[1]); err != nil {
		t.Fatal(err)
	}
	return p
}

// programCommand is warctee with an environment of its own, in which the
// servers of httptest are trusted.
func programCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = []string{asProgram + "=1", quickExit, "HOME=" + t.TempDir(), "SSL_CERT_FILE=" + httptestCertificate(t)}
	return cmd
}

// httptestCertificate is a file with the certificate of httptest's servers.
func httptestCertificate(t testing.TB) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	name := filepath.Join(t.TempDir(), "origins.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(name, block, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func (p *program) readStderr(stderr io.Reader) {
	in := bufio.NewReader(stderr)
	for {
		line, err := in.ReadString('\n')
		p.mu.Lock()
		p.stderr.WriteString(line)
		p.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			break
		}
	}
	p.cmd.Wait() // what it tells is in ProcessState
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.exited)
	p.changed.Broadcast()
}

func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// waitForLog waits until there is a text on stderr.
func (p *program) waitForLog(text string) {
	p.t.Helper()
	late := time.AfterFunc(programPatience, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.stderr.String(), text) {
		select {
		case <-p.exited:
			p.t.Fatalf("warctee ended without saying %q; it said:\n%s", text, p.stderr.String())
		default:
		}
		p.changed.Wait()
	}
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and checks the exit status.
func (p *program) wait(status int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(programPatience):
		p.t.Fatal("warctee does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("warctee ended with status %d, want %d", got, status)
	}
}

// stop ends the recording as a person does.
func (p *program) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wait(exitOK)
}

// stopIncomplete stops a program that could not record everything, and has to
// say why.
func (p *program) stopIncomplete(why string) {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wait(exitIncomplete)
	if log := p.log(); !strings.Contains(log, "warctee: the archive is incomplete: see the log: ") || !strings.Contains(log, why) {
		p.t.Errorf("it does not say %q", why)
	}
}

// client is a client of the proxy, over HTTP/2 inside tunnels where wanted.
func (p *program) client(http2 bool) *http.Client {
	p.t.Helper()
	ca, err := os.ReadFile(p.caFile)
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		p.t.Fatalf("%s holds no certificate", p.caFile)
	}
	transport := &http.Transport{
		Proxy:               http.ProxyURL(p.proxy),
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:   http2,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 100,
	}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// status asks the proxy what it has done.
func (p *program) status() (s serverStatus) {
	p.t.Helper()
	resp, err := http.Get(p.proxy.String() + "/status")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// waitForRecords waits until so many responses and revisits have been written.
func (p *program) waitForRecords(n int64) {
	p.t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		s := p.status()
		if s.Responses+s.Revisits >= n {
			return
		}
		if time.Since(start) > programPatience {
			p.t.Fatalf("there are %d records, want %d", s.Responses+s.Revisits, n)
		}
	}
}
