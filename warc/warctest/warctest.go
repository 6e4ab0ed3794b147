// Package warctest is for tests that write archives: each of them ends in
// [Check], which looks at all that was written.
package warctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc/check"
)

// Check fails the test for each finding in the WARC files of a folder, and for
// files that were not finished. It returns the records, in order of file
// names and offsets. Other files are not looked at.
func Check(t testing.TB, dir string) []check.Record {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".open")
		if name != e.Name() || strings.HasSuffix(name, ".warc") || strings.HasSuffix(name, ".warc.gz") || strings.HasSuffix(name, ".warc.zst") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	report, err := check.Files(paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Error(f)
	}
	return report.Records
}
