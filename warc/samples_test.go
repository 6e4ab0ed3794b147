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
	for name, want := range map[string]struct {
		records int
		strict  bool   // all of it
		rule    string // where reading ends
	}{
		"iipc/hello-world.warc":                        {},
		"iipc/hello-world.warc.gz":                     {},
		"iipc/20130729-heritrix-original.warc.gz":      {},
		"iipc/20141129-heritrix-original.warc.gz":      {},
		"iipc/20141124-heritrix-server-not-modified.warc.gz": {},
		"warcio/example.warc": {},
	} {
		_ = want
		_ = name
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		for _, strict := range []bool{false, true} {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			all, err := readAll(f, strict)
			f.Close()
			e := (*Error)(nil)
			if err != nil && !errors.As(err, &e) {
				t.Error(err)
			}
			t.Logf("%s strict=%v: %d records, %v", filepath.Base(path), strict, len(all), err)
		}
	}
}
