package mitm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warctee/warctee/http1"
)

// A script is a connection whose client sends pieces, whatever is answered.
type script struct {
	mu      sync.Mutex
	pieces  [][]byte
	answers bytes.Buffer
	closed  chan struct{}
	once    sync.Once
}

func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	s.pieces[0] = s.pieces[0][n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.Write(p)
}

func (s *script) Close() error                     { s.once.Do(func() { close(s.closed) }); return nil }
func (s *script) LocalAddr() net.Addr              { return tunnelAddr{} }
func (s *script) RemoteAddr() net.Addr             { return tunnelAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

type played struct {
	seen    []string
	answers string // status codes
}

// play lets a client send the pieces, and tells what the handler saw.
func play(t testing.TB, pieces ...[]byte) played {
	s := &script{pieces: pieces, closed: make(chan struct{})}
	var p played
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := RequestOf(r.Context())
		ended := "<nil>"
		if err != nil {
			ended = "broken"
		}
		if e, ok := errors.AsType[*http1.Error](err); ok {
			ended = fmt.Sprint("refused with ", e.Status)
		}
		p.seen = append(p.seen, fmt.Sprintf("%s %s %q %q %s", r.Method, r.RequestURI, req.Raw, body, ended))
	}), Limits{}, nil, slog.New(slog.DiscardHandler))
	l := &oneConn{conn: s, done: make(chan struct{})}
	go srv.Serve(NewListener(l, Limits{}, nil)) // stopped below
	<-s.closed
	srv.Close()
	r := bufio.NewReader(&s.answers)
	var codes []int
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		io.Copy(io.Discard, resp.Body)
		codes = append(codes, resp.StatusCode)
	}
	p.answers = fmt.Sprint(codes)
	return p
}

// FuzzSplit checks that it does not matter how the bytes of a client are cut.
func FuzzSplit(f *testing.F) {
	head := "POST /%zz HTTP/1.1\r\nHost: h\r\n"
	f.Add([]byte(head+"Content-Length: 5\r\n\r\nhello"+head+"\r\n"), []byte{1})
	f.Add([]byte(head+"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi"+head+"\r\n"), []byte{7, 0, 3})
	f.Add([]byte("CONNECT h:1 HTTP/1.1\r\n\r\n\x16\x03"), []byte{2})
	f.Add([]byte("CONNECT h:1 HTTP/1.1\r\n\r\n"+head+"\r\n"), []byte{200, 1})
	f.Add([]byte(head+"\r\n"+"\r\nGET a HTTP/1.1\r\n\r\n"+head+"\r\n"), []byte{5})
	f.Add([]byte("GET / HTTP/1.0\nA: b\n\n"), []byte{3})
	for _, c := range chunkedCases {
		f.Add([]byte(head+"Transfer-Encoding: chunked\r\n\r\n"+c.body+head+"\r\n"), []byte{3, 1})
	}
	f.Add([]byte(head+"Transfer-Encoding: chunked\r\n\r\n5\r\nhellox\r\n0\r\n\r\n"+head+"\r\n"), []byte{2})
	f.Fuzz(func(t *testing.T, all, cuts []byte) {
		if len(all) > 8<<10 || len(cuts) > 64 {
			return
		}
		var pieces [][]byte
		rest := all
		for i := 0; len(rest) > 0 && len(cuts) > 0; i++ {
			n := min(int(cuts[i%len(cuts)])+1, len(rest))
			pieces = append(pieces, bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		pieces = append(pieces, bytes.Clone(rest))
		// net/http may find the same mistake before we do.
		alike := strings.NewReplacer("refused with 400", "broken")
		whole, cut := play(t, bytes.Clone(all)), play(t, pieces...)
		if alike.Replace(fmt.Sprint(whole)) != alike.Replace(fmt.Sprint(cut)) {
			t.Errorf("%q: whole %q, cut %q", all, whole, cut)
		}
	})
}
