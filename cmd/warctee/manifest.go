package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/manifest"
)

// A manifestCommand makes and verifies lists of digests.
type manifestCommand struct {
	out    string
	bag    string
	info   wordsFlag
	verify bool
	jobs   int
	json   bool
	force  bool
	quiet  quietFlag

	stdout, stderr io.Writer
	progress       *progress
	started        time.Time

	working, unfinished []string // files that are left out
}

func newManifestCommand() *cobra.Command {
	c := &manifestCommand{out: "-", info: wordsFlag{kind: "LABEL=VALUE"}}
	cmd := &cobra.Command{
		Use:   "manifest FILE|DIR…",
		Short: "List files with sizes and digests, or verify them by such a list or bag",
		Long: `List files with their sizes and SHA-256, in the format of sha256sum, or put them into
a bag (BagIt, RFC 8493). With --verify: say which files are missing, were added,
or have another size or content than the list or bag says.

A directory means all files in it and below it, but for the working files of the
recorder (its lock, the dedup index, the log of failures, temporary files) and for
files that are being written: those are left out, unless they are named. Names in a
list are relative to its directory: keep it beside the files, and it can be moved
with them.

Exit status: 0 listed, or verified without a fault; 1 an error; 2 wrong usage;
3 --verify found a fault.`,
		Example: `  warctee manifest warcs --out manifest.sha256
  warctee manifest --verify manifest.sha256
  sha256sum --check manifest.sha256
  warctee manifest warcs --bag deposit-2026 --info "Source-Organization=Example Library"
  warctee manifest --verify deposit-2026`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which files? Name files or directories, or with --verify lists or bags")}
			}
			return refuseStdin(args, "manifest", "a list holds the names of files; write it to a file first")
		},
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(textFlag{&c.out, "FILE"}, "out", "o", "new file for the list; - is standard output, with names relative to the current directory")
	text(flags, &c.bag, "bag", "DIR", "make a bag there instead, of links to the files, or of copies where it is on another file system")
	flags.Var(&c.info, "info", "further line of the bag's bag-info.txt, such as Contact-Name=Jane Doe; may be repeated")
	flags.BoolVar(&c.verify, "verify", false, "compare files with the lists or bags that are named")
	flags.IntVar(&c.jobs, "jobs", 0, "files that are read at the same time (default: the number of processors)")
	flags.BoolVar(&c.json, "json", false, "with --verify: print an object of JSON for each fault")
	flags.BoolVar(&c.force, "force", false, "replace the file of --out")
	c.quiet.register(flags)
	return cmd
}

func (c *manifestCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	c.stdout, c.stderr, c.started = cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now()
	c.progress = &progress{}
	defer func() { c.progress.done() }()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	switch {
	case c.verify:
		return c.runVerify(ctx, args)
	case c.bag != "":
		return c.runBag(ctx, args)
	}
	return c.runList(ctx, args)
}

func (c *manifestCommand) check(cmd *cobra.Command) error {
	given := func(names ...string) (last string) {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				last = name
			}
		}
		return last
	}
	switch {
	case c.verify && given("out", "bag", "info", "force") != "":
		return usageError{fmt.Errorf("--verify writes nothing: leave out --%s", given("out", "bag", "info", "force"))}
	case c.json && !c.verify:
		return usageError{errors.New("--json is for --verify")}
	case c.bag != "" && given("out", "force") != "":
		return usageError{fmt.Errorf("--bag makes a new directory: leave out --%s", given("out", "force"))}
	case given("info") != "" && c.bag == "":
		return usageError{errors.New("--info is for --bag")}
	case c.jobs < 0:
		return usageError{fmt.Errorf("--jobs %d: it must not be negative", c.jobs)}
	}
	return nil
}

func (c *manifestCommand) options(what string) manifest.Options {
	return manifest.Options{
		Jobs:     c.jobs,
		LeftOut:  c.leftOut,
		Started:  func(total int64) { c.progress = newProgress(c.quiet.notes(c.stderr), total, what) },
		Progress: func(n int64) { c.progress.add(n) },
	}
}

func (c *manifestCommand) runList(ctx context.Context, args []string) error {
	base, except := ".", []string(nil)
	var out *output
	if c.out != "-" {
		var err error
		if out, err = createOutput(c.out, c.force); err != nil {
			return err
		}
		defer out.discard()
		base, except = filepath.Dir(c.out), []string{c.out, out.Name()}
	}
	list, err := manifest.Make(ctx, base, args, except, c.options("reading"))
	c.progress.done()
	c.tellLeftOut()
	if err != nil {
		return err
	}
	if out == nil {
		if _, err := list.WriteTo(dataWriter(c.stdout)); err != nil {
			return err
		}
	} else if _, err := list.WriteTo(out); err != nil {
		return err
	} else if err := out.commit(); err != nil {
		return err
	}
	octets := int64(0)
	for _, e := range list.Entries {
		octets += e.Size
	}
	c.summary("%s listed, %s", english.Plural(len(list.Entries), "file", ""), rate(octets, time.Since(c.started)))
	return nil
}

func (c *manifestCommand) runBag(ctx context.Context, args []string) error {
	fields, err := bagFields(c.info.values)
	if err != nil {
		return err
	}
	opts := manifest.BagOptions{Options: c.options("reading"), Software: "warctee/" + version, Fields: fields}
	err = manifest.MakeBag(ctx, c.bag, args, opts)
	c.progress.done()
	c.tellLeftOut()
	if err != nil {
		return err
	}
	c.summary("%s is a bag, made in %v", c.bag, time.Since(c.started).Round(100*time.Millisecond))
	return nil
}

// ownLabels are those of bag-info.txt that are computed.
var ownLabels = []string{"Bagging-Date", "Payload-Oxum", "Bag-Software-Agent"}

func bagFields(pairs []string) (fields []manifest.Field, err error) {
	for _, pair := range pairs {
		label, value, ok := strings.Cut(pair, "=")
		if !ok || strings.TrimSpace(label) != label || label == "" || strings.TrimSpace(value) == "" || strings.Contains(label, ":") || strings.ContainsFunc(pair, isControl) {
			return nil, usageError{fmt.Errorf("--info %q: not of the form Contact-Name=Jane Doe", pair)}
		}
		if slices.ContainsFunc(ownLabels, func(own string) bool { return strings.EqualFold(own, label) }) {
			return nil, usageError{fmt.Errorf("--info: %s is a line that warctee itself writes", label)}
		}
		fields = append(fields, manifest.Field{Label: label, Value: value})
	}
	return fields, nil
}

func (c *manifestCommand) runVerify(ctx context.Context, args []string) error {
	var octets int64
	files, faults, failed := 0, 0, error(nil)
	for _, path := range args {
		report, err := manifest.Verify(ctx, path, c.options("verifying"))
		c.progress.done()
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil { // the others are verified all the same
			failed = errors.Join(failed, err)
			continue
		}
		for _, f := range report.Faults {
			if err := c.tell(path, f); err != nil {
				return err
			}
		}
		for _, note := range report.Notes {
			c.summary("%s: %s", harmless(path), harmless(note))
		}
		files += report.Files
		faults += len(report.Faults) + report.Further
		if report.Further > 0 {
			c.summary("%s: %s not shown", harmless(path), english.Plural(report.Further, "further fault is", "further faults are"))
		}
		octets += report.Octets
	}
	if failed != nil && files == 0 {
		return failed
	}
	c.summary("%s verified, %s; %s", english.Plural(files, "file", ""), rate(octets, time.Since(c.started)), english.Plural(faults, "fault", ""))
	if failed != nil {
		return failed
	}
	if faults > 0 {
		return fmt.Errorf("%s: %w", english.Plural(faults, "fault", ""), errFound)
	}
	return nil
}

// tell prints a fault.
func (c *manifestCommand) tell(path string, f manifest.Fault) error {
	if !c.json {
		_, err := fmt.Fprintf(c.stdout, "%s: %s\n", harmless(path), harmless(f.String()))
		return err
	}
	return writeLine(c.stdout, struct {
		Manifest string `json:"manifest"`
		manifest.Fault
	}{path, f})
}

// leftOut collects what a list or bag lacks of a directory.
func (c *manifestCommand) leftOut(name string, why manifest.Reason) {
	switch why {
	case manifest.Unfinished:
		c.unfinished = append(c.unfinished, name)
	default:
		c.working = append(c.working, name)
	}
}

// tellLeftOut says in a line what a list or bag lacks.
func (c *manifestCommand) tellLeftOut() {
	var parts []string
	if len(c.working) > 0 {
		parts = append(parts, firstOf(c.working)+" (working files: name them to have them too)")
	}
	if len(c.unfinished) > 0 {
		parts = append(parts, firstOf(c.unfinished)+" (being written, or left by a crash)")
	}
	if len(parts) > 0 {
		c.summary("left out: %s", strings.Join(parts, ", "))
	}
}

// firstOf names the first ones of many files.
func firstOf(names []string) string {
	const most = 10
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return harmless(strings.Join(names, ", ")) + more
}

func (c *manifestCommand) summary(format string, args ...any) {
	fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s\n", harmless(fmt.Sprintf(format, args...)))
}

// fileSize is the size of a file, 0 where it cannot be told.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
