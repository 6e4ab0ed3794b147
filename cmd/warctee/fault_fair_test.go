package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/warctee/warctee/warc/warctest"
)

// A busyOrigin counts its connections.
type busyOrigin struct {
	*httptest.Server
	open, top atomic.Int64
}

func newBusyOrigin(t *testing.T, handler http.HandlerFunc) *busyOrigin {
	o := &busyOrigin{Server: httptest.NewUnstartedServer(handler)}
	o.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			for open := o.open.Add(1); ; {
				if top := o.top.Load(); open <= top || o.top.CompareAndSwap(top, open) {
					return
				}
			}
		case http.StateClosed, http.StateHijacked:
			o.open.Add(-1)
		}
	}
	o.StartTLS()
	t.Cleanup(o.Close)
	return o
}

// frames opens a tunnel with HTTP/2 in it. The client gives no window for
// bodies, so that it reads none.
func (p *program) frames(origin string) *visitorFrames {
	p.t.Helper()
	c, err := net.Dial("tcp", p.proxy.Host)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", origin, origin)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		p.t.Fatalf("CONNECT: %v, %v", resp, err)
	}
	ca, err := os.ReadFile(p.caFile)
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tc := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	if err := tc.Handshake(); err != nil {
		p.t.Fatal(err)
	}
	f := (&visitor{Conn: tc, in: bufio.NewReader(tc), origin: origin}).frames()
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	go io.Copy(io.Discard, tc) // ends with the connection
	return f
}

// eventually waits for what is about to happen.
func (p *program) eventually(what string, ok func() bool) {
	p.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > programPatience {
			p.t.Fatalf("waited in vain: %s; status %+v", what, p.status())
		}
	}
}

// A page over HTTP/2, of which a browser asks for all at once, has the six
// connections to its origin that it would have without the proxy, or as many as
// the flag says.
func TestBrowserWithHTTP2(t *testing.T) {
	t.Parallel()
	for flag, most := range map[string]int64{"": 6, "20": 20} {
		origin := newBusyOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Millisecond)
			io.WriteString(w, "this is "+r.URL.Path)
		})
		args := []string{}
		if flag != "" {
			args = append(args, "--max-connections-per-tunnel", flag)
		}
		p := startProgram(t, t.TempDir(), args...)
		client := p.client(true)
		if status, _, err := fetch(client, origin.URL); err != nil || status != 200 { // makes the one tunnel
			t.Fatal(status, err)
		}
		var all sync.WaitGroup
		for i := range 99 {
			all.Go(func() {
				path := fmt.Sprintf("/%d", i)
				if status, body, err := fetch(client, origin.URL+path); err != nil || status != 200 || body != "this is "+path {
					t.Errorf("%s: status %d, %q, %v", path, status, body, err)
				}
			})
		}
		all.Wait()
		if n := origin.top.Load(); n != most {
			t.Errorf("the origin had %d connections at once, want %d", n, most)
		}
		p.waitForRecords(100)
		p.stop()
		warctest.Check(t, p.dir)
	}
}

// Responses that clients never read hold places until they are closed. With
// little room for temporary files they do not keep others out.
func TestClientsThatNeverRead(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 30_000)
	origin := newBusyOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		for range map[bool]int{false: 1, true: 25}[strings.HasPrefix(r.URL.Path, "/larger")] {
			io.WriteString(w, large)
		}
		io.WriteString(w, r.URL.Path)
	})
	plain := httptest.NewServer(origin.Config.Handler)
	t.Cleanup(plain.Close)
	host := origin.Listener.Addr().String()
	for name, visit := range map[string]func(p *program){
		"HTTP/2": func(p *program) {
			for c := range 3 {
				f := p.frames(host)
				for i := range uint32(100) {
					f.request(2*i+1, fmt.Sprintf("/%d/%d", c, i))
				}
			}
		},
		"HTTP/2, revisits": func(p *program) {
			for range 3 {
				f := p.frames(host)
				for i := range uint32(100) {
					f.request(2*i+1, "/same")
				}
			}
		},
		"HTTP/1": func(p *program) {
			for i := range 15 { // the system has buffers of some MB for each
				c, err := net.Dial("tcp", p.proxy.Host)
				if err != nil {
					t.Fatal(err)
				}
				p.t.Cleanup(func() { c.Close() })
				fmt.Fprintf(c, "GET %s/larger/%d HTTP/1.1\r\nHost: %s\r\n\r\n", plain.URL, i, plain.Listener.Addr())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, t.TempDir(), "--spool-memory", "2MiB", "--spool-disk", "32MiB", "--log-level", "error")
			visit(p)
			client := p.client(false)
			well := 0
			p.eventually("another client is served", func() bool {
				status, body, err := fetch(client, fmt.Sprintf("%s/other/%d", plain.URL, well))
				if err == nil && status == 200 && len(body) > len(large) {
					well++
				}
				return well > 0
			})
			for i := range 20 {
				if status, body, err := fetch(client, fmt.Sprintf("%s/later/%d", plain.URL, i)); err != nil || status != 200 || len(body) < len(large) {
					t.Errorf("later request %d: status %d, %d octets, %v", i, status, len(body), err)
				}
			}
			if s := p.status(); s.Long+s.InFlight+int(s.SlowClients) == 0 || s.Lost > 0 || s.State != "recording" {
				t.Errorf("status %+v, want those that never read to hold places, or to be cut", s)
			}
		})
	}
}

// A place is held as long as a response is not read, and what it keeps open.
func TestUnreadResponsesCount(t *testing.T) {
	t.Parallel()
	origin := newBusyOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("not read", 50_000))
	})
	p := startProgram(t, t.TempDir())
	f := p.frames(origin.Listener.Addr().String())
	for i := range uint32(100) {
		f.request(2*i+1, fmt.Sprintf("/%d", i))
	}
	p.eventually("all are recorded, and are counted", func() bool {
		s := p.status()
		return s.Responses+s.Revisits == 100 && s.InFlight == 0 && s.Long == 100
	})
	for i := range uint32(50) {
		f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	p.eventually("those that are given up count no more", func() bool { return p.status().Long == 50 })
	p.stop()
	warctest.Check(t, p.dir)
}

// Silent event streams cost next to nothing, and keep out nobody.
func TestSilentEventStreams(t *testing.T) {
	t.Parallel()
	handler := func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/events") {
			io.WriteString(w, "this is "+r.URL.Path)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	secure, other := newBusyOrigin(t, handler), newBusyOrigin(t, handler)
	plain := httptest.NewServer(http.HandlerFunc(handler))
	t.Cleanup(plain.Close)
	p := startProgram(t, t.TempDir())
	client := p.client(false)
	streams := 0
	begin := func(what string, n int, begin func()) {
		before, rss := p.status(), residentMemory(p)
		begin()
		streams += n
		p.eventually("all streams have begun", func() bool { s := p.status(); return s.InFlight+s.Long == streams })
		for i := range 20 {
			if status, body, err := fetch(client, fmt.Sprintf("%s/%d", other.URL, i)); err != nil || status != 200 || body != fmt.Sprintf("this is /%d", i) {
				t.Errorf("beside streams over %s: status %d, %q, %v", what, status, body, err)
			}
		}
		s := p.status()
		each := (s.SpoolMemory + s.SpoolDisk - before.SpoolMemory - before.SpoolDisk) / int64(n)
		t.Logf("a silent event stream over %s takes %d bytes of --spool-memory, and %d of resident memory", what, each, (residentMemory(p)-rss)/int64(n))
		if each > 2000 || s.State != "recording" || s.Crowded > 0 {
			t.Errorf("streams over %s: %d bytes each, status %+v", what, each, s)
		}
	}
	begin("HTTP/2", 200, func() {
		for range 2 {
			f := p.frames(secure.Listener.Addr().String())
			for i := range uint32(100) {
				f.request(2*i+1, "/events")
			}
		}
	})
	p.eventually("the streams are long ones", func() bool { return p.status().InFlight == 0 })
	begin("HTTP/1", 100, func() {
		for range 100 {
			c, err := net.Dial("tcp", p.proxy.Host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			fmt.Fprintf(c, "GET %s/events HTTP/1.1\r\nHost: %s\r\n\r\n", plain.URL, plain.Listener.Addr())
		}
	})
}

// residentMemory is that of a program, or 0 where it is not known.
func residentMemory(p *program) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// One origin with large heads and bodies without an end keeps out nobody who
// wants something else. The status counts what it refuses.
func TestOneOriginLeavesRoomToOthers(t *testing.T) {
	t.Parallel()
	field := strings.Repeat("c", 1<<20-1000)
	bad := newBusyOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", field)
		for {
			io.WriteString(w, "drip")
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	})
	good := newBusyOrigin(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "this is "+r.URL.Path) })
	p := startProgram(t, t.TempDir(), "--log-level", "error")
	attackers, client := p.client(false), p.client(false)
	var statuses [600]atomic.Int64
	var replies sync.WaitGroup
	for range 136 {
		replies.Go(func() {
			resp, err := attackers.Get(bad.URL)
			if err != nil {
				return // the client's own limits
			}
			statuses[resp.StatusCode].Add(1)
			t.Cleanup(func() { resp.Body.Close() })
		})
	}
	ask := func(i int) {
		if status, body, err := fetch(client, fmt.Sprintf("%s/%d", good.URL, i)); err != nil || status != 200 || body != fmt.Sprintf("this is /%d", i) {
			t.Errorf("another origin: status %d, %q, %v", status, body, err)
		}
	}
	for i := range 50 {
		ask(i)
		time.Sleep(10 * time.Millisecond)
	}
	replies.Wait()
	ask(50)
	s := p.status()
	if s.State != "recording" || s.Crowded == 0 || s.Crowded != statuses[503].Load() || statuses[200].Load() == 0 {
		t.Errorf("status %+v; %d were answered with 200 and %d with 503", s, statuses[200].Load(), statuses[503].Load())
	}
	t.Logf("%d were answered with 200 and %d with 503; %d MB of --spool-memory, %d MB resident", statuses[200].Load(), statuses[503].Load(), s.SpoolMemory>>20, residentMemory(p)>>20)
}
