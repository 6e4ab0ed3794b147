package warc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// crlf makes the line ends of a header of its text.
func crlf(text string) []byte { return []byte(strings.ReplaceAll(text, "\n", "\r\n")) }

var responseHeader = crlf(`WARC/1.1
WARC-Type: response
WARC-Record-ID: <urn:uuid:019a91f2-6c1b-4d3e-9f0a-4b5c6d7e8f90>
WARC-Date: 2026-03-14T15:09:26.535897Z
WARC-Target-URI: https://www.example.org/static/images/teaser-4711.png
WARC-IP-Address: 203.0.113.17
WARC-Concurrent-To: <urn:uuid:7b1d3f5e-2a4c-4e6f-8091-a2b3c4d5e6f7>
WARC-Block-Digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
WARC-Payload-Digest: sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
WARC-Protocol: http/1.1
WARC-Protocol: tls/1.3
WARC-Cipher-Suite: TLS_AES_128_GCM_SHA256
WARC-Identified-Payload-Type: image/png
Content-Type: application/http; msgtype=response
WARC-Warcinfo-ID: <urn:uuid:d4c3b2a1-f6e5-4807-9a1b-c2d3e4f50617>
Content-Length: 12345

`)

var requestHead = crlf(`GET /static/images/teaser-4711.png HTTP/1.1
Host: www.example.org
Connection: keep-alive
sec-ch-ua-platform: "Linux"
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36
Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8
Sec-Fetch-Site: same-origin
Sec-Fetch-Mode: no-cors
Sec-Fetch-Dest: image
Referer: https://www.example.org/
Accept-Encoding: gzip, deflate, br, zstd
Accept-Language: en-US,en;q=0.9
Cookie: session=0b7c1de2f3a4958677; consent=yes

`)

var responseHead = crlf(`HTTP/1.1 200 OK
Server: nginx
Date: Sat, 14 Mar 2026 15:09:26 GMT
Content-Type: image/png
Content-Length: 11776
Last-Modified: Mon, 12 Jan 2026 08:00:00 GMT
ETag: "69649e00-2e00"
Cache-Control: public, max-age=31536000, immutable
Strict-Transport-Security: max-age=63072000
Accept-Ranges: bytes

`)

// prose returns n octets that compress about as text does.
func prose(n int) []byte {
	words := strings.Fields(`<div class= <a href= </a> </div> <p> </p> <span> return function margin: 0; padding: width: the of and
		a to in is that it was for on are with as his they be at one have this from by hot word but what some we can`)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var b []byte
	for len(b) < n {
		b = append(append(b, words[rng.IntN(len(words))]...), ' ')
		if rng.IntN(8) == 0 {
			b = fmt.Append(b, rng.IntN(1e6))
		}
	}
	return b[:n]
}

func jsonText(n int) []byte {
	rng := rand.New(rand.NewPCG(2, uint64(n)))
	b := []byte(`{"status":"ok","items":[`)
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":%d,"price":%.2f,"active":%v,"updated":"2026-03-%02dT10:%02d:00Z"},`, rng.IntN(1e6), rng.Float64()*100, rng.IntN(2) == 0, 1+rng.IntN(28), rng.IntN(60))
	}
	return b[:n]
}

func BenchmarkMemberStart(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(responseHeader)))
	var dst []byte
	for b.Loop() {
		dst = AppendMemberStart(dst[:0], responseHeader)
	}
	b.ReportMetric(float64(len(dst)), "octets")
}

func BenchmarkMemberEnd(b *testing.B) {
	b.ReportAllocs()
	dst, d := make([]byte, 0, 8), Deflated{CRC: 0x12345678, Size: 12345}
	for b.Loop() {
		dst = AppendMemberEnd(dst[:0], responseHeader, d)
	}
}

// BenchmarkDeflate also tells how many octets come out.
func BenchmarkDeflate(b *testing.B) {
	for _, c := range []struct {
		name string
		head []byte
		body []byte
	}{
		{"request", requestHead, nil},
		{"json=200B", responseHead, jsonText(200)},
		{"json=1KiB", responseHead, jsonText(1 << 10)},
		{"text=4KiB", responseHead, prose(4 << 10)},
		{"text=12KiB", responseHead, prose(12 << 10)},
		{"text=32KiB", responseHead, prose(32 << 10)},
		{"text=100KiB", responseHead, prose(100 << 10)},
		{"text=1MiB", responseHead, prose(1 << 20)},
	} {
		b.Run(c.name, func(b *testing.B) {
			block := append(bytes.Clone(c.head), c.body...)
			b.ReportAllocs()
			b.SetBytes(int64(len(block)))
			var dst bytes.Buffer
			r := bytes.NewReader(nil)
			for b.Loop() {
				dst.Reset()
				r.Reset(block)
				if _, err := Deflate(&dst, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(dst.Len()), "octets")
		})
	}
}

// BenchmarkStoredMember judges a payload and reads the member.
func BenchmarkStoredMember(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 45 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			payload, buf := noise(size), make([]byte, 256<<10)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if Compresses(payload) {
					b.Fatal("noise compresses")
				}
				for m := StoredMember(responseHeader, responseHead, bytes.NewReader(payload), int64(size)); ; {
					if _, err := m.Read(buf); err != nil {
						break
					}
				}
			}
		})
	}
}
