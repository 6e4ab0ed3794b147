package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const minimal = "GET / HTTP/1.1\r\nHost: h\r\n"

func TestHeadLen(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n\n",
		"HTTP/1.1 200 OK\r\nA: b\n\r\n",
		"HTTP/1.1 200 OK\nA: b\r\n\n",
	} {
		whole := []byte(head + "body\r\n\r\nmore")
		for seen := range whole {
			from := 0
			// Whatever was scanned before, the answer is the same.
			if seen < len(head) {
				if n := HeadLen(whole[:seen], 0); n != 0 {
					t.Fatalf("HeadLen(%q) = %d", whole[:seen], n)
				}
				from = seen
			}
			if n := HeadLen(whole, from); n != len(head) {
				t.Errorf("HeadLen(%q, %d) = %d, want %d", whole, from, n, len(head))
			}
		}
	}
}

func TestParseRequestKeepsBytes(t *testing.T) {
	raw := "POST /\xfc?a=%zz HTTP/1.1\r\nhOsT: h\r\nX-A:  1 \t\r\nx-a:2\r\nX-Latin: caf\xe9\r\nX-Empty:\r\nContent-Length: 3\r\n\r\n"
	r, err := ParseRequest([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var joined []byte
	for _, f := range r.Fields {
		joined = append(joined, f.Raw...)
	}
	if want := "POST /\xfc?a=%zz HTTP/1.1\r\n" + string(joined) + "\r\n"; want != raw {
		t.Errorf("the pieces make %q, not %q", want, raw)
	}
	if r.Method != "POST" || r.Target != "/\xfc?a=%zz" || r.Minor != 1 || r.Framing != (Framing{Length, 3}) {
		t.Errorf("got %+v", r)
	}
	if got := r.Values("X-a"); len(got) != 2 || got[0] != "1" || got[1] != "2" {
		t.Errorf("X-A = %q", got)
	}
	if v, ok := r.Get("x-empty"); v != "" || !ok {
		t.Errorf("X-Empty = %q, %v", v, ok)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, test := range []struct {
		name, raw string
		status    int
	}{
		{"one word", "GARBAGE\r\n\r\n", 400},
		{"lower-case method", "get / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"method no token", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"long method", strings.Repeat("A", 65) + " / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"no version", "GET /\r\nHost: h\r\n\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"space in target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"control in target", "GET /a\x01b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"HTTP/0.9", "GET / HTTP/0.9\r\nHost: h\r\n\r\n", 400},
		{"HTTP/2.0", "PRI * HTTP/2.0\r\n\r\n", 505},
		{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400},
		{"long target", "GET /" + long(MaxTarget) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414},
		{"many bytes", minimal + "A: " + long(MaxRequestFields) + "\r\n\r\n", 431},
		{"many fields", minimal + strings.Repeat("A: b\r\n", MaxFieldCount) + "\r\n", 431},
		{"bare LF", "GET / HTTP/1.1\nHost: h\n\n", 400},
		{"bare LF in one line", minimal + "A: b\n\r\n", 400},
		{"bare CR", minimal + "A: b\rc\r\n\r\n", 400},
		{"NUL", minimal + "A: b\x00c\r\n\r\n", 400},
		{"control", minimal + "A: b\x01c\r\n\r\n", 400},
		{"space before colon", minimal + "A : b\r\n\r\n", 400},
		{"empty name", minimal + ": b\r\n\r\n", 400},
		{"name no token", minimal + "A(: b\r\n\r\n", 400},
		{"no colon", minimal + "A\r\n\r\n", 400},
		{"folded", minimal + "A: b\r\n c\r\n\r\n", 400},
		{"folded first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", minimal + "Host: h\r\n\r\n", 400},
		{"bad Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"Host with user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
		{"CL and TE", minimal + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"CL twice", minimal + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
		{"CL list", minimal + "Content-Length: 42,42\r\n\r\n", 400},
		{"CL sign", minimal + "Content-Length: +1\r\n\r\n", 400},
		{"CL negative", minimal + "Content-Length: -1\r\n\r\n", 400},
		{"CL empty", minimal + "Content-Length:\r\n\r\n", 400},
		{"CL too large", minimal + "Content-Length: 9223372036854775808\r\n\r\n", 400},
		{"TE twice", minimal + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"TE identity", minimal + "Transfer-Encoding: chunked, identity\r\n\r\n", 501},
		{"TE xchunked", minimal + "Transfer-Encoding: xchunked\r\n\r\n", 501},
		{"TE in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"TE look-alike", minimal + "Transfer_Encoding: chunked\r\n\r\n", 400},
		{"CL look-alike", minimal + "content_length: 5\r\n\r\n", 400},
		{"CONNECT with body", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nContent-Length: 5\r\n\r\n", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(test.raw))
			var e *Error
			if !errors.As(err, &e) || e.Status != test.status || e.Reason == "" {
				t.Errorf("got %+v, %v; want status %d", r, err, test.status)
			}
		})
	}
}

func TestParseRequestAccepts(t *testing.T) {
	for _, raw := range []string{
		minimal + "\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
		"CONNECT h:443 HTTP/1.1\r\n\r\n",
		"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nContent-Length: 0\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		minimal + "Transfer-Encoding: Chunked\r\n\r\n",
		"GET /" + strings.Repeat("a", MaxTarget-1) + " HTTP/1.1\r\nHost: h\r\n\r\n",
		minimal + strings.Repeat("A: b\r\n", MaxFieldCount-1) + "\r\n",
	} {
		if _, err := ParseRequest([]byte(raw)); err != nil {
			t.Errorf("%.60q: %v", raw, err)
		}
	}
}

func TestParseResponse(t *testing.T) {
	none := Framing{}
	for _, test := range []struct {
		name, method, raw string
		status            int
		framing           Framing
		persistent        bool
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"length twice", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, Framing{Kind: Chunked}, true},
		{"identity and chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n", 200, Framing{Kind: Chunked}, true},
		{"identity", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"TE and CL", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 200, Framing{Kind: Chunked}, false},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, false},
		{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\n", 200, Framing{Kind: UntilClose}, false},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, false},
		{"HTTP/1.0 kept alive", "GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, none, true},
		{"HEAD chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, none, true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, none, true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, none, true},
		{"103", "GET", "HTTP/1.1 103 Early Hints\r\n\r\n", 103, none, true},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, Framing{Length, 0}, true},
		{"lower-case", "GET", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, Framing{Length, 0}, true},
		{"bare LF", "GET", "HTTP/1.1 200 OK\nContent-Length: 5\n\n", 200, Framing{Length, 5}, true},
		{"no colon", "GET", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"space before colon", "GET", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", 200, Framing{Length, 5}, false},
		{"tab before colon", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding\t: chunked\r\n\r\n", 200, Framing{Kind: Chunked}, false},
		{"folded", "GET", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n", 200, Framing{Length, 5}, false},
		{"folded coding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", 200, Framing{Kind: Chunked}, false},
		{"folded, and no framing", "GET", "HTTP/1.1 200 OK\r\nX : y\r\n Content-Length: 6\r\nContent-Length: 5\r\n\r\n", 200, Framing{Length, 5}, true},
		{"HEAD, folded", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n", 200, none, false},
		{"status 999", "GET", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999, Framing{Length, 0}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := ParseResponse([]byte(test.raw), test.method)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != test.status || r.Framing != test.framing || r.Persistent != test.persistent {
				t.Errorf("got status %d, framing %+v, persistent %v", r.Status, r.Framing, r.Persistent)
			}
		})
	}
	for name, raw := range map[string]string{
		"status 99":         "HTTP/1.1 99 Odd\r\n\r\n",
		"status 1000":       "HTTP/1.1 1000 Odd\r\n\r\n",
		"status 099":        "HTTP/1.1 099 Odd\r\n\r\n",
		"status word":       "HTTP/1.1 OK\r\n\r\n",
		"ICY":               "ICY 200 OK\r\n\r\n",
		"HTTP/2":            "HTTP/2 200\r\n\r\n",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
		"bad length":        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
		"chunked, identity": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
		"gzip,chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"NUL":               "HTTP/1.1 200 OK\r\nA: \x00\r\nContent-Length: 5\r\n\r\n",
		"bare CR":           "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 5\r\n\r\n",
	} {
		var e *Error
		if r, err := ParseResponse([]byte(raw), "GET"); !errors.As(err, &e) || e.Status != http.StatusBadGateway {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// walk feeds raw in pieces of at most n bytes.
func walk(b *Body, raw []byte, n int) (consumed int, payload []byte, err error) {
	for consumed < len(raw) && !b.Done() {
		piece := raw[consumed:min(len(raw), consumed+n)]
		took, data, err := b.Next(piece)
		if took > len(piece) || err == nil && took == 0 {
			panic("Next consumed nothing, or too much")
		}
		if len(data) > 0 && &data[len(data)-1] != &piece[took-1] {
			panic("the data is not the end of what was consumed")
		}
		consumed += took
		payload = append(payload, data...)
		if err != nil {
			return consumed, payload, err
		}
	}
	return consumed, payload, nil
}

func TestBody(t *testing.T) {
	chunked := Framing{Kind: Chunked}
	for _, test := range []struct {
		name    string
		framing Framing
		strict  bool
		raw     string
		payload string
	}{
		{"none", Framing{}, true, "", ""},
		{"length", Framing{Length, 5}, true, "hello", "hello"},
		{"length 0", Framing{Length, 0}, true, "", ""},
		{"chunks", chunked, true, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"},
		{"empty", chunked, true, "0\r\n\r\n", ""},
		{"extensions", chunked, true, "5;a=b;c=\"d\"\r\nhello\r\n00;last\r\n\r\n", "hello"},
		{"odd extensions", chunked, true, "5; a = \"b;\\\"\" ;c\t;d=e \r\nhello\r\n0\r\n\r\n", "hello"},
		{"invalid extension", chunked, false, "5;=[\"\r\nhello\r\n0;\r\n\r\n", "hello"},
		{"trailer", chunked, true, "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", "x"},
		{"control in an extension, tolerant", chunked, false, "1;a\x16\r\nx\r\n0\r\n\r\n", "x"},
		{"upper-case hex", chunked, true, "A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
		{"data like framing", chunked, true, "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n"},
		{"bare LF", chunked, false, "5\nhello\n0\n\n", "hello"},
		{"space after size", chunked, false, "5  \r\nhello\r\n0 \r\n\r\n", "hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := []byte(test.raw + "NEXT")
			for n := 1; n <= len(raw); n++ {
				b := NewBody(test.framing, test.strict)
				consumed, payload, err := walk(b, raw, n)
				if err != nil || !b.Done() || consumed != len(test.raw) || string(payload) != test.payload {
					t.Fatalf("in pieces of %d: consumed %d of %d, payload %q, done %v, error %v", n, consumed, len(test.raw), payload, b.Done(), err)
				}
			}
		})
	}
	b := NewBody(Framing{Kind: UntilClose}, false)
	if n, data, err := b.Next([]byte("anything")); n != 8 || string(data) != "anything" || err != nil || b.Done() {
		t.Errorf("until close: %d, %q, %v", n, data, err)
	}
}

func TestBodyTrailer(t *testing.T) {
	raw := []byte("1\r\nx\r\n0\r\nA: b\r\nC:  d \r\n\r\n")
	for n := 1; n <= len(raw); n++ {
		b := NewBody(Framing{Kind: Chunked}, true)
		if _, _, err := walk(b, raw, n); err != nil {
			t.Fatal(err)
		}
		f := b.Trailer()
		if len(f) != 2 || string(f[0].Name) != "A" || string(f[1].Value) != "d" {
			t.Errorf("in pieces of %d: trailer %q", n, f)
		}
	}
}

func TestBodyRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		strict bool
		raw    string
	}{
		{"no size", true, "\r\n"},
		{"no number", true, "x\r\n"},
		{"0x", true, "0x5\r\nhello\r\n"},
		{"negative", true, "-5\r\n"},
		{"plus", true, "+5\r\n"},
		{"overflow", true, "8000000000000000\r\n"},
		{"long overflow", true, "ffffffffffffffffffff\r\n"},
		{"space", true, "5 \r\nhello"},
		{"bare LF", true, "5\nhello"},
		{"no line end after data", true, "5\r\nhelloX0\r\n\r\n"},
		{"no line end after data, tolerant", false, "5\r\nhelloX0\r\n\r\n"},
		{"CR in extension", true, "5;a\rb\r\nhello"},
		{"no extension", true, "5;\r\nhello"},
		{"extension without a name", true, "5;=a\r\nhello"},
		{"extension without a value", true, "5;a=\r\nhello"},
		{"extension that is no token", true, "5;a[=b\r\nhello"},
		{"extension with an open quote", true, "5;a=\"b\\\"\r\nhello"},
		{"extension without a semicolon", true, "5;a=\"b\"c\r\nhello"},
		{"too many digits", true, "00000000000000005\r\nhello"},
		{"long extension", true, "5;" + strings.Repeat("a", maxStrict) + "\r\n"},
		{"long extension, tolerant", false, "5;" + strings.Repeat("a", maxChunkLine) + "\r\n"},
		{"bad trailer", true, "0\r\nno colon\r\n\r\n"},
		{"CR at the end of a trailer line", true, "0\r\nA: b\r\r\n\r\n"},
		{"control in an extension", true, "1;a=\"\x16\"\r\nx\r\n0\r\n\r\n"},
		{"CR in an extension", false, "1;a\rb\r\nx\r\n0\r\n\r\n"},
		{"long trailer", true, "0\r\n" + strings.Repeat("A: b\r\n", maxStrict/6+1) + "\r\n"},
		{"long trailer, tolerant", false, "0\r\n" + strings.Repeat("A: b\r\n", maxTrailer/6+1) + "\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, len(test.raw)} {
				b := NewBody(Framing{Kind: Chunked}, test.strict)
				var e *Error
				if _, _, err := walk(b, []byte(test.raw), n); !errors.As(err, &e) {
					t.Errorf("in pieces of %d: error %v", n, err)
				}
			}
		})
	}
}

// FuzzBody: however a body is cut into pieces, the result is the same, and a
// strict walk never accepts what net/http understands differently.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{"5\r\nhello\r\n0\r\n\r\n", "5;x\r\nhello\r\n0\r\nA: b\r\n\r\nGET", "1\nx\n0\n\n", "fffffffff\r\nx"} {
		f.Add([]byte(seed), 3, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, n int, strict bool) {
		whole := NewBody(Framing{Kind: Chunked}, strict)
		consumed, payload, err := walk(whole, raw, max(1, len(raw)))
		pieces := NewBody(Framing{Kind: Chunked}, strict)
		consumed2, payload2, err2 := walk(pieces, raw, 1+max(0, n)%16)
		if whole.Done() != pieces.Done() || (err == nil) != (err2 == nil) || err == nil && consumed != consumed2 || !bytes.Equal(payload, payload2) {
			t.Fatalf("whole: %d %q %v; in pieces: %d %q %v", consumed, payload, err, consumed2, payload2, err2)
		}
		if !strict || !whole.Done() {
			return
		}
		req := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		r, rerr := http.ReadRequest(newReader(req + string(raw)))
		if rerr != nil {
			t.Fatal(rerr)
		}
		if theirs, rerr := io.ReadAll(r.Body); rerr == nil && !bytes.Equal(theirs, payload) {
			t.Fatalf("net/http sees %q, we %q", theirs, payload)
		}
	})
}

// FuzzHead: no input panics, and the pieces of what is accepted make the whole.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{minimal + "\r\n", "HTTP/1.1 200 OK\nA : b\n c\nnonsense\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := HeadLen(raw, 0)
		if n == 0 {
			return
		}
		raw = raw[:n:n]
		check := func(h *Head) {
			joined := append([]byte(nil), raw[:bytes.IndexByte(raw, '\n')+1]...)
			for _, f := range h.Fields {
				joined = append(joined, f.Raw...)
			}
			if !bytes.HasPrefix(raw, joined) || len(bytes.Trim(raw[len(joined):], "\r\n")) > 0 {
				t.Fatalf("pieces %q of %q", joined, raw)
			}
		}
		if r, err := ParseRequest(raw); err == nil {
			check(&r.Head)
		}
		for _, method := range []string{"GET", "HEAD"} {
			if r, err := ParseResponse(raw, method); err == nil {
				check(&r.Head)
			}
		}
	})
}

func newReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }
