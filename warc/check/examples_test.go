package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// TestExamples: the records of the examples in WARC 1.1, Annex B, and 1.0, Annex C,
// are good. Their fields are here as they are there, but for the digests and
// lengths of what the annexes leave out.
func TestExamples(t *testing.T) {
	const (
		info   = "<urn:uuid:d7ae5c10-e6b3-4d27-967d-34780c58ba39>"
		reply  = "<urn:uuid:92283950-ef2f-4d72-b224-f54c6ec90bb0>"
		origin = "<urn:uuid:39509228-ae2f-11b2-763a-aa4c6ec90bb0>"
		logo   = "http://www.archive.org/images/logoc.jpg"
	)
	image := strings.Repeat("\xff\xd8\x00", 554) // 1662 octets
	head := "HTTP/1.1 200 OK\r\nDate: Tue, 19 Sep 2016 17:18:40 GMT\r\nETag: \"3e45-67e-2ed02ec0\"\r\nAccept-Ranges: bytes\r\nContent-Length: 1662\r\nConnection: close\r\nContent-Type: image/jpeg\r\n\r\n"
	for version, date := range map[string]string{"1.1": "2016-09-19T17:20:24Z", "1.0": "2006-09-19T17:20:24Z"} {
		of := func(block, payload string, lines ...string) string {
			r := strings.NewReplacer("BLOCK", sha1Of(block), "PAYLOAD", sha1Of(payload), "DATE", date, "LOGO", logo, "REPLY", reply, "ORIGIN", origin, "INFO", info, "VERSION", version)
			return record(version, block, strings.Split(r.Replace(strings.Join(lines, "\n")), "\n")...)
		}
		request := "GET /images/logoc.jpg HTTP/1.0\r\nUser-Agent: Mozilla/5.0 (compatible; heritrix/1.10.0)\r\nFrom: stack@example.org\r\nConnection: close\r\nHost: www.archive.org\r\n\r\n"
		var refers []string
		if version == "1.1" {
			refers = []string{"WARC-Refers-To-Target-URI: LOGO", "WARC-Refers-To-Date: DATE"}
		}
		files := []string{
			of("software: Heritrix 1.12.0 http://crawler.archive.org\r\nhostname: crawling017.archive.org\r\nip: 207.241.227.234\r\nhttp-header-user-agent:\r\n Mozilla/5.0 (compatible; heritrix/1.4.0)\r\nformat: WARC file version "+version+"\r\n", "",
				"WARC-Type: warcinfo", "WARC-Date: 2006-09-19T17:20:14Z", "WARC-Record-ID: INFO", "Content-Type: application/warc-fields") +
				of(head+image, image, "WARC-Type: response", "WARC-Target-URI: LOGO", "WARC-Warcinfo-ID: INFO", "WARC-Date: DATE", "WARC-Block-Digest: sha1:BLOCK", "WARC-Payload-Digest: sha1:PAYLOAD", "WARC-IP-Address: 207.241.233.58",
					"WARC-Record-ID: REPLY", "Content-Type: application/http;msgtype=response", "WARC-Identified-Payload-Type: image/jpeg") +
				of(image, image, "WARC-Type: resource", "WARC-Target-URI: file://var/www/htdoc/images/logoc.jpg", "WARC-Date: 2016-09-30T16:40:32Z", "WARC-Record-ID: <urn:uuid:23200706-de3e-3c61-a131-g65d7fd80cc1>",
					"Content-Type: image/jpeg", "WARC-Payload-Digest: sha1:PAYLOAD", "WARC-Block-Digest: sha1:BLOCK") +
				of(request, "", "WARC-Type: request", "WARC-Target-URI: LOGO", "WARC-Warcinfo-ID: INFO", "WARC-Date: DATE", "WARC-Record-ID: <urn:uuid:4885803b-eebd-4b27-a090-144450c11594>",
					"Content-Type: application/http;msgtype=request", "WARC-Concurrent-To: REPLY") +
				of("via: http://www.archive.org/\r\nhopsFromSeed: E\r\nfetchTimeMs: 565\r\n", "", "WARC-Type: metadata", "WARC-Target-URI: LOGO", "WARC-Date: DATE", "WARC-Record-ID: <urn:uuid:16da6da0-bcdc-49c3-927e-57494593b943>",
					"WARC-Concurrent-To: REPLY", "Content-Type: application/warc-fields", "WARC-Block-Digest: sha1:BLOCK") +
				of("HTTP/1.x 304 Not Modified\r\nDate: Tue, 06 Mar 2017 00:43:35 GMT\r\nKeep-Alive: timeout=15, max=100\r\nEtag: \"3e45-67e-2ed02ec0\"\r\n\r\n", "", append([]string{"WARC-Type: revisit", "WARC-Target-URI: LOGO", "WARC-Date: 2017-06-23T12:43:35Z",
					"WARC-Profile: http://netpreserve.org/warc/VERSION/server-not-modified", "WARC-Record-ID: <urn:uuid:16da6da0-bcdc-49c3-927e-57494593bbbb>", "WARC-Refers-To: REPLY", "Content-Type: message/http"}, refers...)...) +
				of("neoimg", "", "WARC-Type: conversion", "WARC-Target-URI: LOGO", "WARC-Date: 2026-09-19T19:00:40Z", "WARC-Record-ID: <urn:uuid:27ef1r9j-defr-25f9-328r-16859347dddd>", "WARC-Refers-To: REPLY", "WARC-Block-Digest: sha1:BLOCK", "Content-Type: image/neoimg"),
			of(head+image[:1360], image, "WARC-Type: response", "WARC-Target-URI: LOGO", "WARC-Date: DATE", "WARC-Block-Digest: sha1:BLOCK", "WARC-Payload-Digest: sha1:PAYLOAD", "WARC-IP-Address: 207.241.233.58",
				"WARC-Record-ID: ORIGIN", "WARC-Segment-Number: 1", "Content-Type: application/http;msgtype=response"),
			of(image[1360:], image, "WARC-Type: continuation", "WARC-Target-URI: LOGO", "WARC-Date: DATE", "WARC-Block-Digest: sha1:BLOCK", "WARC-Payload-Digest: sha1:PAYLOAD", "WARC-Record-ID: <urn:uuid:70653950-a77f-b212-e434-7a7c6ec909ef>",
				"WARC-Segment-Origin-ID: ORIGIN", "WARC-Segment-Number: 2", fmt.Sprintf("WARC-Segment-Total-Length: %d", len(head)+len(image)), "WARC-Identified-Payload-Type: image/jpeg"),
		}
		var paths []string
		for _, file := range files {
			paths = append(paths, writeFile(t, "a.warc", []byte(file)))
		}
		// The profile in the examples is not the one of §6.7.3, and two of the
		// files do not start with a warcinfo.
		wantWarnings(t, version, "profile warcinfo warcinfo", paths...)
	}
}

// TestSamples checks archives of other writers, from the folder in
// WARCTEE_SAMPLES. Good ones have no errors.
func TestSamples(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	for name, want := range map[string]string{ // errors only
		"iipc/hello-world.warc":                                                         "",
		"iipc/hello-world.warc.gz":                                                      "",
		"iipc/20130729-heritrix-original.warc.gz":                                       "",
		"iipc/20130729-heritrix-revisit-with-http-headers.warc.gz":                      "",
		"iipc/20141129-heritrix-original.warc.gz":                                       "",
		"iipc/20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz": "",
		"iipc/20141124-heritrix-server-not-modified.warc.gz":                            "", // only one CR LF behind its end
		"warcio/example.warc":                                                           "",
		"warcio/example.warc.gz":                                                        "",
		"warcio/example-resource.warc.gz":                                               "",
		"warcio/example-wget-bad-target-uri.warc.gz":                                    "", // in brackets: bad in 1.1
		"warcio/post-test.warc.gz":                                                      "",
		"warcio/example-iana.org-chunked.warc":                                          "payload-digest",                            // over the chunk framing
		"warcio/example-digest.warc":                                                    "digest-form unique-id unique-id unique-id", // one record four times
		"warcio/example-space-in-target-uri.warc.gz":                                    "target-uri",
		"warcio/example-bad-non-chunked.warc.gz":                                        "member block-digest", // one member, and octets exchanged
		"warcio/example-bad.warc.gz.bad":                                                "member",
		"warcio/example-wrong-chunks.warc.gz":                                           "length block-digest version", // members end anywhere
		"warcio/example-trunc.warc":                                                     "end",
		"warcio/example.arc":                                                            "version",
		"warcio/example.arc.gz":                                                         "version",
		"warcio/bad.arc":                                                                "version",
	} {
		findings, _ := run(t, check.Options{}, filepath.Join(dir, name))
		var got []string
		for _, f := range findings {
			if f.Severity == check.Error {
				got = append(got, f.Rule)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: errors %q, want %q: %v", name, got, want, findings)
		}
	}
	path := filepath.Join(dir, "warcio/example-iana.org-chunked.warc")
	if _, result := run(t, check.Options{RawDigests: true}, path); result.All.Errors != 0 {
		t.Errorf("%s, with its framing: %+v", path, result.All)
	}
}

// TestRulesInDocs: docs/check.md shows all rules as they are.
func TestRulesInDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, r := range check.Rules() {
		standard := string(r.Standard)
		if r.Open {
			standard += "*"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", r.Name, standard, r.Warctee, r.Cited(), r.Text)
	}
	if !strings.Contains(string(b), want.String()) {
		t.Errorf("docs/check.md does not have this table:\n%s", want.String())
	}
}

// FuzzRun: nothing panics or hangs, and what is found is within bounds.
func FuzzRun(f *testing.F) {
	for _, form := range forms {
		whole := someRecords(f, form.opts)
		f.Add(whole, uint8(0), true)
		f.Add(whole[:len(whole)-9], uint8(1), false)
		f.Add(append(whole[5:], whole...), uint8(2), true)
	}
	f.Add([]byte(first+response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", payloadDigest("x"))), uint8(0), true)
	f.Add([]byte(strings.Repeat("WARC/1.0\r\nContent-Length: 99\r\n\r\n", 20)), uint8(0), false)
	f.Fuzz(func(t *testing.T, b []byte, name uint8, strict bool) {
		o := check.Options{MaxFindings: 5, RawDigests: name > 9}
		if strict {
			o.Profile = check.Warctee
		}
		path := writeFile(t, []string{"a.warc", "a.warc.gz", "a.warc.zst"}[name%3], b)
		shown := make(map[string]int)
		result, err := check.Run(t.Context(), []string{path}, o, func(f check.Finding) {
			if shown[f.Rule]++; shown[f.Rule] > 5 || f.Offset < 0 || f.Offset > int64(len(b)) || len(f.Message) > 1100 || f.Severity == "" || f.Clause == "" {
				t.Errorf("%+v", f)
			}
		})
		if err != nil || result.All.Bytes != int64(len(b)) || result.All.Skipped > int64(len(b)) {
			t.Errorf("%+v, %v", result, err)
		}
		if result.All.Records == 0 && result.All.Errors == 0 {
			t.Error("nothing is found in a file without records")
		}
	})
}

func someRecords(f *testing.F, opts warc.WriterOptions) []byte {
	path := filepath.Join(f.TempDir(), "a")
	out, err := os.Create(path)
	if err != nil {
		f.Fatal(err)
	}
	defer out.Close()
	w := warc.NewWriter(out, opts)
	for i, typ := range []string{"warcinfo", "response", "revisit", "continuation"} {
		h := warc.Header{{Name: "WARC-Type", Value: typ}, {Name: "WARC-Record-ID", Value: id(fmt.Sprint("0", i))}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
		h.Add("WARC-Refers-To", id("01"))
		h.Add("WARC-Concurrent-To", id("01"))
		h.Add("WARC-Segment-Origin-ID", id("01"))
		h.Add("WARC-Segment-Number", fmt.Sprint(i))
		h.Add("Content-Type", "application/http")
		block := "HTTP/1.1 200 OK\r\n\r\n"
		if err := w.WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			f.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	return b
}
