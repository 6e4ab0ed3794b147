package check_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

var date = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

func TestGood(t *testing.T) {
	for _, opts := range []warc.WriterOptions{{}, {Version: warc.V1_0}, {Compression: warc.Plain}} {
		for _, algo := range []warc.Algorithm{warc.SHA256, warc.SHA1} {
			ar := good(opts, algo)
			paths := ar.write(t)
			report, err := check.Files(paths...)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				t.Errorf("%+v, %v: %v", opts, algo, f)
			}
			entries := slices.Concat(ar.a, ar.b, ar.c, ar.d)
			if len(report.Records) != len(entries) {
				t.Fatalf("%d records, want %d", len(report.Records), len(entries))
			}
			for i, r := range report.Records {
				e := entries[i]
				block, err := r.Block()
				if err != nil || string(block) != e.block || r.BlockSize != int64(len(e.block)) {
					t.Errorf("%s: block %.80q, %v", r.ID, block, err)
				}
				if r.ID != e.h.Get("WARC-Record-ID") || r.Type != e.h.Get("WARC-Type") || r.TargetURI != e.h.Get("WARC-Target-URI") || r.Date != e.h.Get("WARC-Date") {
					t.Errorf("%+v", r)
				}
				if r.Type == "response" && r.Header.Get("WARC-Segment-Number") == "" && r.PayloadSize != int64(len(e.payload)) {
					t.Errorf("%s: payload of %d octets, want %d", r.ID, r.PayloadSize, len(e.payload))
				}
			}
			if q, s := report.Records[1], report.Records[2]; q.Method != "GET" || s.Status != 200 {
				t.Errorf("%+v, %+v", q, s)
			}
		}
	}
}

func set(name, value string) func(*entry) { return func(e *entry) { e.h.Set(name, value) } }
func add(name, value string) func(*entry) { return func(e *entry) { e.h.Add(name, value) } }
func del(name string) func(*entry)        { return func(e *entry) { e.h.Del(name) } }

// block replaces the block and the payload.
func block(b, payload string) func(*entry) {
	return func(e *entry) { e.block, e.payload = b, payload }
}

func raw(f func([]byte) []byte) func(*entry) { return func(e *entry) { e.raw = f } }

// remember makes a member again from its changed octets.
func remember(change func(string) string) func(*entry) {
	return raw(func(member []byte) []byte {
		return compressed(change(decompressed(member)))
	})
}

func decompressed(member []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		panic(err)
	}
	octets, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(octets)
}

func compressed(s string) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	io.WriteString(z, s)
	z.Close()
	return buf.Bytes()
}

// A fault is one change of a good archive.
type fault struct {
	name   string
	at     string // record to change
	change func(*entry)
	rules  string // that are broken there, with the profile warctee
	also   string // rules that others break for it
	std    string // likewise with the profile standard, for both; "" where it is the same rules, as far as it has them
}

const responseHead = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"

// faults are in the order of the rules.
var faults = []fault{
	{"damaged member", "64", raw(func(b []byte) []byte { b[len(b)-8] ^= 1; return b }), "member", "", ""},
	{"cut member", "64", raw(func(b []byte) []byte { return b[:len(b)-3] }), "cut", "", ""},
	{"cut in the head of a member", "64", raw(func(b []byte) []byte { return b[:3] }), "", "cut", ""},
	{"junk behind a member", "64", raw(func(b []byte) []byte { return append(b, "junk"...) }), "", "member", ""},
	{"two records in a member", "64", remember(func(s string) string { return s + strings.Replace(s, "0064>", "0065>", 1) }), "member", "", ""},
	{"empty member", "64", raw(func(b []byte) []byte { return append(b, compressed("")...) }), "", "member", ""},
	{"record in two members", "64", raw(func(b []byte) []byte {
		s := decompressed(b)
		return append(compressed(s[:len(s)-5]), compressed(s[len(s)-5:])...)
	}), "length", "", ""},
	{"line ends missing", "64", remember(func(s string) string { return s[:len(s)-2] }), "end", "", ""},
	{"line ends not in the member", "64", remember(func(s string) string { return s[:len(s)-4] }), "end", "", ""},
	{"line ends missing behind an empty block", "64", remember(func(s string) string {
		s = strings.Replace(s[:len(s)-5], "Length: 1\r", "Length: 0\r", 1)
		before, rest, _ := strings.Cut(s, "WARC-Block-Digest: ")
		_, after, _ := strings.Cut(rest, "\r\n")
		return before + after + "\r\n"
	}), "end-short", "", ""},
	{"too many line ends", "64", remember(func(s string) string { return s + "\r\n" }), "member", "", ""},
	{"length too small", "64", remember(func(s string) string { return strings.Replace(s, "Length: 1\r", "Length: 0\r", 1) }), "end", "", ""},
	{"length too big", "64", remember(func(s string) string { return strings.Replace(s, "Length: 1\r", "Length: 9\r", 1) }), "length", "", ""},
	{"length twice", "64", remember(func(s string) string {
		return strings.Replace(s, "Content-Length", "Content-Length: 1\r\nContent-Length", 1)
	}), "length", "", ""},
	{"no length", "64", remember(func(s string) string { return strings.Replace(s, "Content-Length: 1\r\n", "", 1) }), "", "length", ""},
	{"length with a sign", "64", remember(func(s string) string { return strings.Replace(s, "Length: 1\r", "Length: +1\r", 1) }), "", "length", ""},
	{"version", "64", remember(func(s string) string { return strings.Replace(s, "WARC/1.1", "WARC/1.2", 1) }), "", "version", ""},
	{"header line without a colon", "64", remember(func(s string) string { return strings.Replace(s, "\r\n", "\r\njunk\r\n", 1) }), "header", "", ""},
	{"header lines that end in LF", "64", remember(func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") + "\r\n\r\n" }), "header", "", ""},
	{"space before the colon", "64", remember(func(s string) string { return strings.Replace(s, "WARC-Date:", "WARC-Date :", 1) }), "header", "", ""},
	{"value that is not UTF-8", "64", remember(func(s string) string { return strings.Replace(s, "WARC-Date", "X: \xff\r\nWARC-Date", 1) }), "header", "", ""},

	{"no type", "64", del("WARC-Type"), "mandatory", "", ""},
	{"no date", "64", del("WARC-Date"), "mandatory", "", ""},
	{"no id", "64", del("WARC-Record-ID"), "", "mandatory", ""},
	{"no target", "62", del("WARC-Target-URI"), "mandatory", "", ""},
	{"no profile", "82", del("WARC-Profile"), "mandatory", "", ""},
	{"continuation without number", "b2", del("WARC-Segment-Number"), "mandatory", "segment-missing", ""},
	{"continuation without origin", "b2", del("WARC-Segment-Origin-ID"), "mandatory", "segment-missing", ""},
	{"revisit without payload digest", "52", del("WARC-Payload-Digest"), "mandatory", "", ""},

	{"warcinfo with target", "00", add("WARC-Target-URI", "http://example.org/"), "forbidden", "", ""},
	{"warcinfo with address", "00", add("WARC-IP-Address", "192.0.2.1"), "forbidden", "", ""},
	{"warcinfo with warcinfo", "00", add("WARC-Warcinfo-ID", id("00")), "undefined", "", ""},
	{"conversion with address", "63", add("WARC-IP-Address", "192.0.2.1"), "forbidden", "", ""},
	{"conversion with concurrent", "63", add("WARC-Concurrent-To", id("12")), "forbidden", "", ""},
	{"continuation with address", "b2", add("WARC-IP-Address", "192.0.2.1"), "forbidden", "", ""},
	{"metadata with payload digest", "61", func(e *entry) { e.h.Add("WARC-Payload-Digest", "*"); e.payload = e.block }, "undefined", "", ""},
	{"metadata with payload type", "61", add("WARC-Identified-Payload-Type", "text/plain"), "undefined", "", ""},
	{"response with refers-to", "12", add("WARC-Refers-To", id("62")), "forbidden", "", ""},
	{"response with filename", "12", add("WARC-Filename", "x"), "forbidden", "", ""},
	{"response with refers-to-date", "12", add("WARC-Refers-To-Date", "2026-01-01T00:00:00Z"), "forbidden", "", ""},
	{"response with segment origin", "12", add("WARC-Segment-Origin-ID", id("62")), "forbidden", "", ""},
	{"response with total length", "12", add("WARC-Segment-Total-Length", "1"), "forbidden", "", ""},
	{"response with profile", "12", add("WARC-Profile", warc.V1_1.NotModifiedProfile()), "undefined", "", ""},
	{"address twice", "12", add("WARC-IP-Address", "192.0.2.1"), "repeated", "", ""},
	{"type twice", "64", add("warc-type", "resource"), "repeated", "", ""},
	{"unknown field twice, other case", "12", func(e *entry) { e.h.Add("X-Y", "1"); e.h.Add("x-y", "1") }, "repeated", "", "none"},

	{"id without brackets", "62", set("WARC-Record-ID", "urn:uuid:1"), "", "record-id", ""},
	{"id that is no URI", "62", set("WARC-Record-ID", "<1>"), "", "record-id", ""},
	{"id with a space", "62", set("WARC-Record-ID", "<urn:uuid: 1>"), "", "record-id", ""},
	{"warcinfo id without brackets", "62", set("WARC-Warcinfo-ID", "urn:x:1"), "record-id warcinfo-missing", "", ""},
	{"segment origin without brackets", "b2", set("WARC-Segment-Origin-ID", "urn:uuid:1"), "record-id segment-missing", "segment-missing", ""},
	{"id twice", "64", set("WARC-Record-ID", id("63")), "", "unique-id", ""},
	{"id twice but for case", "92", set("WARC-Record-ID", strings.ToUpper(strings.Replace(id("A1"), "urn:uuid", "URN:UUID", 1))), "", "concurrent-missing concurrent-place unique-id concurrent-place", "concurrent-missing unique-id"},
	{"id twice, other file", "92", set("WARC-Record-ID", id("63")), "", "concurrent-missing concurrent-place unique-id", "concurrent-missing unique-id"},
	{"date", "64", set("WARC-Date", "20260102030405"), "date", "", ""},
	{"date with zone", "64", set("WARC-Date", "2026-01-02T03:04:05+01:00"), "date", "", ""},
	{"date without zone", "64", set("WARC-Date", "2026-01-02T03:04:05"), "date", "", ""},
	{"date that is none", "64", set("WARC-Date", "2026-02-30T03:04:05Z"), "date", "", ""},
	{"date with 10 digits", "64", set("WARC-Date", "2026-01-02T03:04:05.1234567890Z"), "date", "", ""},
	{"refers-to-date", "52", set("WARC-Refers-To-Date", "yesterday"), "date refers-to-differs", "", ""},

	{"target without scheme", "64", set("WARC-Target-URI", "www.example.org/x"), "target-uri", "", ""},
	{"target with a space", "64", set("WARC-Target-URI", "http://example.org/a b"), "target-uri", "", ""},
	{"target in brackets", "64", set("WARC-Target-URI", "<http://example.org/>"), "target-uri", "", ""},
	{"profile in brackets", "82", set("WARC-Profile", "<"+warc.V1_1.NotModifiedProfile()+">"), "target-uri", "", ""},
	{"refers-to-target-uri in brackets", "52", set("WARC-Refers-To-Target-URI", "<https://example.org/>"), "target-uri", "", ""},
	{"target with a bar", "64", set("WARC-Target-URI", "http://example.org/a|b"), "uri-characters", "", ""},
	{"target with a fragment", "64", set("WARC-Target-URI", "http://example.org/#a"), "uri-spelling", "", ""},
	{"address with brackets", "12", set("WARC-IP-Address", "[2001:db8::1]"), "ip-address", "", ""},
	{"address with zone", "12", set("WARC-IP-Address", "fe80::1%eth0"), "ip-address", "", ""},
	{"host as address", "12", set("WARC-IP-Address", "example.org"), "ip-address", "", ""},
	{"address in a long form", "12", set("WARC-IP-Address", "2001:DB8:0::1"), "ip-spelling", "", ""},
	{"unknown type", "64", set("WARC-Type", "something-new"), "type-unknown", "", ""},
	{"no media type", "64", set("Content-Type", "text"), "media-type", "", ""},
	{"media type with a bad parameter", "64", set("Content-Type", "text/plain; charset"), "media-type", "", ""},
	{"media type with a stray semicolon", "12", set("Content-Type", "application/http; msgtype=response;"), "media-type-empty", "", ""},
	{"media type with two semicolons", "12", set("Content-Type", "application/http;; msgtype=response"), "media-type-empty", "", ""},
	{"stray semicolon, response as request", "12", set("Content-Type", httpRequest+" ;"), "media-type-empty content-type", "", ""},
	{"payload type with a stray semicolon", "12", add("WARC-Identified-Payload-Type", "text/html;"), "media-type-empty", "", ""},
	{"payload type", "12", add("WARC-Identified-Payload-Type", "HTML"), "media-type", "", ""},
	{"no content type", "64", del("Content-Type"), "content-type-missing", "", ""},
	{"response as HTML", "a2", func(e *entry) { e.h.Set("Content-Type", "text/html"); e.payload = e.block }, "content-type", "", ""},
	{"response as request", "12", set("Content-Type", httpRequest), "content-type", "", ""},
	{"warcinfo as text", "00", set("Content-Type", "text/plain"), "content-type", "", ""},
	{"DNS as text", "62", set("Content-Type", "text/plain"), "dns", "", ""},
	{"truncated for an unknown reason", "42", set("WARC-Truncated", "yes"), "truncated-reason", "", ""},
	{"unknown profile", "82", set("WARC-Profile", "http://example.org/"), "profile", "", ""},
	{"profile of 1.0 in 1.1", "82", set("WARC-Profile", warc.V1_0.NotModifiedProfile()), "profile-version", "", ""},
	{"identical payload of 1.0 in 1.1", "52", set("WARC-Profile", warc.V1_0.IdenticalPayloadProfile()), "profile-version", "", ""},

	{"digest unreadable", "12", set("WARC-Block-Digest", "sha256:00"), "digest-form", "", ""},
	{"digest empty", "64", set("WARC-Block-Digest", ""), "digest-form", "", ""},
	{"digest without a label", "12", set("WARC-Block-Digest", strings.Repeat("0", 64)), "digest-form", "", ""},
	{"digest unknown", "12", set("WARC-Block-Digest", "blake3:00"), "digest-unknown", "", ""},
	{"digest in Base32", "82", set("WARC-Payload-Digest", "sha256:4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ===="), "digest-spelling", "", ""},
	{"block digest missing", "12", del("WARC-Block-Digest"), "digest-missing", "", ""},
	{"payload digest missing", "12", del("WARC-Payload-Digest"), "digest-missing", "", ""},
	{"payload digest missing, empty body", "22", del("WARC-Payload-Digest"), "digest-missing", "", ""},
	{"payload digest missing, request body", "21", del("WARC-Payload-Digest"), "digest-missing", "", ""},
	{"block digest", "64", set("WARC-Block-Digest", "sha256:"+strings.Repeat("0", 64)), "block-digest", "", ""},
	{"payload digest", "12", set("WARC-Payload-Digest", "sha256:"+strings.Repeat("0", 64)), "payload-digest", "revisit-digest revisit-digest", ""},
	{"payload digest over chunk framing", "12", func(e *entry) { _, e.payload, _ = strings.Cut(e.block, "\r\n\r\n") }, "payload-digest", "revisit-digest revisit-digest", ""},
	{"payload digest of nothing", "42", func(e *entry) { e.payload = "" }, "payload-digest", "", ""},
	{"payload digest of a request", "21", func(e *entry) { e.payload = "x" }, "payload-digest", "", ""},
	{"payload digest of a request over its head too", "21", func(e *entry) { e.payload = e.block }, "no-payload", "", ""},
	{"payload digest of a resource", "62", func(e *entry) { e.payload = "x" }, "payload-digest", "", ""},
	{"payload digest of a new type", "64", func(e *entry) {
		e.h.Set("WARC-Type", "new")
		e.h.Add("WARC-Payload-Digest", "*")
		e.payload = "x"
	}, "type-unknown no-payload", "", ""},
	{"payload digest on a request without body", "11", add("WARC-Payload-Digest", "*"), "no-body", "", ""},
	{"warcinfo block", "00", func(e *entry) { e.block = "software\r\n" }, "warc-fields", "", ""},
	{"warcinfo block with LF", "00", func(e *entry) { e.block = "software: x\n" }, "warc-fields", "", ""},
	{"metadata block", "61", func(e *entry) { e.block = "a: b\r\nc d: e\r\n" }, "warc-fields", "", ""},

	{"request line", "11", block("GET\r\n\r\n", ""), "http-head", "", ""},
	{"request without host", "11", block("GET / HTTP/1.1\r\n\r\n", ""), "http-head", "", ""},
	{"status line", "a2", block("200 OK\r\n\r\n", ""), "http-head", "", ""},
	{"head without end", "a2", block("HTTP/1.1 200 OK\r\n", ""), "http-head", "", ""},
	{"long head without end", "a2", block("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<21), ""), "http-head", "", ""},
	{"empty response", "a2", block("", ""), "http-head", "", ""},
	{"octets behind the end", "22", block("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "a"), "http-body", "", ""},
	{"Content-Length smaller than the body", "22", block("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwikipedia", "wikipedia"), "http-body", "", ""},
	{"Content-Length smaller, and another digest", "22", block("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwikipedia", "x"), "http-body payload-digest", "", ""},
	{"Content-Length of a request smaller than the body", "21", block("POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\na=b", "a=b"), "http-body", "", ""},
	{"octets behind the last chunk", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nab", "x"), "http-body", "", ""},
	{"a body of a 204, in its digest", "22", block("HTTP/1.1 204 OK\r\n\r\nab", "ab"), "http-body", "", ""},
	{"status line of HTTP/2", "22", block("HTTP/2 200 \r\ncontent-length: 1\r\n\r\nx", "x"), "http-version", "", ""},
	{"status line of HTTP/3", "22", block("HTTP/3.0 200 OK\r\ncontent-length: 1\r\n\r\nx", "x"), "http-version", "", ""},
	{"request line of HTTP/2", "11", block("GET / HTTP/2\r\nHost: example.org\r\n\r\n", ""), "http-version", "", ""},
	{"pseudo-header field", "22", block("HTTP/1.1 200 OK\r\n:status: 200\r\nContent-Length: 1\r\n\r\nx", "x"), "", "", "pseudo-field"},
	{"pseudo-header fields of a request", "11", block("GET / HTTP/1.1\r\n:method: GET\r\nHost: example.org\r\n\r\n", ""), "http-head", "", "http-head pseudo-field"},
	{"not gzip", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nwikipedia", "wikipedia"), "", "", "content-encoding"},
	{"not gzip, of one octet", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: x-gzip\r\nContent-Length: 1\r\n\r\nw", "w"), "", "", "content-encoding"},
	{"not zstd, in chunks", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: gzip, ZSTD\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nw\r\n0\r\n\r\n", "w"), "", "", "content-encoding"},
	{"not br", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 28\r\n\r\n<!doctype html><html><body>\n", "<!doctype html><html><body>\n"), "", "", "content-encoding"},
	{"not deflate", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 28\r\n\r\n<!doctype html><html><body>\n", "<!doctype html><html><body>\n"), "", "", "content-encoding"},
	{"decoded, with the length of the gzip", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nwikipedia", "wikipedia"), "http-body", "", "content-encoding http-body"},
	{"decoded, without its chunk framing", "22", block("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\nwikipedia", "wikipedia"), "http-body", "", "content-encoding http-body"},
	{"not modified, with a 200", "82", block("HTTP/1.1 200 OK\r\n\r\n", ""), "not-modified", "", ""},
	{"octets behind a 204", "22", block("HTTP/1.1 204 OK\r\n\r\nab", ""), "http-body", "", ""},
	{"octets behind the request", "11", block("GET / HTTP/1.1\r\nHost: example.org\r\n\r\nxy", ""), "http-body", "", ""},
	{"body of a HEAD", "32", block(responseHead+"wikipedia", "wikipedia"), "http-body", "", ""},
	{"de-chunked body", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwikipedia\n", "wikipedia\n"), "http-body", "", ""},
	{"de-chunked body of one line", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwikipedia", "wikipedia"), "http-body", "", ""},
	{"body in a revisit", "52", block(responseHead+"wikipedia", "wikipedia"), "http-body", "", ""},
	{"interim response", "22", block("HTTP/1.1 100 Continue\r\n\r\n", ""), "interim", "", ""},
	{"interim before the response", "22", block("HTTP/1.1 103 Early Hints\r\n\r\n"+responseHead+"wikipedia", "wikipedia"), "interim", "", ""},
	{"not marked as truncated", "42", del("WARC-Truncated"), "truncated", "", ""},
	{"not marked as truncated, no body at all", "22", block(responseHead, ""), "truncated", "", ""},
	{"not marked as truncated, chunked", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n", "wiki"), "truncated", "", ""},
	{"request not marked as truncated", "21", block("POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 9\r\n\r\na=b", "a=b"), "truncated", "", ""},

	{"warcinfo is a resource", "00", func(e *entry) { e.h.Set("WARC-Type", "new"); e.h.Set("WARC-Warcinfo-ID", id("00")) }, "warcinfo type-unknown warcinfo-id", "*", ""},
	{"other filename", "00", set("WARC-Filename", "x.warc"), "filename", "", ""},
	{"filename with open", "00", set("WARC-Filename", "a.warc.gz.open"), "filename", "", ""},
	{"no filename", "00", del("WARC-Filename"), "filename-missing", "", ""},
	{"warcinfo id of another type", "64", set("WARC-Warcinfo-ID", id("12")), "warcinfo-id", "", ""},
	{"warcinfo id of nothing", "64", set("WARC-Warcinfo-ID", id("ff")), "warcinfo-missing", "", ""},
	{"no warcinfo id", "64", del("WARC-Warcinfo-ID"), "warcinfo-place", "", ""},
	{"warcinfo id of another file", "64", set("WARC-Warcinfo-ID", id("01")), "warcinfo-place", "", ""},

	{"concurrent to itself", "61", set("WARC-Concurrent-To", id("61")), "concurrent-to", "", ""},
	{"concurrent to a conversion", "61", set("WARC-Concurrent-To", id("63")), "concurrent-to", "", ""},
	{"other date", "92", set("WARC-Date", "2026-01-02T03:04:05.679Z"), "concurrent-date", "concurrent-date", ""},
	{"other URI", "92", set("WARC-Target-URI", "http://example.org/x"), "concurrent-uri", "concurrent-uri", ""},
	{"concurrent to another file", "61", set("WARC-Concurrent-To", id("a2")), "concurrent-place", "", ""},
	{"not mutual", "92", del("WARC-Concurrent-To"), "", "concurrent-place", ""},
	{"crossed", "92", set("WARC-Concurrent-To", id("a1")), "concurrent-place", "concurrent-place", ""},
	{"concurrent to nothing", "61", set("WARC-Concurrent-To", id("ff")), "concurrent-missing", "", ""},

	{"refers to a revisit", "72", set("WARC-Refers-To", id("52")), "refers-to", "", ""},
	{"refers to itself", "61", add("WARC-Refers-To", id("61")), "refers-to", "", ""},
	{"refers to a request", "72", set("WARC-Refers-To", id("11")), "refers-to", "", ""},
	{"refers to a truncated response", "12", add("WARC-Truncated", "time"), "", "refers-to refers-to", "none"},
	{"refers to partial content", "12", block("HTTP/1.1 206 OK\r\nContent-Length: 9\r\n\r\nwikipedia", "wikipedia"), "", "refers-to refers-to", "none"},
	{"partial content as revisit", "52", block("HTTP/1.1 206 OK\r\nContent-Length: 9\r\n\r\n", "wikipedia"), "refers-to", "", "none"},
	{"refers to nothing", "52", set("WARC-Refers-To", id("ff")), "refers-to-missing", "", ""},
	{"metadata refers to nothing", "61", add("WARC-Refers-To", id("ff")), "refers-to-missing", "", ""},
	{"refers to no capture", "52", func(e *entry) { e.h.Del("WARC-Refers-To"); e.h.Set("WARC-Refers-To-Date", "2000-01-01T00:00:00Z") }, "refers-to-fields refers-to-missing", "", "refers-to-missing"},
	{"no refers-to", "52", del("WARC-Refers-To"), "refers-to-fields", "", "none"},
	{"no refers-to-date", "52", del("WARC-Refers-To-Date"), "refers-to-fields", "", "none"},
	{"no refers-to-target-uri", "52", del("WARC-Refers-To-Target-URI"), "refers-to-fields", "", "none"},
	{"no original at all", "52", func(e *entry) { e.h.Del("WARC-Refers-To"); e.h.Del("WARC-Refers-To-Date") }, "refers-to-fields refers-to-fields", "", "refers-to-fields"},
	{"other date of the original", "52", set("WARC-Refers-To-Date", "2026-01-02T03:04:05Z"), "refers-to-differs", "", ""},
	{"other URI of the original", "52", set("WARC-Refers-To-Target-URI", "https://example.org"), "refers-to-differs", "", ""},
	{"older than its original", "12", set("WARC-Date", "2026-01-03T03:04:06Z"), "concurrent-date", "concurrent-date refers-to-differs revisit-date concurrent-date refers-to-differs revisit-date", ""},
	{"digest of another algorithm", "52", set("WARC-Payload-Digest", "sha1:"+sha1Of("wikipediA")), "revisit-digest", "", ""},
	{"original without a digest", "12", func(e *entry) {
		e.h.Del("WARC-Payload-Digest")
		e.block = strings.Replace(e.block, "pedia", "pediA", 1)
	}, "digest-missing", "revisit-digest revisit-digest", ""},
	{"payload digest of a revisit", "72", func(e *entry) { e.payload = "x" }, "revisit-digest", "", ""},
	{"original of another payload", "72", set("WARC-Refers-To", id("32")), "revisit-digest", "", ""},
	{"revisit with a head, not marked", "52", del("WARC-Truncated"), "revisit-truncated", "", ""},

	{"segment number that is none", "b2", set("WARC-Segment-Number", "two"), "segment", "segment-missing", ""},
	{"segment number 0", "b1", set("WARC-Segment-Number", "0"), "segment segment", "", ""},
	{"first segment with number 2", "b1", set("WARC-Segment-Number", "2"), "segment segment", "", ""},
	{"continuation with number 1", "b2", set("WARC-Segment-Number", "1"), "segment segment", "segment-missing", ""},
	{"segment twice", "b3", set("WARC-Segment-Number", "2"), "segment", "", ""},
	{"total length", "b3", set("WARC-Segment-Total-Length", "48"), "segment", "", ""},
	{"total length that is no number", "b3", set("WARC-Segment-Total-Length", "all"), "segment segment-missing", "", ""},
	{"total length too early", "b2", add("WARC-Segment-Total-Length", "45"), "segment", "", ""},
	{"segments of two targets", "b2", set("WARC-Target-URI", "https://example.org/x"), "segment", "", ""},
	{"no total length", "b3", del("WARC-Segment-Total-Length"), "segment-missing", "", ""},
	{"segment missing", "b3", set("WARC-Segment-Number", "4"), "segment-missing", "", ""},
	{"segments missing", "12", func(e *entry) { e.h.Add("WARC-Segment-Number", "1") }, "segment-place segment-missing", "", ""},
	{"origin missing", "b3", set("WARC-Segment-Origin-ID", id("ff")), "segment-missing", "segment-missing", ""},
	{"segments whose head has no end", "b1", func(e *entry) { e.block = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: w" }, "http-head", "", ""},
	{"segments whose head is none", "b1", func(e *entry) { e.block = "ICY 200 OK\r\nX: 1234567890123456789\r\n\r\nwi" }, "http-head", "", ""},
	{"segments that end too early", "b1", func(e *entry) { e.block = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nw"; e.payload = "wkipedia" }, "truncated", "", ""},
	{"segments that are too long", "b1", func(e *entry) { e.block = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nwi" }, "http-body", "", ""},
	{"segments that are not gzip", "b1", func(e *entry) { e.block = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nwi!" }, "", "segment", "content-encoding segment"},
	{"segment of something else", "b3", func(e *entry) { e.block = "ae" }, "", "segment-digest", ""},
}

// TestFaults plants one fault in a good archive: the rule that it breaks is
// found, at its record, and no other.
func TestFaults(t *testing.T) {
	broken := make(map[string]bool)
	for _, c := range faults {
		made := func(profile check.Profile) []check.Finding {
			ar := good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256) // plain is faster
			if e := ar.get(c.at); c.isFrame() {
				ar = good(warc.WriterOptions{}, warc.SHA256)
				if ar.a[len(ar.a)-1].h.Get("WARC-Record-ID") != id(c.at) {
					t.Fatalf("%s: not the last record", c.name)
				}
			} else if c.name == "digest in Base32" {
				e.payload = ""
			}
			c.change(ar.get(c.at))
			findings, _ := run(t, check.Options{Profile: profile}, ar.write(t)...)
			return findings
		}
		findings := made(check.Warctee)
		expect(t, c.name, findings, id(c.at), c.rules, c.also)
		for _, f := range findings {
			broken[f.Rule] = true
		}
		if c.also != "*" {
			c.expectStandard(t, made(check.Standard))
		}
	}
	elsewhere := []string{check.RuleOpen, check.RuleCompression, check.RuleEmpty, check.RuleNotChecked, check.RuleSegmentPlace, check.RuleFrameHead, check.RulePseudoField, check.RuleContentEncoding} // the last two are only of the profile standard
	for _, r := range check.Rules() {
		if !broken[r.Name] && !slices.Contains(elsewhere, r.Name) {
			t.Errorf("no fault breaks the rule %s", r.Name)
		}
	}
}

// isFrame reports whether the fault is in how a record lies in its file.
func (c *fault) isFrame() bool {
	return slices.ContainsFunc([]string{"member", "length", "end", "end-short", "version", "header", "cut"}, func(rule string) bool { return c.rules == rule || c.also == rule })
}

func (c *fault) expectStandard(t *testing.T, findings []check.Finding) {
	t.Helper()
	severity := make(map[string]check.Severity)
	for _, r := range check.Rules() {
		severity[r.Name] = r.Standard
	}
	want := strings.Fields(c.std)
	if c.std == "" {
		for _, rule := range strings.Fields(c.rules + " " + c.also) {
			if severity[rule] != "" {
				want = append(want, rule)
			}
		}
	}
	var got []string
	for _, f := range findings {
		got = append(got, f.Rule)
		if f.Severity != severity[f.Rule] {
			t.Errorf("%s: %v, want severity %s", c.name, f, severity[f.Rule])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.DeleteFunc(want, func(s string) bool { return s == "none" }); !slices.Equal(got, want) {
		t.Errorf("%s: standard: broken rules %q, want %q\n%v", c.name, got, want, findings)
	}
}

func run(t *testing.T, o check.Options, paths ...string) ([]check.Finding, *check.Result) {
	t.Helper()
	var findings []check.Finding
	result, err := check.Run(t.Context(), paths, o, func(f check.Finding) { findings = append(findings, f) })
	if err != nil {
		t.Fatal(err)
	}
	return findings, result
}

// expect compares the findings. Also may be "*": anything.
func expect(t *testing.T, name string, findings []check.Finding, at, rules, also string) {
	t.Helper()
	var here, elsewhere []string
	for _, f := range findings {
		if f.ID == at {
			here = append(here, f.Rule)
		} else {
			elsewhere = append(elsewhere, f.Rule)
		}
	}
	if strings.Join(here, " ") != rules || also != "*" && strings.Join(elsewhere, " ") != also {
		t.Errorf("%s: broken rules %q there and %q elsewhere, want %q and %q", name, here, elsewhere, rules, also)
		for _, f := range findings {
			t.Log(f)
		}
	}
}

func TestTargetURIs(t *testing.T) {
	judge := func(uri, want string) {
		t.Helper()
		ar := good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
		ar.get("63").h.Set("WARC-Target-URI", uri)
		findings, _ := run(t, check.Options{Profile: check.Warctee}, ar.write(t)...)
		expect(t, uri, findings, id("63"), want, "")
	}
	for _, uri := range []string{
		"http://example.org", "http://example.org/", "https://example.org:80/?", "http://example.org:8080/a/b;c=d?e=f&g=/?%25", "http://192.0.2.1/", "http://[::1]:81/",
		"http://a_b.example/~x/(y)", "dns:example.org", "urn:uuid:1", "http://xn--4ca.example/", "ftp://user@example.org/", "http://example.org./", "screenshot:http://example.org/",
	} {
		judge(uri, "")
	}
	for _, uri := range []string{"<http://example.org/>", "<http://example.org/", "example.org", "//example.org/", "/x", "1http://x/", "http://example.org/a b"} {
		judge(uri, check.RuleTargetURI)
	}
	for _, uri := range []string{
		"http://example.org/\u00e4", "http://\u00e4.example/", "http://example.org/%", "http://example.org/%zz", "http://example.org/%4", "http://example.org/[0]", "http://example.org/?[0]",
		"http://example.org/{x}", "http://example.org/a|b", "http://example.org/\"", "http://example.org/a\\b", "http://example.org/^`", "http://example.org:x/", "http://::1/", "http://[example]/", "http://[::1/", "http://[fe80::1%25eth0]/",
	} {
		judge(uri, check.RuleURICharacters)
	}
	for _, uri := range []string{
		"http:///x", "http://", "http:x", "http://example.org/#x", "http://example.org#", "http://user@example.org/", "http://user:pw@example.org/",
		"http://example.org:80/", "https://example.org:443/", "http://example.org:/", "http://[1.2.3.4]/",
	} {
		judge(uri, check.RuleURISpelling)
	}
}
