package recorder

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
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

// A failure is a way in which an exchange goes wrong: what the origin does with
// a request that it has read, and what the client does.
type failure struct {
	name   string
	reply  string // then the origin closes; "silence": it does nothing; "drip": it goes on, an octet a second
	method string
	body   func() io.Reader
	use    func(resp *http.Response, cancel func())
	scheme string
	heavy  bool // not so often
	whole  bool // the client gets a whole response all the same
}

var failures = [...]failure{
	{name: "refused"},
	{name: "no reply", reply: ""},
	{name: "garbage", reply: "\x00\x01garbage"},
	{name: "broken head", reply: "HTTP/1.1 200 OK\r\nContent-Le"},
	{name: "silence", reply: "silence"},
	{name: "status of two digits", reply: "HTTP/1.1 99 Low\r\n\r\n"},
	{name: "HTTP/0.9", reply: "<html>"},
	{name: "banner", reply: "SSH-2.0-x\r\n"},
	{name: "NUL in the head", reply: "HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"},
	{name: "two lengths", reply: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"},
	{name: "unknown coding", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{name: "endless head", reply: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 8000)+"\r\n", 1<<20/8000), heavy: true},
	{name: "many fields", reply: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 5000) + "\r\n", heavy: true},
	{name: "dripping head", reply: "HTTP/1.1 200 OK\r\nX: drip"},
	{name: "interim alone", reply: "HTTP/1.1 100 Continue\r\n\r\n"},
	{name: "interim and silence", reply: "HTTP/1.1 103 Early Hints\r\n\r\nsilence"},
	{name: "silence in the body", reply: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcsilence"},
	{name: "dripping chunk size", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0drip"},
	{name: "end in a chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"},
	{name: "end before the last chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	{name: "end in the trailer", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n"},
	{name: "large chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello"},
	{name: "bytes past the end", whole: true, reply: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n"},
	{name: "until close", whole: true, reply: "HTTP/1.1 200 OK\r\n\r\nhello"},
	{name: "body behind a 204", whole: true, reply: "HTTP/1.1 204 No Content\r\n\r\nhello"},
	{name: "short body", heavy: true, reply: "HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + strings.Repeat("x", 300000)},
	{name: "broken chunk", reply: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"},
	{name: "endless interim", heavy: true, reply: strings.Repeat("HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("x", 8000)+"\r\n\r\n", maxInterim/8000)},
	{name: "unasked upgrade", reply: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
	{name: "not TLS", reply: "HTTP/1.1 400 Bad Request\r\n\r\n", scheme: "https"},
	{name: "untrusted", scheme: "https"},
	{name: "close in the handshake", scheme: "https"},
	{name: "silence in the handshake", scheme: "https", reply: "silence"},
	{name: "client leaves early", reply: "silence", use: func(_ *http.Response, cancel func()) { cancel() }},
	{name: "client closes body", reply: "HTTP/1.1 200 OK\r\n\r\nthe beginningsilence", use: func(resp *http.Response, _ func()) {
		resp.Body.Close()
	}},
	{name: "request broken off", method: "POST", reply: "silence", body: func() io.Reader {
		return io.MultiReader(strings.NewReader("a part"), failingReader{})
	}},
	{name: "refused upload", heavy: true, method: "POST", reply: "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", body: func() io.Reader {
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
	for line != "\r\n" {
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	reply, silent := strings.CutSuffix(failures[n].reply, "silence")
	reply, drips := strings.CutSuffix(reply, "drip")
	if reply != "" {
		_, err = io.WriteString(c, reply)
	}
	for err == nil && drips {
		time.Sleep(time.Second)
		_, err = io.WriteString(c, "0")
	}
	if err == nil && silent {
		io.Copy(io.Discard, in) // until the other side closes
	}
}

// failingHandshake is the same where the origin ought to speak TLS.
func failingHandshake(c net.Conn, name string, certificate tls.Certificate) {
	defer c.Close()
	if name == "untrusted" {
		tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		return
	}
	if n, err := c.Read(make([]byte, 16<<10)); n == 0 || err != nil { // the ClientHello
		return
	}
	switch name {
	case "not TLS":
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	case "silence in the handshake":
		io.Copy(io.Discard, c)
	}
}

// untrusted is a certificate that nobody has signed.
func untrusted(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"origin"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
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
		if !errors.As(err, &e) || e.Status < 400 || e.Phase == PhaseAdmission {
			t.Errorf("%s: %v is no *Error of it", f.name, err)
		}
		return
	}
	defer resp.Body.Close()
	if f.use != nil {
		f.use(resp, cancel)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); (err == nil) != (f.whole || resp.StatusCode != http.StatusOK) {
		t.Errorf("%s: the client was given a whole response: %t (%v)", f.name, err == nil, err)
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
// connection, no descriptor, no memory.
func TestFailuresLeaveNothing(t *testing.T) {
	certificate := untrusted(t)
	synctest.Test(t, func(t *testing.T) {
		now := "" // the failure under way
		dial := originConns(t, func(_ int, c net.Conn) {
			if i := slices.IndexFunc(failures[:], func(f failure) bool { return f.name == now }); failures[i].scheme == "https" {
				failingHandshake(c, now, certificate)
				return
			}
			failingOrigin(c)
		})
		r := openForTest(t, Options{
			Timeout: 5 * time.Second,
			Logger:  slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if now == "refused" {
					return nil, errors.New("connection refused")
				}
				return dial(ctx, network, addr)
			},
		})
		round := func(heavy bool) {
			for n, f := range failures {
				if heavy || !f.heavy {
					now = f.name
					failOnce(t, r, n)
					synctest.Wait()
				}
			}
		}
		settle := func() (goroutines []string, descriptors int, heap uint64) {
			time.Sleep(2 * time.Minute) // beyond all timeouts
			synctest.Wait()
			if names, err := os.ReadDir("/proc/self/fd"); err == nil {
				descriptors = len(names)
			}
			for range 3 { // what is in pools goes with the second
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return ourGoroutines(), descriptors, m.HeapAlloc
		}
		round(true)
		goroutines, descriptors, heap := settle()
		for n := range 200 {
			round(n%10 == 0)
		}
		g, d, h := settle()
		if len(g) != len(goroutines) {
			t.Errorf("%d goroutines at first, %d in the end:\n%s", len(goroutines), len(g), strings.Join(g, "\n\n"))
		}
		if d != descriptors {
			t.Errorf("%d descriptors at first, %d in the end", descriptors, d)
		}
		if h > heap+2<<20 {
			t.Errorf("%d bytes of memory are in use at first, %d in the end", heap, h)
		}
		if s := r.Status(); s.InFlight != 0 || s.Long != 0 || s.Lost != 0 || s.Unavailable != nil {
			t.Errorf("status %+v", s)
		}
		if n := len(r.pool.open); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		for _, key := range []string{"http origin:80", "https origin:443"} {
			if n := r.pool.places.used(key); n != 0 {
				t.Errorf("%d exchanges have a place with %s", n, key)
			}
		}
		closeForTest(t, r)
		archive(t, r)
	})
}
