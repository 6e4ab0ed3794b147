package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

// lsFlags are the flags of ls.
type lsFlags struct {
	filter filterFlags
	long   bool
	json   bool
}

func newLsCommand() *cobra.Command {
	f := &lsFlags{}
	cmd := &cobra.Command{
		Use:   "ls [flags] FILE…",
		Short: "List the records of WARC files",
		Long: `List the records of WARC files: where each is, how long, its type, date, HTTP
status, media type and URL. A directory means the WARC files in it and below it,
- standard input.

Filters of different kinds have to fit all; of one kind that is given several
times, one has to. In --url and --mime * stands for any text, / included; all of
the URL has to fit.

Exit status: 0 listed, even if there is nothing; 1 an error; 2 wrong usage; 3 a
file is damaged.`,
		Example: `  warctee ls warcs/
  warctee ls --type response --status 4xx,5xx --url 'https://example.com/*' warcs/
  warctee ls --json crawl.warc.gz | jq -r .url`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.filter.register(flags)
	flags.BoolVar(&f.long, "long", false, "add a line with the id, the size of the block, the payload digest and more")
	flags.BoolVar(&f.json, "json", false, "one JSON object per record, with all its fields")
	return cmd
}

func (f *lsFlags) run(args []string, stdout, stderr io.Writer) error {
	filter, err := f.filter.filter()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	files := 0
	err = eachArchive(args, stderr, func(file *archive.File) error {
		l := &listing{flags: f, filter: filter, out: out, several: files > 0}
		if !f.json {
			if err := l.title(file.Path); err != nil {
				return err
			}
		}
		files++
		return flushed(l.list(file), out)
	})
	return quietly(err)
}

// A listing lists one file. A record is shown when the next one is known, and so
// its length.
type listing struct {
	flags   *lsFlags
	filter  *archive.Filter
	out     *bufio.Writer
	several bool // there was another one before
	last    *listed
}

// A listed record is to be shown.
type listed struct {
	place   *archive.Place
	message *archive.Message // nil: it cannot be understood
}

const lsLayout = "%12s %9s %-12s %-24s %6s %-24s %s\n"

// title is written above the records of a file.
func (l *listing) title(path string) error {
	if l.several {
		fmt.Fprintln(l.out)
	}
	fmt.Fprintf(l.out, "%s:\n", harmless(path))
	_, err := fmt.Fprintf(l.out, lsLayout, "OFFSET", "LENGTH", "TYPE", "DATE", "STATUS", "MEDIA TYPE", "URL")
	return err
}

func (l *listing) list(f *archive.File) error {
	var reader *warc.Reader
	err := archive.Scan(f, func(p *archive.Place, z *warc.Reader) error {
		end := p.Offset
		if reader != nil && reader != z {
			end = -1 // there was damage
		}
		reader = z
		if err := l.show(end); err != nil {
			return err
		}
		if !l.filter.Header(p.Record) {
			return nil
		}
		m, err := archive.ReadMessage(p.Record, z) // Scan reports damage
		if l.filter.Message(m) {
			l.last = &listed{p, m}
		}
		return p.TooLarge(err)
	})
	end := int64(-1) // it is not known
	if reader != nil && err == nil {
		end = reader.InputOffset()
	}
	return errors.Join(l.show(end), err)
}

// show shows the last record, which ends at end; -1: nobody knows.
func (l *listing) show(end int64) error {
	if l.last == nil {
		return nil
	}
	e := l.last
	l.last = nil
	length := end - e.place.Offset
	if length <= 0 || e.place.Nth > 0 {
		length = -1 // the gzip member holds more than this record
	}
	if l.flags.json {
		return writeLine(l.out, newRecordLine(e, length))
	}
	size := "?"
	if length >= 0 {
		size = humanize.Bytes(uint64(length))
	}
	rec := e.place.Record
	status, media := "-", "?"
	if e.message != nil {
		media = e.message.MediaType()
		if e.message.Response != nil {
			status = fmt.Sprint(e.message.Response.Status)
		}
	}
	_, err := fmt.Fprintf(l.out, lsLayout, fmt.Sprint(e.place.Offset), size, orDash(rec.Type()), orDash(rec.Header.Get("WARC-Date")), status, orDash(media), orDash(rec.TargetURI()))
	if l.flags.long && err == nil {
		_, err = fmt.Fprintf(l.out, "%12s %s\n", "", longLine(rec))
	}
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return harmless(s)
}

// longLine is what --long tells of a record.
func longLine(rec *warc.Record) string {
	parts := []string{orDash(rec.ID()), fmt.Sprintf("%d octets", rec.Length)}
	for _, name := range []string{"WARC-Payload-Digest", "WARC-IP-Address", "WARC-Truncated", "WARC-Refers-To", "WARC-Segment-Number"} {
		if v := rec.Header.Get(name); v != "" {
			parts = append(parts, strings.TrimPrefix(name, "WARC-")+" "+harmless(v))
		}
	}
	return strings.Join(parts, "  ")
}

// A recordLine is a record as --json shows it.
type recordLine struct {
	File        string              `json:"file"`
	Offset      int64               `json:"offset"`
	Length      int64               `json:"length"` // -1: not known, or it has no place of its own
	Version     string              `json:"version"`
	Type        string              `json:"type"`
	ID          string              `json:"id"`
	Date        string              `json:"date"`
	URL         string              `json:"url,omitempty"`
	BlockLength int64               `json:"block_length"`
	MediaType   string              `json:"media_type,omitempty"`
	Method      string              `json:"method,omitempty"`
	Status      int                 `json:"status,omitempty"`
	Header      map[string][]string `json:"header"`
}

func newRecordLine(e *listed, length int64) recordLine {
	rec := e.place.Record
	line := recordLine{
		File: e.place.File.Path, Offset: e.place.Offset, Length: length,
		Version: string(rec.Version), Type: rec.Type(), ID: rec.ID(), Date: rec.Header.Get("WARC-Date"), URL: rec.TargetURI(),
		BlockLength: rec.Length, Header: make(map[string][]string),
	}
	for _, field := range rec.Header {
		line.Header[field.Name] = append(line.Header[field.Name], field.Value)
	}
	if m := e.message; m != nil {
		line.MediaType = m.MediaType()
		if m.Response != nil {
			line.Status = m.Response.Status
		}
		if m.Request != nil {
			line.Method = m.Request.Method
		}
	}
	return line
}
