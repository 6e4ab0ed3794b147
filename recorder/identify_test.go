package recorder

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/http1"
)

const page = "<!DOCTYPE html><html><head><title>x</title></head><body>some text</body></html>"

func pack(t *testing.T, make func(io.Writer) io.WriteCloser, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := make(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(w io.Writer) io.WriteCloser   { return gzip.NewWriter(w) }
func zlibbed(w io.Writer) io.WriteCloser   { return zlib.NewWriter(w) }
func brotlied(w io.Writer) io.WriteCloser  { return brotli.NewWriter(w) }
func deflated(w io.Writer) io.WriteCloser  { f, _ := flate.NewWriter(w, 5); return f }
func zstandard(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }
func chunked(s string) string {
	return fmt.Sprintf("3\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", s[:3], len(s)-3, s[3:])
}
func repeat(f func(string) string, n int, s string) string {
	for range n {
		s = f(s)
	}
	return s
}

func TestIdentify(t *testing.T) {
	gz := func(s string) string { return pack(t, gzipped, s) }
	for _, test := range []struct{ name, fields, body, want string }{
		{"html", "Content-Type: image/png", page, "text/html"},
		{"png", "Content-Type: text/html", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png"},
		{"text", "", "just some words", "text/plain"},
		{"empty", "", "", ""},
		{"octets", "", "\x00\x01\x02\x03\xfe\xff\x80", "application/octet-stream"},
		{"gzip", "Content-Encoding: gzip", gz(page), "text/html"},
		{"gzip in capitals", "Content-Encoding: X-GZIP", gz(page), "text/html"},
		{"zlib", "Content-Encoding: deflate", pack(t, zlibbed, page), "text/html"},
		{"bare deflate", "Content-Encoding: deflate", pack(t, deflated, page), "text/html"},
		{"brotli", "Content-Encoding: br", pack(t, brotlied, page), "text/html"},
		{"zstd", "Content-Encoding: zstd", pack(t, zstandard, page), "text/html"},
		{"twice", "Content-Encoding: gzip, br", pack(t, brotlied, gz(page)), "text/html"},
		{"a file that is gzip", "", gz(page), "application/gzip"},
		{"not what it says", "Content-Encoding: gzip", page, ""},
		{"unknown coding", "Content-Encoding: compress", page, ""},
		{"many codings", "Content-Encoding: gzip, gzip, gzip, gzip", repeat(gz, 4, page), ""},
		{"bomb", "Content-Encoding: gzip", gz(strings.Repeat("a", 10<<20)), "text/plain"},
		{"chunked", "Transfer-Encoding: chunked", chunked(page), "text/html"},
		{"chunked gzip", "Transfer-Encoding: chunked\r\nContent-Encoding: gzip", chunked(gz(page)), "text/html"},
		{"cut gzip", "Content-Encoding: gzip", gz(page)[:len(gz(page))-10], "text/html"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _ := answered(t, test.fields, test.body).identify(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Replay serves a payload as what is said to be identified: style sheets as
// text/plain would not be applied.
func TestIdentifiedTypeDoesNotMislead(t *testing.T) {
	for _, test := range []struct{ declared, body, want string }{
		{"text/html; charset=utf-8", page, "text/html"},
		{"", page, "text/html"},
		{"image/png", page, ""},
		{"application/javascript", "<!-- \nf()", ""},
		{"image/svg+xml", "<!-- made by hand --><svg xmlns=\"http://www.w3.org/2000/svg\"/>", "image/svg+xml"},
		{"application/x-odd+xml", "<?xml version=\"1.0\"?><odd/>", ""},
		{"text/css", "a { color: red }", ""},
		{"text/css", "a,b\nc,d\ne,f\n", ""},
		{"text/plain", "just some words", "text/plain"},
		{"", "just some words", ""},
		{"image/x-odd", "\x00\x01\x02\x03\xfe\xff\x80", ""},
		{"text/html", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png"},
	} {
		x := answered(t, "Content-Type: "+test.declared, test.body)
		if got := x.identifiedType(); got != test.want {
			t.Errorf("%q, %.20q: %q, want %q", test.declared, test.body, got, test.want)
		}
	}
}

// What somebody has uploaded as an image must not become a page of the archived
// site: what is active is never said of what is declared as something else.
func TestIdentifiedTypeIsNotActive(t *testing.T) {
	active := map[string]string{
		"html":       page,
		"html, late": strings.Repeat(" ", 500) + "<script>alert(1)</script>",
		"xhtml":      `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>`,
		"svg":        `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"svg, xml":   `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"xml":        `<?xml version="1.0"?><?xml-stylesheet href="x.xsl"?><a/>`,
		"feed":       `<?xml version="1.0"?><rss version="2.0"></rss>`,
		"script":     "#!/usr/bin/env node\nalert(1)\n",
		"mail":       "From: a\r\nContent-Type: multipart/related; boundary=x\r\nMIME-Version: 1.0\r\n\r\n--x\r\n",
		"flash":      "CWS\x09\x00\x00\x00\x00\x78\x9c",
		"wasm":       "\x00asm\x01\x00\x00\x00",
	}
	for name, body := range active {
		for _, fields := range []string{
			"Content-Type: image/png\r\nX-Content-Type-Options: nosniff", "Content-Type: IMAGE/PNG",
			"Content-Type: application/pdf", "Content-Type: audio/mpeg", "Content-Type: font/woff2", "Content-Type: video/mp4",
			"Content-Type: text/plain", "Content-Type: application/octet-stream", "Content-Type: application/zip",
			"Content-Type: application/json", "Content-Type: text/css", "Content-Type: multipart/form-data; boundary=x",
			"Content-Type: nonsense", "Content-Type: x/y\r\nContent-Type: text/html", "Content-Type: text/html\r\nContent-Type: image/png",
			"Content-Type: text/html, image/png", "X-Content-Type-Options: NoSniff",
			"Content-Type: image/png\r\nContent-Encoding: gzip",
		} {
			payload := body
			if strings.Contains(fields, "gzip") {
				payload = pack(t, gzipped, body)
			}
			if got := answered(t, fields, payload).identifiedType(); got != "" {
				t.Errorf("%s with %q: %q", name, fields, got)
			}
		}
		// Where nothing is declared, a browser takes some of it for HTML or XML.
		got := answered(t, "X-Other: x", body).identifiedType()
		if sniffed := http1.MediaType(http.DetectContentType([]byte(body))); got != "" && got != sniffed {
			t.Errorf("%s without a Content-Type: %q, a browser takes it for %q", name, got, sniffed)
		}
	}
	if got := answered(t, "Content-Type:", page).identifiedType(); got != "text/html" {
		t.Errorf("a page without a Content-Type: %q", got)
	}
	polyglot := "GIF89a/*\x01\x00\x00\x00*/=1;alert(1)//<html>"
	if got := answered(t, "Content-Type: text/plain", polyglot).identifiedType(); got != "image/gif" {
		t.Errorf("a GIF that is a script too: %q", got)
	}
}

// answered returns an exchange whose reply has such fields and such a body.
func answered(t *testing.T, fields, body string) *exchange {
	t.Helper()
	r := &Recorder{options: Options{Dir: t.TempDir(), MaxBody: Unlimited}, space: plenty(), log: slog.New(slog.DiscardHandler)}
	head := strings.ReplaceAll("HTTP/1.1 200 OK\r\n"+fields+"\r\n\r\n", "\r\n\r\n\r\n", "\r\n\r\n")
	reply, err := http1.ParseResponse([]byte(head), "GET")
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{r: r, reply: reply, received: r.newMessage(reply.Raw, -1)}
	if _, err := x.received.keep([]byte(body), []byte(body)); err != nil {
		t.Fatal(err)
	}
	return x
}

// An upload that is served as an image stays one in the archive.
func TestUploadIsNotIdentifiedAsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Content-Type", req.URL.Query().Get("as"))
			io.WriteString(w, page)
		})})
		mustFetch(t, r, "http://origin/?as=image/png")
		mustFetch(t, r, "http://origin/?as=text/html")
		closeForTest(t, r)
		records := archive(t, r)
		for url, want := range map[string]string{"http://origin/?as=image/png": "", "http://origin/?as=text/html": "text/html"} {
			if got := theOne(t, records, "response", url).Header.Get("WARC-Identified-Payload-Type"); got != want {
				t.Errorf("%s is identified as %q, want %q", url, got, want)
			}
		}
	})
}
