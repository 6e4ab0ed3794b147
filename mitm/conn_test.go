package mitm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/http1"
)

// newServer makes a server that is closed in the end.
func newServer(t *testing.T, h http.Handler) *http.Server {
	srv := NewServer(h, Limits{}, nil, nil)
	t.Cleanup(func() { srv.Close() })
	return srv
}

// listen serves h on a TCP port.
func listen(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	return listenWithin(t, Limits{}, nil, h).Addr().String()
}

func listenWithin(t *testing.T, limits Limits, log *slog.Logger, h http.HandlerFunc) *Listener {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(tcp, limits, log)
	srv := NewServer(h, limits, nil, log)
	t.Cleanup(func() { srv.Close() })
	go srv.Serve(l) // stopped by the clean-up
	return l
}

// A client speaks raw bytes.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return newClient(t, c)
}

func newClient(t *testing.T, c net.Conn) *client {
	return &client{t: t, Conn: c, r: bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatalf("sending %.60q: %v", s, err)
	}
}

// answer reads one answer whole.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("reading an answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("reading the body of an answer: %v", err)
	}
	return resp, string(body)
}

func (c *client) want(status int, body string) {
	c.t.Helper()
	resp, got := c.answer()
	if resp.StatusCode != status || got != body {
		c.t.Fatalf("got %d %q, want %d %q", resp.StatusCode, got, status, body)
	}
}

func (c *client) wantText(text string) {
	c.t.Helper()
	b := make([]byte, len(text))
	n, err := io.ReadFull(c.r, b)
	if string(b[:n]) != text {
		c.t.Fatalf("got %q (%v), want %q", b[:n], err, text)
	}
}

func (c *client) wantEOF() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err != io.EOF {
		c.t.Fatalf("got %q, %v, want EOF", b, err)
	}
}

// echo answers with what the handler saw.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	raw := ""
	if req := RequestOf(r.Context()); req != nil {
		raw = string(req.Raw)
	}
	fmt.Fprintf(w, "%s %s %s|%s|%q|%s|%v|%s", r.Method, r.RequestURI, r.Host, raw, body, bodyErr(err), r.Trailer, r.Header.Get("X"))
}

func bodyErr(err error) string {
	if e, ok := errors.AsType[*http1.Error](err); ok {
		return fmt.Sprintf("%d %s", e.Status, e.Reason)
	}
	return fmt.Sprint(err)
}

func TestTargets(t *testing.T) {
	for _, tt := range []struct{ target, uri, path, query, host string }{
		{"/", "/", "/", "", "h"},
		{"/%zz", "/%25zz", "/%zz", "", "h"},
		{"/100%", "/100%25", "/100%", "", "h"},
		{"/a%2", "/a%252", "/a%2", "", "h"},
		{"/a%2fb", "/a%2fb", "/a/b", "", "h"},
		{"/\xfc?\xe2\x82\xac", "/%FC?%E2%82%AC", "/\xfc", "%E2%82%AC", "h"},
		{"/?", "/?", "/", "", "h"},
		{"/a?b?%", "/a?b?%25", "/a", "b?%25", "h"},
		{"/a#b?c", "/a", "/a", "", "h"},
		{`/<>"\^{|}` + "`[]", "/%3C%3E%22%5C%5E%7B%7C%7D%60%5B%5D", `/<>"\^{|}` + "`[]", "", "h"},
		{"//x/y", "//x/y", "//x/y", "", "h"},
		{"/http://x/?http://y", "/http://x/?http://y", "/http://x/", "http://y", "h"},
		{"http://example.org:81/%zz?\xff#f", "http://example.org:81/%25zz?%FF", "/%zz", "%FF", "example.org:81"},
		{"http://example.org", "http://example.org", "", "", "example.org"},
		{"http://example.org?a=[", "http://example.org?a=%5B", "", "a=%5B", "example.org"},
		{"http://u:p@example.org/", "http://u:p@example.org/", "/", "", "example.org"},
		{"HTTP://[::1]:8080/", "HTTP://[::1]:8080/", "/", "", "[::1]:8080"},
		{"http://b\xc3\xbccher.example/", "http://b%C3%BCcher.example/", "/", "", "b\xc3\xbccher.example"},
		{"/" + strings.Repeat("x", 8<<10), "/" + strings.Repeat("x", 8<<10), "/" + strings.Repeat("x", 8<<10), "", "h"},
		{"/" + strings.Repeat("\xff", 60<<10), "/" + strings.Repeat("%FF", 60<<10), "/" + strings.Repeat("\xff", 60<<10), "", "h"},
	} {
		var got http.Request
		var raw string
		addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
			got, raw = *r, string(RequestOf(r.Context()).Raw)
		})
		c := dial(t, addr)
		head := "GET " + tt.target + " HTTP/1.1\r\nhOST:   h\t\r\nX-a:1\r\nx-A:  2 \r\nB: \xe9\r\n\r\n"
		c.send(head)
		resp, body := c.answer()
		if resp.StatusCode != 200 {
			t.Errorf("%.60q: %d %s", tt.target, resp.StatusCode, body)
			continue
		}
		if raw != head {
			t.Errorf("%.60q: the head is kept as %.200q", tt.target, raw)
		}
		if got.RequestURI != tt.uri || got.URL.Path != tt.path || got.URL.RawQuery != tt.query || got.Host != tt.host {
			t.Errorf("%.60q: got %.80q: path %.60q query %q host %q", tt.target, got.RequestURI, got.URL.Path, got.URL.RawQuery, got.Host)
		}
		if h := fmt.Sprintf("%q", got.Header); h != `map["B":["\xe9"] "X-A":["1" "2"]]` {
			t.Errorf("%.60q: fields %s", tt.target, h)
		}
	}
}

func TestOtherForms(t *testing.T) {
	addr := listen(t, echo)
	for _, tt := range []struct{ head, want string }{
		{"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * h"},
		{"GET / HTTP/1.0\r\n\r\n", "GET / "},
		{"GET / HTTP/1.7\r\nHost: h\r\n\r\n", "GET / h"},
		{"X-M_2 / HTTP/1.1\r\nHost:\r\n\r\n", "X-M_2 / "},
		{"GET / HTTP/1.1\r\nHost: b\xc3\xbccher<\r\n\r\n", "GET / b%C3%BCcher%3C"},
	} {
		c := dial(t, addr)
		c.send("\r\n\r\n" + tt.head)
		c.want(200, tt.want+"|"+tt.head+`|""|<nil>|map[]|`)
	}
}

func TestPipelining(t *testing.T) {
	addr := listen(t, echo)
	c := dial(t, addr)
	a := "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	b := "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
	d := "PUT /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	e := "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"
	for range 3 { // keep-alive
		c.send(a + b + "hello" + "\r\n" + d + "2;x=y\r\nhi\r\n0\r\nT: 1\r\n\r\n" + e + a)
		c.want(200, "GET /a h|"+a+`|""|<nil>|map[]|`)
		c.want(200, "POST /b h|"+b+`|"hello"|<nil>|map[]|`)
		c.want(200, "PUT /d h|"+d+`|"hi"|<nil>|map[T:[1]]|`)
		c.want(200, "OPTIONS * h|"+e+`|""|<nil>|map[]|`)
		c.want(200, "GET /a h|"+a+`|""|<nil>|map[]|`)
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, tt := range []struct {
		name, head string
		status     int
	}{
		{"garbage", "\x00\x01\x02", 400},
		{"TLS", "\x16\x03\x01\x02\x00\x01", 400},
		{"many empty lines", strings.Repeat("\r\n", 20), 400},
		{"bare CR", "\rGET / HTTP/1.1\r\n", 400},
		{"words", "hello\r\n\r\n", 400},
		{"HTTP/0.9", "GET /\r\n\r\n", 400},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"both framings", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"other coding", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"folded", "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400},
		{"bare LF", "GET / HTTP/1.1\nHost: h\n\n", 400},
		{"target not a path", "GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"asterisk", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"question mark alone", "GET ? HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"fragment alone", "GET #a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"opaque", "GET http:a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"absolute without host", "GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"absolute with port 0", "GET http://h:0/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"absolute with port 70000", "GET http://h:70000/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"absolute with bad host", "GET http://a<b/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT without port", "CONNECT h HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT to port 65536", "CONNECT h:65536 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT to port x", "CONNECT h:x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT to nobody", "CONNECT :443 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT to a path", "CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT to a URL", "CONNECT http://h:80/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT with a user", "CONNECT u@h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT with a zone", "CONNECT [fe80::1%25eth0]:80 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT with a body", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", 400},
		{"request line without end", "GET /" + long, 414},
		{"long target", "GET /" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414},
		{"fields without end", "GET / HTTP/1.1\r\nHost: h\r\nA: " + long, 431},
		{"many fields", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("A: b\r\n", 300) + "\r\n", 431},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release := make(chan bool)
			addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/first" {
					t.Errorf("served %s %s", r.Method, r.RequestURI)
				}
				<-release
				io.WriteString(w, "first")
			})
			c := dial(t, addr)
			c.send("GET /first HTTP/1.1\r\nHost: h\r\n\r\n" + tt.head)
			close(release)
			c.want(200, "first")
			go io.WriteString(c.Conn, "GET /never HTTP/1.1\r\nHost: h\r\n\r\n"+long) // the client closes in the end
			resp, body := c.answer()
			if resp.StatusCode != tt.status || !resp.Close {
				t.Errorf("got %d, close %v", resp.StatusCode, resp.Close)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("fields %v", resp.Header)
			}
			start := fmt.Sprintf("warctee: %d %s: ", tt.status, http.StatusText(tt.status))
			if !strings.HasPrefix(body, start) || !strings.HasSuffix(body, "\n") || strings.Count(body, "\n") != 1 || len(body) > 300 {
				t.Errorf("body %q", body)
			}
			c.wantEOF()
		})
	}
}

func TestHalfClose(t *testing.T) {
	addr := listen(t, echo)
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi" + "GET /b HTTP/1.0\r\n\r\n")
	c.Conn.(*net.TCPConn).CloseWrite()
	_, body := c.answer()
	if !strings.Contains(body, `|"hi"|<nil>|`) {
		t.Errorf("got %q", body)
	}
	if _, body := c.answer(); !strings.HasPrefix(body, "GET /b ") {
		t.Errorf("got %q", body)
	}
	c.wantEOF()

	c = dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhi")
	c.Conn.(*net.TCPConn).CloseWrite()
	if _, body := c.answer(); !strings.Contains(body, `|"hi"|unexpected EOF|`) {
		t.Errorf("got %q", body)
	}
}

// TestClientGone checks that the context of a request ends with its client.
func TestClientGone(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		gone := make(chan error, 1)
		started := make(chan bool)
		addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
			close(started)
			select {
			case <-r.Context().Done():
				gone <- nil
			case <-time.After(patience):
				gone <- errors.New("the context did not end")
			}
		})
		c := dial(t, addr)
		c.send(head)
		<-started
		c.Close()
		if err := <-gone; err != nil {
			t.Errorf("%.7s: %v", head, err)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	addr := listen(t, echo)
	c := dial(t, addr)
	head := "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	c.send(head)
	c.wantText("HTTP/1.1 100 Continue\r\n\r\n")
	c.send("hi")
	c.want(200, "POST / h|"+head+`|"hi"|<nil>|map[]|`)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: other\r\nContent-Length: 2\r\n\r\n")
	if resp, _ := c.answer(); resp.StatusCode != 417 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestLargeBody checks that a body is not held up by what is in front of it.
func TestLargeBody(t *testing.T) {
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	c := dial(t, addr)
	const size = 32 << 20
	go func() { // ends when all is sent, or the client is closed
		io.WriteString(c.Conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size))
		io.CopyN(c.Conn, zeros{}, size)
		io.WriteString(c.Conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	}()
	c.want(200, fmt.Sprint(size, nil))
	c.want(200, "0 <nil>")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
