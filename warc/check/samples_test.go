package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warctee/warctee/warc/check"
)

// TestSamples checks archives of other writers, from the folder in
// WARCTEE_SAMPLES. They break our rules, but not those that say that what is
// written is not true.
func TestSamples(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	untrue := []string{"member", "version", "header", "length", "end", check.RuleBlockDigest, check.RulePayloadDigest, check.RuleHTTPHead, check.RuleHTTPBody, check.RuleUniqueID}
	for name, want := range map[string][]string{
		"iipc/20130729-heritrix-original.warc.gz":    nil,
		"iipc/20141129-heritrix-original.warc.gz":    nil,
		"iipc/hello-world.warc.gz":                   nil,
		"iipc/hello-world.warc":                      nil,
		"warcio/example.warc":                        nil,
		"warcio/example.warc.gz":                     {check.RulePayloadDigest, check.RulePayloadDigest}, // of requests without a body
		"warcio/example-iana.org-chunked.warc":       {check.RulePayloadDigest},                          // over the chunk framing
		"warcio/post-test.warc.gz":                   nil,
		"warcio/example-resource.warc.gz":            nil,
		"warcio/example-wget-bad-target-uri.warc.gz": nil,
	} {
		report, err := check.Files(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, f := range report.Findings {
			if slices.Contains(untrue, f.Rule) {
				got = append(got, f.Rule)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: broken rules %q, want %q: %v", name, got, want, report.Findings)
		}
	}
}
