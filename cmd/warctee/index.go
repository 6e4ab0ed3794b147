package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/cdx"
	"github.com/warctee/warctee/container"
)

// An indexCommand makes indexes.
type indexCommand struct {
	out    string
	format *choiceFlag
	opts   cdx.Options
	force  bool
	quiet  quietFlag

	stdout, stderr io.Writer
}

func newIndexCommand() *cobra.Command {
	c := &indexCommand{format: choice("cdxj", "cdx11")}
	cmd := &cobra.Command{
		Use:   "index FILE|DIR…",
		Short: "Index WARC and ARC files for replay: sorted CDXJ, or CDX with 11 fields",
		Long: `Make a sorted index of WARC and ARC files for pywb, OutbackCDX and other programs that
replay: one line for each capture, with its URL, date, type, status, digest, and
where it is. Requests other than GET are in the key of the line. It goes to standard
output, or to a file.

Damaged files are indexed where they are whole. The lines of the same files are the
same, octet for octet, in whichever order they are given. docs/cdx.md tells what
is in a line and how to feed programs with it.

Exit status: 0 all indexed; 1 an error; 2 wrong usage; 3 a file is damaged and
something of it is not in the index.`,
		Example: `  warctee index warcs -o index.cdxj
  warctee index --format cdx11 warcs | curl --data-binary @- http://localhost:8080/collection
  LC_ALL=C sort -m index.cdxj today.cdxj > new.cdxj`,
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(textFlag{&c.out, "FILE"}, "out", "o", "file for the index; gzip when its name ends in .gz (default: standard output)")
	flags.Var(c.format, "format", "form of the lines")
	flags.BoolVar(&c.opts.All, "all", false, "index all records that have a target, requests too (default: those that can be replayed)")
	text(flags, &c.opts.Root, "root", "DIR", "name the files by their paths from this directory (default: by the last part of them)")
	text(flags, &c.opts.TempDir, "temp-dir", "DIR", "directory in which to sort what does not fit into memory (default: that of --out, or of the system)")
	flags.IntVar(&c.opts.Jobs, "jobs", runtime.GOMAXPROCS(0), "read `N` files at once")
	flags.BoolVar(&c.force, "force", false, "replace the file of --out")
	c.quiet.register(flags)
	for _, dirs := range []string{"root", "temp-dir"} {
		cobra.CheckErr(cmd.MarkFlagDirname(dirs))
	}
	c.format.complete(cmd, "format")
	return cmd
}

func (c *indexCommand) run(cmd *cobra.Command, args []string) error {
	c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if c.opts.Jobs < 1 {
		return usageError{fmt.Errorf("--jobs %d: it must be at least 1", c.opts.Jobs)}
	}
	if c.force && c.out == "" {
		return usageError{errors.New("--force is for --out")}
	}
	if c.format.value == "cdx11" {
		c.opts.Format = cdx.CDX11
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	named, size, err := archiveFiles(args, ".arc", ".arc.gz", packageSuffix)
	if err != nil {
		return err
	}
	files, refused := expand(named, container.ARC)
	if len(files) == 0 {
		return refuseForms(c.stderr, refused, "indexed")
	}
	if err := c.checkNames(files); err != nil {
		return err
	}
	started := time.Now()
	progress := newProgress(c.quiet.notes(c.stderr), size, "indexing")
	defer progress.done()
	c.opts.Progress = progress.add
	summary, err := c.index(ctx, files)
	if err != nil {
		return err
	}
	progress.done()
	for _, damage := range summary.Damaged {
		tell(c.stderr, damage)
	}
	fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s of %s in %s indexed, %s\n", english.Plural(int(summary.Entries), "capture", ""),
		english.Plural(int(summary.Records), "record", ""), english.Plural(len(files), "file", ""), rate(summary.Octets, time.Since(started)))
	if unread := refuseForms(c.stderr, refused, "indexed"); unread != nil {
		return commandError{exitFound, unread}
	}
	if len(summary.Damaged) > 0 {
		if isDamage(errors.Join(summary.Damaged...)) {
			return fmt.Errorf("something is not in the index: %w; %s", errFound, damageHint)
		}
		return fmt.Errorf("not all is in the index as its file tells: %w", errFound)
	}
	return nil
}

// checkNames refuses files that the index would not tell apart.
func (c *indexCommand) checkNames(files []string) error {
	if c.opts.Root != "" {
		return nil
	}
	seen := make(map[string]string)
	for _, path := range files {
		name := filepath.Base(path)
		if other, twice := seen[name]; twice {
			return usageError{fmt.Errorf("%s and %s have the same name in the index: tell them apart with --root DIR", other, path)}
		}
		seen[name] = path
	}
	return nil
}

// index writes the index to where it is wanted.
func (c *indexCommand) index(ctx context.Context, files []string) (cdx.Summary, error) {
	if c.out == "" {
		return cdx.Index(ctx, dataWriter(c.stdout), files, c.opts)
	}
	if c.opts.TempDir == "" {
		c.opts.TempDir = filepath.Dir(c.out) // there is room for the index
	}
	out, err := createOutput(c.out, c.force)
	if err != nil {
		return cdx.Summary{}, err
	}
	defer out.discard()
	var w io.Writer = out
	var packed *gzip.Writer
	if strings.HasSuffix(c.out, ".gz") {
		packed = gzip.NewWriter(out)
		w = packed
	}
	summary, err := cdx.Index(ctx, w, files, c.opts)
	if err == nil && packed != nil {
		err = packed.Close()
	}
	if err == nil {
		err = out.commit()
	}
	return summary, err
}
