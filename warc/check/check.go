// Package check looks whether WARC files are right: not only readable, but as
// ISO 28500 says they are, or with the profile [Warctee] as docs/records.md
// does. docs/check.md has the table of rules, which is [Rules].
//
// [Run] goes over the files once and hands out what it finds; it keeps no
// records. What records say of each other is written down as small facts, which
// an external sort brings together by the id that they are about:
//
//	file     warc.Reader, strict        members, lengths, line ends; goes on behind damage
//	record   fields                     which, how often, in which form
//	block    digest, HTTP message       entity body, framing, payload digest
//	         facts ── sort by id ──┐
//	links    unique, concurrent, refers-to, warcinfo, segments
//
// All files that belong together should be given at once. [Files] is Run for
// archives that are small enough to keep their records in memory.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Options say how files are checked. The zero value is the default.
type Options struct {
	Profile Profile // default Standard

	// RawDigests accepts payload digests over the chunk framing of HTTP/1.1,
	// as some writers compute them.
	RawDigests bool

	// Complete says that all files of the archive are given: a record that is
	// named and is in none of them is an error.
	Complete bool

	// MaxFindings bounds how many findings of a rule are handed out for each
	// file, by default 100; what is above is counted. Below zero is no bound.
	MaxFindings int

	Jobs    int    // files that are read at the same time; default the number of CPUs
	TempDir string // for what does not fit into memory; default os.TempDir

	// Progress is called with the number of bytes that were read since the
	// last call. It must be safe for concurrent use.
	Progress func(bytes int64)

	records func(*Record) // sees all records of a file in order; for Files
}

const defaultMaxFindings = 100

func (o Options) withDefaults() Options {
	if o.Profile == "" {
		o.Profile = Standard
	}
	if o.MaxFindings == 0 {
		o.MaxFindings = defaultMaxFindings
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	return o
}

// A Finding is a rule broken somewhere.
type Finding struct {
	File     string   `json:"file"`           // path, as given
	Offset   int64    `json:"offset"`         // of the record or its gzip member, in bytes
	ID       string   `json:"id,omitempty"`   // of the record, where known
	Type     string   `json:"type,omitempty"` // of the record, where known
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Clause   string   `json:"clause"` // what the rule is in: WARC 1.1 §5.4
	Message  string   `json:"message"`
}

func (f Finding) String() string {
	s := fmt.Sprintf("%s: offset %d: %s: %s: %s (%s)", f.File, f.Offset, f.Severity, f.Rule, f.Message, f.Clause)
	if f.Type != "" || f.ID != "" {
		s += strings.TrimRight(" "+f.Type, " ") + strings.TrimRight(" "+f.ID, " ")
	}
	return s
}

// A Count is how often a rule was broken.
type Count struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Findings int64    `json:"findings"`
	Hidden   int64    `json:"hidden,omitempty"` // of these, how many were not handed out
}

// A Summary tells of one file, or of all.
type Summary struct {
	File     string           `json:"file,omitempty"` // path as given; "" for all files
	Bytes    int64            `json:"bytes"`          // of the file
	Octets   int64            `json:"octets"`         // of blocks, without compression
	Records  int64            `json:"records"`
	Types    map[string]int64 `json:"types"`             // records by type
	Errors   int64            `json:"errors"`            // also those not handed out
	Warnings int64            `json:"warnings"`          // also those not handed out
	Skipped  int64            `json:"skipped,omitempty"` // bytes that no record was found in, because of damage
	Rules    []Count          `json:"rules,omitempty"`   // in the order of Rules
}

// maxTypes bounds how many types of records a summary tells apart.
const maxTypes = 64

func (s *Summary) count(typ string, n int64) {
	if s.Types == nil {
		s.Types = make(map[string]int64)
	}
	if _, known := s.Types[typ]; !known && len(s.Types) >= maxTypes || typ == "" {
		typ = "other"
	}
	s.Types[cut(typ, 80)] += n
}

// addCounts adds how often rules were broken, in the order of rules.
func (s *Summary) addCounts(counts counts) {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rulePlace(a), rulePlace(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		c := *counts[name]
		s.Rules = append(s.Rules, c)
		if c.Severity == Error {
			s.Errors += c.Findings
		} else {
			s.Warnings += c.Findings
		}
	}
}

func (s *Summary) add(t *Summary) {
	s.Bytes += t.Bytes
	s.Octets += t.Octets
	s.Records += t.Records
	s.Errors += t.Errors
	s.Warnings += t.Warnings
	s.Skipped += t.Skipped
	for typ, n := range t.Types {
		s.count(typ, n)
	}
	for _, c := range t.Rules {
		s.countRule(c)
	}
}

func (s *Summary) countRule(c Count) {
	for i := range s.Rules {
		if s.Rules[i].Rule == c.Rule {
			s.Rules[i].Findings += c.Findings
			s.Rules[i].Hidden += c.Hidden
			return
		}
	}
	s.Rules = append(s.Rules, c)
}

// A Result tells what was looked at.
type Result struct {
	Files []Summary // in the order given
	All   Summary
}

// Run checks WARC files that belong together and hands what it finds to found,
// in the calling goroutine: first what is wrong in a file itself, in order of
// files and offsets, and then what is wrong between records, in the same order.
// An error means that a file could not be read, or a temporary file not be
// written; the other files are checked all the same.
func Run(ctx context.Context, paths []string, o Options, found func(Finding)) (*Result, error) {
	c := &checker{options: o.withDefaults(), paths: paths, counts: make([]counts, len(paths)), summaries: make([]Summary, len(paths))}
	facts := newSorter(ctx, c.options.TempDir, factsAtOnce)
	c.emit = facts.add
	err := c.readAll(ctx, found)
	if ctx.Err() != nil {
		facts.close()
		return nil, ctx.Err()
	}
	err = errors.Join(err, c.links(ctx, facts, found))
	return c.finish(), err
}

// A checker is one Run.
type checker struct {
	options   Options
	paths     []string
	emit      func(fact string) // safe for concurrent use
	counts    []counts          // by file; of those that are being read, owned by their reader
	summaries []Summary         // likewise
}

// counts are how often rules were broken in a file.
type counts map[string]*Count

// take counts a finding and reports whether it is to be handed out.
func (c *checker) take(file int, rule string, severity Severity) bool {
	if c.counts[file] == nil {
		c.counts[file] = make(counts)
	}
	n := c.counts[file][rule]
	if n == nil {
		n = &Count{Rule: rule, Severity: severity}
		c.counts[file][rule] = n
	}
	n.Findings++
	if limit := c.options.MaxFindings; limit >= 0 && n.Findings > int64(limit) {
		n.Hidden++
		return false
	}
	return true
}

// readAll checks each file by itself, some at the same time.
func (c *checker) readAll(ctx context.Context, found func(Finding)) error {
	type outcome struct {
		findings chan Finding
		err      error // valid when findings is closed
	}
	// A file that is done, or has found much, waits for those before it. That
	// bounds how far the others run ahead. The first of them never waits.
	pending := make(chan *outcome, c.options.Jobs)
	busy := make(chan struct{}, c.options.Jobs)
	go func() { // ends with the last file: the loop below takes all outcomes
		defer close(pending)
		for i := range c.paths {
			o := &outcome{findings: make(chan Finding, 256)}
			pending <- o
			busy <- struct{}{}
			go func() { // ends with its file, which ends early with ctx; the loop below takes all findings
				f := &file{checker: c, index: i, path: c.paths[i], findings: o.findings}
				o.err = f.check(ctx)
				close(o.findings)
				<-busy
			}()
		}
	}()
	var errs []error
	for o := range pending {
		for f := range o.findings {
			found(f)
		}
		if o.err != nil {
			errs = append(errs, fmt.Errorf("check: %w", o.err))
		}
	}
	return errors.Join(errs...)
}

// finish makes the summaries.
func (c *checker) finish() *Result {
	r := &Result{Files: c.summaries}
	r.All.Types = make(map[string]int64)
	for i := range r.Files {
		s := &r.Files[i]
		s.File = c.paths[i]
		if s.Types == nil {
			s.Types = make(map[string]int64)
		}
		s.addCounts(c.counts[i])
		r.All.add(s)
	}
	slices.SortFunc(r.All.Rules, func(a, b Count) int { return cmp.Compare(rulePlace(a.Rule), rulePlace(b.Rule)) })
	return r
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
