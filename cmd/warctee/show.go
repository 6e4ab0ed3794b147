package main

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

const (
	// showWidth is how much of a line of a payload is shown, in bytes.
	showWidth = 200
	// showPayload is how much of a decoded payload is read, in bytes.
	showPayload = 16 << 20
	// showHead is how much of the head of a message is shown, in lines.
	showHead = 200
)

// showFlags are the flags of show.
type showFlags struct {
	selection selection
	lines     int
}

func newShowCommand() *cobra.Command {
	f := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show " + selectionUse,
		Short: "Show one record of WARC files to people",
		Long: `Show one record of WARC files to people: its header, whether its digests are
right, the head of its HTTP message, the start of a text, and where the records
are that belong to it: the response to a request, the original of a revisit. What
could upset a terminal is shown as \x1b and the like. A directory means the WARC
files in it and below it, - standard input; beside FILE@OFFSET no other file is needed.

Exit status: 0 shown; 1 an error; 2 wrong usage; 3 it is in none of the files, or
damaged, or a digest is wrong.`,
		Example: `  warctee show crawl.warc.gz@4711
  warctee show --url https://example.com/ --at 2026-11-21 --lines 50 warcs/`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.selection.register(flags)
	flags.IntVar(&f.lines, "lines", 20, "show `N` lines of a text at most")
	return cmd
}

func (f *showFlags) run(cmd *cobra.Command, args []string) error {
	if f.lines < 0 {
		return usageError{fmt.Errorf("--lines %d: it must be at least 0", f.lines)}
	}
	files, place, err := f.selection.open(args, cmd.ErrOrStderr())
	defer closeArchives(files)
	if err != nil {
		return err
	}
	s := &showing{files: files, place: place, lines: f.lines, out: bufio.NewWriter(cmd.OutOrStdout())}
	err = s.show()
	return quietly(lookError(errors.Join(err, s.out.Flush())))
}

// A showing shows one record.
type showing struct {
	files []*archive.File
	place *archive.Place
	lines int
	out   *bufio.Writer // its error comes from Flush
	flaws []string      // of the payload, as far as digests has seen
}

func (s *showing) show() error {
	rec := s.place.Record
	fmt.Fprintf(s.out, "%s\n\nWARC/%s\n", harmless(s.place.String()), rec.Version)
	for _, field := range rec.Header {
		fmt.Fprintf(s.out, "%s: %s\n", harmless(field.Name), harmless(field.Value))
	}
	fmt.Fprintln(s.out)
	wrong, err := s.digests()
	if err != nil {
		return err
	}
	if err := s.links(); err != nil {
		return err
	}
	if err := s.message(); err != nil {
		return err
	}
	if wrong {
		return fmt.Errorf("%v: a digest is wrong: %w", s.place, errFound)
	}
	return nil
}

// digests tells whether the digests are right.
func (s *showing) digests() (wrong bool, err error) {
	rec := s.place.Record
	block, err := s.place.Open()
	if err != nil {
		return false, err
	}
	ok, err := s.digest("block", "WARC-Block-Digest", block, nil)
	if err != nil {
		return false, err
	}
	if rec.Header.Get("WARC-Payload-Digest") == "" {
		return !ok, nil
	}
	if rec.Type() == warc.TypeRevisit {
		fmt.Fprintf(s.out, "payload digest: not checked: the payload of a revisit is in another record\n")
		return !ok, nil
	}
	m, err := archive.Follow(s.files, s.place)
	if err != nil {
		fmt.Fprintf(s.out, "payload digest: not checked: %s\n", harmless(err.Error()))
		return !ok, nil
	}
	alsoOK, err := s.digest("payload", "WARC-Payload-Digest", m.Payload(), m)
	s.flaws = m.Flaws()
	return !ok || !alsoOK, err
}

// digest compares a digest with what is there.
func (s *showing) digest(what, field string, r io.Reader, m *archive.Message) (ok bool, err error) {
	text := s.place.Record.Header.Get(field)
	want, err := warc.ParseDigest(text)
	var h hash.Hash
	if err == nil {
		h = want.Algorithm.New()
	}
	if h == nil {
		if text != "" {
			fmt.Fprintf(s.out, "%s digest: cannot be checked: %s\n", what, harmless(err.Error()))
		}
		h = warc.SHA256.New()
		text = ""
	}
	n, err := io.Copy(h, r)
	short := errors.Is(err, io.ErrUnexpectedEOF) && m != nil
	if err != nil && !short && !archive.NoMessage(err) {
		return false, err
	}
	switch got := (warc.Digest{Algorithm: want.Algorithm, Sum: h.Sum(nil)}); {
	case text == "":
		ok = true
	case want.Equal(got):
		ok = true
		fmt.Fprintf(s.out, "%s digest: ✓ right (%d octets)\n", what, n)
	default:
		fmt.Fprintf(s.out, "%s digest: ✗ wrong: of the %d octets it is %v\n", what, n, got)
	}
	return ok, nil
}

// links tells where the records are that belong to this one.
func (s *showing) links() error {
	rec := s.place.Record
	original := "" // where it is
	if rec.Type() == warc.TypeRevisit {
		p, err := archive.Original(s.files, s.place)
		if err != nil {
			fmt.Fprintf(s.out, "original: %s\n", harmless(err.Error()))
		} else {
			original = p.String()
			fmt.Fprintf(s.out, "original: %s\n", describe(p))
		}
	}
	if len(rec.Header.Values("WARC-Concurrent-To"))+len(rec.Header.Values("WARC-Refers-To")) == 0 && rec.Type() != warc.TypeResponse {
		return nil
	}
	related, err := archive.Related(s.files, s.place)
	if err != nil {
		fmt.Fprintf(s.out, "related: not all can be found: %s\n", harmless(err.Error()))
	}
	for _, p := range related {
		if p.String() == original {
			continue
		}
		fmt.Fprintf(s.out, "related: %s\n", describe(p))
	}
	return nil
}

// describe says in a line which record is where.
func describe(p *archive.Place) string {
	rec := p.Record
	return fmt.Sprintf("%s %s %s %s %s", harmless(p.String()), orDash(rec.Type()), orDash(rec.ID()), orDash(rec.Header.Get("WARC-Date")), orDash(rec.TargetURI()))
}

// message shows the head of the message and the start of its payload.
func (s *showing) message() error {
	m, err := archive.Follow(s.files, s.place)
	switch {
	case archive.NoMessage(err):
		fmt.Fprintf(s.out, "\nThe block cannot be understood: %s\n", harmless(err.Error()))
		return nil
	case errors.Is(err, archive.ErrIncomplete):
		fmt.Fprintf(s.out, "\nThe payload is not shown: %s\n", harmless(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	if head := m.Head(); head != nil {
		fmt.Fprintln(s.out)
		lines := strings.Split(strings.TrimRight(string(head), "\r\n"), "\n")
		for _, line := range lines[:min(len(lines), showHead)] {
			fmt.Fprintln(s.out, shorten(strings.TrimSuffix(line, "\r")))
		}
		if n := len(lines) - showHead; n > 0 {
			fmt.Fprintf(s.out, "… and %d more lines\n", n)
		}
	}
	return s.payload(m)
}

func (s *showing) payload(m *archive.Message) error {
	r, err := m.Decoded()
	if err != nil {
		fmt.Fprintf(s.out, "\nThe payload cannot be decoded: %s\n", harmless(err.Error()))
		return nil
	}
	for i, flaw := range slices.Compact(slices.Sorted(slices.Values(append(m.Flaws(), s.flaws...)))) {
		if i == 0 {
			fmt.Fprintln(s.out)
		}
		fmt.Fprintf(s.out, "Note: %s\n", harmless(flaw))
	}
	in := bufio.NewReaderSize(io.LimitReader(r, showPayload), 16<<10)
	start, err := in.Peek(in.Size())
	switch {
	case len(start) == 0 && err == io.EOF:
		return nil
	case len(start) > 0 && !isText(start):
		media := m.MediaType()
		if media == "" {
			media = "of unknown type"
		}
		fmt.Fprintf(s.out, "\nThe payload (%s) does not look like text and is not shown; 'warctee cat --decoded' writes it to a file.\n", harmless(media))
		return nil
	}
	fmt.Fprintln(s.out)
	for range s.lines {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			fmt.Fprintln(s.out, shorten(strings.TrimRight(string(line), "\r\n")))
		}
		for err == bufio.ErrBufferFull { // the rest of a long line
			_, err = in.ReadSlice('\n')
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			fmt.Fprintf(s.out, "… and here it breaks off: %s\n", harmless(err.Error()))
			return nil
		}
	}
	if _, err := in.Peek(1); err == nil {
		fmt.Fprintf(s.out, "… and more; see --lines\n")
	}
	return nil
}

// isText reports whether what starts so is text: without zero bytes, and mostly
// of printable characters or such of another encoding than UTF-8.
func isText(start []byte) bool {
	controls := 0
	for _, c := range start {
		if c == 0 {
			return false
		}
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b {
			controls++
		}
	}
	return controls*50 <= len(start)
}

// shorten makes a line harmless, and not longer than showWidth.
func shorten(line string) string {
	if len(line) <= showWidth {
		return harmless(line)
	}
	n := showWidth
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%s in all)", harmless(line[:n]), humanize.Bytes(uint64(len(line))))
}
