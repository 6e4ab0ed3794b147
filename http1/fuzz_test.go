package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
)

// Where we and net/http both take a message, its body and its end have to be the
// same. Where only one of us takes it there is one view of it, which is enough;
// but of a request net/http must be able to take all that we do, because its
// server gets it next.

// An entity is a body as one reader has seen it.
type entity struct {
	octets   string
	consumed int // bytes of the input, head included
	whole    bool
}

// ours walks over the body behind a head of n bytes.
func ours(f Framing, strict bool, raw []byte, n int) (e entity, err error) {
	b := NewBody(f, strict)
	consumed, payload, err := walk(b, raw[n:], max(1, len(raw)))
	return entity{string(payload), n + consumed, b.Done() || f.Kind == UntilClose}, err
}

// theirs reads a body of net/http whose message came through in.
func theirs(body io.Reader, in *bufio.Reader, rest *bytes.Reader, size int) (e entity, err error) {
	payload, err := io.ReadAll(body)
	return entity{string(payload), size - rest.Len() - in.Buffered(), err == nil}, err
}

// FuzzRequest compares requests with net/http.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST / HTTP/1.1", "Content-Length: 5", "helloGET"},
		{"POST / HTTP/1.1", "Transfer-Encoding: chunked", "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nGET"},
		{"POST / HTTP/1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"},
		{"POST / HTTP/1.1", "Transfer-Encoding: chunked", "5\nhello\r\n0\r\n\r\n"},
		{"CONNECT h:1 HTTP/1.1", "X: y", "\x16\x03"},
		{"HEAD /%zz\xff HTTP/1.0", "Content-Length: 0003", "abc"},
		{"GET * HTTP/1.1", "Connection: close\r\nExpect: x", ""},
	} {
		f.Add(seed[0], seed[1], []byte(seed[2]))
	}
	f.Fuzz(func(t *testing.T, line, fields string, body []byte) {
		raw := append([]byte(line+"\r\nHost: h\r\n"+fields+"\r\n\r\n"), body...)
		n := HeadLen(raw, 0)
		if n == 0 {
			return
		}
		r, err := ParseRequest(raw[:n:n])
		if err != nil {
			return
		}
		// As the proxy does: the target and Host are checked elsewhere.
		head := r.Method + " " + map[bool]string{false: "/", true: "h:1"}[r.Method == "CONNECT"] + " HTTP/1." + string(rune('0'+r.Minor)) + "\r\n"
		for _, field := range r.Fields {
			if field.Is("Host") {
				field.Raw = []byte("Host: h\r\n")
			}
			head += string(field.Raw)
		}
		all := slices.Concat([]byte(head+"\r\n"), raw[n:])
		rest := bytes.NewReader(all)
		in := bufio.NewReaderSize(rest, 64<<10)
		q, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("net/http does not take %q: %v", head, err)
		}
		if chunked := slices.Equal(q.TransferEncoding, []string{"chunked"}); q.Method != r.Method || q.ProtoMinor != r.Minor ||
			chunked != (r.Framing.Kind == Chunked) || !chunked && q.ContentLength != r.Framing.Length {
			t.Fatalf("of %q net/http makes %+v, we %+v", head, q, r.Framing)
		}
		mine, err := ours(r.Framing, true, all, len(head)+2)
		other, theirErr := theirs(q.Body, in, rest, len(all))
		switch {
		case err != nil: // refused
		case mine.whole && theirErr != nil && tooMuchFraming(theirErr):
		case mine.whole != other.whole, mine.whole && mine != other:
			t.Fatalf("of %q net/http sees %+v, %v, we see %+v", all, other, theirErr, mine)
		}
	})
}

// tooMuchFraming: net/http also bounds the sum of the lines of all chunks.
func tooMuchFraming(err error) bool {
	return strings.Contains(err.Error(), "chunked encoding contains too much non-data")
}

// FuzzResponse compares responses with net/http. Known differences, in all of
// which we see what browsers see:
//
//   - HTTP/1.0 and chunked: net/http does not look for chunks.
//   - White space before the colon: to net/http it is a part of the name.
func FuzzResponse(f *testing.F) {
	for _, seed := range [][3]string{
		{"HTTP/1.1 200 OK", "Content-Length: 5, 5", "helloHTTP"},
		{"HTTP/1.1 200 OK", "Content-Length: 5\r\nContent-Length: 5", "helloHTTP"},
		{"HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nContent-Length: 1", "5;a\r\nhello\r\n0\r\nX: y\r\n\r\nHTTP"},
		{"HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "5 \nhello\n0\n\nHTTP"},
		{"HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "5;a\x16\xc3\r\nhello\r\n0\r\n\r\nHTTP"},
		{"HTTP/1.0 200", "Content-Length: 3", "abcdef"},
		{"HTTP/1.1 304 Not", "Content-Length: 9", ""},
		{"HTTP/1.1 103 Early", "", "HTTP"},
		{"HTTP/1.1 200  OK", "A: b\r\n c", "until the end"},
		{"HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked", "0\r\n\r\n"},
		{"HTTP/1.1 200 OK", "Content-Length : 3", "abcdef"},
	} {
		f.Add(seed[0], seed[1], []byte(seed[2]), false)
	}
	f.Fuzz(func(t *testing.T, line, fields string, body []byte, isHead bool) {
		raw := append([]byte(line+"\r\n"+fields+"\r\n\r\n"), body...)
		n := HeadLen(raw, 0)
		if n == 0 {
			return
		}
		method := map[bool]string{false: "GET", true: "HEAD"}[isHead]
		r, err := ParseResponse(raw[:n:n], method)
		if err != nil {
			return
		}
		rest := bytes.NewReader(raw)
		in := bufio.NewReaderSize(rest, 64<<10)
		q, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return
		}
		if _, coded := r.Get("Transfer-Encoding"); coded && r.Minor == 0 || slices.ContainsFunc(r.Fields, spacedName) {
			return
		}
		if q.StatusCode != r.Status {
			t.Fatalf("of %q net/http makes the status %d, we %d", raw[:n], q.StatusCode, r.Status)
		}
		mine, err := ours(r.Framing, false, raw, n)
		other, theirErr := theirs(q.Body, in, rest, len(raw))
		switch {
		case err != nil && theirErr == nil:
			t.Fatalf("of %q net/http sees %+v, we do not take it: %v", raw, other, err)
		case err == nil && theirErr == nil && mine != other, err == nil && theirErr == io.ErrUnexpectedEOF && mine.whole && !isLenient(raw[n:]):
			t.Fatalf("of %q net/http sees %+v, %v, we see %+v", raw, other, theirErr, mine)
		}
	})
}

func spacedName(f Field) bool { return f.Name != nil && f.Raw[len(f.Name)] != ':' }

// isLenient reports whether there may be chunk framing that net/http does not
// take.
func isLenient(body []byte) bool {
	return bytes.Count(body, []byte("\n")) != bytes.Count(body, []byte("\r\n")) || bytes.ContainsAny(body, " \t:")
}

// FuzzChunks compares chunked bodies with httputil.NewChunkedReader, which ends
// before the trailer section.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5;x=\"y\"\r\nhello\r\n000\r\nA: b\r\nC: d\r\n\r\nGET", "5\nhello\n0\n\n", "5 \r\nhello\r\n0\r\n\r\n", "fffffffff\r\nx", "1\r\nab\r\n0\r\n\r\n",
		"00000000000000001\r\na\r\n0\r\n\r\n", "1;" + strings.Repeat("x", maxStrict) + "\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, strict bool) {
		b := NewBody(Framing{Kind: Chunked}, strict)
		consumed, payload, err := walk(b, raw, max(1, len(raw)))
		rest := bytes.NewReader(raw)
		in := bufio.NewReaderSize(rest, 64<<10)
		other, theirErr := theirs(httputil.NewChunkedReader(in), in, rest, len(raw))
		switch {
		case !b.Done():
			if theirErr == nil && strict && err == nil && b.state != inTrailer {
				t.Fatalf("of %q the chunked reader sees %+v, we wait for more", raw, other)
			}
		case theirErr != nil:
			if strict && !tooMuchFraming(theirErr) {
				t.Fatalf("of %q the chunked reader says %v, we see %q", raw, theirErr, payload)
			}
		case string(payload) != other.octets || consumed != other.consumed+len(b.line):
			t.Fatalf("of %q the chunked reader sees %+v, we see %q, %d bytes with a trailer section of %d", raw, other, payload, consumed, len(b.line))
		}
	})
}
