package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
)

var made = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// captureOf returns a record with a block, and further fields.
func captureOf(kind, version, block string, more ...string) string {
	return record(block, append([]string{"WARC/" + version, "WARC-Type: " + kind, "WARC-Record-ID: <urn:" + kind + ">", "WARC-Date: 2020-02-03T04:05:06Z", "WARC-Target-URI: <http://a.example/>"}, more...)...)
}

const overHTTP = "Content-Type: application/http; msgtype=response"

func image(body string, more ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: IMAGE/bmp; x=y\r\n" + strings.Join(append(more, ""), "\r\n") + "\r\n" + body
}

func gz(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

func TestTransform(t *testing.T) {
	upper := &Transform{Command: []string{"tr", "a-z", "A-Z"}, Type: "image/BMP", NewType: "image/png", Date: made}
	for _, c := range []struct {
		name, in, want, skipped string // want: the block of the conversion record
		found                   int
	}{
		{"response", captureOf("response", "1.1", image("abc"), overHTTP), "ABC", "", 0},
		{"chunked", captureOf("response", "1.1", image("3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), overHTTP), "ABC", "", 0},
		{"compressed", captureOf("response", "1.1", image(gz("abc"), "Content-Encoding: gzip"), overHTTP), "ABC", "", 0},
		{"resource", captureOf("resource", "1.1", "abc", "Content-Type: image/bmp"), "ABC", "", 0},
		{"long", captureOf("resource", "1.1", strings.Repeat("abc", 1<<20), "Content-Type: image/bmp"), strings.Repeat("ABC", 1<<20), "", 0},
		{"another type", captureOf("resource", "1.1", "abc", "Content-Type: image/png"), "", "", 0},
		{"revisit", captureOf("revisit", "1.1", image(""), overHTTP), "", "", 0},
		{"conversion", captureOf("conversion", "1.1", "abc", "Content-Type: image/bmp"), "", "", 0},
		{"truncated", captureOf("resource", "1.1", "abc", "Content-Type: image/bmp", "WARC-Truncated: length"), "", skippedTruncated, 0},
		{"segment", captureOf("resource", "1.1", "abc", "Content-Type: image/bmp", "WARC-Segment-Number: 1"), "", skippedSegment, 0},
		{"partial", captureOf("response", "1.1", strings.Replace(image("abc"), "200", "206", 1), overHTTP), "", skippedPartial, 0},
		{"empty", captureOf("response", "1.1", image(""), overHTTP), "", skippedEmpty, 0},
		{"empty resource", captureOf("resource", "1.1", "", "Content-Type: image/bmp"), "", skippedEmpty, 0},
		{"no head", captureOf("response", "1.1", "abc", overHTTP), "", skippedHead, 0},
		{"short", captureOf("response", "1.1", image("abc", "Content-Length: 4"), overHTTP), "", skippedCoding, 1},
		{"unknown coding", captureOf("response", "1.1", image("abc", "Content-Encoding: x-no"), overHTTP), "", skippedCoding, 1},
		{"damaged coding", captureOf("response", "1.1", image(gz("abc")[:20], "Content-Encoding: gzip"), overHTTP), "", skippedCoding, 1},
		{"no id", strings.Replace(captureOf("resource", "1.1", "abc", "Content-Type: image/bmp"), "<http://a.example/>", "\x01", 1), "", skippedFailed, 1},
	} {
		found := 0
		b, result := to(t, []byte(c.in), Options{Compression: warc.Plain, Transform: upper, Found: func(int64, string) { found++ }})
		rest, ok := strings.CutPrefix(string(b), c.in)
		if !ok {
			t.Errorf("%s: the original is not kept: %.1000q", c.name, b)
			continue
		}
		if found != c.found || (c.skipped != "") != slices.Contains(result.Skipped, Count{c.skipped, 1}) || len(result.Skipped) > 1 {
			t.Errorf("%s: found %d, skipped %v", c.name, found, result.Skipped)
		}
		if c.want == "" {
			if rest != "" || result.Converted != 0 {
				t.Errorf("%s: %d conversion records, %q", c.name, result.Converted, rest)
			}
			continue
		}
		r := readAll(t, []byte(rest))[0]
		source := readAll(t, []byte(c.in))[0]
		want := record(c.want, "WARC/1.1", "WARC-Type: conversion", "WARC-Record-ID: "+r.get("WARC-Record-ID"), "WARC-Date: 2026-01-02T03:04:05.678Z", "WARC-Target-URI: http://a.example/",
			"WARC-Refers-To: "+source.get("WARC-Record-ID"), "WARC-Block-Digest: sha256:"+sumOf(c.want), "WARC-Payload-Digest: sha256:"+sumOf(c.want), "Content-Type: image/png")
		if rest != want || result.Converted != 1 {
			t.Errorf("%s: got %.1000q, want %.1000q", c.name, rest, want)
		}
	}
}

// TestConversionOf: a conversion record is of the version of its source, and of
// its warcinfo; ids differ with what was made.
func TestConversionOf(t *testing.T) {
	var ids []string
	for _, c := range []struct{ in, to, want, date string }{
		{"0.18", "", "1.0", "2026-01-02T03:04:05Z"}, {"1.0", "", "1.0", "2026-01-02T03:04:05Z"}, {"1.0", "1.1", "1.1", "2026-01-02T03:04:05.678Z"}, {"1.1", "1.0", "1.0", "2026-01-02T03:04:05Z"},
	} {
		in := captureOf("resource", c.in, "abc", "Content-Type: image/bmp", "WARC-Warcinfo-ID: <urn:i>")
		for _, command := range []string{"cat", "tac"} {
			o := Options{Version: warc.Version(c.to), Transform: &Transform{Command: []string{command}, Type: "image/*", NewType: "image/png", Date: made}}
			b, _ := to(t, []byte(in), o)
			again, _ := to(t, []byte(in), o)
			if !bytes.Equal(b, again) {
				t.Error("the same date gives another file")
			}
			r := readAll(t, b)[1]
			if string(r.version) != c.want || r.get("WARC-Date") != c.date || r.get("WARC-Warcinfo-ID") != "<urn:i>" {
				t.Errorf("%s to %s: %s %v", c.in, c.to, r.version, r.header)
			}
			ids = append(ids, r.get("WARC-Record-ID"))
		}
	}
	if ids[0] == ids[1] || ids[4] == ids[0] {
		t.Errorf("ids %q", ids)
	}
}

func TestCommandFails(t *testing.T) {
	in := captureOf("resource", "1.1", "abc", "Content-Type: image/bmp") + captureOf("resource", "1.1", strings.Repeat("a", 3<<20), "Content-Type: image/bmp")
	for _, c := range []struct {
		name, script, want string
		converted          int64
	}{
		{"exit code", "echo 'this is no image' >&2; exit 5", `exit status 5: "this is no image"`, 0},
		{"nothing", "cat >/dev/null", "the result is empty", 0},
		{"too much", "cat; head -c 3000 /dev/zero", "more than 2000 octets", 0},
		{"no end", "cat; exec sleep 1000", "no result within 100ms", 0},
		{"much said", "head -c 100000 /dev/zero >&2; exit 1", "exit status 1", 0},
		{"killed", "kill -9 $$", "signal: killed", 0},
		{"reads nothing", "echo hello", "", 2},
	} {
		var said []string
		o := Options{Transform: &Transform{Command: []string{"sh", "-c", c.script}, Type: "image/bmp", NewType: "image/png", MaxSize: 2000, Timeout: 10 * time.Second},
			Found: func(_ int64, what string) { said = append(said, what) }}
		if c.name == "no end" {
			o.Transform.Timeout = 100 * time.Millisecond
			o.Transform.MaxSize = 0
		}
		_, result := to(t, []byte(in), o)
		if result.Converted != c.converted || result.Sum.Records != 2+c.converted {
			t.Errorf("%s: %+v", c.name, result)
		}
		if c.want != "" && (len(said) != 2 || !strings.Contains(said[0], c.want) || len(said[0]) > 4000 || !strings.Contains(said[0], "<urn:resource>")) {
			t.Errorf("%s: said %.2000q", c.name, said)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Transform: &Transform{Command: []string{"sh", "-c", "exec sleep 1000"}, Type: "image/bmp", NewType: "image/png"}}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := WARC(ctx, io.Discard, strings.NewReader(in), o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	o = Options{TempDir: "/nonexistent", Transform: &Transform{Command: []string{"sh", "-c", "head -c 3000000 /dev/zero"}, Type: "image/bmp", NewType: "image/png"}}
	if _, err := WARC(context.Background(), io.Discard, strings.NewReader(captureOf("resource", "1.1", "abc", "Content-Type: image/bmp")), o); err == nil {
		t.Error("a result is lost without an error")
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, media string
		match       bool
	}{
		{"image/bmp", "image/bmp", true}, {"Image/BMP", "image/bmp", true}, {"image/*", "image/bmp", true}, {"image/*", "image", true},
		{"image/bmp", "image/png", false}, {"image/*", "text/html", false}, {"image/bmp", "", false}, {"image/*", "", false},
	} {
		if got := (&Transform{Type: c.want}).matches(c.media); got != c.match {
			t.Errorf("%q for %q: %v", c.media, c.want, got)
		}
	}
}

// FuzzWARC: what can be converted at all has the same records afterwards.
func FuzzWARC(f *testing.F) {
	for seed := range uint64(8) {
		f.Add([]byte(randomFile(seed)), byte(seed))
	}
	f.Add([]byte(goodFile()), byte(1))
	f.Fuzz(func(t *testing.T, in []byte, how byte) {
		if len(in) > 1<<20 {
			return
		}
		o := Options{Compression: warc.Compression(how % 3), Version: []warc.Version{"", warc.V1_0, warc.V1_1}[how/3%3], From: "good.warc", To: "other.warc"}
		var out bytes.Buffer
		result, err := WARC(context.Background(), &out, bytes.NewReader(in), o)
		if err != nil {
			return
		}
		if err := Verify(bytes.NewReader(out.Bytes()), result.Sum); err != nil {
			t.Fatal(err)
		}
		got, want := readAll(t, out.Bytes()), readAll(t, in)
		for i := range want {
			if o.Version == "" && got[i].get("WARC-Type") != "warcinfo" && (got[i].raw != want[i].raw || got[i].block != want[i].block) {
				t.Fatalf("record %d differs: %q, %q", i, got[i], want[i])
			}
			if len(got[i].header) != len(want[i].header) || o.Version != "" && got[i].version != o.Version {
				t.Fatalf("record %d has another header: %q, %q", i, got[i], want[i])
			}
		}
	})
}

// FuzzARC: every octet of a block is in the output.
func FuzzARC(f *testing.F) {
	f.Add(arcFile(arcRecord("http://a.example/"+usual, page), arcRecord("dns:a.example 192.0.2.53 20010203040506 text/dns", "x")))
	f.Add(arcFile(arcRecord("http://a/ b"+usual+" 200 abc - 209 f.arc", chunked)))
	f.Add([]byte(fmt.Sprintf("http://a/%s 99\n%s", usual, page)))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<20 {
			return
		}
		var out bytes.Buffer
		result, err := ARC(context.Background(), &out, bytes.NewReader(in), Options{From: "a.arc", To: "a.warc.gz"})
		if err != nil {
			return
		}
		if err := Verify(bytes.NewReader(out.Bytes()), result.Sum); err != nil {
			t.Fatal(err)
		}
		z := warc.NewReader(&out)
		z.Strict = true
		for {
			rec, err := z.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sum, err := digestOf(z)
			if err != nil || sum != rec.Header.Get("WARC-Block-Digest") {
				t.Fatalf("block %s, %v, in %v", sum, err, rec.Header)
			}
		}
	})
}

func digestOf(r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	return "sha256:" + sumOf(string(b)), err
}
