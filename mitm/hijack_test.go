package mitm

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/http1"
)

const (
	connectHead = "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"
	upgradeHead = "GET /up HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n"
	plainHead   = "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"
)

// TestHijack checks that all that follows the request reaches the hijacker as it
// was sent, wherever it reads, and nothing is left in between.
func TestHijack(t *testing.T) {
	early := []string{
		"", "x", "\x16\x03\x01", plainHead, "GET / HT", "\r\n", "not http \x00", strings.Repeat("early", 20<<10),
	}
	for _, head := range []string{connectHead, upgradeHead, plainHead, strings.Replace(upgradeHead, "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi", 1)} {
		for _, early := range early {
			for _, through := range []string{"conn", "reader"} {
				t.Run(fmt.Sprintf("%.7s %.10q %s", head, early, through), func(t *testing.T) {
					addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
						if b, err := io.ReadAll(r.Body); err != nil || r.ContentLength != int64(len(b)) {
							t.Errorf("body %q, %v", b, err)
						}
						if head == plainHead && strings.HasPrefix(early, plainHead) {
							until(t, "the next head is read", func() bool { return w.(*responseWriter).conn.getState() == givesHead })
						}
						c, rw, err := http.NewResponseController(w).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						var from io.Reader = c
						if through == "reader" {
							from = rw
						} else if rw.Reader.Buffered() > 0 {
							t.Errorf("%d bytes are in the buffered reader", rw.Reader.Buffered())
						}
						relay := func() {
							defer c.Close()
							got, _ := io.ReadAll(from)
							fmt.Fprintf(c, "%d %s", len(got), got)
						}
						if r.Method == http.MethodConnect {
							go relay() // ends when the client sends no more
						} else {
							relay()
						}
					})
					c := dial(t, addr)
					c.send(head + early)
					sent := early
					if through == "conn" {
						c.send("later")
						sent += "later"
					}
					c.Conn.(*net.TCPConn).CloseWrite()
					got, _ := io.ReadAll(c.r)
					if want := fmt.Sprintf("%d %s", len(sent), sent); string(got) != want {
						t.Errorf("got %.100q, want %.100q", got, want)
					}
				})
			}
		}
	}
}

// TestHijackedIsClosed checks who closes a hijacked connection.
func TestHijackedIsClosed(t *testing.T) {
	for _, tt := range []struct {
		head  string
		panic bool
		open  bool
	}{
		{connectHead, false, true},
		{connectHead, true, false},
		{upgradeHead, false, false},
		{upgradeHead, true, false},
		{plainHead, false, false},
	} {
		conns := make(chan net.Conn, 1)
		addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
			}
			conns <- c
			if tt.panic {
				panic(http.ErrAbortHandler)
			}
		})
		c := dial(t, addr)
		c.send(tt.head)
		theirs := <-conns
		if tt.open {
			time.AfterFunc(50*time.Millisecond, func() {
				io.WriteString(theirs, "open")
				theirs.Close()
			})
			c.wantText("open")
		}
		c.wantEOF()
	}
}

// TestNotHijacked checks that a connection goes on with HTTP when its CONNECT
// or upgrade is refused, whenever the next bytes come.
func TestNotHijacked(t *testing.T) {
	for _, head := range []string{
		connectHead, upgradeHead,
		strings.Replace(upgradeHead, "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi", 1),
		strings.Replace(upgradeHead, "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 1),
	} {
		for _, when := range []string{"together", "meanwhile", "after"} {
			for _, reads := range []bool{true, false} {
				t.Run(fmt.Sprintf("%.7s %s %v", head, when, reads), func(t *testing.T) {
					entered, leave := make(chan bool, 9), make(chan bool, 9)
					addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
						if reads {
							io.Copy(io.Discard, r.Body)
						}
						entered <- true
						<-leave
						fmt.Fprint(w, r.Method, r.RequestURI, r.Context().Err())
					})
					c := dial(t, addr)
					c.send(head)
					next := plainHead + upgradeHead + plainHead
					if when == "together" {
						c.send(next)
					}
					<-entered
					if when == "meanwhile" {
						c.send(next)
					}
					leave <- true
					if resp, _ := c.answer(); resp.StatusCode != 200 {
						t.Fatalf("got %d", resp.StatusCode)
					}
					if when == "after" {
						c.send(next)
					}
					leave <- true
					leave <- true
					leave <- true
					c.want(200, "GET/%25zz<nil>")
					c.want(200, "GET/up<nil>")
					c.want(200, "GET/%25zz<nil>")
				})
			}
		}
	}
}

// TestNoUpgrade checks what is not a request for an upgrade.
func TestNoUpgrade(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		if m, _ := parseMessage([]byte(head), http1.Limits{}); m.switches || m.refusal != nil {
			t.Errorf("%q: switches %v, refusal %v", head, m.switches, m.refusal)
		}
	}
}

// TestResponseWriter checks that nothing of net/http's is lost by the wrapping.
func TestResponseWriter(t *testing.T) {
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(http.Flusher); !ok {
			t.Error("no Flusher")
		}
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("no ReaderFrom")
		}
		rc := http.NewResponseController(w)
		for name, err := range map[string]error{
			"SetReadDeadline":  rc.SetReadDeadline(time.Now().Add(time.Hour)),
			"SetWriteDeadline": rc.SetWriteDeadline(time.Now().Add(time.Hour)),
			"EnableFullDuplex": rc.EnableFullDuplex(),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c := dial(t, addr)
	c.send(plainHead)
	c.wantText("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n")
	for { // the head, then the first chunk, while the handler runs
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	c.wantText("1\r\na\r\n")
}

// TestPanic checks that a panic costs its own connection only.
func TestPanic(t *testing.T) {
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	other := dial(t, addr)
	other.send(plainHead)
	other.want(200, "")
	c := dial(t, addr)
	c.send("GET /panic HTTP/1.1\r\nHost: h\r\n\r\n")
	c.wantEOF()
	other.send(plainHead)
	other.want(200, "")
}

// TestHijackBufferedWriter checks that what was buffered for the client arrives.
func TestHijackBufferedWriter(t *testing.T) {
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		_, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		rw.Flush()
		line, _ := bufio.NewReader(rw).ReadString('\n')
		io.WriteString(rw, line)
		rw.Flush()
	})
	c := dial(t, addr)
	c.send(upgradeHead + "frame\n")
	c.wantText("HTTP/1.1 101 Switching Protocols\r\n\r\nframe\n")
	c.wantEOF()
}
