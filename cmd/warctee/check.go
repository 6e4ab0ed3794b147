package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/warc/check"
)

// checkFlags are the flags of check.
type checkFlags struct {
	profile *choiceFlag
	digests *choiceFlag
	json    bool
	rules   bool
	quiet   quietFlag
	opts    check.Options
}

func newCheckCommand() *cobra.Command {
	f := &checkFlags{profile: choice(string(check.Standard), string(check.Warctee)), digests: choice("standard", "raw")}
	cmd := &cobra.Command{
		Use:   "check [flags] FILE…",
		Short: "Check that WARC files are as the standard says",
		Long: `Check WARC files, of any writer, against ISO 28500: WARC 1.1 and 1.0, and the
drafts 0.18 and 0.17. Each is judged by its own version. A directory means the WARC
files in it and below it, - standard input. Records can name records of other
files, so give all files of an archive at once.

Each finding tells file, offset, severity, rule, what is wrong, and the clause of
the standard. An error is what the standard forbids; a warning is what it advises
against, or what is often done in another way. After damage the check goes on where
the next record is. docs/check.md explains the rules; --rules lists them.

Exit status: 0 no errors, maybe warnings; 1 a file could not be read, or another
error; 2 wrong usage; 3 errors were found.`,
		Example: `  warctee check warcs/
  warctee check --complete --json warcs/ > findings.jsonl
  warctee check --profile warctee --digest-compat raw crawl.warc.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rules {
				return f.listRules(args, cmd.OutOrStdout())
			}
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(f.profile, "profile", "by what files are judged: the standard, or docs/records.md, which says what warctee writes")
	flags.BoolVar(&f.opts.Complete, "complete", false, "all files of the archive are given: a record that is named and is in none of them is an error")
	flags.Var(f.digests, "digest-compat", "raw accepts payload digests over the chunk framing of HTTP/1.1, as some writers compute them")
	flags.IntVar(&f.opts.MaxFindings, "max-findings", 100, "findings of a rule that are shown for each file, the others are counted; 0 shows all")
	flags.BoolVar(&f.json, "json", false, "one JSON object per finding, one per file and one for all at the end")
	flags.BoolVar(&f.rules, "rules", false, "list the rules and check nothing")
	flags.IntVar(&f.opts.Jobs, "jobs", runtime.GOMAXPROCS(0), "files that are read at once")
	f.quiet.register(flags)
	text(flags, &f.opts.TempDir, "temp-dir", "DIR", "directory for what does not fit into memory (default: that of the system)")
	cobra.CheckErr(cmd.MarkFlagDirname("temp-dir"))
	f.profile.complete(cmd, "profile")
	f.digests.complete(cmd, "digest-compat")
	return cmd
}

func (f *checkFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case f.opts.Jobs < 1:
		return usageError{fmt.Errorf("--jobs %d: it must be at least 1", f.opts.Jobs)}
	case f.opts.MaxFindings < 0:
		return usageError{fmt.Errorf("--max-findings %d: it cannot be negative", f.opts.MaxFindings)}
	case f.opts.MaxFindings == 0:
		f.opts.MaxFindings = -1
	}
	f.opts.Profile, f.opts.RawDigests = check.Profile(f.profile.value), f.digests.value == "raw"
	named, size, err := archiveFiles(args, packageSuffix)
	if err != nil {
		return err
	}
	files, refused := expand(named)
	unchecked := refuseForms(stderr, refused, "checked")
	if len(files) == 0 {
		return unchecked
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	started := time.Now()
	bar := newProgress(f.quiet.notes(stderr), size, "checking")
	defer bar.done()
	f.opts.Progress = bar.add
	out := &checkOutput{w: bufio.NewWriter(stdout), json: f.json, before: bar.clear}
	result, err := check.Run(ctx, files, f.opts, out.finding)
	bar.done()
	if result == nil {
		return err
	}
	if failed := out.end(result); failed != nil {
		return quietly(failed)
	}
	fmt.Fprintf(f.quiet.notes(stderr), "warctee: %s; %s\n", harmless(checkSummary(result)), rate(result.All.Bytes, time.Since(started)))
	if err = cmp.Or(err, unchecked); err == nil && result.All.Errors > 0 {
		err = fmt.Errorf("%s found: %w", english.Plural(int(result.All.Errors), "error", ""), errFound)
	}
	return err
}

// checkSummary says in a line what was looked at and what was found.
func checkSummary(r *check.Result) string {
	all := &r.All
	names := slices.SortedFunc(maps.Keys(all.Types), func(a, b string) int {
		return cmp.Or(cmp.Compare(all.Types[b], all.Types[a]), cmp.Compare(a, b))
	})
	var types []string
	for _, name := range names {
		types = append(types, fmt.Sprintf("%s %s", humanize.Comma(all.Types[name]), name))
	}
	s := fmt.Sprintf("%s in %s", english.Plural(int(all.Records), "record", ""), english.Plural(len(r.Files), "file", ""))
	if len(types) > 0 {
		s += " (" + strings.Join(types, ", ") + ")"
	}
	s += fmt.Sprintf(", %s, %s", english.Plural(int(all.Errors), "error", ""), english.Plural(int(all.Warnings), "warning", ""))
	if all.Skipped > 0 {
		s += fmt.Sprintf(", %s skipped because of damage", english.Plural(int(all.Skipped), "byte", ""))
	}
	return s
}

// A checkOutput writes what is found.
type checkOutput struct {
	w      *bufio.Writer
	json   bool
	before func() // called before each line
	err    error  // of w
}

func (o *checkOutput) finding(f check.Finding) {
	o.before()
	if o.json {
		o.line(struct {
			Kind string `json:"kind"`
			check.Finding
		}{"finding", f})
	} else {
		o.text("%s\n", harmless(f.String()))
	}
}

func (o *checkOutput) line(v any) {
	if err := writeLine(o.w, v); err != nil && o.err == nil {
		o.err = err
	}
}

func (o *checkOutput) text(format string, args ...any) {
	if _, err := fmt.Fprintf(o.w, format, args...); err != nil && o.err == nil {
		o.err = err
	}
}

// end writes the summaries, and what was found but not shown.
func (o *checkOutput) end(r *check.Result) error {
	type summary struct {
		Kind string `json:"kind"`
		check.Summary
	}
	for _, s := range r.Files {
		if o.json {
			o.line(summary{"file", s})
			continue
		}
		for _, c := range s.Rules {
			if c.Hidden > 0 {
				o.text("%s: %s: %s: %s more findings are not shown (--max-findings)\n", harmless(s.File), c.Severity, c.Rule, humanize.Comma(c.Hidden))
			}
		}
	}
	if o.json {
		o.line(summary{"all", r.All})
	}
	return cmp.Or(o.err, o.w.Flush())
}

// listRules shows all rules.
func (f *checkFlags) listRules(args []string, stdout io.Writer) error {
	if len(args) > 0 {
		return usageError{errors.New("--rules takes no files")}
	}
	if f.json {
		out := &checkOutput{w: bufio.NewWriter(stdout)}
		for _, r := range check.Rules() {
			out.line(r)
		}
		return cmp.Or(out.err, out.w.Flush())
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tSTANDARD\tWARCTEE\tCLAUSE\tWHAT IS WRONG")
	for _, r := range check.Rules() {
		standard := cmp.Or(string(r.Standard), "-")
		if r.Open {
			standard += "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, standard, cmp.Or(string(r.Warctee), "-"), r.Cited(), r.Text)
	}
	fmt.Fprintln(w, "\n* an error with --complete")
	return w.Flush()
}
