//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// The crowd of TestCrowd.
const (
	idleLocal   = 6500 // connections that have asked for a page of the proxy itself
	idlePlain   = 1000 // that have made an exchange
	idleTLS     = 2000 // the same in a tunnel
	idleBlind   = 300  // tunnels that are not recorded
	idleSockets = 200  // WebSockets

	slowHeads      = 150
	slowHandshakes = 50
	slowReaders    = 150
	slowUploads    = 300 // more than there are slots

	crowdMemory = 512 << 20
)

// A crowd are clients of a program, all in one process: none of them costs a
// goroutine.
type crowd struct {
	*testing.T
	p        *program
	roots    *x509.CertPool
	origin   string // host:port
	secure   string // the same for https
	uploads  string // the same for slow uploads
	ssh      string
	slow     []*slowClient
	mu       sync.Mutex // guards conns
	conns    []net.Conn
	slowDone chan struct{}
}

// TestCrowd lets 10,000 clients be idle and 650 be slow while the disk is slow: the
// memory that the program takes stays bounded, and an ordinary client is still
// served. The program is built without the race detector, which would take
// several times as much.
func TestCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	if n := openFiles(); n < 14_000 {
		t.Skipf("ulimit -n is %d, this needs 14000", n)
	}
	x := &crowd{T: t, slowDone: make(chan struct{})}
	defer x.leave()
	x.startOrigins()
	x.startProgram()
	start := time.Now()
	before := x.memory("VmRSS")
	x.gather()
	idle := x.memory("VmRSS")
	status := x.p.status()
	t.Logf("%d connections after %.1fs: %d MB, %d bytes for each, %d goroutines", status.Connections, time.Since(start).Seconds(),
		idle>>20, (idle-before)/int64(status.Connections), status.Goroutines)
	x.beSlow()
	x.beOrdinary() // slow uploads have their slots for 10 s
	x.awaitLong()
	x.beOrdinary()
	status = x.p.status()
	most := x.memory("VmHWM")
	t.Logf("with %d connections: %d MB now, %d MB at most, %d goroutines, %d exchanges under way and %d long ones", status.Connections,
		x.memory("VmRSS")>>20, most>>20, status.Goroutines, status.InFlight, status.Long)
	if most > crowdMemory {
		t.Errorf("the program took %d MB, more than %d", most>>20, crowdMemory>>20)
	}
	if want := idleLocal + idlePlain + idleTLS + idleBlind + idleSockets; status.Connections < want || status.Lost > 0 {
		t.Errorf("%d connections are left, want at least %d; %d responses are lost", status.Connections, want, status.Lost)
	}
	x.leave()
	x.p.stop()
	warctest.Check(t, x.p.dir)
}

func (x *crowd) startOrigins() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			io.WriteString(w, strings.Repeat("this is a large response. ", 80_000)) // 2 MB
		case "/socket":
			visitedOrigin(w, r)
		case "/upload":
			io.Copy(io.Discard, r.Body)
		default:
			fmt.Fprintf(w, "this is %s of %s", r.URL.Path, r.Host)
			if strings.HasPrefix(r.URL.Path, "/ordinary/") {
				io.WriteString(w, strings.Repeat(" and so on", 2000))
			}
		}
	})
	for i, where := range []*string{&x.origin, &x.secure, &x.uploads} {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if i == 1 {
			s.StartTLS()
		} else {
			s.Start()
		}
		x.Cleanup(s.Close)
		*where = s.Listener.Addr().String()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { l.Close() })
	x.ssh = l.Addr().String()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			x.keep(c)
			io.WriteString(c, "SSH-2.0-origin\r\n")
		}
	}()
}

// startProgram starts the program on a disk that takes 300 ms for each sync,
// where there is strace to see to that.
func (x *crowd) startProgram() {
	x.Helper()
	binary := filepath.Join(x.TempDir(), "warctee")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		x.Fatalf("%v\n%s", err, out)
	}
	dir := filepath.Join(x.TempDir(), "warcs")
	cmd := programCommand(x, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(x.TempDir(), "ca"),
		"--max-connections", "12000", "--max-connections-per-client", "12000", "--log-level", "error", "--failure-log", "off")
	cmd.Path, cmd.Args[0] = binary, binary
	if strace, err := exec.LookPath("strace"); err == nil && exec.Command(strace, "-f", "--seccomp-bpf", "-e", "trace=fsync", "-o", "/dev/null", "true").Run() == nil {
		cmd.Path = strace
		cmd.Args = append([]string{strace, "-D", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_exit=300000"}, cmd.Args...)
	} else {
		x.Log("there is no strace that works: the disk is not slow")
	}
	x.p = startCommand(x.T, cmd)
	x.p.dir = dir
	ca, err := os.ReadFile(x.p.caFile)
	if err != nil {
		x.Fatal(err)
	}
	x.roots = x509.NewCertPool()
	x.roots.AppendCertsFromPEM(ca)
}

// memory reads a line of /proc/PID/status, in bytes.
func (x *crowd) memory(name string) int64 {
	x.Helper()
	return memoryOf(x, x.p.status().PID, name)
}

func (x *crowd) keep(c net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conns = append(x.conns, c)
}

// leave closes all connections.
func (x *crowd) leave() {
	if x.slowDone != nil {
		close(x.slowDone)
		x.slowDone = nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
}

func (x *crowd) dial() (net.Conn, error) {
	c, err := net.DialTimeout("tcp", x.p.proxy.Host, patience)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(programPatience))
	return c, nil
}

// tunnel makes a tunnel.
func (x *crowd) tunnel(authority string) (net.Conn, error) {
	c, err := x.dial()
	if err != nil {
		return nil, err
	}
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	got := make([]byte, len(established))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != established {
		c.Close()
		return nil, fmt.Errorf("CONNECT: %q, %v", got, err)
	}
	return c, nil
}

// converse says something and reads until it hears what it wants.
func converse(c net.Conn, say, want string) error {
	if _, err := io.WriteString(c, say); err != nil {
		return err
	}
	heard := make([]byte, 0, 2048)
	for !strings.Contains(string(heard), want) {
		n, err := c.Read(heard[len(heard):cap(heard)])
		if heard = heard[:len(heard)+n]; err != nil || len(heard) == cap(heard) {
			return fmt.Errorf("got %q, %v", heard, err)
		}
	}
	return nil
}

// gather makes the idle connections.
func (x *crowd) gather() {
	x.Helper()
	var all sync.WaitGroup
	for _, kind := range []struct {
		n    int
		open func(i int) (net.Conn, error)
	}{
		{idleLocal, func(int) (net.Conn, error) {
			c, err := x.dial()
			if err != nil {
				return nil, err
			}
			return c, converse(c, "GET /ca.pem HTTP/1.1\r\nHost: "+x.p.proxy.Host+"\r\n\r\n", "END CERTIFICATE")
		}},
		{idlePlain, func(i int) (net.Conn, error) {
			c, err := x.dial()
			if err != nil {
				return nil, err
			}
			return c, converse(c, fmt.Sprintf("GET http://%s/%d HTTP/1.1\r\nHost: %s\r\n\r\n", x.origin, i, x.origin), fmt.Sprintf("this is /%d of", i))
		}},
		{idleTLS, func(i int) (net.Conn, error) {
			c, err := x.tunnel(x.secure)
			if err != nil {
				return nil, err
			}
			t := tls.Client(c, &tls.Config{RootCAs: x.roots, ServerName: "127.0.0.1"})
			return t, converse(t, fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, x.secure), fmt.Sprintf("this is /%d of", i))
		}},
		{idleBlind, func(i int) (net.Conn, error) {
			c, err := x.tunnel(x.ssh)
			if err != nil {
				return nil, err
			}
			return c, converse(c, "SSH-2.0-client\r\n", "SSH-2.0-origin")
		}},
		{idleSockets, func(i int) (net.Conn, error) {
			c, err := x.dial()
			if err != nil {
				return nil, err
			}
			if err := converse(c, fmt.Sprintf("GET http://%s/socket HTTP/1.1\r\nHost: %s\r\n%s\r\n", x.origin, x.origin, handshake), "\r\n\r\n"); err != nil {
				return c, err
			}
			return c, converse(c, "ping", "ping")
		}},
	} {
		for worker := range 8 {
			all.Go(func() { // ends when its connections are made, each within a time-out
				for i := worker; i < kind.n && !x.Failed(); i += 8 {
					c, err := kind.open(i)
					if err != nil {
						x.Errorf("connection %d: %v", i, err)
						return
					}
					x.keep(c)
				}
			})
		}
	}
	all.Wait()
	if x.Failed() {
		x.FailNow()
	}
}

// awaitLong waits until all slow uploads are long exchanges: there is room for
// them.
func (x *crowd) awaitLong() {
	x.Helper()
	start := time.Now()
	for status := x.p.status(); status.Long < idleSockets+slowUploads; status = x.p.status() {
		if time.Since(start) > programPatience {
			x.Fatalf("%d exchanges are long ones, and %d others under way", status.Long, status.InFlight)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A slowClient takes a little step now and then, and comes again when it was
// sent away.
type slowClient struct {
	open func() (net.Conn, error)
	step func(c net.Conn) error
	c    net.Conn
}

// beSlow starts the slow clients.
func (x *crowd) beSlow() {
	x.Helper()
	drip := func(c net.Conn) error {
		_, err := c.Write([]byte{'a'})
		return err
	}
	say := func(format string, args ...any) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			c, err := x.dial()
			if err == nil {
				fmt.Fprintf(c, format, args...)
			}
			return c, err
		}
	}
	for _, kind := range []struct {
		n int
		slowClient
	}{
		{slowHeads, slowClient{open: say("GET http://"), step: drip}},
		{slowHandshakes, slowClient{
			open: func() (net.Conn, error) { return x.tunnel(x.secure) },
			step: func(c net.Conn) error { _, err := io.WriteString(c, "\x16\x03\x01\x02\x00\x01"); return err },
		}},
		{slowReaders, slowClient{
			open: func() (net.Conn, error) {
				c, err := say("GET http://%s/large HTTP/1.1\r\nHost: %s\r\n\r\n", x.origin, x.origin)()
				if err == nil {
					c.(*net.TCPConn).SetReadBuffer(4 << 10)
				}
				return c, err
			},
			step: func(c net.Conn) error { _, err := c.Read(make([]byte, 100)); return err },
		}},
		{slowUploads, slowClient{open: say("POST http://%s/upload HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n", x.uploads, x.uploads), step: drip}},
	} {
		for range kind.n {
			c := kind.slowClient
			x.slow = append(x.slow, &c)
		}
	}
	x.stepAll()
	done := x.slowDone
	go func() { // stopped by leave
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				x.stepAll()
			}
		}
	}()
}

func (x *crowd) stepAll() {
	for _, s := range x.slow {
		if s.c == nil {
			c, err := s.open()
			if err != nil {
				continue // it comes again
			}
			s.c = c
			x.keep(c)
		}
		s.c.SetDeadline(time.Now().Add(2 * time.Millisecond)) // nobody may wait for it
		if err := s.step(s.c); err != nil && !os.IsTimeout(err) {
			s.c.Close()
			s.c = nil
		}
	}
}

// beOrdinary asks for pages, as some browsers do. Each request has to succeed: one
// that waits too long for a slot gets 503. The log says how long they take.
func (x *crowd) beOrdinary() {
	x.Helper()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards took
		took []time.Duration
	)
	for worker := range 4 {
		origin, client := "http://"+x.origin, x.p.client(false)
		if worker%2 == 0 {
			origin, client = "https://"+x.secure, x.p.client(true)
		}
		client.Timeout = programPatience
		all.Go(func() { // ends after a while
			for start, i := time.Now(), 0; time.Since(start) < 6*time.Second; i++ {
				begun := time.Now()
				status, body, err := fetch(client, fmt.Sprintf("%s/ordinary/%d/%d", origin, worker, i))
				if want := fmt.Sprintf("this is /ordinary/%d/%d of", worker, i); err != nil || status != 200 || !strings.HasPrefix(body, want) {
					x.Errorf("got %d %.200q, %v", status, body, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if x.Failed() {
		return
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	x.Logf("ordinary clients made %d exchanges: p50 %s, p99 %s, longest %s", len(took), p50, p99, took[len(took)-1])
}
