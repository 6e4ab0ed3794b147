package cdx

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// samples is the folder with archives of other writers.
func samples(t *testing.T) string {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	return dir
}

// The primer's example comes with an index that another tool has made.
func TestSampleCDX(t *testing.T) {
	dir := samples(t)
	b, err := os.ReadFile(filepath.Join(dir, "iipc", "hello-world.warc.cdx"))
	if err != nil {
		t.Fatal(err)
	}
	// That tool does not turn the host of metadata://gnu.org/ round.
	want := slices.Collect(strings.Lines(strings.ReplaceAll(string(b), "metadata)/gnu.org/", "org,gnu)/")))
	slices.Sort(want)
	_, got := index(t, Options{Format: CDX11}, filepath.Join(dir, "iipc", "hello-world.warc"))
	if !slices.Equal(got, want) {
		t.Errorf("the index is\n%swant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

func TestSamples(t *testing.T) {
	dir := samples(t)
	for _, c := range []struct {
		name           string
		lines, damaged int
		has            string
	}{
		{"iipc/hello-world.warc.gz", 4, 0, `"length": "723", "offset": "907"`},
		{"iipc/20130729-heritrix-original.warc.gz", 1, 0, `uk,bl)/ 20130729090043 {"url": "http://www.bl.uk/", "mime": "text/html", "status": "200", "digest": "USUDYFY6UJJK63UC7CCM7G37JIIFIAW2", "length": "13526", "offset": "0"`},
		{"iipc/20130729-heritrix-revisit-with-http-headers.warc.gz", 1, 0, `"mime": "warc/revisit", "status": "200", "digest": "USUDYFY6UJJK63UC7CCM7G37JIIFIAW2"`},
		{"iipc/20141124-heritrix-server-not-modified.warc.gz", 1, 0, `"mime": "warc/revisit", `},
		{"warcio/example.warc", 2, 0, `"length": "942", "offset": "3370"`},
		{"warcio/example.warc.gz", 2, 0, `"length": "586", "offset": "2621"`},
		{"warcio/example-digest.warc", 0, 0, ""}, // requests
		{"warcio/example-iana.org-chunked.warc", 1, 0, `"length": "7970", "offset": "405"`},
		{"warcio/example-resource.warc.gz", 1, 0, `"digest": "YXLHEZO6YIEPLHABGCQ2TM24WROPX6ZG", "length": "977", "offset": "802"`},
		{"warcio/example-space-in-target-uri.warc.gz", 1, 0, `file:/example%20with%20spaces.png 20190619161643 `},
		{"warcio/example-wget-bad-target-uri.warc.gz", 4, 0, `"url": "http://example.com/"`},
		{"warcio/example-wrong-chunks.warc.gz", 1, 0, `"status": "200"`},
		{"warcio/post-test.warc.gz", 3, 0, `org,httpbin)/post?__wb_method=post&a=1&b=[]&c=3 20140610001151 `},
		// These two are in the tests of pywb, with the same values.
		{"warcio/example.arc", 1, 0, `com,example)/ 20140216050221 {"url": "http://example.com/", "mime": "text/html", "status": "200", "digest": "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "length": "1656", "offset": "151"`},
		{"warcio/example.arc.gz", 1, 0, `com,example)/ 20140216050221 {"url": "http://example.com/", "mime": "text/html", "status": "200", "digest": "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "length": "856", "offset": "171"`},
		{"warcio/example-space-in-url.arc", 1, 1, `com,example)/index.cfm?emailtitle=examples%20from%20the%20live%20web&fuseaction=email&ispopup=false 20140216050221 `},
		{"warcio/example-trunc.warc", 1, 1, `"length": "1363", "offset": "1197"`},
		{"warcio/example-bad.warc.gz.bad", 0, 1, ""},
		{"warcio/example-bad-non-chunked.warc.gz", 0, 1, ""},
	} {
		summary, lines := index(t, Options{}, filepath.Join(dir, c.name))
		if len(lines) != c.lines || len(summary.Damaged) != c.damaged || !strings.Contains(strings.Join(lines, ""), c.has) {
			t.Errorf("%s: %v\n%s", c.name, summary, strings.Join(lines, ""))
		}
	}
}
