package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

const (
	// grepLine is how much of a line is searched at a time, in bytes.
	grepLine = 64 << 10
	// grepPayload is how much of a decoded payload is searched, in bytes.
	grepPayload = 256 << 20
	// grepShown is how much of a line is shown, in bytes.
	grepShown = 400
)

// grepFlags are the flags of grep.
type grepFlags struct {
	filter  filterFlags
	headers bool
	payload bool
	ignore  bool
	files   bool
	count   bool
	json    bool
	quiet   bool
}

func newGrepCommand() *cobra.Command {
	f := &grepFlags{}
	cmd := &cobra.Command{
		Use:   "grep [flags] PATTERN FILE…",
		Short: "Search the records of WARC files",
		Long: `Search the records of WARC files for a regular expression (RE2): in their URLs, or with --headers in the lines of their headers and
of the heads of their HTTP messages, or with --payload in the lines of their
decoded payloads. Each find is shown as FILE@OFFSET: URL: line. A directory means
the WARC files in it and below it, - standard input. The filters are those of ls.

With -l the names of the files in which something was found are shown, with -c how
many records of each file it was found in, with -q nothing.

Lines longer than 64 KiB are searched in pieces of that size, and of a payload
256 MiB at most, which is said. Revisits have no payload of their own.

Exit status: 0 something was found; 1 an error; 2 wrong usage; 3 nothing was
found, or a file is damaged.`,
		Example: `  warctee grep 'login|signin' warcs/
  warctee grep --payload --type response --mime 'text/*' '(?i)terms of service' crawl.warc.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, names := range [][]string{{"headers", "payload"}, {"files-with-matches", "count", "quiet"}} {
				if err := exclusive(cmd.Flags(), names...); err != nil {
					return err
				}
			}
			return f.run(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.headers, "headers", false, "search the headers instead of the URLs")
	flags.BoolVar(&f.payload, "payload", false, "search the decoded payloads instead of the URLs")
	flags.BoolVarP(&f.ignore, "ignore-case", "i", false, "ignore case, as (?i) at the start of PATTERN does")
	flags.BoolVarP(&f.files, "files-with-matches", "l", false, "print only the name of each WARC file with a find, once")
	flags.BoolVarP(&f.count, "count", "c", false, "print only, for each WARC file, in how many of its records something was found")
	f.filter.register(flags)
	flags.BoolVar(&f.json, "json", false, "one JSON object per find, or with -l or -c per file")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing, and stop at the first find; the exit status says whether there is one")
	return cmd
}

func (f *grepFlags) run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("search for what? Give a regular expression, and then the files")}
	}
	text := args[0]
	if f.ignore {
		text = "(?i:" + text + ")"
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		_, err = regexp.Compile(args[0]) // of what the user has typed
		return usageError{err}
	}
	filter, err := f.filter.filter()
	if err != nil {
		return err
	}
	g := &grepping{flags: f, pattern: pattern, filter: filter, most: grepPayload, out: bufio.NewWriter(stdout), stderr: stderr}
	err = eachArchive(args[1:], stderr, func(file *archive.File) error {
		g.records = 0
		err := archive.Scan(file, g.record)
		if errors.Is(err, errFoundOne) {
			err = nil
		}
		if shown := g.showFile(file.Path); shown != nil {
			return shown
		}
		if f.quiet && g.found {
			return errFoundOne
		}
		return flushed(err, g.out)
	})
	if errors.Is(err, errFoundOne) {
		err = nil
	}
	if err == nil && !g.found {
		return commandError{code: exitFound} // as grep does, without a word
	}
	return quietly(err)
}

// A grepping is one search.
type grepping struct {
	flags   *grepFlags
	pattern *regexp.Regexp
	filter  *archive.Filter
	out     *bufio.Writer
	stderr  io.Writer
	most    int64 // how much of a payload is searched, in bytes
	found   bool
	records int64 // of the file that is searched, in which something was found
}

// errFoundOne ends the search of a record, or of a file, of which no more has to be
// known than that there is a find.
var errFoundOne = errors.New("found")

func (g *grepping) record(p *archive.Place, z *warc.Reader) error {
	err := g.search(p, z)
	if errors.Is(err, errFoundOne) && g.flags.count {
		return nil
	}
	return err
}

// search searches a record.
func (g *grepping) search(p *archive.Place, z *warc.Reader) error {
	rec := p.Record
	inURL := !g.flags.headers && !g.flags.payload
	if !g.filter.Header(rec) || inURL && !g.pattern.MatchString(rec.TargetURI()) {
		return nil
	}
	var m *archive.Message
	if !inURL || g.filter.NeedsMessage() {
		var err error
		m, err = archive.ReadMessage(rec, z)
		if large := p.TooLarge(err); large != nil {
			return large
		}
		if err != nil && !archive.NoMessage(err) && !isDamage(err) { // of that Scan tells
			return fmt.Errorf("%s: %w", p.File.Path, err)
		}
		if !g.filter.Message(m) {
			return nil
		}
	}
	switch {
	case inURL:
		return g.show(p, "", nil)
	case g.flags.headers:
		text := headerText(rec)
		if m != nil {
			text += string(m.Head())
		}
		_, err := g.lines(p, strings.NewReader(text))
		return err
	case m != nil:
		return g.payload(p, m)
	}
	return nil
}

// payload searches a payload. One that cannot be decoded to its end is told, and
// is no reason to stop.
func (g *grepping) payload(p *archive.Place, m *archive.Message) error {
	r, err := m.Decoded()
	if err != nil {
		return g.complain(p, err)
	}
	searched, err := g.lines(p, io.LimitReader(r, g.most))
	for _, flaw := range m.Flaws() {
		g.note(p, flaw)
	}
	if err != nil {
		return g.complain(p, err)
	}
	if searched == g.most {
		if n, _ := r.Read(make([]byte, 1)); n > 0 {
			return g.complain(p, fmt.Errorf("only the first %s of the payload were searched", humanize.IBytes(uint64(g.most))))
		}
	}
	return nil
}

// complain tells about a payload, unless the error is about the file or the
// output, and so ends the search.
func (g *grepping) complain(p *archive.Place, err error) error {
	var lost outputError
	switch {
	case errors.Is(err, errFoundOne):
		return err
	case errors.As(err, &lost):
		return lost.error
	case isDamage(err):
		return nil // Scan tells of it
	case errors.Is(err, io.ErrUnexpectedEOF) && p.Record.Header.Get("WARC-Truncated") != "":
		return nil
	}
	g.note(p, err.Error())
	return nil
}

// note tells of a record what does not end the search.
func (g *grepping) note(p *archive.Place, text string) {
	g.out.Flush() // its error comes again
	fmt.Fprintf(g.stderr, "warctee: %v: %s: %s\n", harmless(p.String()), harmless(p.Record.TargetURI()), harmless(text))
}

// An outputError is about standard output.
type outputError struct{ error }

// lines searches the lines of r, and returns how many octets these were.
func (g *grepping) lines(p *archive.Place, r io.Reader) (int64, error) {
	in := bufio.NewReaderSize(r, grepLine)
	total := int64(0)
	for number := 1; ; {
		line, err := in.ReadSlice('\n')
		total += int64(len(line))
		ended := err == nil
		text := bytes.TrimRight(line, "\r\n")
		if at := g.pattern.FindIndex(text); at != nil && len(line) > 0 {
			if err := g.show(p, around(text, at[0], at[1]), &number); err != nil {
				if !errors.Is(err, errFoundOne) {
					err = outputError{err}
				}
				return total, err
			}
		}
		if ended {
			number++
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil && err != bufio.ErrBufferFull {
			return total, err
		}
	}
}

// around returns the part of a line that is shown: what was found, and what is
// near it.
func around(line []byte, start, end int) string {
	from, to := 0, len(line)
	if to > grepShown {
		from = max(0, start-grepShown/4)
		to = min(len(line), max(from+grepShown, min(end, from+grepShown)))
		for from > 0 && !utf8.RuneStart(line[from]) {
			from--
		}
		for to < len(line) && !utf8.RuneStart(line[to]) {
			to++
		}
	}
	text := string(line[from:to])
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}

// A findLine is a find as --json shows it.
type findLine struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Type   string `json:"type"`
	ID     string `json:"id"`
	Date   string `json:"date"`
	URL    string `json:"url,omitempty"`
	Number int    `json:"line_number,omitempty"`
	Line   string `json:"line,omitempty"`
}

func (g *grepping) show(p *archive.Place, line string, number *int) error {
	g.found = true
	if g.flags.files || g.flags.count || g.flags.quiet {
		g.records++
		return errFoundOne
	}
	rec := p.Record
	if g.flags.json {
		find := findLine{p.File.Path, p.Offset, rec.Type(), rec.ID(), rec.Header.Get("WARC-Date"), rec.TargetURI(), 0, line}
		if number != nil {
			find.Number = *number
		}
		return writeLine(g.out, find)
	}
	text := harmless(p.String()) + ": " + orDash(rec.TargetURI())
	if number != nil {
		text += ": " + harmless(line)
	}
	_, err := fmt.Fprintln(g.out, text)
	return err
}

// showFile shows what -l and -c want to know of a file.
func (g *grepping) showFile(path string) (err error) {
	switch {
	case g.flags.files && g.records > 0 && g.flags.json:
		err = writeLine(g.out, struct {
			File string `json:"file"`
		}{path})
	case g.flags.files && g.records > 0:
		_, err = fmt.Fprintln(g.out, harmless(path))
	case g.flags.count && g.flags.json:
		err = writeLine(g.out, struct {
			File    string `json:"file"`
			Records int64  `json:"records"`
		}{path, g.records})
	case g.flags.count:
		_, err = fmt.Fprintf(g.out, "%s: %d\n", harmless(path), g.records)
	}
	return err
}
