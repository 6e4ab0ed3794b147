package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/warc"
)

// catFlags are the flags of cat.
type catFlags struct {
	selection selection
	headers   bool
	payload   bool
	decoded   bool
	force     bool
}

func newCatCommand() *cobra.Command {
	f := &catFlags{}
	cmd := &cobra.Command{
		Use:   "cat " + selectionUse,
		Short: "Print one record of WARC files, or its payload",
		Long: `Print one record of WARC files as it is in the file, decompressed: the header,
the block, the line ends behind it. With --payload it is the body of the HTTP
message, its transfer-coding removed; with --decoded also its content-codings. A
revisit is followed then to the record with its payload, if that is in one of the
given files, and segments are joined. A directory means the WARC
files in it and below it, - standard input; beside FILE@OFFSET no other file is needed.

What is not text is not written to a terminal, unless --force is given.

Exit status: 0 printed; 1 an error; 2 wrong usage; 3 it is in none of the files,
or damaged.`,
		Example: `  warctee cat crawl.warc.gz@4711
  warctee cat --url https://example.com/logo.png --at 2026-11 --decoded warcs/ > logo.png`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.selection.register(flags)
	flags.BoolVar(&f.headers, "headers", false, "only the header of the record and the head of its HTTP message")
	flags.BoolVar(&f.payload, "payload", false, "only the payload, without transfer-coding")
	flags.BoolVar(&f.decoded, "decoded", false, "only the payload, without content-codings too")
	flags.BoolVar(&f.force, "force", false, "write binary data to a terminal too")
	return cmd
}

func (f *catFlags) run(cmd *cobra.Command, args []string) error {
	if err := exclusive(cmd.Flags(), "headers", "payload", "decoded"); err != nil {
		return err
	}
	files, place, err := f.selection.open(args, cmd.ErrOrStderr())
	defer closeArchives(files)
	if err != nil {
		return err
	}
	if (f.payload || f.decoded) && place.Record.Type() == warc.TypeRevisit {
		if place, err = archive.Original(files, place); err != nil {
			return lookError(err)
		}
	}
	content, message, err := f.content(files, place)
	if err != nil {
		return lookError(err)
	}
	stdout := rawWriter(cmd.OutOrStdout())
	if isTerminal(stdout) && !f.force {
		err = copyText(outputWriter{stdout}, content)
	} else {
		_, err = io.Copy(outputWriter{stdout}, content)
	}
	if message != nil {
		for _, flaw := range message.Flaws() {
			tell(cmd.ErrOrStderr(), fmt.Errorf("%v: %s", place, flaw))
		}
	}
	lost, unread := outputError{}, (*fs.PathError)(nil)
	truncated := place.Record.Header.Get("WARC-Truncated")
	switch {
	case err == nil || errors.Is(err, errBinary):
		return err
	case errors.As(err, &lost):
		return quietly(lost.error)
	case isDamage(err) || errors.As(err, &unread):
		return lookError(err)
	case errors.Is(err, io.ErrUnexpectedEOF) && truncated != "":
		fmt.Fprintf(cmd.ErrOrStderr(), "warctee: that is all there is: WARC-Truncated: %s\n", harmless(truncated))
		return nil
	}
	return commandError{exitFound, fmt.Errorf("%v: the body of the message is not as its head says: %w", place, err)}
}

// An outputWriter makes what goes wrong an outputError.
type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

// content returns what is to be printed, and the message whose payload that is, nil
// where it is none.
func (f *catFlags) content(files []*archive.File, place *archive.Place) (io.Reader, *archive.Message, error) {
	if f.payload || f.decoded {
		m, err := archive.Follow(files, place)
		if err != nil {
			return nil, nil, err
		}
		if f.payload {
			return m.Payload(), m, nil
		}
		r, err := m.Decoded()
		if err == nil {
			return r, m, nil
		}
		err = fmt.Errorf("%v: %w; --payload prints it as it is", place, err)
		if !errors.Is(err, coding.ErrUnknown) { // it is not what its head says
			err = commandError{exitFound, err}
		}
		return nil, nil, err
	}
	block, err := place.Open()
	if err != nil {
		return nil, nil, err
	}
	head := bytes.NewReader(place.Record.Raw)
	if !f.headers {
		return io.MultiReader(head, block, strings.NewReader("\r\n\r\n")), nil, nil
	}
	m, err := archive.ReadMessage(place.Record, block)
	if err != nil {
		return nil, nil, fmt.Errorf("%v: %w", place, err)
	}
	return io.MultiReader(head, strings.NewReader(string(m.Head()))), nil, nil
}

// headerText returns the header of a record with a line for each field.
func headerText(rec *warc.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "WARC/%s\r\n", rec.Version)
	for _, field := range rec.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", field.Name, field.Value)
	}
	return b.String() + "\r\n"
}

// errBinary says that what comes next is no text.
var errBinary = errors.New("this is binary data, which can upset a terminal: redirect it to a file or a program, or give --force")

// copyText copies a text to a terminal, until something comes that is none.
func copyText(dst io.Writer, src io.Reader) error {
	in, out := bufio.NewReader(src), bufio.NewWriter(dst)
	for {
		c, n, err := in.ReadRune()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return errors.Join(out.Flush(), err)
		}
		if c == utf8.RuneError && n == 1 || unicode.IsControl(c) && !strings.ContainsRune("\t\r\n", c) {
			out.Flush()
			return errBinary
		}
		out.WriteRune(c) // Flush returns the error
	}
}
