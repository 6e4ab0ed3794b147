package recorder

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// A pipeNet is a network of one origin, in memory, so that time in tests is
// that of testing/synctest.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeNet() *pipeNet {
	return &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeNet) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeNet) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "192.0.2.1:80" }

// A pipeConn has an address that can be recorded.
type pipeConn struct{ net.Conn }

func (pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

// dial is for Options.Dial.
func (p *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return pipeConn{client}, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// originHandler serves h to whom it lets dial.
func originHandler(t *testing.T, h http.HandlerFunc) func(context.Context, string, string) (net.Conn, error) {
	network := newPipeNet()
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(testLogger(t).Handler(), slog.LevelInfo)}
	go server.Serve(network) // ended by the cleanup
	t.Cleanup(func() { server.Close() })
	return network.dial
}

// originConns hands each connection, with its number from 0, to serve, which
// closes it.
func originConns(t *testing.T, serve func(n int, c net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	network := newPipeNet()
	go func() { // ended by the cleanup
		for n := 0; ; n++ {
			c, err := network.Accept()
			if err != nil {
				return
			}
			go serve(n, c) // closes c when the other side does
		}
	}()
	t.Cleanup(func() { network.Close() })
	return network.dial
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// openForTest opens a recorder with what tests need. It is closed at the end,
// if the test has not done so.
func openForTest(t *testing.T, o Options) *Recorder {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Logger == nil {
		o.Logger = testLogger(t)
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that has given up
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.Close(ctx)
	})
	return r
}

func closeForTest(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// fetch performs an exchange and returns the body of its response.
func fetch(r *Recorder, method, url, body string) (string, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, reader)
	if err != nil {
		return "", err
	}
	resp, err := r.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func mustFetch(t *testing.T, r *Recorder, url string) string {
	t.Helper()
	b, err := fetch(r, "GET", url, "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantRefusal checks that err is an *Error of that phase and status.
func wantRefusal(t *testing.T, err error, phase Phase, status int) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Phase != phase || e.Status != status {
		t.Errorf("got the error %#v (%v), want an *Error of phase %s with status %d", err, err, phase, status)
	}
}

// archive checks the files of a directory and returns their records.
func archive(t *testing.T, r *Recorder) []check.Record {
	t.Helper()
	return warctest.Check(t, r.options.Dir)
}

// theOne returns the only record of a type and URI.
func theOne(t *testing.T, records []check.Record, kind, uri string) *check.Record {
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

// count returns how many records of a type there are.
func count(records []check.Record, kind string) int {
	n := 0
	for _, r := range records {
		if r.Type == kind {
			n++
		}
	}
	return n
}

func block(t *testing.T, r *check.Record) string {
	t.Helper()
	b, err := r.Block()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// opened gives a recorder an index that the test goes on to use.
func opened(index dedup.Index) func() (dedup.Index, error) {
	return func() (dedup.Index, error) { return keptOpen{index}, nil }
}

type keptOpen struct{ dedup.Index }

func (keptOpen) Close() error { return nil }
