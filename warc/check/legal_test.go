package check_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// record is a record with those lines; Content-Length comes last.
func record(version, block string, lines ...string) string {
	return "WARC/" + version + "\r\n" + strings.Join(lines, "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
}

// lines are the fields that all records have, and more.
func lines(typ, n string, more ...string) []string {
	return append([]string{"WARC-Type: " + typ, "WARC-Record-ID: " + id(n), "WARC-Date: 2026-01-02T03:04:05Z"}, more...)
}

func sha1Of(s string) string {
	sum := sha1.Sum([]byte(s))
	return base32.StdEncoding.EncodeToString(sum[:])
}

const target = "WARC-Target-URI: http://example.org/"

// first starts a file of version 1.1.
var first = record("1.1", "software: test\r\n", lines("warcinfo", "00", "Content-Type: application/warc-fields")...)

func response(block string, more ...string) string {
	return record("1.1", block, lines("response", "12", append([]string{target, "Content-Type: application/http; msgtype=response"}, more...)...)...)
}

func payloadDigest(payload string) string { return "WARC-Payload-Digest: sha1:" + sha1Of(payload) }

const get = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"

// TestLegal: what the standard allows is no error. Warnings are listed.
func TestLegal(t *testing.T) {
	resource := func(more ...string) string {
		return record("1.1", "x", lines("resource", "12", append([]string{target, "Content-Type: text/plain"}, more...)...)...)
	}
	for _, c := range []struct{ name, file, warnings string }{
		{"header in another order", first + record("1.1", "x", "Content-Type: text/plain", target, "WARC-Date: 2026-01-02T03:04:05Z", "WARC-Record-ID: "+id("1"), "WARC-Type: resource"), ""},
		{"unknown fields", first + resource("X-Mine: 1", "X-Mine: 2", "WARC-Protocol: http/1.1", "WARC-Protocol: tls/1.3", "X-Empty:"), ""},
		{"unknown type", first + record("1.1", "x", lines("screenshot", "1", "Content-Type: image/png", "WARC-Refers-To: "+id("00"), "WARC-Profile: http://example.org/x")...), ""},
		{"names in other cases", first + record("1.1", "x", "warc-type: resource", "WARC-RECORD-ID: "+id("1"), "Warc-Date: 2026-01-02T03:04:05Z", "content-type: text/plain", "warc-target-uri: http://example.org/"), ""},
		{"type in another case", first + strings.Replace(resource(), "resource", "Resource", 1), ""},
		{"folded lines", first + record("1.0", "x", lines("resource", "1", target, "Content-Type: text/plain;\r\n charset=utf-8", "X-Long: a\r\n\tb\r\n  c")...), ""},
		{"white space before values", first + record("1.1", "x", "WARC-Type:resource", "WARC-Record-ID: \t "+id("1"), "WARC-Date:2026-01-02T03:04:05Z", "WARC-Target-URI:http://example.org/", "Content-Type:\ttext/plain"), ""},
		{"white space behind values", first + resource("X: y \t "), ""},
		{"empty blocks", first + record("1.1", "", lines("metadata", "1")...) + record("1.1", "", lines("resource", "2", target)...), ""},
		{"no warcinfo", resource(), "warcinfo"},
		{"a warcinfo of another file in the middle", first + resource() + record("1.1", "", lines("warcinfo", "01", "WARC-Filename: other.warc.gz")...), ""},
		{"filename in quotes", record("1.1", "", lines("warcinfo", "01", `WARC-Filename: "a.warc"`)...), ""},
		{"filename with its folder", record("1.1", "", lines("warcinfo", "01", `WARC-Filename: /data/a.warc`)...), ""},
		{"filename as an encoded word", record("1.1", "", lines("warcinfo", "01", "WARC-Filename: =?UTF-8?Q?a=2Ewarc?=")...), ""},
		{"filename as an encoded word in Base64", record("1.0", "", lines("warcinfo", "01", "WARC-Filename: =?iso-8859-1?b?YS53YXJj?=")...), ""},
		{"filename in a character set that is not known here", record("1.1", "", lines("warcinfo", "01", "WARC-Filename: =?shift_jis?b?YS53YXJj?=")...), ""},
		{"other filename as an encoded word", record("1.1", "", lines("warcinfo", "01", "WARC-Filename: =?UTF-8?Q?b=2Ewarc?=")...), "filename"},
		{"other filename", record("1.1", "", lines("warcinfo", "01", "WARC-Filename: b.warc")...), "filename"},
		{"encoded word", record("1.1", "", lines("warcinfo", "01", "X-Operator: =?utf-8?q?J=C3=BCrgen?=")...), ""},
		{"not ASCII", record("1.1", "", lines("warcinfo", "01", "X-Operator: Jürgen 日本")...), ""},
		{"long value", first + resource("X-Long: "+strings.Repeat("x", 200_000)), ""},
		{"long target", first + record("1.1", "x", lines("resource", "1", target+strings.Repeat("a/", 50_000), "Content-Type: text/plain")...), ""},

		{"dates of all granularities", first + dated("2016", "2016-01", "2016-01-11", "2016-01-11T23:24Z", "2016-01-11T23:24:25Z", "2016-01-11T23:24:25.4Z", "2016-01-11T23:24:25.412030Z", "2016-01-11T23:24:25.412030123Z"), ""},
		{"a leap second is none", first + dated("2016-12-31T23:59:59Z"), ""},
		{"WARC 1.0", strings.ReplaceAll(first+resource(), "WARC/1.1", "WARC/1.0"), ""},
		{"WARC 0.18", strings.ReplaceAll(first+resource(), "WARC/1.1", "WARC/0.18"), ""},
		{"WARC 0.17", strings.ReplaceAll(first+resource(), "WARC/1.1", "WARC/0.17"), ""},
		{"several versions", first + strings.ReplaceAll(resource(), "WARC/1.1", "WARC/1.0"), ""},
		{"target in brackets in 1.0", first + record("1.0", "x", lines("resource", "1", "WARC-Target-URI: <http://example.org/>", "Content-Type: text/plain")...), ""},
		{"original in brackets in 1.0", first + response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")) + record("1.0", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: <http://netpreserve.org/warc/1.0/revisit/identical-payload-digest>",
			"WARC-Refers-To-Target-URI: <http://example.org/>", "WARC-Refers-To-Date: 2026-01-02T03:04:05Z")...), ""},
		{"refers-to fields on a resource in 1.0, which does not know them", first + strings.ReplaceAll(resource("WARC-Refers-To-Date: 2026-01-02T03:04:05Z"), "WARC/1.1", "WARC/1.0"), ""},
		{"ids of other schemes", first + strings.Replace(resource(), id("12"), "<http://example.org/id/1?a=b>", 1) + strings.Replace(resource(), id("12"), "<urn:uuid:23200706-de3e-3c61-a131-g65d7fd80cc1>", 1), ""},
		{"targets of other schemes", first + targets("dns:example.org", "ftp://user:secret@example.org/a;type=i", "urn:pageinfo:http://example.org/", "screenshot:http://example.org/", "file://var/www/x", "mailto:a@example.org", "metadata://gnu.org/software/wget/warc/MANIFEST.txt"), ""},
		{"targets that browsers take", first + targets("http://example.org/a|b", "http://example.org/?q=[1]", "http://example.org/ä"), "uri-characters uri-characters uri-characters"},
		{"targets in other spellings", first + targets("http://example.org:80/#x", "http://user@example.org", "HTTP://EXAMPLE.ORG/"), ""},
		{"IPv6 addresses", first + addressed("2001:DB8:0:0:8:800:200C:417A", "FF01::101", "::1", "::", "::13.1.68.3", "::ffff:129.144.52.38", "192.0.2.1"), ""},

		{"resource of http without digests", first + resource(), ""},
		{"resource that is concurrent to nothing here", first + resource("WARC-Concurrent-To: "+id("99")), "concurrent-missing"},
		{"metadata about a record elsewhere", first + record("1.1", "a: b\r\n", lines("metadata", "1", "Content-Type: application/warc-fields", "WARC-Refers-To: "+id("99"))...), "refers-to-missing"},
		{"metadata without target, of another format", first + record("1.1", "{}", lines("metadata", "1", "Content-Type: application/json")...), ""},
		{"metadata about metadata", first + record("1.1", "", lines("metadata", "1", "WARC-Refers-To: "+id("00"))...) + record("1.1", "", lines("metadata", "2", "WARC-Refers-To: "+id("1"))...), ""},
		{"a response of dns", first + record("1.1", "20260102030405\n", lines("response", "1", "WARC-Target-URI: dns:example.org", "Content-Type: text/dns", payloadDigest("20260102030405\n"))...), ""},
		{"conversion without source", first + record("1.1", "x", lines("conversion", "1", target, "Content-Type: text/plain")...), ""},
		{"warcinfo elsewhere", first + resource("WARC-Warcinfo-ID: "+id("99")), "warcinfo-missing"},
		{"concurrent in one direction, and several", first + response("HTTP/1.1 200 OK\r\n\r\n") + record("1.1", "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", lines("request", "2", target, "Content-Type: application/http;msgtype=request", "WARC-Concurrent-To: "+id("12"), "WARC-Concurrent-To: "+id("3"))...) + record("1.1", "", lines("metadata", "3", "WARC-Concurrent-To: "+id("12"))...), ""},
		{"dates of one capture with and without a fraction", first + response("HTTP/1.1 200 OK\r\n\r\n") + record("1.1", "", "WARC-Type: metadata", "WARC-Record-ID: "+id("3"), "WARC-Date: 2026-01-02T03:04:05.000Z", "WARC-Concurrent-To: "+id("12")), ""},
		{"truncated for a reason of one's own", first + response("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "WARC-Truncated: quota"), "truncated-reason"},

		{"digests in Base16, Base32 and Base64", first + digests("x"), ""},
		{"a digest that cannot be checked", first + resource("WARC-Block-Digest: blake2b:00"), "digest-unknown"},
		{"payload digest of nothing", first + response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", payloadDigest("")), ""},
		{"payload digest on a request without body", first + record("1.1", "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", lines("request", "1", target, "Content-Type: application/http;msgtype=request", payloadDigest(""))...), ""},

		{"revisit that was not modified, without block", first + record("1.1", "", lines("revisit", "1", target, "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified")...), ""},
		{"revisit that was not modified, with a head", first + record("1.1", "HTTP/1.1 304 Not Modified\r\n\r\n", lines("revisit", "1", target, "Content-Type: message/http", "WARC-Profile: http://netpreserve.org/warc/1.0/revisit/server-not-modified")...), ""},
		{"revisit of another profile", first + record("1.1", "diff", lines("revisit", "1", target, "Content-Type: text/x-diff", "WARC-Profile: http://example.org/diff")...), "content-type profile"},
		{"revisit by URI and date", first + response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")) + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
			"WARC-Refers-To-Target-URI: http://example.org/", "WARC-Refers-To-Date: 2026-01-02T03:04:05.000Z")...), ""},
		{"revisit by a digest of another algorithm", first + response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "WARC-Payload-Digest: md5:9dd4e461268c8034f5c8564e155c67a6") + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...), ""},
		{"revisit that began first", first + strings.Replace(response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")), "04:05Z", "04:06.5Z", 1) + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...), ""},
		{"revisit of the same second", first + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...) + strings.Replace(response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")), "04:05Z", "04:05.5Z", 1), ""},
		{"revisit that is older and stands first", first + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...) + strings.Replace(response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")), "04:05Z", "04:06Z", 1), "revisit-date"},
		{"revisit of a resource", first + resource(payloadDigest("x")) + record("1.1", "", lines("revisit", "2", target, payloadDigest("x"), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...), ""},

		{"Wpull: a warcinfo that names itself, two dates in one exchange", record("1.0", "", lines("warcinfo", "00", "WARC-Warcinfo-ID: "+id("00"))...) + response("HTTP/1.1 200 OK\r\n\r\nx", "WARC-Concurrent-To: "+id("2")) +
			strings.Replace(record("1.1", "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", lines("request", "2", target, "Content-Type: application/http;msgtype=request")...), "04:05Z", "04:04Z", 1), "concurrent-date undefined"},
		{"warcio, warcprox: metadata with a payload digest", first + record("1.1", "a: b\r\n", lines("metadata", "1", "Content-Type: application/warc-fields", payloadDigest("a: b\r\n"))...), "undefined"},
		{"warcprox: a request whose payload is all of it", first + record("1.0", get, lines("request", "1", target, "Content-Type: application/http;msgtype=request", payloadDigest(get), "WARC-Block-Digest: sha1:"+sha1Of(get))...), "no-payload"},
		{"ids in two cases", first + response("HTTP/1.1 200 OK\r\n\r\n") + record("1.1", "", lines("metadata", "3", "WARC-Concurrent-To: "+strings.ToUpper(id("12")))...), ""},

		{"HTTP/1.0 with bare line feeds", first + response("HTTP/1.0 200 OK\nA: b\n\nx", payloadDigest("x")), ""},
		{"no reason, no fields", first + response("HTTP/1.1 404\r\n\r\n", payloadDigest("")), ""},
		{"folded fields, no colon, not ASCII", first + response("HTTP/1.1 200 \xe4\r\nA: b\r\n c\r\njunk\r\nX: \xff\r\n\r\nx", payloadDigest("x")), ""},
		{"chunks with extensions and trailers", first + response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nT: x\r\n\r\n", payloadDigest("x")), ""},
		{"transfer-encoding in HTTP/1.0", first + response("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", payloadDigest("x")), ""},
		{"204, 304, and a HEAD", first + response("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", payloadDigest("")), ""},
		{"the response to a HEAD", first + response("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", payloadDigest(""), "WARC-Concurrent-To: "+id("2")) + record("1.1", "HEAD / HTTP/1.1\r\nHost: example.org\r\n\r\n", lines("request", "2", target, "Content-Type: application/http;msgtype=request")...), ""},
		{"HTTP/2 as text", first + response("HTTP/2 200 \r\ncontent-length: 1\r\n\r\nx", payloadDigest("x")), "http-version"},
		{"HTTP/2 as text, with its pseudo-header fields", first + record("1.1", "GET / HTTP/2\r\n:authority: example.org\r\nhost: example.org\r\n\r\n", lines("request", "1", target, "Content-Type: application/http;msgtype=request")...), "http-head http-version pseudo-field"},
		{"the payload digest of what Content-Length covers", first + response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", payloadDigest("x")), "http-body"},
		{"a field whose name has a colon in front of an upper-case letter", first + response("HTTP/1.1 200 OK\r\n:X: y\r\n\r\nx", payloadDigest("x")), ""},
		{"a payload of nothing with a content-coding", first + response("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", payloadDigest("")), ""},
		{"the start of a gzip payload", first + response("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", payloadDigest("\x1f\x8b")), ""},
		{"identity", first + response("HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\nx", payloadDigest("x")), ""},
		{"a content-coding that is not known here", first + response("HTTP/1.1 200 OK\r\nContent-Encoding: aws-chunked\r\n\r\nx", payloadDigest("x")), ""},
		{"HTTP/1.x, as in the example of the standard", first + response("HTTP/1.x 200 OK\r\n\r\nx", payloadDigest("x")), ""},
		{"101", first + response("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"), ""},
		{"a body without its chunk framing", first + response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", payloadDigest("hello")), "http-body"},
		{"no HTTP at all", first + response("ICY 200 OK\r\n\r\nx", payloadDigest("x")), "http-head"},
		{"interim responses", first + response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x")), "interim"},
		{"content type without msgtype, with quotes", first + response("HTTP/1.1 200 OK\r\n\r\n") + strings.Replace(strings.Replace(resource(), id("12"), id("2"), 1), "text/plain", `text/plain; charset="utf-8;" ; x=y`, 1), ""},
	} {
		path := filepath.Join(t.TempDir(), "a.warc")
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		wantWarnings(t, c.name, c.warnings, path)
	}
}

// wantWarnings checks a file: there are those warnings and no error.
func wantWarnings(t *testing.T, name, want string, paths ...string) {
	t.Helper()
	findings, _ := run(t, check.Options{}, paths...)
	var got []string
	for _, f := range findings {
		if got = append(got, f.Rule); f.Severity != check.Warning {
			t.Errorf("%s: %v", name, f)
		}
	}
	slices.Sort(got)
	if strings.Join(got, " ") != want {
		t.Errorf("%s: warnings %q, want %q: %v", name, got, want, findings)
	}
}

func each(values []string, line string) string {
	var b strings.Builder
	for i, v := range values {
		b.WriteString(strings.ReplaceAll(record("1.1", "x", "WARC-Type: resource", "WARC-Record-ID: "+id(fmt.Sprintf("c%d", i)), "WARC-Date: 2026-01-02T03:04:05Z", target, "Content-Type: text/plain"), line, line[:strings.Index(line, ":")+2]+v))
	}
	return b.String()
}

func dated(dates ...string) string { return each(dates, "WARC-Date: 2026-01-02T03:04:05Z") }

func targets(uris ...string) string {
	return strings.ReplaceAll(each(uris, target), "dns:example.org\r\nContent-Type: text/plain", "dns:example.org\r\nContent-Type: text/dns")
}

func addressed(addresses ...string) string {
	for i, a := range addresses {
		addresses[i] = "text/plain\r\nWARC-IP-Address: " + a
	}
	return each(addresses, "Content-Type: text/plain")
}

// digests are records with the digest of a block in all forms.
func digests(block string) string {
	var values []string
	for _, a := range []warc.Algorithm{warc.MD5, warc.SHA1, warc.SHA256, warc.SHA512} {
		h := a.New()
		h.Write([]byte(block))
		in32 := base32.StdEncoding.EncodeToString(h.Sum(nil))
		for _, v := range []string{base64.StdEncoding.EncodeToString(h.Sum(nil)), base64.RawURLEncoding.EncodeToString(h.Sum(nil)), fmt.Sprintf("%x", h.Sum(nil)), fmt.Sprintf("%X", h.Sum(nil)), in32, strings.ToLower(in32), strings.TrimRight(in32, "=")} {
			values = append(values, "text/plain\r\nWARC-Block-Digest: "+a.String()+":"+v)
		}
	}
	values = append(values, "text/plain\r\nWARC-Block-Digest: SHA-1:"+sha1Of(block))
	return each(values, "Content-Type: text/plain")
}

// TestLegalMembers: gzip members may have all that RFC 1952 §2.3.1 allows.
func TestLegalMembers(t *testing.T) {
	member := func(flags byte, extra []byte) []byte {
		head := append([]byte{0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 3}, extra...)
		if flags&2 != 0 { // FHCRC
			head = binary.LittleEndian.AppendUint16(head, uint16(crc32.ChecksumIEEE(head)))
		}
		return append(head, compressed(first)[10:]...)
	}
	var stored bytes.Buffer
	z, _ := gzip.NewWriterLevel(&stored, gzip.NoCompression)
	z.Write([]byte(first))
	z.Close()
	for name, b := range map[string][]byte{
		"plain": member(0, nil), "FTEXT": member(1, nil), "FHCRC": member(2, nil), "FNAME": member(8, []byte("a.warc\x00")), "FCOMMENT": member(16, []byte("a comment\x00")),
		"FEXTRA": member(4, []byte("\x06\x00xx\x02\x00ab")), "all": member(31, []byte("\x00\x00a\x00b\x00")), "stored": stored.Bytes(),
		"skip lengths of zero": member(0, nil),
	} {
		path := filepath.Join(t.TempDir(), "a.warc.gz")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		wantWarnings(t, name, "", path)
	}
}

// TestDigestOfNothing: that GNU Wget has it on revisits is said, for it is no damage.
func TestDigestOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc")
	file := first + response("HTTP/1.1 200 OK\r\n\r\nx", "WARC-Block-Digest: sha1:"+sha1Of(""))
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	findings, _ := run(t, check.Options{}, path)
	if len(findings) != 1 || findings[0].Rule != check.RuleBlockDigest || !strings.Contains(findings[0].Message, "GNU Wget") {
		t.Errorf("%v", findings)
	}
}
