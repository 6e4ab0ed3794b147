package warc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestSamples reads archives of other writers, from the folder in
// WARCTEE_SAMPLES.
func TestSamples(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	for _, c := range []struct {
		name       string
		records    int    // that a tolerant reader gets
		rule       string // that it meets then
		strict     int
		strictRule string
	}{
		{"iipc/hello-world.warc", 6, "", 6, ""},
		{"iipc/hello-world.warc.gz", 6, "", 6, ""},
		{"iipc/20130729-heritrix-original.warc.gz", 1, "", 1, ""},
		{"iipc/20141129-heritrix-original.warc.gz", 1, "", 1, ""},
		{"iipc/20130729-heritrix-revisit-with-http-headers.warc.gz", 1, "", 1, ""},
		{"iipc/20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz", 1, "", 1, ""},
		{"iipc/20141124-heritrix-server-not-modified.warc.gz", 1, "", 0, RuleEnd},
		{"warcio/example.warc", 6, "", 6, ""},
		{"warcio/example.warc.gz", 6, "", 6, ""},
		{"warcio/example-digest.warc", 4, "", 4, ""},
		{"warcio/example-iana.org-chunked.warc", 3, "", 3, ""},
		{"warcio/example-resource.warc.gz", 3, "", 3, ""},
		{"warcio/example-space-in-target-uri.warc.gz", 2, "", 2, ""},
		{"warcio/example-wget-bad-target-uri.warc.gz", 6, "", 6, ""},
		{"warcio/post-test.warc.gz", 6, "", 6, ""},
		{"warcio/example-bad-non-chunked.warc.gz", 6, "", 0, RuleMember},
		{"warcio/example-bad.warc.gz.bad", 6, "", 0, RuleMember},
		{"warcio/example-wrong-chunks.warc.gz", 2, "", 0, RuleLength},
		{"warcio/example-trunc.warc", 3, RuleVersion, 2, RuleEnd},
		{"warcio/example.arc", 0, RuleVersion, 0, RuleVersion},
		{"warcio/example.arc.gz", 0, RuleVersion, 0, RuleVersion},
	} {
		in, err := os.Open(filepath.Join(dir, c.name))
		if err != nil {
			t.Error(err)
			continue
		}
		all, err := readAll(in, false)
		if len(all) != c.records || brokenRule(err) != c.rule {
			t.Errorf("%s: %d records, %v", c.name, len(all), err)
		}
		in.Seek(0, 0)
		all, err = readAll(in, true)
		if len(all) != c.strict || brokenRule(err) != c.strictRule {
			t.Errorf("%s, strict: %d records, %v", c.name, len(all), err)
		}
		in.Close()
	}
}

func brokenRule(err error) string {
	e := (*Error)(nil)
	if errors.As(err, &e) {
		return e.Rule
	}
	return ""
}
