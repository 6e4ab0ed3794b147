package recorder

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A politeConn gives the other side time to answer what it is told before the
// connection is closed, as a slow machine may.
type politeConn struct {
	net.Conn
	answered chan struct{}
}

func (c *politeConn) Close() error {
	select {
	case <-c.answered:
	case <-time.After(time.Second): // it was told nothing
	}
	return c.Conn.Close()
}

// An origin that is told by TLS that nobody listens any more may end its body
// in good order, as Go's servers do when their handler gives up. What we have
// cut is cut all the same.
func TestCutIsNoEnd(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	config, roots := server.TLS.Clone(), x509.NewCertPool()
	roots.AddCert(server.Certificate())
	server.Close()
	config.NextProtos = []string{"http/1.1"}
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		dial := originConns(t, func(_ int, nc net.Conn) {
			defer nc.Close()
			c := tls.Server(nc, config)
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			if _, err := io.Copy(io.Discard, c); err != nil { // until it is told
				return
			}
			io.WriteString(c, "0\r\n\r\n")
			close(answered)
		})
		r := openForTest(t, Options{
			TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"},
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &politeConn{c, answered}, nil
			},
		})
		got := fetchAside(r, "https://origin/")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if got := <-got; got.err == nil {
			t.Error("the client takes its part for the whole")
		}
		checkTruncated(t, theOne(t, archive(t, r), "response", "https://origin/"), "unspecified")
		if s := r.Status(); s.Incomplete != 1 {
			t.Errorf("%d responses are incomplete by the count, want 1", s.Incomplete)
		}
	})
}
