package http1

import (
	"bytes"
	"fmt"
	"testing"
)

// What a browser and a web server send.
var (
	benchRequest = []byte("GET /news/2026/11/some-article-about-something-4711.html?utm_source=front HTTP/1.1\r\nHost: www.example.org\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\n" +
		"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nReferer: https://www.example.org/\r\nCookie: a=0123456789; b=0123456789\r\n\r\n")
	benchResponse = []byte("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 21 Nov 2026 10:15:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\n" +
		"Last-Modified: Tue, 17 Nov 2026 08:15:30 GMT\r\nETag: \"691adb02-8000\"\r\nCache-Control: public, max-age=3600\r\n" +
		"Vary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\nStrict-Transport-Security: max-age=31536000\r\nTransfer-Encoding: chunked\r\n\r\n")
)

func BenchmarkHeadLen(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchRequest)))
	for b.Loop() {
		if HeadLen(benchRequest, 0) != len(benchRequest) {
			b.Fatal("not whole")
		}
	}
}

func BenchmarkParseRequest(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchRequest)))
	for b.Loop() {
		if _, err := ParseRequest(benchRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseResponse(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchResponse)))
	for b.Loop() {
		if _, err := ParseResponse(benchResponse, "GET"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBody walks over 96 KiB that come in pieces of 16 KiB.
func BenchmarkBody(b *testing.B) {
	const size, piece = 96 << 10, 16 << 10
	for _, chunk := range []int{0, 1 << 10, 8 << 10} {
		name, framing, body := "length", Framing{Kind: Length, Length: size}, make([]byte, size)
		if chunk > 0 {
			name, framing, body = fmt.Sprintf("chunks=%dKiB", chunk>>10), Framing{Kind: Chunked}, nil
			for range size / chunk {
				body = fmt.Appendf(body, "%x\r\n%s\r\n", chunk, bytes.Repeat([]byte{'x'}, chunk))
			}
			body = append(body, "0\r\n\r\n"...)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				walk, got := NewBody(framing, false), 0
				for rest := body; len(rest) > 0; {
					p := rest[:min(piece, len(rest))]
					rest = rest[len(p):]
					for len(p) > 0 {
						n, data, err := walk.Next(p)
						if err != nil {
							b.Fatal(err)
						}
						got += len(data)
						p = p[n:]
					}
				}
				if got != size || !walk.Done() {
					b.Fatalf("%d octets, done: %v", got, walk.Done())
				}
			}
		})
	}
}
