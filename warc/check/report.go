package check

import (
	"cmp"
	"context"
	"slices"
)

// A Report is what [Files] found.
type Report struct {
	Findings []Finding // in order of files and offsets
	Records  []Record  // in order of files and offsets
}

// Files is [Run] with the profile [Warctee], for archives of which all records
// fit into memory, as those of tests do.
func Files(paths ...string) (*Report, error) {
	p := new(Report)
	o := Options{Profile: Warctee, MaxFindings: -1, Jobs: 1, records: func(r *Record) { p.Records = append(p.Records, *r) }}
	if _, err := Run(context.Background(), paths, o, func(f Finding) { p.Findings = append(p.Findings, f) }); err != nil {
		return nil, err
	}
	order := make(map[string]int)
	for i, path := range paths {
		order[path] = i
	}
	slices.SortStableFunc(p.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Offset, b.Offset))
	})
	return p, nil
}
