package repair

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/warctee/warctee/warc"
)

const (
	version   = "WARC/"
	recordEnd = "\r\n\r\n"
)

// A found record is whole.
type found struct {
	rec    *warc.Record
	head   []byte // as it is in the file, with the empty line
	in     *source
	block  int64 // offset of the block in in
	length int64 // of the block
}

// A headError says why a header cannot be understood.
type headError struct{ why string }

func (e headError) Error() string { return e.why }

// readHead reads the header of a record. What it cannot understand is a
// headError.
func readHead(br *bufio.Reader) ([]byte, *warc.Record, error) {
	var head []byte
	for start := 0; ; {
		part, err := br.ReadSlice('\n')
		head = append(head, part...)
		switch {
		case len(head) > warc.MaxHeader:
			return nil, nil, headError{fmt.Sprintf("its header has more than %d bytes", warc.MaxHeader)}
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return nil, nil, headError{"its header has no end"}
		case err != nil:
			return nil, nil, err
		}
		line := head[start:]
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
		if start > 0 && bytes.HasPrefix(line, []byte(version)) { // else a file of such lines would take the square of its size
			return nil, nil, headError{"another record starts in its header"}
		}
		start = len(head)
	}
	rec, err := warc.NewReader(bytes.NewReader(head)).Next()
	if broken := (*warc.Error)(nil); errors.As(err, &broken) {
		return nil, nil, headError{broken.Err.Error()}
	} else if err != nil {
		return nil, nil, headError{err.Error()}
	}
	for _, id := range rec.Header.Values("WARC-Record-ID") {
		if id != rec.ID() { // the end of the header is gone, and here is the next one
			return nil, nil, headError{"its header has two different ids"}
		}
	}
	return head, rec, nil
}

// hasControls reports whether there are control octets in a header, which no
// writer puts there.
func hasControls(head []byte) bool {
	return bytes.ContainsFunc(head, func(c rune) bool { return c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == 0x7f })
}

// isStrict reports whether a header is as the standard has it.
func isStrict(head []byte) bool {
	z := warc.NewReader(bytes.NewReader(head))
	z.Strict = true
	_, err := z.Next()
	return err == nil
}

// setLength puts another Content-Length into a header.
func setLength(head []byte, n int64) []byte {
	var out []byte
	for line := range bytes.Lines(head) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			ending := line[len(bytes.TrimRight(line, "\r\n")):]
			line = append(strconv.AppendInt([]byte("Content-Length: "), n, 10), ending...)
		}
		out = append(out, line...)
	}
	return out
}

// A digester computes the block digest of a record, when it names one that can
// be computed.
type digester struct {
	want warc.Digest
	h    hash.Hash // nil: there is none
}

func newDigester(rec *warc.Record) digester {
	want, err := warc.ParseDigest(rec.Header.Get("WARC-Block-Digest"))
	if err != nil {
		return digester{}
	}
	d := digester{want, want.Algorithm.New()}
	if rec.Length > 0 && d.agrees() { // of nothing: GNU Wget writes that on all its revisits
		return digester{}
	}
	return d
}

func (d digester) known() bool { return d.h != nil }

func (d digester) Write(p []byte) (int, error) {
	if d.h == nil {
		return len(p), nil
	}
	return d.h.Write(p)
}

// agrees reports whether what was written is the block.
func (d digester) agrees() bool {
	return d.h != nil && d.want.Equal(warc.Digest{Algorithm: d.want.Algorithm, Sum: d.h.Sum(nil)})
}

// A tail is what comes behind a block.
type tail struct {
	ends   []byte // the line ends, at most the first 64 of them
	length int64  // of all line ends
	more   bool   // something is behind them
	record bool   // and it is the start of a record
}

// normal reports whether a block ends here as it should.
func (t tail) normal() bool { return string(t.ends) == recordEnd }

// ended reports whether the block is followed by CR LF CR LF, whatever is next.
func (t tail) ended() bool { return bytes.HasPrefix(t.ends, []byte(recordEnd)) }

// clean reports whether nothing but line ends is before the next record.
func (t tail) clean() bool { return t.record || !t.more }

func readTail(br *bufio.Reader) (tail, error) {
	var t tail
	for {
		b, err := br.ReadByte()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		if b == '\r' || b == '\n' {
			t.length++
			if len(t.ends) < 64 {
				t.ends = append(t.ends, b)
			}
			continue
		}
		br.UnreadByte() // cannot fail: one was read
		start, _ := br.Peek(len(version))
		t.more, t.record = true, string(start) == version
		return t, nil
	}
}

// lengthByDigest searches the end of a block whose Content-Length is wrong: a
// place at which its digest is right and behind which a record may end. It reads
// from the start of the block, at most most octets, and returns -1 when there is
// no such place.
func lengthByDigest(br *bufio.Reader, d digester, most int64) (int64, error) {
	const mark = recordEnd + version
	for n := int64(0); d.known() && n <= most; {
		part, err := br.Peek(br.Size())
		if err != nil && err != io.EOF {
			return -1, err
		}
		step := len(part) - len(mark) + 1
		if i := bytes.Index(part, []byte(mark)); i >= 0 {
			d.Write(part[:i])
			if n += int64(i); d.agrees() {
				return n, nil
			}
			d.Write(part[i : i+1])
			n++
			br.Discard(i + 1) // cannot fail: it was peeked
			continue
		}
		if err == io.EOF {
			rest, _ := bytes.CutSuffix(part, []byte(recordEnd))
			if d.Write(rest); d.agrees() {
				return n + int64(len(rest)), nil
			}
			return -1, nil
		}
		d.Write(part[:step])
		n += int64(step)
		br.Discard(step) // cannot fail: it was peeked
	}
	return -1, nil
}
