package main

import (
	"crypto/tls"
	"path/filepath"
	"testing"

	"github.com/warctee/warctee/warc/warctest"
)

// What is recorded of replies that are none, and of certificates that are not
// trusted, is read by others as what it is: no response, no payload of the page.
func TestIndependentReaderOfOddRecords(t *testing.T) {
	script := foreignScript(t)
	for _, version := range []string{"1.1", "1.0"} {
		t.Run(version, func(t *testing.T) {
			x := newScene(t, true, func(f *recordFlags) {
				f.insecure, f.dedup = true, "off"
				if err := f.version.Set(version); err != nil {
					t.Fatal(err)
				}
			})
			certificate := selfSigned(t, 0)
			get := func() (*tls.Certificate, error) { return &certificate, nil }
			x.origin.certificate.Store(&get)
			c := x.client()
			x.reusable(c)
			x.wants[0].untrusted = "unknown authority"
			bad := []string{"SSH-2.0-x\r\n", "\x00\xff\r\n\r\n", "WARC/1.1\r\nWARC-Type: forged\r\n\r\n", "HTTP/1.1 2x0 OK\r\nContent-Length: 3\r\n\r\nabc"}
			for _, reply := range bad {
				o, request := x.get(c, "/bad")
				o.send(reply)
				if got := c.reply("GET"); got.status != 502 {
					t.Errorf("the client got %d", got.status)
				}
				x.want(wanted{uri: x.uri("/bad"), request: request, response: reply, instead: true, atLeast: 1, truncated: "unspecified", untrusted: "unknown authority"})
			}
			x.finish()
			records := warctest.Check(t, x.flags.dir)
			theirs := readForeign(t, script, records)
			if len(theirs) != len(records) {
				t.Fatalf("warcio finds %d records, we find %d", len(theirs), len(records))
			}
			kinds := make(map[string]int)
			for i := range records {
				r := &records[i]
				kinds[r.Type]++
				block, err := r.Block()
				if err != nil {
					t.Fatal(err)
				}
				got := theirs[i]
				if got.File != filepath.Base(r.File) || got.Type != r.Type || got.ID != r.ID || got.URI != r.TargetURI || got.Date != r.Date || got.Block != bytesForComparison(block) {
					t.Errorf("warcio reads %+v, we read %+v", got, r)
				}
				if other := r.Type == "resource" || r.Type == "metadata"; other && (got.Start != "" || got.Payload != got.Block) {
					t.Errorf("to warcio the %s is an HTTP message: %+v", r.Type, got)
				}
			}
			if n := 1 + len(bad); kinds["request"] != n || kinds["metadata"] != n || kinds["resource"] != len(bad) || kinds["response"] != 1 {
				t.Errorf("there are %v", kinds)
			}
		})
	}
}
