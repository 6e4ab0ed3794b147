package mitm

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// An endless connection gives the same message again and again, in pieces of
// at most 16 KiB, and is its own listener.
type endless struct {
	net.Conn
	message string
	rest    string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.message
	}
	n := copy(p[:min(len(p), 16<<10)], e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *endless) Accept() (net.Conn, error) { return e, nil }
func (e *endless) Close() error              { return nil }
func (e *endless) Addr() net.Addr            { return e.RemoteAddr() }
func (e *endless) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}
}

// BenchmarkConn reads messages through a framing connection, as net/http does.
func BenchmarkConn(b *testing.B) {
	const fields = "Host: www.example.org\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\nCookie: a=0123456789; b=0123456789\r\n"
	const size, chunk = 96 << 10, 8 << 10
	chunks := strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", chunk, strings.Repeat("x", chunk)), size/chunk) + "0\r\n\r\n"
	for _, bm := range []struct{ name, message string }{
		{"head", "GET /some/path/of/usual/length.html?q=1 HTTP/1.1\r\n" + fields + "\r\n"},
		{"length", fmt.Sprintf("POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", fields, size, strings.Repeat("x", size))},
		{"chunked", "POST / HTTP/1.1\r\n" + fields + "Transfer-Encoding: chunked\r\n\r\n" + chunks},
	} {
		b.Run(bm.name, func(b *testing.B) {
			e := &endless{message: bm.message}
			c, err := NewListener(e, Limits{}, slog.New(slog.DiscardHandler)).Accept()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.message)))
			p := make([]byte, 4<<10)
			for b.Loop() {
				// What it hands out is as long as what the client sent.
				if _, err := io.CopyBuffer(discard{}, io.LimitReader(reader{c}, int64(len(bm.message))), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Both hide what io.Copy would use instead of a buffer.
type (
	discard struct{}
	reader  struct{ io.Reader }
)

func (discard) Write(p []byte) (int, error) { return len(p), nil }
