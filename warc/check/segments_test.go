package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc/check"
)

// TestJoined: what only the joined segments of a record show is checked, also
// where nothing but the second segment ends the head, or there is no digest.
func TestJoined(t *testing.T) {
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct{ name, first, second, more, rules string }{
		{"a head in two segments", "HT", "TP/1.1 200 OK\r\n\r\nx", payloadDigest("x"), ""},
		{"no digest", "HT", "TP/1.1 200 OK\r\n\r\nx", "", ""},
		{"another digest", "HT", "TP/1.1 200 OK\r\n\r\nx", payloadDigest("y"), "segment-digest"},
		{"no HTTP", "ICY", " 200 OK\r\n\r\nx", payloadDigest("x"), "http-head"},
		{"no end of the head", "HTTP/1.1 200 OK\r\n", "A: b\r\n", payloadDigest("x"), "http-head"},
		{"interim response", "HTTP/1.1 100 Con", "tinue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "", "interim"},
		{"HTTP/2", "HTTP/", "2 200 OK\r\n:status: 200\r\n\r\n", "", "http-version pseudo-field"},
		{"chunks", chunked, "1\r\nx\r\n0\r\n\r\n", payloadDigest("x"), ""},
		{"chunks divided", chunked + "1", "\r\nx\r\n0\r\n\r\n", payloadDigest("x"), ""},
		{"no chunks", chunked, "wikipedia", payloadDigest("wikipedia"), "http-body"},
		{"broken chunks", chunked + "1\r\n", "xyz\r\n0\r\n\r\n", "", "http-body"},
		{"too short", responseHead + "wi", "ki", payloadDigest("wiki"), "truncated"},
		{"too short without a digest", responseHead + "wi", "ki", "", "truncated"},
		{"too long", responseHead + "wiki", "pedias", payloadDigest("wikipedias"), "http-body"},
		{"too long in the first segment", responseHead + "wikipedias", "!", payloadDigest("wikipedias!"), "http-body"},
		{"not gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "x", payloadDigest("x"), "content-encoding"},
		{"not gzip, in the first segment", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx", "y", payloadDigest("xy"), "content-encoding"},
	} {
		segments := func(onFirst, onLast string) string {
			more := append(lines("response", "12"), target, "WARC-Segment-Number: 1", "Content-Type: application/http; msgtype=response")
			for _, field := range []string{c.more, onFirst} {
				if field != "" {
					more = append(more, field)
				}
			}
			last := append(lines("continuation", "13"), target, "WARC-Segment-Number: 2", "WARC-Segment-Origin-ID: "+id("12"),
				fmt.Sprintf("WARC-Segment-Total-Length: %d", len(c.first+c.second)))
			if onLast != "" {
				last = append(last, onLast)
			}
			return first + record("1.1", c.first, more...) + record("1.1", c.second, last...)
		}
		findings, _ := run(t, check.Options{}, writeFile(t, "a.warc", []byte(segments("", ""))))
		expect(t, c.name, findings, id("12"), c.rules, "")
		if c.rules != "truncated" {
			continue
		}
		for _, file := range []string{segments("WARC-Truncated: length", ""), segments("", "WARC-Truncated: length")} {
			wantWarnings(t, c.name+", as WARC-Truncated says", "", writeFile(t, "a.warc", []byte(file)))
		}
	}
}

// TestOtherAlgorithm: a revisit has a digest that its original does not have. The
// payload of the original is read for it, wherever it is.
func TestOtherAlgorithm(t *testing.T) {
	revisit := func(payload string) string {
		return record("1.1", "", lines("revisit", "2", target, payloadDigest(payload), "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Refers-To: "+id("12"))...)
	}
	head := "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	whole := response(head + "wikipedia")
	parts := response(head+"wiki", "WARC-Segment-Number: 1") +
		record("1.1", "pedia", lines("continuation", "13", target, "WARC-Segment-Number: 2", "WARC-Segment-Origin-ID: "+id("12"), fmt.Sprintf("WARC-Segment-Total-Length: %d", len(head)+9))...)
	for name, original := range map[string]string{
		"whole": whole, "in segments": parts,
		"in chunks":                     response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nwikipedia\r\n0\r\n\r\n"),
		"a resource":                    record("1.1", "wikipedia", lines("resource", "12", target, "Content-Type: text/plain")...),
		"longer than it says":           response("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwikipedia"),
		"with a digest of another kind": response(head+"wikipedia", "WARC-Payload-Digest: md5:12672e79b01e9ca7018105efb0ef871c"),
	} {
		for payload, want := range map[string]string{"wikipedia": "", "wikipediA": "revisit-digest"} {
			for place, files := range map[string][]string{"earlier": {first + original + revisit(payload)}, "in another file": {first + revisit(payload), strings.ReplaceAll(first, id("00"), id("01")) + original}} {
				var paths []string
				for _, file := range files {
					paths = append(paths, writeFile(t, "a.warc", []byte(file)))
				}
				findings, _ := run(t, check.Options{}, paths...)
				var got []string
				for _, f := range findings {
					if f.ID == id("2") {
						got = append(got, f.Rule)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s, %s, revisit of %s: %q, want %q: %v", name, place, payload, got, want, findings)
				}
			}
		}
	}
}
