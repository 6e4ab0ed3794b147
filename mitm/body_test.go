package mitm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warctee/warctee/http1"
)

// chunkedCases are bodies behind "POST / HTTP/1.1 … chunked".
var chunkedCases = []struct{ name, body, want, err string }{
	{"plain", "5\r\nhello\r\n0\r\n\r\n", "hello", "<nil>"},
	{"extensions and trailers", "2;a=\"b;c\"\r\nhe\r\n3\r\nllo\r\n000;z\r\nT: 1\r\nU: 2\r\n\r\n", "hello", "<nil>"},
	{"data like framing", "9\r\n0\r\n\r\nGET \r\n0\r\n\r\n", "0\r\n\r\nGET ", "<nil>"},
	{"empty", "0\r\n\r\n", "", "<nil>"},
}

// TestSplit sends a chunked request and the next one, cut in two everywhere.
func TestSplit(t *testing.T) {
	next := "GET /%zz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for _, tt := range chunkedCases {
		head := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		all := head + tt.body + next
		for cut := range len(all) {
			got := play(t, []byte(all[:cut]), []byte(all[cut:]))
			want := []string{
				fmt.Sprintf("POST / %q %q <nil>", head, tt.want),
				fmt.Sprintf("GET /%%25zz %q \"\" <nil>", next),
			}
			if fmt.Sprint(got.seen) != fmt.Sprint(want) || got.answers != "[200 200]" {
				t.Fatalf("%s, cut at %d: saw %q, answered %s", tt.name, cut, got.seen, got.answers)
			}
		}
	}
}

// TestReadAhead has more bytes read ahead than net/http takes at once.
func TestReadAhead(t *testing.T) {
	first := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nA: " + strings.Repeat("a", 8300) + "\r\n\r\n"
	next := "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nB: " + strings.Repeat("b", 9000) + "c\r\n\r\n"
	got := play(t, []byte(first+"5\r\nhello\r\n0\r\n\r\n"+next))
	want := []string{fmt.Sprintf("POST / %q \"hello\" <nil>", first), fmt.Sprintf("GET / %q \"\" <nil>", next)}
	if fmt.Sprint(got.seen) != fmt.Sprint(want) {
		t.Errorf("saw %.60q… answered %s", got.seen, got.answers)
	}
}

func TestBadChunks(t *testing.T) {
	for _, body := range []string{
		"5\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n",
		"ffffffffffffffffff\r\nhello\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "\r\n",
		"5\r\nhello\r\n0\r\nno colon\r\n\r\n", "5\r\nhello\r\n0\r\nA: b\n\r\n",
		"5;" + strings.Repeat("x", 20<<10) + "\r\nhello\r\n0\r\n\r\n",
	} {
		got := make(chan error, 2)
		addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			got <- err
			w.WriteHeader(400)
			io.WriteString(w, "bad")
		})
		c := dial(t, addr)
		c.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body + "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
		c.want(400, "bad")
		c.wantEOF()
		err := <-got
		if e, ok := errors.AsType[*http1.Error](err); !ok || e.Status != 400 {
			t.Errorf("%.40q: the handler got %v", body, err)
		}
		if err == nil {
			t.Errorf("%.40q: no error", body)
		}
		if len(got) > 0 {
			t.Errorf("%.40q: a second request was served", body)
		}
	}
}

// TestBadTrailer checks that a trailer of which net/http has a part already is
// refused with our reason, and answered once.
func TestBadTrailer(t *testing.T) {
	half := strings.Repeat("X: y\r\n", 500)
	got := play(t, []byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"+half), []byte(half+"\r\n"))
	if len(got.seen) != 1 || !strings.HasSuffix(got.seen[0], "refused with 400") || got.answers != "[200]" {
		t.Errorf("the handler got %q, the client the answers %s", got.seen, got.answers)
	}
}

// TestMoreFramingThanData: net/http refuses a body that is fine with us. It must
// not take the rest for a request, whether or not the answer has begun.
func TestMoreFramingThanData(t *testing.T) {
	chunk := "1;" + strings.Repeat("x", 100) + "\r\nx\r\n"
	for _, duplex := range []bool{false, true} {
		got := make(chan error, 2)
		addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
			if duplex {
				rc := http.NewResponseController(w)
				rc.EnableFullDuplex()
				rc.Flush()
			}
			_, err := io.ReadAll(r.Body)
			got <- err
			io.WriteString(w, "bad")
		})
		c := dial(t, addr)
		go c.Write([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 500) + "0\r\n\r\n" + plainHead)) // ends with c
		c.want(200, "bad")
		c.wantEOF()
		if e, ok := errors.AsType[*http1.Error](<-got); !ok || e.Status != 400 {
			t.Errorf("the handler got %v", e)
		}
		if len(got) > 0 {
			t.Error("a second request was served")
		}
	}
}

// TestNoSmuggling: net/http drops a line of a chunk that is longer than its
// buffer, and once the answer has begun it takes what follows for a request. It
// does not get that far, because the framing connection takes no such line.
func TestNoSmuggling(t *testing.T) {
	served := make(chan string, 9)
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex() // else the body is read before the answer
		rc.Flush()
	})
	c := dial(t, addr)
	data := "Host: h\r\n\r\n"
	line := fmt.Sprintf("%x;", len(data))
	line += strings.Repeat("x", 4096-len(line)) + "GET /smuggled HTTP/1.1\r\n"
	c.send("POST /first HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + line + data + "\r\n0\r\n\r\n" + plainHead)
	resp, _ := c.answer()
	if resp.StatusCode != 200 {
		t.Errorf("got %d", resp.StatusCode)
	}
	c.wantEOF()
	if close(served); len(served) != 1 {
		t.Errorf("served %d requests", len(served))
	}
}

func TestAgrees(t *testing.T) {
	m, _ := parseMessage([]byte("POST /%zz HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"), http1.Limits{})
	same := func() *http.Request {
		return &http.Request{Method: "POST", RequestURI: "/%25zz", ProtoMajor: 1, ProtoMinor: 1, ContentLength: 5}
	}
	if !m.agrees(same()) {
		t.Error("does not agree with itself")
	}
	for name, change := range map[string]func(r *http.Request){
		"method":  func(r *http.Request) { r.Method = "PUT" },
		"target":  func(r *http.Request) { r.RequestURI = "/" },
		"version": func(r *http.Request) { r.ProtoMinor = 0 },
		"length":  func(r *http.Request) { r.ContentLength = 6 },
		"framing": func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
	} {
		r := same()
		change(r)
		c := newConn(nil, nil, http1.Limits{})
		if c.current = m; c.take(r) != nil {
			t.Errorf("agrees with another %s", name)
		}
	}
}

// TestErrorWithBytes checks that an error that comes together with the last
// bytes of something does not hide them, and is not lost.
func TestErrorWithBytes(t *testing.T) {
	boom := errors.New("boom")
	head := "POST / HTTP/1.1\r\nHost: h\r\n"
	for _, pieces := range [][]string{
		{plainHead},
		{head + "Content-Length: 2\r\n\r\nhi"},
		{head + "Content-Length: 2\r\n\r\n", "hi"},
		{head + "Transfer-Encoding: chunked\r\n\r\n", "2\r\nhi\r\n0\r\n\r\n"},
		{head + "Transfer-Encoding: chunked\r\n\r\n", "2\r\nhi\r\n0\r\n\r\n" + plainHead},
	} {
		below := &together{err: boom}
		for _, p := range pieces {
			below.pieces = append(below.pieces, []byte(p))
		}
		c := newConn(below, nil, http1.Limits{})
		got, err := io.ReadAll(c)
		want := strings.ReplaceAll(strings.Join(pieces, ""), "/%zz", "/%25zz")
		if string(got) != want || err != boom {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// A together returns its error with its last bytes, once.
type together struct {
	net.Conn
	pieces [][]byte
	err    error
}

func (r *together) Read(p []byte) (int, error) {
	if len(r.pieces) == 0 {
		return 0, errors.New("read again")
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; len(r.pieces[0]) > 0 {
		return n, nil
	}
	r.pieces = r.pieces[1:]
	if len(r.pieces) == 0 {
		return n, r.err
	}
	return n, nil
}
