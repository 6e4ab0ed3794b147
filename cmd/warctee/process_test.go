package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
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
const programPatience = time.Minute

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

// startCommand starts a program that records.
func startCommand(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, exited: make(chan struct{})}
	p.changed.L = &p.mu
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

// A trickle is an origin whose responses take their time: a piece every 100 ms,
// until there are 30 or, under /endless, for ever.
func trickle(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < 30 || r.URL.Path == "/endless"; i++ {
		fmt.Fprintf(w, "piece %d of %s\n", i, r.URL.Path)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func trickled(path string) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "piece %d of %s\n", i, path)
	}
	return b.String()
}

// onlyRecord returns the only record of a type and URI.
func onlyRecord(t *testing.T, records []check.Record, kind, uri string) *check.Record {
	t.Helper()
	var found []*check.Record
	for i := range records {
		if r := &records[i]; r.Type == kind && r.TargetURI == uri {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d %s records of %s, want 1", len(found), kind, uri)
	}
	return found[0]
}

// A download that is under way when the program is told to stop is delivered
// and recorded whole.
func TestGracefulStopInMidDownload(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(trickle))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(trickle))
	defer encrypted.Close()
	p := startProgram(t, filepath.Join(t.TempDir(), "warcs"))
	downloads := []struct {
		url    string
		client *http.Client
		resp   *http.Response
	}{
		{url: plain.URL + "/http", client: p.client(false)},
		{url: encrypted.URL + "/https", client: p.client(false)},
		{url: encrypted.URL + "/http2", client: p.client(true)},
	}
	for i := range downloads {
		d := &downloads[i]
		var err error
		if d.resp, err = d.client.Get(d.url); err != nil {
			t.Fatal(err)
		}
		defer d.resp.Body.Close()
	}
	p.signal(syscall.SIGTERM)
	p.waitForLog("warctee: stopping: 3 exchanges")
	for _, d := range downloads {
		body, err := io.ReadAll(d.resp.Body)
		if path := d.url[strings.LastIndexByte(d.url, '/'):]; err != nil || string(body) != trickled(path) {
			t.Errorf("%s: %v, %d octets", d.url, err, len(body))
		}
	}
	p.wait(exitOK)
	records := warctest.Check(t, p.dir)
	for _, d := range downloads {
		r := onlyRecord(t, records, "response", d.url)
		path := d.url[strings.LastIndexByte(d.url, '/'):]
		if got := r.Header.Get("WARC-Truncated"); got != "" || r.PayloadSize != int64(len(trickled(path))) {
			t.Errorf("%s: %d octets are recorded, truncated %q", d.url, r.PayloadSize, got)
		}
	}
}

// What does not end in time is cut, marked, and told by the exit status.
func TestGraceExceeded(t *testing.T) {
	for _, test := range []struct {
		name, grace string
		signals     []syscall.Signal
	}{
		{"after the grace time", "500ms", []syscall.Signal{syscall.SIGTERM}},
		{"second SIGTERM", "10m", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"second SIGINT", "10m", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
	} {
		t.Run(test.name, func(t *testing.T) {
			origin := httptest.NewTLSServer(http.HandlerFunc(trickle))
			defer origin.Close()
			p := startProgram(t, filepath.Join(t.TempDir(), "warcs"), "--grace", test.grace)
			resp, err := p.client(false).Get(origin.URL + "/endless")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			if line, err := in.ReadString('\n'); line != "piece 0 of /endless\n" {
				t.Fatalf("the client gets %q, %v", line, err)
			}
			for _, s := range test.signals {
				p.signal(s)
				p.waitForLog("warctee: stopping: 1 exchanges")
			}
			rest, err := io.ReadAll(in)
			if err == nil {
				t.Error("the client takes its part of the response for the whole")
			}
			p.wait(exitIncomplete)
			if !strings.Contains(p.log(), "the archive is incomplete") {
				t.Error("the log does not say that the archive is incomplete")
			}
			r := onlyRecord(t, warctest.Check(t, p.dir), "response", origin.URL+"/endless")
			if got := r.Header.Get("WARC-Truncated"); got != "unspecified" {
				t.Errorf("WARC-Truncated is %q, want unspecified", got)
			}
			if got := int64(len("piece 0 of /endless\n") + len(rest)); r.PayloadSize < got {
				t.Errorf("%d octets are recorded, the client has got %d", r.PayloadSize, got)
			}
		})
	}
}

// killOrigin makes bodies that can be told from each other, and some that are
// all the same.
func killOrigin(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, killBody(r.URL.Path))
}

func killBody(path string) string {
	if strings.Contains(path, "/same/") {
		return strings.Repeat("the same for all of them. ", 2000)
	}
	var seed [32]byte
	copy(seed[:], path)
	noise := make([]byte, len(path)*997%40000)
	rand.NewChaCha8(seed).Read(noise)
	return "this is " + path + "\n" + string(noise)
}

// Killed in the middle of traffic, the program comes back: what was in the
// archive is still there, all is readable, nothing refers to what is not there.
func TestKilledInMidTraffic(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(killOrigin))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(killOrigin))
	defer encrypted.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	durable := make(map[string]bool) // by URL
	for round := range 5 {
		p := startProgram(t, dir)
		wantAll(t, dir, durable)
		clients := map[string]*http.Client{plain.URL: p.client(false), encrypted.URL: p.client(round%2 == 0)}

		// Some exchanges that are in the archive for certain …
		n := int64(0)
		for i := range 10 {
			for origin, client := range clients {
				u := fmt.Sprintf("%s/%d/durable/%d", origin, round, i)
				if i%3 == 0 {
					u = fmt.Sprintf("%s/%d/same/%d", origin, round, i)
				}
				if err := killGet(client, u); err != nil {
					t.Fatal(err)
				}
				durable[u] = true
				n++
			}
		}
		p.waitForRecords(n)

		// … then the kill, while many more are on their way.
		var (
			done   atomic.Int64
			enough = make(chan struct{})
			all    sync.WaitGroup
		)
		ctx, cancel := context.WithCancel(t.Context())
		for worker := range 8 {
			for origin, client := range clients {
				all.Go(func() { // ends with the process
					for i := 0; ctx.Err() == nil; i++ {
						kind := []string{"same", "lost"}[i%2]
						if killGet(client, fmt.Sprintf("%s/%d/%s/%d-%d", origin, round, kind, worker, i)) != nil {
							return
						}
						if done.Add(1) == int64(20+30*round) {
							close(enough)
						}
					}
				})
			}
		}
		<-enough
		p.cmd.Process.Kill()
		<-p.exited
		cancel()
		all.Wait()
		if round%2 == 1 {
			tearOpenFile(t, dir)
		}
		for u := range wholeCaptures(t, dir) {
			durable[u] = true // it was in the file
		}
	}
	p := startProgram(t, dir)
	wantAll(t, dir, durable)
	p.stop()
	wantAll(t, dir, durable)
}

func killGet(client *http.Client, u string) error {
	resp, err := client.Get(u)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if parsed, _ := url.Parse(u); err == nil && string(body) != killBody(parsed.Path) {
		return fmt.Errorf("%s has the wrong body", u)
	}
	return err
}

// wantAll checks the files and that they hold these captures, once each.
func wantAll(t *testing.T, dir string, urls map[string]bool) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return
	}
	captures := make(map[string]int)
	for _, r := range warctest.Check(t, dir) {
		if r.Type == "response" || r.Type == "revisit" {
			captures[r.TargetURI]++
		}
	}
	for u := range urls {
		if captures[u] != 1 {
			t.Errorf("%s is in the archive %d times, want once", u, captures[u])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// tearOpenFile makes the kill hit in the middle of a write, which it seldom
// does.
func tearOpenFile(t *testing.T, dir string) {
	t.Helper()
	name := openFileIn(t, dir)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-7); err != nil {
		t.Fatal(err)
	}
}

func openFileIn(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.open"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the unfinished files are %v, %v; want one", names, err)
	}
	return names[0]
}

// wholeCaptures returns the URLs of which there is a whole response or revisit
// in an unfinished file.
func wholeCaptures(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	b, err := os.ReadFile(openFileIn(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	z := warc.NewReader(bytes.NewReader(b))
	z.Strict = true
	for {
		r, err := z.Next()
		if err != nil {
			return found // the end, or where the kill hit
		}
		kind, uri := r.Type(), r.TargetURI()
		if _, err := io.Copy(io.Discard, z); err != nil {
			return found
		}
		if kind == "response" || kind == "revisit" {
			found[uri] = true
		}
	}
}
