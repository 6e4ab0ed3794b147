package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/repair"
	"github.com/warctee/warctee/warc"
)

// repairFlags are the flags of repair.
type repairFlags struct {
	out    string
	force  bool
	noLost bool
	json   bool
	quiet  quietFlag
}

func newRepairCommand() *cobra.Command {
	f := &repairFlags{}
	cmd := &cobra.Command{
		Use:   "repair [flags] FILE…",
		Short: "Save what is whole of damaged WARC files",
		Long: `Save what is whole of damaged WARC files: cut, with flipped bits, with gaps of
zeros or garbage, with wrong lengths, or compressed otherwise than one record at
a time. The files themselves are never changed.

Of NAME.warc.gz the whole records go to NAME.repaired.warc.gz beside it, byte for
byte where they are as they should be. What is lost is named, with the reason,
and its bytes go to NAME.repaired.warc.gz.lost. For a file that is whole nothing
is written.

A directory means the WARC files in it and below it.

Exit status: 0 nothing was lost; 1 an error; 2 wrong usage; 3 something was lost.`,
		Example: `  warctee repair crawl-00001.warc.gz
  warctee repair --out /srv/repaired --json /mnt/old-disk/*.warc.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(textFlag{&f.out, "FILE|DIR"}, "out", "o", "write to this file, or into this directory (default: beside the input)")
	flags.BoolVar(&f.force, "force", false, "replace files that exist")
	flags.BoolVar(&f.noLost, "no-lost", false, "write no file with what is lost")
	flags.BoolVar(&f.json, "json", false, "report as one JSON object per line")
	f.quiet.register(flags)
	return cmd
}

func (f *repairFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	files, size, err := archiveFiles(args)
	if err != nil {
		return err
	}
	if len(files) > 1 && f.out != "" && !isDirectory(f.out) {
		return usageError{fmt.Errorf("--out %s: for %d files it has to be a directory that exists", f.out, len(files))}
	}
	if f.out == "" || isDirectory(f.out) {
		if err := refuseStdin(files, "repair", "name a file for the output with --out"); err != nil {
			return err
		}
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	start := time.Now()
	bar := newProgress(f.quiet.notes(stderr), size, "repairing")
	defer bar.done()
	damaged, failed := 0, error(nil)
	made := make(map[string]bool)
	for _, file := range files {
		one := &repairing{flags: f, path: file, stdout: stdout, bar: bar, made: made}
		sum, err := one.run(ctx)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil { // the others are repaired all the same
			if !isOtherForm(err) {
				err = fmt.Errorf("%s: %w", file, err)
			}
			failed = errors.Join(failed, err)
		}
		if sum.Losses > 0 {
			damaged++
		}
	}
	bar.done()
	fmt.Fprintf(f.quiet.notes(stderr), "warctee: %s read, %s\n", english.Plural(len(files), "file", ""), rate(size, time.Since(start)))
	if failed != nil {
		return failed
	}
	if damaged > 0 {
		return fmt.Errorf("something is lost in %d of %s: %w", damaged, english.Plural(len(files), "file", ""), errFound)
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isSame reports whether a name is that of an input too.
func isSame(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := container.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// A repairing is the repair of one file.
type repairing struct {
	flags    *repairFlags
	path     string
	stdout   io.Writer
	bar      *progress
	made     map[string]bool // outputs of the files before
	in       *archive.File
	out      *output // nil: no difference so far
	lost     *output // nil: nothing is lost so far, or nobody wants it
	lostSize int64
}

func (r *repairing) run(ctx context.Context) (sum repair.Summary, err error) {
	if err := wantFile(r.path, container.WARC); err != nil {
		return sum, err
	}
	if r.in, err = archive.Open(r.path); err != nil {
		return sum, err
	}
	defer r.in.Close()
	defer func() {
		for _, o := range []*output{r.out, r.lost} {
			if o != nil {
				o.discard()
			}
		}
	}()
	sum, err = repair.Run(ctx, r.in, r.in.Size, repair.Options{
		Name:     r.path,
		Create:   r.create,
		Range:    r.found,
		Link:     r.link,
		Progress: r.bar.add,
		TempDir:  r.directory(),
	})
	if err != nil {
		return sum, err
	}
	return sum, r.finish(sum)
}

// directory returns where the output comes.
func (r *repairing) directory() string {
	switch {
	case r.flags.out == "":
		return filepath.Dir(r.path)
	case isDirectory(r.flags.out):
		return r.flags.out
	}
	return filepath.Dir(r.flags.out)
}

// name returns the name of the output.
func (r *repairing) name(form warc.Compression) string {
	if r.flags.out != "" && !isDirectory(r.flags.out) {
		return r.flags.out
	}
	base := strings.TrimSuffix(filepath.Base(r.path), ".open")
	for _, suffix := range archiveSuffixes {
		if short, ok := strings.CutSuffix(base, suffix); ok {
			base = short
			break
		}
	}
	return filepath.Join(r.directory(), base+".repaired.warc"+form.Suffix())
}

func (r *repairing) create(form warc.Compression) (io.Writer, error) {
	name := r.name(form)
	if isSame(name, r.path) {
		return nil, fmt.Errorf("%s is the damaged file itself, which is never changed: choose another name", name)
	}
	if r.made[name] {
		return nil, fmt.Errorf("%s was just made from another file of that name: repair them into different directories", name)
	}
	r.made[name] = true
	out, err := createOutput(name, r.flags.force)
	if err != nil {
		return nil, err
	}
	r.out = out
	return out, nil
}

// A rangeLine is a range as --json shows it.
type rangeLine struct {
	File     string       `json:"file"`
	Kind     repair.Kind  `json:"kind"`
	Offset   int64        `json:"offset"`
	Length   int64        `json:"length"`
	InMember *int64       `json:"in_member_at,omitempty"`
	Records  int          `json:"records"`
	Reason   string       `json:"reason,omitempty"`
	LostAt   *int64       `json:"lost_file_offset,omitempty"`
	Refs     []repair.Ref `json:"lost_records,omitempty"`
	Unnamed  int          `json:"lost_records_not_shown,omitempty"`
}

// found reports a range, and saves the bytes of what is lost.
func (r *repairing) found(g repair.Range) error {
	line := rangeLine{r.path, g.Kind, g.Offset, g.Length, nil, g.Records, g.Reason, nil, g.Refs, g.Unnamed}
	if g.Inside >= 0 {
		line.InMember = &g.Inside
	}
	if g.Kind == repair.Lost && !r.flags.noLost {
		at := r.lostSize
		if err := r.keepLost(g); err != nil {
			return err
		}
		line.LostAt = &at
	}
	if r.flags.json {
		return writeLine(r.stdout, line)
	}
	if g.Kind == repair.Kept && g.Reason == "" {
		return nil
	}
	r.bar.clear()
	where := fmt.Sprintf("bytes %d to %d", g.Offset, g.Offset+g.Length)
	if g.Inside >= 0 {
		where += fmt.Sprintf(" of what is in the member at %d", g.Inside)
	}
	saved := ""
	if g.Records > 0 && g.Kind != repair.Kept {
		saved = fmt.Sprintf(" (%s of it saved)", english.Plural(g.Records, "record", ""))
	}
	if _, err := fmt.Fprintf(r.stdout, "%s: %s %s%s: %s\n", harmless(r.path), g.Kind, where, saved, harmless(g.Reason)); err != nil {
		return err
	}
	return r.nameRecords(g)
}

// nameRecords names the records of which something is lost.
func (r *repairing) nameRecords(g repair.Range) error {
	var b strings.Builder
	for _, ref := range g.Refs {
		fmt.Fprintf(&b, "    %s\n", harmless(strings.Join(strings.Fields(ref.Type+" "+ref.ID+" "+ref.Date+" "+ref.URL), " ")))
		if ref.PayloadDigest != "" {
			fmt.Fprintf(&b, "      another capture with the WARC-Payload-Digest %s has its payload\n", harmless(ref.PayloadDigest))
		}
		if ref.RefersTo != "" {
			fmt.Fprintf(&b, "      its payload is in %s\n", harmless(ref.RefersTo))
		}
	}
	if g.Unnamed > 0 {
		fmt.Fprintf(&b, "    and %d more\n", g.Unnamed)
	}
	_, err := io.WriteString(r.stdout, b.String())
	return err
}

// keepLost appends what is lost to the file of it.
func (r *repairing) keepLost(g repair.Range) error {
	if r.lost == nil {
		var err error
		if r.lost, err = createOutput(r.out.path+".lost", r.flags.force); err != nil {
			return err
		}
	}
	n, err := io.Copy(r.lost, g.Data)
	r.lostSize += n
	return err
}

func (r *repairing) link(l repair.Link) {
	if r.flags.json {
		writeLine(r.stdout, struct {
			File  string `json:"file"`
			Kind  string `json:"kind"`
			ID    string `json:"id"`
			Field string `json:"field"`
			To    string `json:"to"`
		}{r.path, "link", l.ID, l.Field, l.To})
		return
	}
	r.bar.clear()
	fmt.Fprintf(r.stdout, "%s: the record %s names %s in %s, which is not there\n", harmless(r.path), harmless(l.ID), harmless(l.To), l.Field)
}

// finish gives the outputs their names, and reports what was done.
func (r *repairing) finish(sum repair.Summary) error {
	outPath, lostPath := "", ""
	saved := sum.Kept+sum.Rewritten > 0
	if r.lost != nil && saved { // else it is a copy of the input
		lostPath = r.lost.path
		if err := r.lost.commit(); err != nil {
			return err
		}
	}
	if r.out != nil && saved {
		outPath = r.out.path
		if err := r.out.commit(); err != nil {
			return err
		}
	}
	if r.flags.json {
		return writeLine(r.stdout, struct {
			File      string `json:"file"`
			Kind      string `json:"kind"`
			Form      string `json:"compression"`
			Whole     bool   `json:"whole"`
			Kept      int64  `json:"records_kept"`
			Rewritten int64  `json:"records_rewritten"`
			Losses    int64  `json:"losses"`
			LostBytes int64  `json:"lost_bytes"`
			LostRefs  int64  `json:"lost_records"`
			Links     int64  `json:"links"`
			Out       string `json:"out,omitempty"`
			Lost      string `json:"lost,omitempty"`
		}{r.path, "summary", sum.Compression.String(), !sum.Changed, sum.Kept, sum.Rewritten, sum.Losses, sum.LostBytes, sum.LostRefs, sum.Links, outPath, lostPath})
	}
	r.bar.clear()
	var err error
	switch {
	case !sum.Changed:
		_, err = fmt.Fprintf(r.stdout, "%s: whole, %s; nothing is written\n", harmless(r.path), plural64(sum.Kept, "record"))
	case outPath == "":
		_, err = fmt.Fprintf(r.stdout, "%s: no whole record was found; nothing is written\n", harmless(r.path))
	default:
		_, err = fmt.Fprintf(r.stdout, "%s: %s kept and %d rewritten in %s, %s in %s lost\n", harmless(r.path),
			plural64(sum.Kept, "record"), sum.Rewritten, harmless(outPath), plural64(sum.LostBytes, "byte"), plural64(sum.Losses, "place"))
		if lostPath != "" && err == nil {
			_, err = fmt.Fprintf(r.stdout, "%s: what is lost is in %s\n", harmless(r.path), harmless(lostPath))
		}
	}
	return err
}

func plural64(n int64, word string) string { return english.Plural(int(n), word, "") }

// writeLine writes a JSON object and a line feed.
func writeLine(w io.Writer, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return errors.Join(errors.New("cannot make JSON"), err)
	}
	_, err := io.WriteString(w, harmlessJSON(b.String()))
	return err
}
