package mitm

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func textLog(b *logBuffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// TestHandshakesAtOnce checks that one handshake at a time is computed, that
// waiting counts towards the time-out, and that a client that says nothing in
// the middle of its handshake holds up nobody.
func TestHandshakesAtOnce(t *testing.T) {
	ca := newAuthority()
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan bool)
		failures := make(chan Failure, 10)
		in := &Interceptor{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			GetCertificate: func(host string) (*tls.Certificate, error) {
				if host == "slow" {
					<-slow
				}
				return ca.leaf(host)
			},
			OnFailure: func(f Failure) { failures <- f },
			Limits:    Limits{MaxHandshakes: 1},
			Logger:    slog.New(slog.DiscardHandler),
		}
		defer in.Close()
		tunnel := func() *client {
			ours, theirs := net.Pipe()
			in.ServeTunnel(theirs, "h:443")
			t.Cleanup(func() { ours.Close() })
			c := newClient(t, ours)
			c.wantText("HTTP/1.1 200 Connection established\r\n\r\n")
			return c
		}
		shake := func(c *client, name string) error {
			return tls.Client(c.Conn, &tls.Config{ServerName: name, RootCAs: ca.roots}).Handshake()
		}
		// The first says half of what it has to.
		tunnel().send("\x16\x03\x01\x02\x00\x01")
		synctest.Wait()
		if err := shake(tunnel(), "quick"); err != nil {
			t.Errorf("behind a silent client: %v", err)
		}

		begun := make(chan error, 1)
		first := tunnel()
		go func() { begun <- shake(first, "slow") }() // ends when slow goes on
		synctest.Wait()
		second := tunnel()
		start := time.Now()
		if err := shake(second, "quick"); err == nil {
			t.Error("two handshakes are computed at once")
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("given up after %v", took)
		}
		synctest.Wait()
		told := ""
		for range len(failures) {
			told += (<-failures).Err.Error() + "\n"
		}
		if !strings.Contains(told, "--max-handshakes") || strings.Contains(told, "context deadline") {
			t.Errorf("failures: %s", told)
		}
		close(slow)
		<-begun // it has taken too long by now
		if err := shake(tunnel(), "quick"); err != nil {
			t.Errorf("in the end: %v", err)
		}
		synctest.Wait()
		if n := len(in.handshakes); n != 0 {
			t.Errorf("%d turns are taken", n)
		}
	})
}

// TestTurnAfterPanic: a handshake that ends in a panic gives its turn back.
func TestTurnAfterPanic(t *testing.T) {
	ca := newAuthority()
	p := newProxy(t, tell)
	p.in.Limits.MaxHandshakes = 1
	p.in.GetCertificate = func(host string) (*tls.Certificate, error) {
		if host == "broken.example" {
			panic("no certificate")
		}
		return ca.leaf(host)
	}
	for range 3 {
		if _, err := p.tls("example.org:443", &tls.Config{ServerName: "broken.example"}); err == nil {
			t.Fatal("there is TLS without a certificate")
		}
	}
	if _, err := p.tls("example.org:443", &tls.Config{ServerName: "example.org", RootCAs: ca.roots}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	until(t, "the panics are logged", func() bool { return strings.Count(p.log.String(), "no certificate") >= 3 })
}
