package convert

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// errorsIn returns what package check calls an error in a file of that name.
func errorsIn(t *testing.T, name string, b []byte) (found []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := check.Run(context.Background(), []string{path}, check.Options{Complete: true}, func(f check.Finding) {
		if f.Severity == check.Error {
			found = append(found, f.String())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// goodFile is a file of version 1.1 as warctee writes it.
func goodFile() string {
	info := "software: x\r\nformat: WARC File Format 1.1\r\nconformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
	id := func(n string) string { return "<urn:uuid:00000000-0000-4000-8000-00000000000" + n + ">" }
	const request, response, notModified = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: image/bmp\r\nContent-Length: 6\r\n\r\nbitmap", "HTTP/1.1 304 Not Modified\r\n\r\n"
	head, _, _ := strings.Cut(response, "bitmap")
	common := func(kind, n, date, block string, more ...string) string {
		return record(block, append([]string{"WARC/1.1", "WARC-Type: " + kind, "WARC-Record-ID: " + id(n), "WARC-Date: " + date,
			"WARC-Target-URI: http://a.example/a", "WARC-Block-Digest: sha256:" + sumOf(block), "WARC-Warcinfo-ID: " + id("0")}, more...)...)
	}
	original := []string{"WARC-Refers-To: " + id("2"), "WARC-Refers-To-Target-URI: http://a.example/a", "WARC-Refers-To-Date: 2020-02-03T04:05:06.789Z",
		"WARC-Payload-Digest: sha256:" + sumOf("bitmap"), "Content-Type: application/http; msgtype=response"}
	return record(info, "WARC/1.1", "WARC-Type: warcinfo", "WARC-Record-ID: "+id("0"), "WARC-Date: 2020-02-03T04:05:06.000Z", "WARC-Filename: good.warc",
		"WARC-Block-Digest: sha256:"+sumOf(info), "Content-Type: application/warc-fields") +
		common("request", "1", "2020-02-03T04:05:06.789Z", request, "WARC-Concurrent-To: "+id("2"), "Content-Type: application/http; msgtype=request") +
		common("response", "2", "2020-02-03T04:05:06.789Z", response, "WARC-Concurrent-To: "+id("1"), "WARC-IP-Address: 192.0.2.1",
			"WARC-Payload-Digest: sha256:"+sumOf("bitmap"), "Content-Type: application/http; msgtype=response") +
		common("revisit", "3", "2020-02-03T04:05:07.001Z", head, append(original, "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", "WARC-Truncated: length")...) +
		common("revisit", "4", "2020-02-03T04:05:08.999Z", notModified, append(original, "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified")...) +
		common("metadata", "5", "2020-02-03T04:05:06.789Z", "via: http://b.example/\r\n", "WARC-Refers-To: "+id("2"), "Content-Type: application/warc-fields")
}

// TestChecked: what was right is right in every form, and so is what is made
// here.
func TestChecked(t *testing.T) {
	good := goodFile()
	if found := errorsIn(t, "good.warc", []byte(good)); len(found) > 0 {
		t.Fatalf("the file is not good to begin with: %q", found)
	}
	transform := &Transform{Command: []string{"tr", "a-z", "A-Z"}, Type: "image/bmp", NewType: "image/png", Date: time.Unix(1600000000, 5e8)}
	for name, o := range map[string]Options{
		"gzip":     {},
		"zstd":     {Compression: warc.Zstd},
		"1.0":      {Compression: warc.Plain, Version: warc.V1_0},
		"1.0 gzip": {Version: warc.V1_0},
		"with":     {Compression: warc.Plain, Transform: transform},
		"all":      {Compression: warc.Zstd, Version: warc.V1_0, Transform: transform},
	} {
		o.From, o.To = "good.warc", "made.warc"+o.Compression.Suffix()
		b, _ := to(t, []byte(good), o)
		if found := errorsIn(t, o.To, b); len(found) > 0 {
			t.Errorf("%s: %q", name, found)
		}
	}
	in := arcFile(arcRecord("http://a.example/"+usual, page), arcRecord("http://a.example/b c"+usual, chunked), arcRecord("ftp://a.example/"+usual, "x"),
		arcRecord("dns:a.example 192.0.2.53 20010203040506 text/dns", "20010203040506\na.example. 60 IN A 192.0.2.1\n"),
		arcRecord("http://a.example/2"+usual+" 200 abc - 209 f.arc", page), arcRecord("http://a.example/0.9 0.0.0.0 200102030405 text/html", "<p>"))
	for name, o := range map[string]Options{"gzip": {}, "zstd": {Compression: warc.Zstd}, "1.0": {Compression: warc.Plain, Version: warc.V1_0}} {
		o.From, o.To, o.Software = "a.arc", "made.warc"+o.Compression.Suffix(), "test/1"
		b, _ := to(t, in, o)
		if found := errorsIn(t, o.To, b); len(found) > 0 {
			t.Errorf("ARC to %s: %q", name, found)
		}
	}
}
