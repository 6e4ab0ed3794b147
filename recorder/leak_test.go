package recorder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failures are ways in which an exchange goes wrong: what the origin does with
// a request that it has read, and what the client does.
var failures = []struct {
	name   string
	reply  string // then the origin closes; "silence": it does nothing
	method string
	body   func() io.Reader
	use    func(resp *http.Response, cancel func())
	scheme string
}{
	{name: "refused"},
	{name: "no reply", reply: ""},
	{name: "garbage", reply: "\x00\x01garbage"},
	{name: "broken head", reply: "HTTP/1.1 200 OK\r\nContent-Le"},
	{name: "silence", reply: "silence"},
	{name: "short body", reply: "HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + strings.Repeat("x", 300000)},
	{name: "broken chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"},
	{name: "endless interim", reply: strings.Repeat("HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("x", 8000)+"\r\n\r\n", maxInterim/8000)},
	{name: "unasked upgrade", reply: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
	{name: "not TLS", reply: "HTTP/1.1 400 Bad Request\r\n\r\n", scheme: "https"},
	{name: "client leaves early", reply: "silence", use: func(_ *http.Response, cancel func()) { cancel() }},
	{name: "client closes body", reply: "HTTP/1.1 200 OK\r\n\r\nthe beginningsilence", use: func(resp *http.Response, _ func()) {
		resp.Body.Close()
	}},
	{name: "request broken off", method: "POST", reply: "silence", body: func() io.Reader {
		return io.MultiReader(strings.NewReader("a part"), failingReader{})
	}},
	{name: "refused upload", method: "POST", reply: "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", body: func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), failingReader{})
	}},
	{name: "panic in the request body", method: "POST", reply: "silence", body: func() io.Reader { return panickingReader{} }},
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("gone") }

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("in the body") }

// failingOrigin plays the part of the origin in failure number n, which the
// path names.
func failingOrigin(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	n := -1
	fmt.Sscanf(line[strings.IndexByte(line, ' ')+1:], "/%d", &n)
	if n < 0 { // a TLS handshake
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		return
	}
	for line != "\r\n" {
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	reply, silent := strings.CutSuffix(failures[n].reply, "silence")
	if reply != "" {
		_, err = io.WriteString(c, reply)
	}
	if err == nil && silent {
		io.Copy(io.Discard, in) // until the other side closes
	}
}

// failOnce performs failure number n.
func failOnce(t *testing.T, r *Recorder, n int) {
	f := failures[n]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scheme, method := f.scheme, f.method
	if scheme == "" {
		scheme = "http"
	}
	if method == "" {
		method = "GET"
	}
	var body io.Reader
	if f.body != nil {
		body = f.body()
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s://origin/%d", scheme, n), body)
	if err != nil {
		t.Fatal(err)
	}
	if f.use != nil && f.reply == "silence" {
		go func() { // ends at once
			synctest.Wait()
			f.use(nil, cancel)
		}()
	}
	resp, err := r.RoundTrip(req)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Status < 400 {
			t.Errorf("%s: %v is no *Error with a status", f.name, err)
		}
		return
	}
	defer resp.Body.Close()
	if f.use != nil {
		f.use(resp, cancel)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode == http.StatusOK {
		t.Errorf("%s: the client was given a whole response", f.name)
	}
}

// ourGoroutines returns the stacks of the goroutines that have something of this
// package in them. The runtime has some of its own, which come and go.
func ourGoroutines() []string {
	stacks := make([]byte, 1<<20)
	all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
	return slices.DeleteFunc(all, func(stack string) bool { return !strings.Contains(stack, "/recorder.") })
}

// Exchanges that fail leave nothing behind: no goroutine, no slot, no
// connection, no descriptor.
func TestFailuresLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := originConns(t, func(_ int, c net.Conn) { failingOrigin(c) })
		refuse := false
		r := openForTest(t, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if refuse {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, network, addr)
		}})
		round := func() {
			for n, f := range failures {
				refuse = f.name == "refused"
				failOnce(t, r, n)
				synctest.Wait()
			}
		}
		settle := func() (goroutines []string, descriptors int) {
			time.Sleep(2 * time.Minute) // beyond all timeouts
			synctest.Wait()
			if names, err := os.ReadDir("/proc/self/fd"); err == nil {
				descriptors = len(names)
			}
			return ourGoroutines(), descriptors
		}
		round()
		goroutines, descriptors := settle()
		for range 200/len(failures) + 1 {
			round()
		}
		g, d := settle()
		if len(g) != len(goroutines) {
			t.Errorf("%d goroutines at first, %d in the end:\n%s", len(goroutines), len(g), strings.Join(g, "\n\n"))
		}
		if d != descriptors {
			t.Errorf("%d descriptors at first, %d in the end", descriptors, d)
		}
		if s := r.Status(); s.InFlight != 0 || s.Long != 0 || s.Lost != 0 || s.Unavailable != nil {
			t.Errorf("status %+v", s)
		}
		if n := len(r.pool.open); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		closeForTest(t, r)
		archive(t, r)
	})
}
