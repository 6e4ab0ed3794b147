package check_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

var date = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

func TestGood(t *testing.T) {
	for _, opts := range []warc.WriterOptions{{}, {Version: warc.V1_0}, {Plain: true}} {
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
			entries := slices.Concat(ar.a, ar.b)
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
		z, _ := gzip.NewReader(bytes.NewReader(member))
		octets, _ := io.ReadAll(z)
		return compressed(change(string(octets)))
	})
}

func compressed(s string) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	io.WriteString(z, s)
	z.Close()
	return buf.Bytes()
}

// TestFaults plants one fault in a good archive: the rule that it breaks is
// found, at its record, and no other.
func TestFaults(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	for _, c := range []struct {
		name   string
		at     string // record to change
		change func(*entry)
		rules  string // that are broken there
		also   string // rules that others break for it
	}{
		{"damaged member", "64", raw(func(b []byte) []byte { b[len(b)-8] ^= 1; return b }), "", "member"},
		{"cut member", "64", raw(func(b []byte) []byte { return b[:len(b)-3] }), "", "member"},
		{"junk behind a member", "64", raw(func(b []byte) []byte { return append(b, "junk"...) }), "", "member"},
		{"two records in a member", "64", remember(func(s string) string { return s + s }), "", "member"},
		{"empty member", "64", raw(func(b []byte) []byte { return append(b, compressed("")...) }), "", "member"},
		{"record in two members", "64", raw(func(b []byte) []byte {
			z, _ := gzip.NewReader(bytes.NewReader(b))
			s, _ := io.ReadAll(z)
			return append(compressed(string(s[:len(s)-5])), compressed(string(s[len(s)-5:]))...)
		}), "", "length"},
		{"line ends missing", "64", remember(func(s string) string { return s[:len(s)-2] }), "", "end"},
		{"line ends not in the member", "64", remember(func(s string) string { return s[:len(s)-4] }), "", "end"},
		{"too many line ends", "64", remember(func(s string) string { return s + "\r\n" }), "", "member"},
		{"length too small", "64", remember(func(s string) string { return strings.Replace(s, "Length: 1\r", "Length: 0\r", 1) }), "", "end"},
		{"length too big", "64", remember(func(s string) string { return strings.Replace(s, "Length: 1\r", "Length: 9\r", 1) }), "", "length"},
		{"length twice", "64", remember(func(s string) string { return strings.Replace(s, "Content-", "Content-Length: 1\r\nContent-", 1) }), "", "length"},
		{"version", "64", remember(func(s string) string { return strings.Replace(s, "WARC/1.1", "WARC/1.2", 1) }), "", "version"},
		{"header line", "64", remember(func(s string) string { return strings.Replace(s, "\r\n", "\r\njunk\r\n", 1) }), "", "header"},

		{"no type", "64", del("WARC-Type"), "mandatory", ""},
		{"no date", "64", del("WARC-Date"), "mandatory", ""},
		{"no id", "64", del("WARC-Record-ID"), "", "mandatory"},
		{"no target", "62", del("WARC-Target-URI"), "mandatory", ""},
		{"no filename", "00", del("WARC-Filename"), "mandatory", ""},
		{"no profile", "82", del("WARC-Profile"), "mandatory", ""},
		{"continuation without number", "b2", del("WARC-Segment-Number"), "mandatory", ""},
		{"continuation without origin", "b2", del("WARC-Segment-Origin-ID"), "mandatory", ""},

		{"warcinfo with target", "00", add("WARC-Target-URI", "http://example.org/"), "forbidden", ""},
		{"warcinfo with address", "00", add("WARC-IP-Address", "192.0.2.1"), "forbidden", ""},
		{"warcinfo with warcinfo", "00", add("WARC-Warcinfo-ID", id("00")), "forbidden", ""},
		{"conversion with address", "63", add("WARC-IP-Address", "192.0.2.1"), "forbidden", ""},
		{"conversion with concurrent", "63", add("WARC-Concurrent-To", id("12")), "forbidden", ""},
		{"continuation with address", "b2", add("WARC-IP-Address", "192.0.2.1"), "forbidden", ""},
		{"metadata with payload digest", "61", func(e *entry) { e.h.Add("WARC-Payload-Digest", "*"); e.payload = e.block }, "forbidden", ""},
		{"response with refers-to", "12", add("WARC-Refers-To", id("62")), "forbidden", ""},
		{"response with profile", "12", add("WARC-Profile", warc.V1_1.NotModifiedProfile()), "forbidden", ""},
		{"response with filename", "12", add("WARC-Filename", "x"), "forbidden", ""},
		{"response with refers-to-date", "12", add("WARC-Refers-To-Date", "2026-01-01T00:00:00Z"), "forbidden", ""},
		{"response with segment origin", "12", add("WARC-Segment-Origin-ID", id("62")), "forbidden", ""},
		{"address twice", "12", add("WARC-IP-Address", "192.0.2.1"), "repeated", ""},
		{"unknown field twice, other case", "12", func(e *entry) { e.h.Add("X-Y", "1"); e.h.Add("x-y", "1") }, "repeated", ""},

		{"id without brackets", "62", set("WARC-Record-ID", "urn:uuid:1"), "", "record-id"},
		{"id that is no URI", "62", set("WARC-Record-ID", "<1>"), "", "record-id"},
		{"segment origin without brackets", "b2", set("WARC-Segment-Origin-ID", "urn:uuid:1"), "record-id", ""},
		{"id twice", "64", set("WARC-Record-ID", id("63")), "", "unique-id"},
		{"id twice, other file", "92", set("WARC-Record-ID", id("63")), "", "concurrent-to unique-id concurrent-to"},
		{"date", "64", set("WARC-Date", "20260102030405"), "date", ""},
		{"date with zone", "64", set("WARC-Date", "2026-01-02T03:04:05+01:00"), "date", ""},
		{"address with brackets", "12", set("WARC-IP-Address", "[2001:db8::1]"), "ip-address", ""},
		{"address in a long form", "12", set("WARC-IP-Address", "2001:DB8:0::1"), "ip-address", ""},
		{"address with zone", "12", set("WARC-IP-Address", "fe80::1%eth0"), "ip-address", ""},
		{"host as address", "12", set("WARC-IP-Address", "example.org"), "ip-address", ""},
		{"truncated for an unknown reason", "42", set("WARC-Truncated", "yes"), "truncated", ""},
		{"unknown profile", "82", set("WARC-Profile", "http://example.org/"), "profile", ""},
		{"response as HTML", "a2", func(e *entry) { e.h.Set("Content-Type", "text/html"); e.payload = e.block }, "content-type", ""},
		{"warcinfo as text", "00", set("Content-Type", "text/plain"), "content-type", ""},

		{"block digest", "64", set("WARC-Block-Digest", "sha256:"+strings.Repeat("0", 64)), "block-digest", ""},
		{"block digest missing", "12", del("WARC-Block-Digest"), "digest-missing", ""},
		{"block digest unknown", "12", set("WARC-Block-Digest", "blake3:00"), "block-digest", ""},
		{"block digest unreadable", "12", set("WARC-Block-Digest", "sha256:00"), "digest-form", ""},
		{"digest in Base32", "82", set("WARC-Payload-Digest", "sha256:4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ===="), "digest-form", ""},
		{"payload digest", "12", set("WARC-Payload-Digest", "sha256:"+strings.Repeat("0", 64)), "payload-digest", "payload-digest payload-digest"},
		{"payload digest over chunk framing", "12", func(e *entry) { _, e.payload, _ = strings.Cut(e.block, "\r\n\r\n") }, "payload-digest", "payload-digest payload-digest"},
		{"payload digest of nothing", "42", func(e *entry) { e.payload = "" }, "payload-digest", ""},
		{"payload digest missing", "12", del("WARC-Payload-Digest"), "digest-missing", ""},
		{"payload digest missing, empty body", "22", del("WARC-Payload-Digest"), "digest-missing", ""},
		{"payload digest missing, request body", "21", del("WARC-Payload-Digest"), "digest-missing", ""},
		{"payload digest missing, revisit", "52", del("WARC-Payload-Digest"), "digest-missing", ""},
		{"payload digest on a request without body", "11", add("WARC-Payload-Digest", "*"), "payload-digest", ""},
		{"payload digest of a request", "21", func(e *entry) { e.payload = "x" }, "payload-digest", ""},
		{"payload digest of a resource", "62", func(e *entry) { e.payload = "x" }, "payload-digest", ""},
		{"payload digest of a revisit", "72", func(e *entry) { e.payload = "x" }, "payload-digest", ""},
		{"warcinfo block", "00", func(e *entry) { e.block = "software\r\n" }, "warc-fields", ""},
		{"warcinfo block with LF", "00", func(e *entry) { e.block = "software: x\n" }, "warc-fields", ""},
		{"metadata block", "61", func(e *entry) { e.block = "a: b\r\nc d: e\r\n" }, "warc-fields", ""},

		{"request line", "11", block("GET\r\n\r\n", ""), "http-head", ""},
		{"status line", "a2", block("200 OK\r\n\r\n", ""), "http-head", ""},
		{"head without end", "a2", block("HTTP/1.1 200 OK\r\n", ""), "http-head", ""},
		{"head without end", "a2", block("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<21), ""), "http-head", ""},
		{"empty response", "a2", block("", ""), "http-head", ""},
		{"octets behind the end", "22", block("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "a"), "http-body", ""},
		{"octets behind a 204", "22", block("HTTP/1.1 204 OK\r\n\r\nab", ""), "http-body", ""},
		{"octets behind the request", "11", block("GET / HTTP/1.1\r\nHost: example.org\r\n\r\nxy", ""), "http-body", ""},
		{"body of a HEAD", "32", block(head+"wikipedia", "wikipedia"), "http-body", ""},
		{"de-chunked body", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwikipedia\n", ""), "http-body", ""},
		{"de-chunked body of one line", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwikipedia", ""), "truncated", ""},
		{"body in a revisit", "52", block(head+"wikipedia", "wikipedia"), "http-body", ""},
		{"interim response", "22", block("HTTP/1.1 100 Continue\r\n\r\n", ""), "interim", ""},
		{"interim before the response", "22", block("HTTP/1.1 103 Early Hints\r\n\r\n"+head+"wikipedia", ""), "interim", ""},
		{"not marked as truncated", "42", del("WARC-Truncated"), "truncated", ""},
		{"not marked as truncated, no body at all", "22", block(head, ""), "truncated", ""},
		{"not marked as truncated, chunked", "22", block("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n", "wiki"), "truncated", ""},
		{"request not marked as truncated", "21", block("POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 9\r\n\r\na=b", "a=b"), "truncated", ""},

		{"warcinfo is a resource", "00", func(e *entry) { e.h.Set("WARC-Type", "new"); e.h.Set("WARC-Warcinfo-ID", id("00")) }, "warcinfo warcinfo-id", "*"},
		{"filename with open", "00", set("WARC-Filename", "a.warc.gz.open"), "warcinfo", ""},
		{"no warcinfo id", "64", del("WARC-Warcinfo-ID"), "warcinfo-id", ""},
		{"warcinfo id of another file", "64", set("WARC-Warcinfo-ID", id("01")), "warcinfo-id", ""},
		{"warcinfo id of another type", "64", set("WARC-Warcinfo-ID", id("12")), "warcinfo-id", ""},
		{"warcinfo id of nothing", "64", set("WARC-Warcinfo-ID", id("ff")), "warcinfo-id", ""},
		{"concurrent to nothing", "61", set("WARC-Concurrent-To", id("ff")), "concurrent-to", ""},
		{"concurrent to itself", "61", set("WARC-Concurrent-To", id("61")), "concurrent-to", ""},
		{"concurrent to another file", "61", set("WARC-Concurrent-To", id("a2")), "concurrent-to", ""},
		{"not mutual", "92", del("WARC-Concurrent-To"), "", "concurrent-to"},
		{"crossed", "92", set("WARC-Concurrent-To", id("a1")), "concurrent-to", "concurrent-to"},
		{"other date", "92", set("WARC-Date", "2026-01-02T03:04:05.679Z"), "concurrent-to", "concurrent-to"},
		{"other URI", "92", set("WARC-Target-URI", "http://example.org/x"), "concurrent-to", "concurrent-to"},

		{"no refers-to", "52", del("WARC-Refers-To"), "refers-to", ""},
		{"no refers-to-date", "52", del("WARC-Refers-To-Date"), "refers-to", ""},
		{"no refers-to-target-uri", "52", del("WARC-Refers-To-Target-URI"), "refers-to", ""},
		{"refers to nothing", "52", set("WARC-Refers-To", id("ff")), "refers-to", ""},
		{"refers to a revisit", "72", set("WARC-Refers-To", id("52")), "refers-to", ""},
		{"refers to a request", "72", set("WARC-Refers-To", id("11")), "refers-to", ""},
		{"refers to a truncated response", "12", add("WARC-Truncated", "time"), "", "refers-to refers-to"},
		{"refers to partial content", "12", block("HTTP/1.1 206 OK\r\nContent-Length: 9\r\n\r\nwikipedia", "wikipedia"), "", "refers-to refers-to"},
		{"partial content as revisit", "52", block("HTTP/1.1 206 OK\r\nContent-Length: 9\r\n\r\n", "wikipedia"), "refers-to", ""},
		{"other date of the original", "52", set("WARC-Refers-To-Date", "2026-01-02T03:04:05Z"), "refers-to", ""},
		{"other URI of the original", "52", set("WARC-Refers-To-Target-URI", "https://example.org"), "refers-to", ""},
		{"refers-to-target-uri in brackets", "52", set("WARC-Refers-To-Target-URI", "<https://example.org/>"), "target-uri refers-to", ""},
		{"revisit with a head, not marked", "52", del("WARC-Truncated"), "truncated", ""},
		{"original of another payload", "72", func(e *entry) {
			e.h.Set("WARC-Refers-To", id("32"))
			e.h.Set("WARC-Refers-To-Date", warc.FormatDate(date, warc.V1_1))
		}, "payload-digest", ""},
	} {
		frame := slices.Contains([]string{"member", "length", "end", "version", "header"}, c.also)
		ar := good(warc.WriterOptions{Plain: !frame}, warc.SHA256) // plain is faster
		if c.name == "digest in Base32" {
			ar.get(c.at).payload = ""
		}
		c.change(ar.get(c.at))
		if frame {
			// What follows is not looked at, and nothing does.
			if last := ar.a[len(ar.a)-1]; last.h.Get("WARC-Record-ID") != id(c.at) {
				t.Fatalf("%s: not the last record", c.name)
			}
		}
		expect(t, c.name, ar.write(t), id(c.at), c.rules, c.also)
	}
}

// expect compares the findings. Also may be "*": anything.
func expect(t *testing.T, name string, paths []string, at, rules, also string) {
	t.Helper()
	report, err := check.Files(paths...)
	if err != nil {
		t.Fatal(err)
	}
	var here, elsewhere []string
	for _, f := range report.Findings {
		if f.ID == at {
			here = append(here, f.Rule)
		} else {
			elsewhere = append(elsewhere, f.Rule)
		}
	}
	if strings.Join(here, " ") != rules || also != "*" && strings.Join(elsewhere, " ") != also {
		t.Errorf("%s: broken rules %q there and %q elsewhere, want %q and %q", name, here, elsewhere, rules, also)
		for _, f := range report.Findings {
			t.Log(f)
		}
	}
}

func TestTargetURIs(t *testing.T) {
	for _, uri := range []string{
		"http://example.org", "http://example.org/", "https://example.org:80/?", "http://example.org:8080/a/b;c=d?e=f&g=/?%25", "http://192.0.2.1/", "http://[::1]:81/",
		"http://a_b.example/~x/(y)", "dns:example.org", "urn:uuid:1", "http://xn--4ca.example/", "ftp://user@example.org/", "http://example.org./", "screenshot:http://example.org/",
	} {
		ar := good(warc.WriterOptions{Plain: true}, warc.SHA256)
		ar.get("64").h.Set("WARC-Target-URI", uri)
		expect(t, uri, ar.write(t), id("64"), "", "")
	}
	for _, uri := range []string{
		"<http://example.org/>", "example.org", "//example.org/", "/x", "1http://x/", "http:///x", "http://", "http:x", "http://example.org/a b", "http://example.org/\u00e4", "http://\u00e4.example/",
		"http://example.org/%", "http://example.org/%zz", "http://example.org/%4", "http://example.org/[0]", "http://example.org/?[0]", "http://example.org/{x}", "http://example.org/a|b", "http://example.org/\"", "http://example.org/a\\b", "http://example.org/^`",
		"http://example.org/#x", "http://example.org#", "http://user@example.org/", "http://user:pw@example.org/", "http://example.org:80/", "https://example.org:443/", "http://example.org:/", "http://example.org:x/",
		"http://::1/", "http://[example]/", "http://[1.2.3.4]/", "http://[::1/", "http://[fe80::1%25eth0]/",
	} {
		ar := good(warc.WriterOptions{Plain: true}, warc.SHA256)
		ar.get("64").h.Set("WARC-Target-URI", uri)
		expect(t, uri, ar.write(t), id("64"), "target-uri", "")
	}
}

// TestOrder moves things to where they must not be.
func TestOrder(t *testing.T) {
	ar := good(warc.WriterOptions{Plain: true}, warc.SHA256)
	ar.a[1], ar.a[2], ar.a[9], ar.a[10] = ar.a[9], ar.a[10], ar.a[1], ar.a[2]
	expect(t, "revisit before its original", ar.write(t), id("52"), "refers-to", "")

	ar = good(warc.WriterOptions{Plain: true}, warc.SHA256)
	ar.a = append(ar.a[1:], ar.a[0])
	expect(t, "warcinfo at the end", ar.write(t), id("11"), "warcinfo warcinfo-id", "*")

	ar = good(warc.WriterOptions{Plain: true}, warc.SHA256)
	ar.a, ar.b = slices.Concat(ar.a[:10], ar.a[11:]), append(ar.b, ar.a[10])
	expect(t, "records of an exchange in two files", ar.write(t), id("52"), "warcinfo-id concurrent-to", "concurrent-to")
}

func TestFileRules(t *testing.T) {
	rename := func(name string) []string {
		paths := good(warc.WriterOptions{}, warc.SHA256).write(t)
		to := filepath.Join(filepath.Dir(paths[0]), name)
		if err := os.Rename(paths[0], to); err != nil {
			t.Fatal(err)
		}
		return []string{to, paths[1]}
	}
	expect(t, "open", rename("a.warc.gz.open"), "", "open-file", "")
	expect(t, "gzip without .gz", rename("a.warc"), "", "compression", "warcinfo")
	expect(t, "other name", rename("c.warc.gz"), "", "", "warcinfo")
	empty := filepath.Join(t.TempDir(), "empty.warc")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "empty", []string{empty}, "", "warcinfo", "")
	if _, err := check.Files(filepath.Join(t.TempDir(), "none.warc")); err == nil {
		t.Error("no error about a file that is not there")
	}
}
