//go:build unix

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// checkArchive finds whether an archive is right and has exactly that traffic.
func checkArchive(dir string, want traffic) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.warc*")) // also what is not finished: a mistake
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, fillerHost) })
	report, err := check.Files(names...)
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		return fmt.Errorf("the archive has %d mistakes, the first: %s", len(report.Findings), f)
	}
	sizes := make(map[string]int64) // of payloads, by digest
	var got traffic
	for _, r := range report.Records {
		digest := r.Header.Get("WARC-Payload-Digest")
		switch {
		case r.Status != http.StatusOK, r.Type == warc.TypeResponse && r.Header.Get("WARC-Truncated") != "":
		case r.Type == warc.TypeResponse:
			sizes[digest] = r.PayloadSize
			got.add(traffic{responses: 1, octets: r.PayloadSize})
		case r.Type == warc.TypeRevisit: // its original comes before, or the checker finds a mistake
			got.add(traffic{responses: 1, revisits: 1, octets: sizes[digest]})
		}
	}
	if got != want {
		return fmt.Errorf("the archive has %+v, the clients have got %+v", got, want)
	}
	return nil
}
