package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/wacz"
)

// A packCommand makes and verifies packages.
type packCommand struct {
	out     string
	opts    wacz.Options
	logs    wordsFlag
	more    wordsFlag // files and directories with originals
	signKey string
	newKey  string
	verify  bool
	signer  string
	json    bool
	force   bool
	quiet   quietFlag

	stdout, stderr io.Writer
}

func newPackCommand() *cobra.Command {
	c := &packCommand{logs: wordsFlag{kind: "FILE"}, more: wordsFlag{kind: "DIR"}}
	cmd := &cobra.Command{
		Use:   "pack FILE|DIR… --out NAME.wacz",
		Short: "Pack WARC files into a WACZ, which replays in a browser, or verify one",
		Long: `Pack WARC files into a WACZ 1.1.1: one file with the WARC files as they are, an
index, and a list of the pages with their titles and text. It opens in
replayweb.page, from any web server that answers ranges.

Pages are found in the files: what browsers asked for as a document, and other HTML
where that cannot be told. The same files make the same package, octet for octet,
unless it is signed: it bears the time of its newest record, or SOURCE_DATE_EPOCH.

A revisit has no payload of its own. When its original is in none of the files,
pack names it, and --add-originals takes it along from others.

With --verify: compare packages with the digests and the signature in them.

Exit status: 0 packed, or verified without a fault; 1 an error; 2 wrong usage;
3 packed, and a WARC file in it is damaged or lacks the original of a revisit, or
--verify found a fault.`,
		Example: `  warctee pack warcs --out site.wacz --title "Example, autumn 2026" --url https://example.org/
  warctee pack --new-key signing-key.pem
  warctee pack warcs --out site.wacz --sign signing-key.pem
  warctee pack --verify site.wacz`,
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(textFlag{&c.out, "FILE"}, "out", "o", "the new package; its name ends in .wacz")
	text(flags, &c.opts.Title, "title", "TEXT", "title of the collection")
	text(flags, &c.opts.Description, "description", "TEXT", "description of the collection, in Markdown")
	text(flags, &c.opts.MainPage, "url", "URL", "page to begin with; it has to be in the files")
	text(flags, &c.opts.Pages, "pages", "FILE", "list of pages instead of those that are found: lines of JSON with url and ts, and maybe title and text")
	flags.BoolVar(&c.opts.NoText, "no-text", false, "leave the text of the pages out of their list, by which they can be searched")
	flags.Var(&c.more, "add-originals", "take along, from WARC files, packages or directories with such, the originals of revisits that the packed files do not have; may be repeated")
	flags.IntVar(&c.opts.MaxPages, "max-pages", wacz.DefaultMaxPages, "list at most so many of the pages that are found")
	flags.Var(&c.logs, "log", "file to be put into logs/, such as a failures.jsonl; may be repeated")
	text(flags, &c.signKey, "sign", "FILE", "sign with the private key in this file")
	text(flags, &c.newKey, "new-key", "FILE", "make a key in a new file, print whose signatures it makes, and end")
	flags.BoolVar(&c.verify, "verify", false, "verify packages")
	text(flags, &c.signer, "signer", "sha256:HEX", "with --verify: the signature has to be of this key, as --new-key and --sign print it")
	flags.BoolVar(&c.json, "json", false, "with --verify: print an object of JSON for each package")
	flags.BoolVar(&c.force, "force", false, "replace the file of --out")
	c.quiet.register(flags)
	return cmd
}

func (c *packCommand) run(cmd *cobra.Command, args []string) error {
	c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	switch {
	case c.newKey != "":
		if len(args) > 0 || c.verify || c.out != "" {
			return usageError{errors.New("--new-key makes a key and nothing else: leave out the rest")}
		}
		return c.makeKey()
	case c.verify:
		if len(args) == 0 {
			return usageError{errors.New("which packages? Name .wacz files")}
		}
		if c.out != "" || c.signKey != "" {
			return usageError{errors.New("--verify writes nothing: leave out --out and --sign")}
		}
		return c.runVerify(ctx, args)
	case c.json || c.signer != "":
		return usageError{errors.New("--json and --signer are for --verify")}
	}
	return c.pack(ctx, args)
}

func (c *packCommand) makeKey() error {
	key, err := wacz.NewKey(c.newKey)
	if err != nil {
		return fmt.Errorf("no key is made: %w", err)
	}
	signer, err := wacz.Signer(key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, signer)
	return err
}

func (c *packCommand) pack(ctx context.Context, args []string) (err error) {
	if c.opts.MaxPages < 1 {
		return usageError{fmt.Errorf("--max-pages %d: it is at least 1", c.opts.MaxPages)}
	}
	if c.out == "" {
		return usageError{errors.New("--out is missing: the name of the package")}
	}
	if !strings.HasSuffix(c.out, ".wacz") {
		return usageError{fmt.Errorf("--out %s: the name of a package ends in .wacz", c.out)}
	}
	files, size, err := archiveFiles(args)
	if err != nil {
		return err
	}
	if err := refuseStdin(files, "pack", "WARC files keep their names in the package; write it to a file first"); err != nil {
		return err
	}
	for _, path := range files {
		if err := wantFile(path, container.WARC); err != nil {
			return err
		}
	}
	total := wacz.Passes * size
	if len(c.more.values) > 0 {
		named, size, err := archiveFiles(c.more.values, packageSuffix)
		if err != nil {
			return fmt.Errorf("--add-originals: %w", err)
		}
		originals, refused := expand(named)
		if len(refused) > 0 {
			return fmt.Errorf("--add-originals: %w", errors.Join(refused...))
		}
		c.opts.Originals = originals
		total += size
	}
	if c.opts.Created, err = sourceDate(); err != nil {
		return err
	}
	signer := ""
	if c.signKey != "" {
		if c.opts.Key, err = wacz.ReadKey(c.signKey); err != nil {
			return fmt.Errorf("--sign: %w", err)
		}
		if signer, err = wacz.Signer(c.opts.Key); err != nil {
			return err
		}
	}
	out, err := createOutput(c.out, c.force)
	if err != nil {
		return err
	}
	defer out.discard()
	started := time.Now()
	progress := newProgress(c.quiet.notes(c.stderr), total, "packing")
	defer progress.done()
	c.opts.Logs, c.opts.Software, c.opts.Progress = c.logs.values, "warctee/"+version, progress.add
	c.opts.TempDir = filepath.Dir(c.out) // there is room for the package, which is larger
	summary, err := wacz.Pack(ctx, out, files, c.opts)
	if err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	progress.done()
	return c.tellPacked(summary, signer, time.Since(started))
}

func (c *packCommand) tellPacked(s wacz.Summary, signer string, took time.Duration) error {
	for _, damage := range s.Damaged {
		tell(c.stderr, damage)
	}
	fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s and %s of %s packed into %s, %s\n", english.Plural(int(s.Captures), "capture", ""),
		english.Plural(s.Pages, "page", ""), english.Plural(s.Files, "file", ""), harmless(c.out), rate(s.Octets, took))
	if s.Unlisted > 0 {
		fmt.Fprintf(c.stderr, "warctee: %s not in the list of pages, which has room for %d: raise --max-pages, or give the list with --pages\n",
			english.Plural(int(s.Unlisted), "page is", "pages are"), c.opts.MaxPages)
	}
	if s.Textless > 0 {
		fmt.Fprintf(c.stderr, "warctee: %s without text in the list of pages: there is room for %s of text; a search does not find them by it\n",
			english.Plural(int(s.Textless), "page is", "pages are"), humanize.IBytes(wacz.MaxPageText))
	}
	if signer != "" {
		fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: signed by %s\n", signer)
	}
	missing := c.tellMissing(s)
	switch {
	case len(s.Damaged) > 0:
		return fmt.Errorf("the package is whole, but the WARC files in it are damaged: %w; %s", errFound, damageHint)
	case missing != "":
		return fmt.Errorf("the package is whole, but %s: %w", missing, errFound)
	}
	return nil
}

// missingShown is how many of the originals that are missing are named.
const missingShown = 20

// tellMissing says which revisits cannot be replayed, and what to do about it; it
// returns that in short, "" when there are none.
func (c *packCommand) tellMissing(s wacz.Summary) string {
	for _, damage := range s.OriginalsDamaged {
		tell(c.stderr, damage)
	}
	if s.Added > 0 {
		fmt.Fprintf(c.stderr, "warctee: %s taken along\n", english.Plural(int(s.Added), "original", ""))
	}
	if s.Unresolved == 0 {
		return ""
	}
	for i, o := range s.Missing {
		if i == missingShown {
			fmt.Fprintf(c.stderr, "warctee: %d more originals are missing\n", len(s.Missing)-i)
			break
		}
		reason := ""
		if o.Reason != "" {
			reason = "; not taken: " + o.Reason
		}
		fmt.Fprintf(c.stderr, "warctee: the package has no original for %s, the first at %s: %s\n",
			english.Plural(int(o.Revisits), "revisit", ""), harmless(o.Revisit), harmless(o.String()+reason))
	}
	hint := "name the files that have the originals too, or take the originals along with --add-originals DIR"
	if len(c.more.values) > 0 {
		hint = "the files of --add-originals do not have the originals in a form that can be replayed"
	}
	return fmt.Sprintf("%s in it cannot be replayed; %s", english.Plural(int(s.Unresolved), "revisit", ""), hint)
}

// lastSecond is the end of the year 9999, in seconds since 1970: dates have four
// digits.
const lastSecond = 253402300799

// sourceDate is the time that a build is to bear (reproducible-builds.org), zero
// when none is given.
func sourceDate() (time.Time, error) {
	value := os.Getenv("SOURCE_DATE_EPOCH")
	if value == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, usageError{fmt.Errorf("environment variable SOURCE_DATE_EPOCH: %q is no number of seconds since 1970", value)}
	}
	return time.Unix(seconds, 0), nil
}

func (c *packCommand) runVerify(ctx context.Context, args []string) error {
	total := int64(0)
	for _, path := range args {
		total += fileSize(path)
	}
	started := time.Now()
	progress := newProgress(c.quiet.notes(c.stderr), total, "verifying")
	defer progress.done()
	octets, faults := int64(0), 0
	for _, path := range args {
		report, err := c.verifyOne(ctx, path, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		progress.clear()
		if err := c.tellVerified(path, report); err != nil {
			return err
		}
		octets += report.Octets
		faults += len(report.Faults) + report.Further
	}
	progress.done()
	fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s verified, %s; %s\n", english.Plural(len(args), "package", ""), rate(octets, time.Since(started)), english.Plural(faults, "fault", ""))
	if faults > 0 {
		return fmt.Errorf("%s: %w", english.Plural(faults, "fault", ""), errFound)
	}
	return nil
}

func (c *packCommand) verifyOne(ctx context.Context, path string, p *progress) (wacz.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return wacz.Report{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return wacz.Report{}, err
	}
	return wacz.Verify(ctx, f, info.Size(), wacz.VerifyOptions{Signer: c.signer, Progress: p.add})
}

// A verifiedPackage is what --json prints.
type verifiedPackage struct {
	Package  string       `json:"package"`
	OK       bool         `json:"ok"`
	Files    int          `json:"files"`
	Octets   int64        `json:"octets"`
	Signer   string       `json:"signer,omitempty"`
	Signed   string       `json:"signed,omitempty"`
	Software string       `json:"software,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
	Faults   []wacz.Fault `json:"faults,omitempty"`
	Further  int          `json:"faults_not_shown,omitempty"`
}

func (c *packCommand) tellVerified(path string, r wacz.Report) error {
	if c.json {
		return writeLine(c.stdout, verifiedPackage{path, len(r.Faults) == 0, r.Files, r.Octets, r.Signer, r.Signed, r.Software, r.Notes, r.Faults, r.Further})
	}
	for _, f := range r.Faults {
		if _, err := fmt.Fprintf(c.stdout, "%s: %s\n", harmless(path), harmless(f.String())); err != nil {
			return err
		}
	}
	if r.Further > 0 {
		fmt.Fprintf(c.stderr, "warctee: %s: %s not shown\n", harmless(path), english.Plural(r.Further, "further fault is", "further faults are"))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s: %s\n", harmless(path), harmless(note))
	}
	if r.Signer != "" {
		fmt.Fprintf(c.quiet.notes(c.stderr), "warctee: %s: signed by %s, which says it did so at %q with %q\n", harmless(path), harmless(r.Signer), r.Signed, r.Software)
	}
	return nil
}
