package recorder

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
)

// Whatever the clock says, and however often it says the same, no two files
// get one name, in one process or in several.
func TestFileNames(t *testing.T) {
	clocks := []time.Time{
		time.Unix(0, 0), time.Unix(-1, 0), time.Unix(1<<31, 0), time.Unix(1<<32, 0),
		time.Date(2016, 12, 31, 23, 59, 60, 0, time.UTC), // a leap second
		time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	good := regexp.MustCompile(`^NAME-[0-9]{17,18}-[0-9]{5}-[a-z2-7]{8}-my_host\.warc(\.gz|\.zst)?$`)
	seen := make(map[string]bool)
	for range 2 { // processes, of which the second begins in the past
		for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
			r := &Recorder{options: Options{Prefix: "NAME", Compression: compression}, host: "my/host", token: newToken()}
			for _, at := range clocks {
				for _, serial := range []int{0, 1, 99999} {
					name := r.fileName("", at, serial)
					if seen[name] {
						t.Errorf("%s is given twice", name)
					}
					seen[name] = true
					if !good.MatchString(name) || name != filepath.Base(name) || !strings.HasSuffix(name, ".warc"+compression.Suffix()) {
						t.Errorf("%q is no good name", name)
					}
				}
			}
		}
	}
}

// The stamp is UTC and says the millisecond, so that names sort by time.
func TestFileNameStamp(t *testing.T) {
	r := &Recorder{options: Options{Prefix: "p"}, host: "h", token: "t"}
	zone := time.FixedZone("", -3*3600)
	if got := r.fileName("series", time.Date(2026, 11, 21, 23, 59, 58, 7_999_999, zone), 12); got != "series-20261122025958007-00012-t-h.warc.gz" {
		t.Error(got)
	}
	var names []string
	for at := time.Unix(0, 0); at.Year() < 9990; at = at.Add(50*365*24*time.Hour + time.Millisecond) {
		names = append(names, r.fileName("", at, 0))
	}
	if !slices.IsSorted(names) {
		t.Errorf("not in order: %q", names)
	}
}
