package recorder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// zstdReply is 26 octets of zstd that want a window of 8 MiB.
const zstdReply = "\x28\xb5\x2f\xfd\x00\x68\x89\x00\x00a little payload."

// BenchmarkHostile performs exchanges with replies that were made to cost a lot,
// each beside a plain one of as many octets on the wire.
func BenchmarkHostile(b *testing.B) {
	const chunks = 100_000
	length := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", chunks) + "0\r\n\r\n"
	for _, reply := range []struct{ name, rest string }{
		{"26B/plain", length(strings.Repeat("x", len(zstdReply)))},
		{"26B/zstd", "Content-Encoding: zstd\r\n" + length(zstdReply)},
		{"600kB/plain", length(strings.Repeat("1\r\nx\r\n", chunks))},
		{"600kB/chunks", chunked},
	} {
		b.Run(reply.name, func(b *testing.B) {
			raw := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + reply.rest)
			r := openForBenchmark(b, Options{MaxInFlight: 1, Dial: repeating(b, raw)})
			req, err := http.NewRequest("GET", "http://www.example.org/", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				resp, err := r.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}

// repeating is an origin that always replies the same.
func repeating(b *testing.B, raw []byte) func(context.Context, string, string) (net.Conn, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() { // ended by the cleanup
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends when the recorder closes the connection
				defer c.Close()
				for buf, rest := make([]byte, 4<<10), []byte(nil); ; {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					for rest = append(rest, buf[:n]...); bytes.Contains(rest, []byte("\r\n\r\n")); {
						_, rest, _ = bytes.Cut(rest, []byte("\r\n\r\n"))
						if _, err := c.Write(raw); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}
}
