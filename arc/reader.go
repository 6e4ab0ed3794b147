package arc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

const (
	maxLine = 64 << 10 // bytes of the line of a record

	// maxExcess is how far behind the end of a block, as its length tells it, the
	// next record is looked for where gzip does not tell the end.
	// Of a block that is too long the next record is looked for as far before its end.
	maxExcess = 4 << 10
)

// An Error says that the input is not an ARC file, or damaged.
type Error struct {
	Offset int64 // of the record, or of the gzip member it is in, in bytes of the input
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("arc: record at offset %d: %v", e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A Reader reads the records of an ARC file one after the other. Next goes to
// the next record, Read reads its block. It is not safe for concurrent use.
//
// The input is plain or gzip, as its first two bytes say; each record may be a
// gzip member of its own, or not. Line ends missing or too many between records
// are forgiven. So is a length that is wrong or missing, where the end of the block
// shows otherwise: by the end of a gzip member or of the file, or because the next
// record starts a little later or earlier. The block is then what is there, and Excess
// says how much that is. A file may start with any line that starts with filedesc:.
type Reader struct {
	count  countingReader
	raw    *bufio.Reader // over count
	gz     *gzip.Reader  // over raw; nil: plain, or nothing was read yet
	in     *bufio.Reader // what is parsed: over gz, or raw itself
	member int64         // offset of the gzip member that in is in
	fresh  bool          // nothing of that member was read
	first  bool          // no record was read
	rec    Record
	owns   bool  // the record started with its gzip member
	left   int64 // octets of the block that were not read
	looked bool  // at the end of the block, see look
	excess int64
	state  state
	err    error // sticky
}

type state int

const (
	between state = iota // before a record
	inBlock              // left octets of the block are to come
	beyond               // behind left, and the block lasts to the end of the member
)

// NewReader returns a Reader of r, which needs no buffering.
func NewReader(r io.Reader) *Reader {
	z := &Reader{count: countingReader{r: r}, first: true}
	z.raw = bufio.NewReaderSize(&z.count, maxLine+maxExcess)
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

// InputOffset returns how many bytes of the input were used.
func (r *Reader) InputOffset() int64 { return r.count.n - int64(r.raw.Buffered()) }

// Excess returns how many octets the block has more than its line tells, or
// fewer when it is negative. It is known when Read has returned [io.EOF].
func (r *Reader) Excess() int64 { return r.excess }

// Next skips what is left of the current record and reads the line of the next
// one. It returns io.EOF when there is none, an [*Error] when the input is
// damaged, and otherwise an error of the input. All errors are final. The record
// is valid until Next is called again.
func (r *Reader) Next() (*Record, error) {
	if r.err == nil {
		io.Copy(io.Discard, r) // its error is r.err
	}
	if r.err == nil {
		r.err = r.next()
	}
	if r.err != nil {
		return nil, r.err
	}
	return &r.rec, nil
}

func (r *Reader) next() error {
	if err := r.startRecord(); err != nil {
		return err
	}
	line, err := r.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull || len(line) > maxLine {
		return r.broken(fmt.Errorf("its line has more than %d bytes", maxLine))
	}
	if err != nil && err != io.EOF {
		return r.inputError(err)
	}
	offset, first, text := r.rec.Offset, r.first, strings.TrimRight(string(line), "\r\n")
	r.rec, err = parseLine(text)
	if err != nil && first && strings.HasPrefix(text, "filedesc:") {
		r.rec, err = damagedFiledesc(text, err), nil
	}
	r.rec.Offset, r.first = offset, false
	if err != nil {
		return r.broken(fmt.Errorf("it starts with %.80q, which is not the line of an ARC record: %w", line, err))
	}
	r.left, r.looked, r.excess, r.state = r.rec.Length, false, 0, inBlock
	if first && r.rec.Filedesc() && r.left > maxExcess { // it has a few lines
		b, _ := r.in.Peek(maxExcess + maxLine)
		if n := nextRecord(b); n >= 0 {
			r.correct(n)
		}
	}
	return nil
}

// startRecord goes to the first byte of the next record. It returns io.EOF when
// there is none.
func (r *Reader) startRecord() error {
	if r.in == nil {
		if err := r.sniff(); err != nil {
			return err
		}
	}
	for {
		offset := r.InputOffset()
		if r.gz != nil {
			offset = r.member
		}
		r.rec = Record{Offset: offset}
		b, err := r.in.Peek(1)
		switch {
		case err == nil && (b[0] == '\r' || b[0] == '\n'):
			r.in.Discard(1) // cannot fail: it was peeked
			continue
		case err == nil:
			r.owns, r.fresh = r.gz != nil && r.fresh, false
			return nil
		case err != io.EOF:
			return r.inputError(err)
		case r.gz == nil:
			return io.EOF
		}
		if err := r.nextMember(); err != nil {
			return err
		}
	}
}

func (r *Reader) sniff() error {
	magic, err := r.raw.Peek(2)
	if err != nil && err != io.EOF {
		return r.inputError(err)
	}
	if string(magic) != "\x1f\x8b" {
		r.in = r.raw
		return nil
	}
	r.gz = new(gzip.Reader)
	r.in = bufio.NewReaderSize(nil, maxLine+maxExcess)
	return r.nextMember()
}

// nextMember goes to the next gzip member. It returns io.EOF when there is none.
func (r *Reader) nextMember() error {
	r.member, r.fresh = r.InputOffset(), true
	if r.state == between {
		r.rec = Record{Offset: r.member}
	}
	if _, err := r.raw.Peek(1); err == io.EOF {
		return io.EOF
	}
	if err := r.gz.Reset(r.raw); err != nil { // io.EOF too: within the head
		return r.inputError(err)
	}
	r.gz.Multistream(false)
	r.in.Reset(r.gz)
	return nil
}

// Read reads from the block of the current record.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		switch {
		case r.err != nil:
			return 0, r.err
		case r.state == between:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		case r.state == beyond:
			return r.readBeyond(p)
		case r.left > 0 && r.left <= maxExcess && !r.looked:
			r.look()
		case r.left > 0:
			most := r.left
			if !r.looked {
				most -= maxExcess
			}
			n, err := r.in.Read(p[:min(int64(len(p)), most)])
			r.left -= int64(n)
			if n == 0 && err != nil { // with n > 0 it comes again
				r.err = r.blockError(err)
			}
			if n > 0 || r.err != nil {
				return n, r.err
			}
		default:
			if r.err = r.endBlock(); r.err != nil {
				return 0, r.err
			}
		}
	}
}

// blockError judges an error within the length of a block. It is nil where
// reading goes on: in the next gzip member, or behind a block that is shorter
// than its line tells.
func (r *Reader) blockError(err error) error {
	if err != io.EOF {
		return r.inputError(err)
	}
	if r.gz != nil {
		err := r.nextMember()
		if err != nil && err != io.EOF {
			return err
		}
		if err == nil {
			if b, _ := r.in.Peek(maxLine); !startsRecord(b) {
				r.fresh = false
				return nil
			}
		}
	}
	r.excess, r.left, r.state = r.excess-r.left, 0, between
	return nil
}

// endBlock is called where the block ends according to its length. What may
// follow are line ends, and then another record or the end of the gzip member
// or of the input. If it is something else, the length is wrong.
func (r *Reader) endBlock() error {
	b, err := r.in.Peek(maxLine + maxExcess)
	if err != nil && err != io.EOF {
		return r.inputError(err)
	}
	rest := bytes.TrimLeft(b, "\r\n")
	if len(rest) == 0 || startsRecord(rest) {
		r.state = between
		return nil
	}
	n := nextRecord(b)
	switch {
	case n >= 0:
	case r.owns:
		r.state = beyond
		return nil
	case err == io.EOF && len(b) <= maxExcess:
		n = len(bytes.TrimSuffix(b, []byte("\n")))
	case r.rec.Damage != nil:
		return r.broken(fmt.Errorf("%w, and no record follows in the %d octets of its block that were looked at", r.rec.Damage, maxExcess))
	default:
		return r.broken(fmt.Errorf("its length of %d is wrong: no record follows the block, nor the %d octets behind it", r.rec.Length, maxExcess))
	}
	r.left = int64(n)
	r.excess += int64(n)
	return nil
}

// look is called where as much of the block is left as can be looked at together with
// what follows it. Where nothing follows that may follow a block, and the next record
// starts within it, its length is too large, and is corrected.
func (r *Reader) look() {
	r.looked = true
	left := int(r.left)
	b, err := r.in.Peek(left + maxLine)
	if err != nil && err != io.EOF {
		return // Read meets it
	}
	if len(b) < left && r.gz != nil {
		return // the block may go on in the next member
	}
	if len(b) >= left {
		rest := bytes.TrimLeft(b[left:], "\r\n")
		if len(rest) == 0 || startsRecord(rest) && !divides(b, left) {
			return
		}
	}
	if r.left == r.rec.Length && startsRecord(b) {
		r.correct(0)
	} else if n := nextRecord(b); n >= 0 && n < left {
		r.correct(n)
	}
}

// correct sets how much is left of a block that is too long.
func (r *Reader) correct(left int) {
	r.excess -= r.left - int64(left)
	r.left, r.looked = int64(left), true
}

// divides reports whether the line of a record is divided at i, of which the rest
// could be taken for such a line too: that of ttp://example.org/.
func divides(b []byte, i int) bool {
	start := bytes.LastIndexByte(b[:i], '\n') + 1
	return start < i && isUsual(b[start:]) && !isUsual(b[i:]) && startsRecord(b[start:])
}

// isUsual reports whether b starts with one of the schemes that crawlers capture.
func isUsual(b []byte) bool {
	return bytes.HasPrefix(b, []byte("http:")) || bytes.HasPrefix(b, []byte("https:")) || bytes.HasPrefix(b, []byte("ftp:")) || bytes.HasPrefix(b, []byte("dns:"))
}

// nextRecord returns where the line end is before the first record in b, which
// is what comes in the input; or -1 when it is not within maxExcess.
func nextRecord(b []byte) int {
	for i := range min(len(b), maxExcess) {
		if b[i] == '\n' && startsRecord(b[i+1:]) {
			return i
		}
	}
	return -1
}

// startsRecord reports whether b starts with the line of a record.
func startsRecord(b []byte) bool {
	line, _, _ := bytes.Cut(b[:min(len(b), maxLine)], []byte("\n"))
	_, err := parseLine(strings.TrimRight(string(line), "\r"))
	return err == nil
}

// readBeyond reads what the gzip member holds behind the length of the block,
// but for the line end at its end.
func (r *Reader) readBeyond(p []byte) (int, error) {
	b, err := r.in.Peek(2)
	if err != nil && err != io.EOF {
		r.err = r.inputError(err)
		return 0, r.err
	}
	if len(b) == 0 || len(b) == 1 && b[0] == '\n' {
		r.state = between
		return 0, io.EOF
	}
	n := min(len(p), max(1, r.in.Buffered()-1))
	n, _ = r.in.Read(p[:n]) // cannot fail: it was peeked
	r.excess += int64(n)
	return n, nil
}

func (r *Reader) broken(err error) error {
	return &Error{Offset: r.rec.Offset, Err: err}
}

// inputError tells an error of the input from damaged gzip.
func (r *Reader) inputError(err error) error {
	if r.count.err != nil {
		return fmt.Errorf("arc: reading at offset %d: %w", r.count.n, r.count.err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return r.broken(fmt.Errorf("the gzip member is damaged: %w", err))
}
