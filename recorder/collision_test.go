package recorder

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// Two payloads with the same SHA-1: the start of the PDF files that Stevens,
// Bursztein, Karpman, Albertini and Markov published in 2017 (shattered.io).
func collision(t *testing.T) (a, b string) {
	decode := func(text string) string {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	const (
		start = "JVBERi0xLjMKJeLjz9MKCgoxIDAgb2JqCjw8L1dpZHRoIDIgMCBSL0hlaWdodCAzIDAgUi9UeXBlIDQgMCBSL1N1" +
			"YnR5cGUgNSAwIFIvRmlsdGVyIDYgMCBSL0NvbG9yU3BhY2UgNyAwIFIvTGVuZ3RoIDggMCBSL0JpdHNQZXJDb21w" +
			"b25lbnQgOD4+CnN0cmVhbQr/2P/+ACRTSEEtMSBpcyBkZWFkISEhISGFL+wJIzl1nDmxocY8TJfh//4B"
		one = "f0bck6a2fgE7ApqqHbJWC0XKZ9aIx/hLjEx5H+ArPfYU+G2xaQkBxWtFwVMK/t+3YDjpcnIv561yjw5JBOBGwjBX" +
			"D+nUE5ir4S71vJQr4zVCpIAtmLXXDyozLsN/rDUU503cDyzBqHTNDHgwWiFWZGEwl4lga9C/P5jNqARGKaE="
		other = "c0bckWa2fhGPApq2IbJWD/nKZ8yox/hbqEx5AwwrPeIY+G2zqQkB1d9FwU8m/t+z3DjpasIv571yjw5FvOBG0jxX" +
			"D+sUE5i7VS71oKgr4zH+pIA3uLXXHw4zLt+TrDUA603cDezBqGR5DHgsdiFWYN0wl5HQa9CvP5jNpLxGKbE="
	)
	return decode(start) + decode(one), decode(start) + decode(other)
}

// Payloads that have only their SHA-1 in common are not taken for one another,
// wherever the first is known from: the writer, or the index of an earlier
// recording.
func TestSHA1Collision(t *testing.T) {
	a, b := collision(t)
	synctest.Test(t, func(t *testing.T) {
		dir, index := t.TempDir(), dedup.NewMemory()
		dial := originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			payload := a
			if strings.HasPrefix(req.URL.Path, "/b") {
				payload = b
			}
			w.Write([]byte(payload))
		})
		open := func() *Recorder {
			return openForTest(t, Options{Dir: dir, Dial: dial, OpenIndex: opened(index), Digest: warc.SHA1})
		}
		r := open()
		recordAll(t, r, "/a1", "/b1", "/a2", "/b2")
		time.Sleep(time.Second)
		closeForTest(t, r)
		r = open()
		recordAll(t, r, "/a3", "/b3")
		closeForTest(t, r)
		records := archive(t, r)
		first := theOne(t, records, "response", "http://origin/a1")
		if other := theOne(t, records, "response", "http://origin/b1"); other.Header.Get("WARC-Payload-Digest") != first.Header.Get("WARC-Payload-Digest") {
			t.Fatal("the payloads have different digests: this test shows nothing")
		}
		for _, p := range []string{"a", "b"} {
			for _, n := range []string{"2", "3"} {
				rec := theOne(t, records, "revisit", "http://origin/"+p+n)
				if got := rec.Header.Get("WARC-Refers-To-Target-URI"); got != fmt.Sprintf("http://origin/%s1", p) {
					t.Errorf("/%s%s refers to %s", p, n, got)
				}
			}
		}
	})
}
