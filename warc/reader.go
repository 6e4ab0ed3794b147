package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The rules that a [Reader] finds broken.
const (
	RuleMember  = "member"  // a gzip member or zstd frame is damaged; when Strict: it is not one record
	RuleVersion = "version" // a record does not start with a version that can be read
	RuleHeader  = "header"  // the named fields
	RuleLength  = "length"  // Content-Length is missing, no number, or more than there is
	RuleMessage = "http"    // the block is an HTTP message that is beyond bounds; of readers of blocks
	RuleEnd     = "end"     // no CRLF CRLF behind the block; only when Strict
)

// ErrHalfEnd is wrapped by an error of [RuleEnd] about a record with nothing
// behind its block but one CR LF, and the end of the input or of a member.
var ErrHalfEnd = errors.New("behind the block there is only one CR LF, not CR LF CR LF")

// An Error says that the input is not a WARC file, or damaged.
type Error struct {
	Offset int64  // of the record, or of the gzip member or zstd frame it is in, in bytes of the input
	Rule   string // which of the rules is broken
	Err    error  // how
}

func (e *Error) Error() string {
	return fmt.Sprintf("warc: record at offset %d: %v (rule %s)", e.Offset, e.Err, e.Rule)
}

func (e *Error) Unwrap() error { return e.Err }

// A Record is the head of a record. Its block is read from the [Reader].
type Record struct {
	Version Version
	Header  Header
	Length  int64 // octets of the block, from Content-Length
	Offset  int64 // bytes of the input before the record, or the gzip member or zstd frame in which it starts

	// Raw is the header as it is in the input, from the version line to the
	// empty line, with what a Reader forgives.
	Raw []byte
}

// Type returns WARC-Type, in lower case.
func (r *Record) Type() string { return strings.ToLower(r.Header.Get("WARC-Type")) }

// ID returns WARC-Record-ID, with its angle brackets.
func (r *Record) ID() string { return r.Header.Get("WARC-Record-ID") }

// TargetURI returns WARC-Target-URI, without the angle brackets that some
// writers put around it.
func (r *Record) TargetURI() string {
	uri := r.Header.Get("WARC-Target-URI")
	if inner, ok := strings.CutPrefix(uri, "<"); ok {
		uri = strings.TrimSuffix(inner, ">")
	}
	return uri
}

// Date returns WARC-Date. A date of a finer granularity than the version of the
// record allows is taken.
func (r *Record) Date() (time.Time, error) { return ParseDate(r.Header.Get("WARC-Date"), V1_1) }

// A Reader reads the records of a WARC file one after the other. Next goes to
// the next record, Read reads its block. It is not safe for concurrent use.
//
// The input is plain, gzip or zstd, as its first bytes say. By default a Reader
// forgives what does not hide where a record ends: lines that end in LF alone,
// lines without a colon, line ends missing or too many between records, gzip
// members and zstd frames that hold more than one record, gzip members that hold
// less (a record may have several zstd frames).
//
// What is left of a block when Next is called is skipped, where that can be done,
// and not checked then, neither for its length nor for the checksum around it:
// the rest of a zstd frame that ends with the record; and where the input is an
// [io.ReaderAt] and [io.Seeker], as a file is, the rest of a gzip member with skip
// lengths (see [WriterOptions]), unless they are in contradiction to the record
// or to what is where they point to, and a plain block with CRLF CRLF behind it.
// A strict Reader skips nothing.
type Reader struct {
	// Strict makes all this an error. It is set before the first Next. What the
	// heads of zstd frames lack is for [Reader.FrameFlaw] to tell.
	Strict bool

	// Dictionary is that of the file, where the input is not its start; see
	// [ReadDictionary]. It is set before the first Next.
	Dictionary *Dictionary

	src     io.Reader
	count   countingReader
	raw     *bufio.Reader // over count
	gz      *gzip.Reader  // over raw; nil: no gzip, or nothing was read yet
	zs      *frameReader  // over raw; nil: no zstd, or nothing was read yet
	out     decodedReader // over gz or zs
	in      *bufio.Reader // what is parsed: over out, or raw itself
	member  int64         // offset of the gzip member or zstd frame that in is in
	sl      skipLengths   // of the member
	flaw    error         // for FrameFlaw
	rec     Record
	left    int64  // octets of the block that were not read
	inside  bool   // a record was begun and not ended
	folded  []byte // the value of the last field, while it is folding
	folding bool   // lines of the header have continued the last field
	err     error  // sticky
}

// NewReader returns a Reader of r, which needs no buffering.
func NewReader(r io.Reader) *Reader {
	z := &Reader{src: r, count: countingReader{r: r}}
	z.raw = bufio.NewReaderSize(&z.count, 64<<10)
	return z
}

// countingReader counts the bytes and remembers the error of r.
type countingReader struct {
	r   io.Reader
	n   int64
	err error // but io.EOF
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// InputOffset returns how many bytes of the input were used. When Read has
// returned [io.EOF], and before Next, this is the end of the record, unless
// there is more in the same gzip member.
func (r *Reader) InputOffset() int64 { return r.count.n - int64(r.raw.Buffered()) }

// Next skips what is left of the current record, whose end it checks, and
// reads the header of the next one. It returns [io.EOF] when there is none, an
// [*Error] when the input is damaged, and otherwise an error of the input.
// All errors are final. The record is valid until Next is called again.
func (r *Reader) Next() (*Record, error) {
	if r.err == nil {
		r.err = r.next()
	}
	if r.err != nil {
		return nil, r.err
	}
	return &r.rec, nil
}

// Read reads from the block of the current record. At the end of the block it
// checks how the record ends, before it returns [io.EOF].
func (r *Reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case !r.inside:
		return 0, io.EOF
	case r.left == 0:
		if r.err = r.endRecord(); r.err != nil {
			return 0, r.err
		}
		return 0, io.EOF
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if n == 0 && err != nil { // with n > 0 it comes again
		r.err = r.blockError(err)
	}
	return n, r.err
}

// blockError makes of an error in the block what Read returns, nil where
// reading goes on in the next gzip member or zstd frame.
func (r *Reader) blockError(err error) error {
	if err == io.EOF {
		if err = r.moreMembers(); err == nil {
			return nil
		}
		if err == io.EOF {
			return r.broken(RuleLength, fmt.Errorf("the block ends %d octets before its Content-Length of %d: %w", r.left, r.rec.Length, io.ErrUnexpectedEOF))
		}
	}
	return r.inputError(err)
}

func (r *Reader) next() error {
	if r.inside && r.left > 0 && !r.Strict {
		if err := r.skip(); err != nil {
			return err
		}
	}
	for r.inside && r.left > 0 {
		n, err := r.in.Discard(int(min(r.left, 1<<30)))
		r.left -= int64(n)
		if err != nil {
			if err = r.blockError(err); err != nil {
				return err
			}
		}
	}
	if r.inside {
		if err := r.endRecord(); err != nil {
			return err
		}
	}
	if err := r.startRecord(); err != nil {
		return err
	}
	return r.readHeader()
}

// startRecord goes to the first byte of the next record. It returns io.EOF when
// there is none.
func (r *Reader) startRecord() error {
	if r.in == nil {
		if err := r.sniff(); err != nil {
			return err
		}
	}
	r.rec = Record{Offset: r.InputOffset(), Raw: r.rec.Raw[:0]}
	for {
		if r.compressed() {
			r.rec.Offset = r.member
		}
		b, err := r.in.Peek(1)
		switch {
		case err == nil && !r.Strict && (b[0] == '\r' || b[0] == '\n'):
			r.in.Discard(1) // cannot fail: it was peeked
			if !r.compressed() {
				r.rec.Offset++
			}
			continue
		case err == nil:
			r.inside = true
			return nil
		case err != io.EOF:
			return r.inputError(err)
		case !r.compressed():
			return io.EOF
		}
		if err := r.nextMember(); err != nil {
			return err
		}
		if r.Strict && r.gz != nil {
			r.rec.Offset = r.member
			if _, err := r.in.Peek(1); err == io.EOF {
				return r.broken(RuleMember, errors.New("a gzip member is empty"))
			}
		}
	}
}

// endRecord checks what is behind the block.
func (r *Reader) endRecord() error {
	if !r.Strict {
		r.inside = false
		return r.skipLineEnds()
	}
	end, err := r.readEnd()
	r.inside = false
	if err != nil {
		return err
	}
	switch {
	case string(end) == recordEnd:
	case string(end) == recordEnd[:2]:
		return r.broken(RuleEnd, ErrHalfEnd)
	default:
		return r.broken(RuleEnd, fmt.Errorf("behind the block there is %q, not CR LF CR LF", end))
	}
	if !r.compressed() {
		return nil
	}
	_, err = r.in.Peek(1)
	if err == nil {
		return r.broken(RuleMember, fmt.Errorf("the %s goes on behind the record", r.memberName()))
	}
	if err != io.EOF {
		return r.inputError(err)
	}
	return r.checkSkipLengths()
}

// readEnd reads the end of a record.
func (r *Reader) readEnd() (end []byte, err error) {
	for len(end) < len(recordEnd) {
		b, err := r.in.ReadByte()
		if err == io.EOF {
			if err = r.moreMembers(); err == io.EOF {
				return end, nil
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, r.inputError(err)
		}
		end = append(end, b)
	}
	return end, nil
}

// skipLineEnds leaves the end of a gzip member or zstd frame behind, so that it is
// checked, but does not go to the next.
func (r *Reader) skipLineEnds() error {
	for {
		b, err := r.in.Peek(1)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return r.inputError(err)
		}
		if b[0] != '\r' && b[0] != '\n' {
			return nil
		}
		r.in.Discard(1) // cannot fail: it was peeked
	}
}

func (r *Reader) readHeader() error {
	budget := MaxHeader
	line, err := r.readLine(&budget)
	if err != nil {
		return err
	}
	if err := r.parseVersion(line); err != nil {
		return err
	}
	for lines := 1; ; lines++ {
		if lines == MaxHeaderLines {
			return r.broken(RuleHeader, fmt.Errorf("the header has more than %d lines", MaxHeaderLines))
		}
		line, err := r.readLine(&budget)
		if err != nil {
			return err
		}
		text, err := r.trimLineEnd(line)
		if err != nil {
			return err
		}
		if text == "" {
			break
		}
		if err := r.addLine(text); err != nil {
			return err
		}
	}
	r.endFold()
	if r.Strict {
		if err := r.checkValues(); err != nil {
			return err
		}
	}
	r.rec.Length, err = r.contentLength()
	r.left = r.rec.Length
	return err
}

func (r *Reader) parseVersion(line string) error {
	number, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "WARC/")
	if !r.Strict {
		number = strings.TrimRight(number, " \t")
	}
	switch r.rec.Version = Version(number); r.rec.Version {
	case "0.17", "0.18", V1_0, V1_1:
	default:
		ok = false
	}
	if !ok {
		return r.broken(RuleVersion, fmt.Errorf("it starts with %.40q, not with WARC/ and 0.17, 0.18, 1.0 or 1.1", line))
	}
	_, err := r.trimLineEnd(line)
	return err
}

// readLine returns a line with its line end.
func (r *Reader) readLine(budget *int) (string, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return "", r.broken(RuleHeader, fmt.Errorf("the header has more than %d bytes", MaxHeader))
		}
		line = append(line, part...)
		if err == nil {
			r.rec.Raw = append(r.rec.Raw, line...)
			return string(line), nil
		}
		if err == io.EOF {
			if err = r.moreMembers(); err == io.EOF {
				return "", r.broken(RuleHeader, fmt.Errorf("the header ends too early: %w", io.ErrUnexpectedEOF))
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return "", r.inputError(err)
		}
	}
}

func (r *Reader) trimLineEnd(line string) (string, error) {
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok && r.Strict {
		return "", r.broken(RuleHeader, fmt.Errorf("the line %.80q does not end in CR LF", line))
	}
	return strings.TrimSuffix(text, "\n"), nil
}

// addLine adds a field to the header, or a folded line to the last field, which
// endFold has to end.
func (r *Reader) addLine(line string) error {
	h := r.rec.Header
	if line[0] == ' ' || line[0] == '\t' {
		if len(h) > 0 {
			r.fold(line)
			return nil
		}
		if r.Strict {
			return r.broken(RuleHeader, fmt.Errorf("the first line %.80q continues another", line))
		}
		return nil
	}
	name, value, ok := strings.Cut(line, ":")
	if !r.Strict {
		name = strings.TrimRight(name, " \t")
		ok = ok && name != ""
	} else if !ok || !isToken(name) {
		return r.broken(RuleHeader, fmt.Errorf("the line %.80q is not a named field", line))
	}
	if ok {
		r.endFold()
		r.rec.Header.Add(name, strings.Trim(value, " \t"))
	}
	return nil
}

// fold adds a folded line to the value of the last field. The value is collected
// in r.folded, so that each octet is copied once: a header may consist of nothing
// but folded lines.
func (r *Reader) fold(line string) {
	if !r.folding {
		r.folding = true
		r.folded = append(r.folded[:0], r.rec.Header[len(r.rec.Header)-1].Value...)
	}
	text := strings.Trim(line, " \t")
	if len(r.folded) > 0 && text != "" {
		r.folded = append(r.folded, ' ')
	}
	r.folded = append(r.folded, text...)
}

// endFold gives the last field the value that fold has collected, if it has.
func (r *Reader) endFold() {
	if r.folding {
		r.folding = false
		r.rec.Header[len(r.rec.Header)-1].Value = string(r.folded)
	}
}

func (r *Reader) checkValues() error {
	for _, f := range r.rec.Header {
		if why := badValue(strings.ReplaceAll(f.Value, "\t", " ")); why != "" {
			return r.broken(RuleHeader, fmt.Errorf("the value of %s has %s: %.80q", f.Name, why, f.Value))
		}
	}
	return nil
}

func (r *Reader) contentLength() (int64, error) {
	values := r.rec.Header.Values("Content-Length")
	if len(values) == 0 {
		return 0, r.broken(RuleLength, errors.New("there is no Content-Length"))
	}
	for _, v := range values[1:] {
		if v != values[0] || r.Strict {
			return 0, r.broken(RuleLength, fmt.Errorf("there are %d Content-Length fields", len(values)))
		}
	}
	n, err := strconv.ParseUint(values[0], 10, 63) // takes no sign
	if err != nil {
		return 0, r.broken(RuleLength, fmt.Errorf("the Content-Length %.40q is not a length", values[0]))
	}
	return int64(n), nil
}

func (r *Reader) broken(rule string, err error) error {
	return &Error{Offset: r.rec.Offset, Rule: rule, Err: err}
}
