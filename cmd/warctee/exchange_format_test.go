package main

import (
	"strings"
	"testing"
)

// The flags that say how records look.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version, digest, profile string
		flags                          func(f *recordFlags)
	}{
		{"default", "1.1", "sha256:", "warc/1.1/revisit", func(*recordFlags) {}},
		{"sha1", "1.1", "sha1:", "warc/1.1/revisit", func(f *recordFlags) { f.digest.value = "sha1" }},
		{"1.0", "1.0", "sha256:", "warc/1.0/revisit", func(f *recordFlags) { f.version.value = "1.0" }},
		{"not compressed", "1.1", "sha256:", "warc/1.1/revisit", func(f *recordFlags) { f.compress.compression.value = "none" }},
		{"zstd", "1.1", "sha256:", "warc/1.1/revisit", func(f *recordFlags) { f.compress.compression.value = "zstd" }},
		{"skip lengths", "1.1", "sha256:", "warc/1.1/revisit", func(f *recordFlags) { f.compress.skipLengths = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBothWith(t, c.flags, func(x *scene) {
				original := x.fetch("/original", samePayload)
				x.want(original)
				again := x.fetch("/again", samePayloadAsIs)
				again.revisitOf = &original
				x.want(again)
				x.stop()
				for _, r := range x.readArchive() {
					if string(r.version) != c.version {
						x.Errorf("the %s record has version %s", r.kind(), r.version)
					}
					for _, name := range []string{"WARC-Block-Digest", "WARC-Payload-Digest"} {
						if v := r.Get(name); !strings.HasPrefix(v, c.digest) && (v != "" || name == "WARC-Block-Digest") {
							x.Errorf("%s of the %s record is %q", name, r.kind(), v)
						}
					}
					if r.kind() == "revisit" && !strings.Contains(r.Get("WARC-Profile"), c.profile) {
						x.Errorf("WARC-Profile is %q", r.Get("WARC-Profile"))
					}
				}
			})
		})
	}
}
