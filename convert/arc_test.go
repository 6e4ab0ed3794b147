package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/warc"
)

const versionBlock = "1 0 Example\nURL IP-address Archive-date Content-type Archive-length\n"

func arcRecord(line, block string) string {
	return fmt.Sprintf("%s %d\n%s\n", line, len(block), block)
}

const (
	filedescLine = "filedesc://first.arc 0.0.0.0 20010203040506 text/plain"
	usual        = " 192.0.2.1 20010203040507 text/html"
	page         = "HTTP/1.0 200 OK\r\nContent-Type: Text/HTML; charset=x\r\n\r\n<p>"
	chunked      = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n0\r\n\r\n"
)

func arcFile(records ...string) []byte {
	return []byte(arcRecord(filedescLine, versionBlock) + strings.Join(records, ""))
}

// fromARC converts an ARC file and returns the records behind the warcinfo and
// the metadata about the file.
func fromARC(t *testing.T, o Options, records ...string) ([]kept, []string) {
	t.Helper()
	var found []string
	o.From, o.To, o.Software = "a.arc", "a.warc.gz", "test/1"
	o.Found = func(_ int64, what string) { found = append(found, what) }
	b, _ := to(t, arcFile(records...), o)
	all := readAll(t, b)
	if all[0].get("WARC-Type") != "warcinfo" || all[1].get("WARC-Type") != "metadata" {
		t.Fatalf("the file starts with %q", all)
	}
	return all[2:], found
}

// TestARC shows all of what becomes of a file.
func TestARC(t *testing.T) {
	in := arcFile(arcRecord("http://a.example/"+usual, page), arcRecord("dns:a.example 192.0.2.53 20010203040506 text/dns", "20010203040506\na.example. 60 IN A 192.0.2.1\n"))
	b, result := to(t, in, Options{Compression: warc.Plain, From: "a.arc.gz", To: "a.warc", Software: "test/1"})
	info := "software: test/1\r\nformat: WARC File Format 1.1\r\nconformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\nisFormatOf: a.arc.gz\r\n"
	about := arcRecord(filedescLine, versionBlock)
	about = about[:len(about)-1]
	dns := "20010203040506\na.example. 60 IN A 192.0.2.1\n"
	ids := make([]string, 4)
	for i, r := range readAll(t, b) {
		ids[i] = r.get("WARC-Record-ID")
	}
	want := record(info, "WARC/1.1", "WARC-Type: warcinfo", "WARC-Record-ID: "+ids[0], "WARC-Date: 2001-02-03T04:05:06Z", "WARC-Filename: a.warc",
		"WARC-Block-Digest: sha256:"+sumOf(info), "Content-Type: application/warc-fields") +
		record(about, "WARC/1.1", "WARC-Type: metadata", "WARC-Record-ID: "+ids[1], "WARC-Date: 2001-02-03T04:05:06Z", "WARC-Target-URI: filedesc://first.arc", "WARC-Refers-To: "+ids[0],
			"WARC-Block-Digest: sha256:"+sumOf(about), "Content-Type: text/plain", "WARC-Warcinfo-ID: "+ids[0]) +
		record(page, "WARC/1.1", "WARC-Type: response", "WARC-Record-ID: "+ids[2], "WARC-Date: 2001-02-03T04:05:07Z", "WARC-Target-URI: http://a.example/", "WARC-IP-Address: 192.0.2.1",
			"WARC-Block-Digest: sha256:"+sumOf(page), "WARC-Payload-Digest: sha256:"+sumOf("<p>"), "Content-Type: application/http; msgtype=response", "WARC-Warcinfo-ID: "+ids[0]) +
		record(dns, "WARC/1.1", "WARC-Type: resource", "WARC-Record-ID: "+ids[3], "WARC-Date: 2001-02-03T04:05:06Z", "WARC-Target-URI: dns:a.example", "WARC-IP-Address: 192.0.2.53",
			"WARC-Block-Digest: sha256:"+sumOf(dns), "WARC-Payload-Digest: sha256:"+sumOf(dns), "Content-Type: text/dns", "WARC-Warcinfo-ID: "+ids[0])
	if string(b) != want {
		t.Errorf("got:\n%s\nwant:\n%s", b, want)
	}
	if result.Read != 3 || result.Sum.Records != 4 {
		t.Errorf("%d records were read, %d written", result.Read, result.Sum.Records)
	}
	for i, id := range ids {
		if len(id) != len("<urn:uuid:00000000-0000-5000-8000-000000000000>") || !strings.HasPrefix(id, "<urn:uuid:") || id[24] != '5' || slices.Index(ids, id) != i {
			t.Errorf("%s is not an id of its own of version 5", id)
		}
	}
}

// TestStable: the same file always becomes the same, and ids are those of records
// in another form.
func TestStable(t *testing.T) {
	in := arcFile(arcRecord("http://a.example/"+usual, page), arcRecord("http://a.example/"+usual, page), arcRecord("http://b.example/"+usual, page))
	var files [][]byte
	for range 2 {
		b, _ := to(t, in, Options{From: "a.arc", To: "a.warc.gz"})
		files = append(files, b)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("converting twice gives two files")
	}
	ids := func(b []byte) (all []string) {
		for _, r := range readAll(t, b) {
			all = append(all, r.get("WARC-Record-ID"))
		}
		return all
	}
	want := ids(files[0])
	var packed bytes.Buffer
	for _, part := range bytes.SplitAfter(in, []byte("<p>\n")) {
		z := gzip.NewWriter(&packed)
		z.Write(part)
		z.Close()
	}
	old, _ := to(t, packed.Bytes(), Options{From: "a.arc", To: "a.warc.gz", Version: warc.V1_0})
	if got := ids(old); !slices.Equal(got, want) {
		t.Errorf("ids %q of 1.0 and compressed, %q of 1.1", got, want)
	}
	other, _ := to(t, in, Options{From: "b.arc", To: "a.warc.gz"})
	for i, id := range ids(other) {
		if slices.Contains(want, id) || slices.Contains(want[:i], want[i]) {
			t.Errorf("the id %s is used twice", id)
		}
	}
}

func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		name, line, block string
		want              warc.Header // what it has, and "" for what it has not
		line2             bool        // the line is kept in a record of its own
		found             bool
	}{
		{"chunked", "http://a/" + usual, chunked, warc.Header{{Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("<p>")}}, false, false},
		{"chunked in the head only", "http://a/" + usual, strings.Replace(chunked, "3\r\n<p>\r\n0\r\n\r\n", "<html>", 1), warc.Header{{Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("<html>")}}, false, false},
		{"broken chunks", "http://a/" + usual, chunked + "3\r\n", warc.Header{{Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("<p>")}}, false, false},
		{"broken chunk", "http://a/" + usual, strings.Replace(chunked, "0\r\n", "zz", 1), warc.Header{{Name: "WARC-Payload-Digest"}, {Name: "WARC-Type", Value: "response"}}, false, true},
		{"no HTTP that is known", "http://a/" + usual, "HTTP/x\r\n\r\n", warc.Header{{Name: "WARC-Type", Value: "response"}, {Name: "WARC-Payload-Digest"}}, true, true},
		{"shorter than it says", "http://a/" + usual, "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nabc", warc.Header{{Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("abc")}, {Name: "WARC-Truncated"}}, false, false},
		{"longer than it says", "http://a/" + usual, "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nabc", warc.Header{{Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("abc")}}, false, false},
		{"HTTP/0.9", "http://a/" + usual, "<p>", warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "Content-Type", Value: "text/html"}, {Name: "WARC-Payload-Digest", Value: "sha256:" + sumOf("<p>")}}, false, false},
		{"https", "HTTPS://a/" + usual, page, warc.Header{{Name: "WARC-Type", Value: "response"}}, false, false},
		{"ftp", "ftp://a/b 192.0.2.1 20010203040507 no-type", "HTTP/1.0 200", warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "Content-Type", Value: "application/octet-stream"}}, false, false},
		{"odd type", "ftp://a/b 192.0.2.1 20010203040507 what is it", "x", warc.Header{{Name: "Content-Type", Value: "application/octet-stream"}}, true, false},
		{"parameter", "ftp://a/b 192.0.2.1 20010203040507 a/b; c=d", "x", warc.Header{{Name: "Content-Type", Value: "a/b; c=d"}}, false, false},
		{"another type", "http://a/ 192.0.2.1 20010203040507 image/png", page, warc.Header{{Name: "Content-Type", Value: "application/http; msgtype=response"}}, true, false},
		{"no type", "http://a/ 192.0.2.1 20010203040507 no-type", "HTTP/1.0 200 OK\r\n\r\nx", nil, false, false},
		{"space", "http://a/b c?d\x80" + usual, page, warc.Header{{Name: "WARC-Target-URI", Value: "http://a/b%20c?d%80"}}, true, false},
		{"port", "http://a:80/#b" + usual, page, warc.Header{{Name: "WARC-Target-URI", Value: "http://a:80/#b"}}, false, false},
		{"no address", "http://a/ 0.0.0.0 20010203040507 text/html", page, warc.Header{{Name: "WARC-IP-Address"}}, false, false},
		{"IPv6", "http://a/ 2001:DB8::1 20010203040507 text/html", page, warc.Header{{Name: "WARC-IP-Address", Value: "2001:db8::1"}}, false, false},
		{"a name", "http://a/ host 20010203040507 text/html", page, warc.Header{{Name: "WARC-IP-Address"}}, true, false},
		{"minute", "http://a/ 192.0.2.1 200102030405 text/html", page, warc.Header{{Name: "WARC-Date", Value: "2001-02-03T04:05:00Z"}}, true, false},
		{"milliseconds", "http://a/ 192.0.2.1 20010203040506789 text/html", page, warc.Header{{Name: "WARC-Date", Value: "2001-02-03T04:05:06.789Z"}}, false, false},
		{"no such date", "http://a/ 192.0.2.1 20011303040507 text/html", page, warc.Header{{Name: "WARC-Date", Value: "2001-02-03T04:05:06Z"}}, true, true},
		{"version 2", "http://a/" + usual + " 200 abc - 209 f.arc", page, warc.Header{{Name: "WARC-Type", Value: "response"}}, true, false},
	} {
		all, found := fromARC(t, Options{}, arcRecord(c.line, c.block))
		r := all[0]
		for _, f := range c.want {
			if got := r.get(f.Name); got != f.Value {
				t.Errorf("%s: %s is %q, want %q", c.name, f.Name, got, f.Value)
			}
		}
		if r.block != c.block || r.get("WARC-Block-Digest") != "sha256:"+sumOf(c.block) {
			t.Errorf("%s: the block is %q", c.name, r.block)
		}
		if (len(found) > 0) != c.found {
			t.Errorf("%s: found %q", c.name, found)
		}
		if (len(all) == 2) != c.line2 {
			t.Errorf("%s: %d records", c.name, len(all))
		} else if c.line2 {
			if m := all[1]; m.get("WARC-Refers-To") != r.get("WARC-Record-ID") || m.block != fmt.Sprintf("%s %d\n", c.line, len(c.block)) {
				t.Errorf("%s: its line is kept as %+v", c.name, m)
			}
		}
	}
}

// TestLengths: a length that is wrong is told of, and nothing of the block lost.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		name, block, truncated string
		length                 int
	}{
		{"long", "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nabc", "unspecified", 199},
		{"long, but the block has all", "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nabc", "", 199},
		{"long, and the block has not", "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nabc", "unspecified", 199},
		{"long, and chunked in the head only", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n<p>", "unspecified", 199},
		{"short", "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nabc", "", 3},
	} {
		all, found := fromARC(t, Options{}, fmt.Sprintf("http://a/%s %d\n%s", usual, c.length, c.block))
		if r := all[0]; r.block != c.block || r.get("WARC-Truncated") != c.truncated {
			t.Errorf("%s: %+v", c.name, r)
		}
		if len(found) != 1 || len(all) != 2 {
			t.Errorf("%s: found %q, and %d records", c.name, found, len(all))
		}
	}
}

func TestWithoutFiledesc(t *testing.T) {
	b, _ := to(t, []byte(arcRecord("http://a/"+usual, page)), Options{From: "a\x01\xff.arc", To: "b"})
	all := readAll(t, b)
	if len(all) != 2 || all[0].get("WARC-Type") != "warcinfo" || all[0].get("WARC-Date") != "2001-02-03T04:05:07Z" || !strings.Contains(all[0].block, "isFormatOf: a__.arc\r\n") {
		t.Errorf("got %+v", all)
	}
	_, err := ARC(context.Background(), io.Discard, strings.NewReader(arcRecord("http://a/ 192.0.2.1 20011303040507 text/html", page)), Options{})
	if err == nil {
		t.Error("a record without a date is converted in a file without one")
	}
	two := append(arcFile(arcRecord("http://a/"+usual, page)), arcFile(arcRecord("http://a/"+usual, page))...)
	b, _ = to(t, two, Options{From: "a", To: "b"})
	all = readAll(t, b)
	if len(all) != 6 || all[3].get("WARC-Type") != "warcinfo" || all[5].get("WARC-Warcinfo-ID") != all[3].get("WARC-Record-ID") || all[3].get("WARC-Record-ID") == all[0].get("WARC-Record-ID") {
		t.Errorf("of two files in one became %+v", all)
	}
}

func TestBadARC(t *testing.T) {
	for _, in := range []string{string(arcFile(strings.Repeat("garbage\n", 1000))), "filedesc\n", ""} {
		var damage *arc.Error
		if _, err := ARC(context.Background(), io.Discard, strings.NewReader(in), Options{}); !errors.As(err, &damage) && !errors.Is(err, ErrNoRecords) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestTargetURIs(t *testing.T) {
	for in, want := range map[string]string{
		"http://a/b c":                          "http://a/b%20c",
		"http://a:80/%zz%41#x#y":                "http://a:80/%25zz%41#x%23y",
		"http://[2001:db8::1]:80/[x]":           "http://[2001:db8::1]:80/%5Bx%5D",
		"http://u:p@[2001:db8::1]:80/":          "http://u:p@[2001:db8::1]:80/",
		"http://[2001:db8::1]":                  "http://[2001:db8::1]",
		"http://www.a.example]www.b.example/":   "http://www.a.example%5Dwww.b.example/",
		"http://u ser@a:1/?q=\"":                "http://u%20ser@a:1/?q=%22",
		"http://a/\u00e9|\\^`{}<>":              "http://a/%C3%A9%7C%5C%5E%60%7B%7D%3C%3E",
		"dns:a.example":                         "dns:a.example",
		"http://":                               "http://",
		"http://a?b/c@d:e":                      "http://a?b/c@d:e",
		"http://www.b.com%3Fnats=s:p:B,0,0,0,0": "http://www.b.com%3Fnats=s:p:B,0,0,0,0",
	} {
		if got := targetURI(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestSamples converts archives of other writers, from the folder in
// WARCTEE_SAMPLES: an ARC file holds what the WARC file beside it holds.
func TestSamples(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, "warcio", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	response := func(b []byte) kept {
		for _, r := range readAll(t, b) {
			if r.get("WARC-Type") == "response" {
				return r
			}
		}
		t.Fatal("there is no response")
		return kept{}
	}
	_, body, _ := strings.Cut(response(read("example.warc")).block, "\r\n\r\n")
	z, err := gzip.NewReader(strings.NewReader(body)) // later it was sent so
	if err != nil {
		t.Fatal(err)
	}
	payload, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for name, uri := range map[string]string{
		"example.arc": "http://example.com/", "example.arc.gz": "http://example.com/",
		"example-space-in-url.arc": "http://example.com/index.cfm?FuseAction=Email&EmailTitle=Examples%20From%20The%20Live%20Web&IsPopUp=False",
	} {
		b, _ := to(t, read(name), Options{From: name, To: "x"})
		r := response(b)
		if r.get("WARC-Target-URI") != uri || r.get("WARC-Date") != "2014-02-16T05:02:21Z" || r.get("WARC-IP-Address") != "93.184.216.119" {
			t.Errorf("%s: %v", name, r.header)
		}
		if got := r.get("WARC-Payload-Digest"); got != "sha256:"+sumOf(string(payload)) {
			t.Errorf("%s: the payload is not that of example.warc: %v", name, got)
		}
	}
	if form, err := FormOf(bytes.NewReader(read("bad.arc")), "bad.arc"); err != nil || !form.ARC {
		t.Errorf("bad.arc: %v, %v", form, err)
	}
	complaints := 0
	to(t, read("bad.arc"), Options{From: "bad.arc", To: "x", Found: func(int64, string) { complaints++ }})
	if complaints < 3 {
		t.Errorf("bad.arc: there are %d complaints about its 3 damaged lines", complaints)
	}
	for _, name := range []string{"example.warc.gz", "example-wrong-chunks.warc.gz", "example-bad-non-chunked.warc.gz", "example-resource.warc.gz", "post-test.warc.gz", "example-wget-bad-target-uri.warc.gz"} {
		in := read(name)
		for _, o := range []Options{{Compression: warc.Zstd}, {Compression: warc.Plain, Version: warc.V1_1}, {Version: warc.V1_0}} {
			b, _ := to(t, in, o)
			if got, want := readAll(t, b), readAll(t, in); !slices.EqualFunc(got, want, func(a, b kept) bool { return a.block == b.block || a.get("WARC-Type") == "warcinfo" }) {
				t.Errorf("%s: other blocks", name)
			}
		}
	}
}
