package recorder

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warctee/warctee/dedup"
)

func openForBenchmark(b *testing.B, o Options) *Recorder {
	o.Dir = b.TempDir()
	o.Logger = slog.New(slog.DiscardHandler)
	o.OpenIndex = func() (dedup.Index, error) { return dedup.NewMemory(), nil }
	r, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

// benchText compresses like markup, to a fifth.
func benchText(size int) []byte {
	rng := mathrand.New(mathrand.NewPCG(1, 1))
	words := strings.Fields(`the of and a to in is that it was for on are with as his they be at one have this from by hot word but
		what some we can out other were all there when up use your how said an each she`)
	var text []byte
	for len(text) < size {
		text = fmt.Appendf(text, `<li class="item"><a class="item__link" href="/news/%d.html">%s</a></li>`+"\n<p>", rng.IntN(1e6), words[rng.IntN(len(words))])
		for range 8 {
			text = append(append(text, words[rng.IntN(len(words))]...), ' ')
		}
	}
	return text[:size]
}

func benchNoise(size int) []byte {
	noise := make([]byte, size)
	rand.Read(noise)
	return noise
}

// numberLength is how long the number is that makes each content another one.
const numberLength = 16

// answering returns a Dial of an origin that answers each request with that
// content, which is another one each time unless same is set.
func answering(b *testing.B, content []byte, same bool) func(context.Context, string, string) (net.Conn, error) {
	head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 10:15:00 GMT\r\nContent-Type: text/html\r\nETag: \"691adb02-8000\"\r\n"+
		"Cache-Control: public, max-age=3600\r\nVary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n", len(content))
	number := 0
	serve := func(c net.Conn) {
		defer c.Close()
		answer := bytes.Join([][]byte{head, content}, nil)
		request := make([]byte, 4<<10) // has all of it: it is written at once
		for {
			if _, err := c.Read(request); err != nil {
				return
			}
			if !same {
				number++
				copy(answer[len(head):], fmt.Appendf(nil, "%0*d", numberLength, number))
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
	network := newPipeNet()
	go func() { // ended by the clean-up
		for {
			c, err := network.Accept()
			if err != nil {
				return
			}
			serve(c) // until the recorder closes it; it needs one at a time
		}
	}()
	b.Cleanup(func() { network.Close() })
	return network.dial
}

// BenchmarkExchange performs exchanges one after the other, each until its
// records are in the file: the slot that the next one waits for is given back
// then.
func BenchmarkExchange(b *testing.B) {
	for _, kind := range []string{"text", "noise", "revisit"} {
		for _, size := range []int{1 << 10, 15 << 10, 100 << 10} {
			b.Run(kind+"/"+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
				content := benchText(size)
				if kind == "noise" {
					content = benchNoise(size)
				}
				r := openForBenchmark(b, Options{MaxInFlight: 1, Dial: answering(b, content, kind == "revisit")})
				req, err := http.NewRequest("GET", "http://www.example.org/some/path/of/usual/length.html", nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header = http.Header{
					"User-Agent":      {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
					"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"},
					"Accept-Encoding": {"gzip, deflate, br, zstd"},
					"Accept-Language": {"en-GB,en;q=0.9"},
				}
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					resp, err := r.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, resp.Body); n != int64(size) || err != nil {
						b.Fatal(n, err)
					}
					resp.Body.Close()
				}
				if s := r.Status(); kind == "revisit" && s.Responses > 1 || kind != "revisit" && s.Revisits > 0 {
					b.Errorf("%d responses and %d revisits", s.Responses, s.Revisits)
				}
			})
		}
	}
}

// BenchmarkSpool writes a body and follows it, in pieces as they come from a
// connection.
func BenchmarkSpool(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 4 << 20} {
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			r := openForBenchmark(b, Options{})
			piece := make([]byte, min(size, 16<<10))
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				s := r.newMessage(nil, int64(size)).body
				f := s.follow()
				got := 0
				for range size / len(piece) {
					if _, err := s.Write(piece); err != nil {
						b.Fatal(err)
					}
					p, err := f.next(nil)
					if err != nil {
						b.Fatal(err)
					}
					got += len(p)
				}
				if got != size/len(piece)*len(piece) {
					b.Fatalf("%d octets of %d", got, size)
				}
				s.end(nil)
				s.release()
			}
		})
	}
}

// BenchmarkKeep is that without a follower, and with the digests of block and
// payload.
func BenchmarkKeep(b *testing.B) {
	const size = 96 << 10
	r := openForBenchmark(b, Options{})
	piece := make([]byte, 16<<10)
	b.ReportAllocs()
	b.SetBytes(size)
	for b.Loop() {
		m := r.newMessage(nil, size)
		for range size / len(piece) {
			if _, err := m.keep(piece, piece); err != nil {
				b.Fatal(err)
			}
		}
		m.block.Sum(nil)
		m.payload.Sum(nil)
		m.body.release()
	}
}
