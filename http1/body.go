package http1

import (
	"bytes"
	"math"
	"net/http"
)

// A Kind is a way in which the end of a body is told.
type Kind int

const (
	NoBody     Kind = iota // the message ends with its head
	Length                 // after Framing.Length octets
	Chunked                // with the last chunk and its trailer section (RFC 9112 §7.1)
	UntilClose             // when the connection is closed
)

// Framing tells where the body of a message ends.
type Framing struct {
	Kind   Kind
	Length int64 // octets; for Kind Length only
}

// Bounds on what may stand between the data of a chunked body, in bytes.
const (
	maxChunkLine = 16 << 10
	maxTrailer   = 64 << 10
	maxStrict    = 4000 // of either in a request: net/http's server takes little more

	maxStrictDigits = 16 // of a chunk size in a request, as with net/http
)

// parseLength parses 1*DIGIT that fits an int64 (RFC 9110 §8.6).
func parseLength(s string) (int64, bool) {
	n := int64(0)
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(s) > 0
}

// A Body walks over the raw bytes of one message body, which may be cut into
// pieces anywhere.
type Body struct {
	strict bool
	kind   Kind
	state  bodyState
	remain int64  // octets of the body or of the chunk still to come
	line   []byte // of the line or trailer section that was begun
	err    error  // what the next Collect returns …
	failed int    // … and how many bytes it consumes
}

type bodyState int

const (
	inData      bodyState = iota // Length, UntilClose: the body; Chunked: the data of a chunk
	inChunkLine                  // size and extensions
	inDataEnd                    // the CR LF behind the data of a chunk
	inTrailer
	isDone
)

// NewBody starts at the first byte after the head. A strict one refuses, in
// chunked framing, bare LF, white space around the size, and extensions and
// trailer lines that are not valid.
func NewBody(f Framing, strict bool) *Body {
	b := &Body{strict: strict, kind: f.Kind}
	switch {
	case f.Kind == NoBody, f.Kind == Length && f.Length == 0:
		b.state = isDone
	case f.Kind == Length:
		b.remain = f.Length
	case f.Kind == UntilClose:
		b.remain = math.MaxInt64
	case f.Kind == Chunked:
		b.state = inChunkLine
	}
	return b
}

// Done reports whether the body has been seen to its end. A body that lasts
// until the connection is closed is never done.
func (b *Body) Done() bool { return b.state == isDone }

// Trailer returns the fields behind the last chunk, once the body is done.
func (b *Body) Trailer() []Field {
	if b.state != isDone {
		return nil
	}
	return parseFields(b.line)
}

// Pending returns how many of the bytes that were consumed are the beginning of
// a trailer section that may still be refused.
func (b *Body) Pending() int {
	if b.state != inTrailer {
		return 0
	}
	return len(b.line)
}

// Next consumes n bytes from the start of p, of which data (a part of them,
// maybe none) is the entity body. It consumes at least one unless p is empty,
// the body is done, or there is an error. An error is an [*Error] with status
// 400; where the bytes come from an origin, the status means nothing.
func (b *Body) Next(p []byte) (n int, data []byte, err error) {
	for n < len(p) && len(data) == 0 && b.state != isDone {
		switch b.state {
		case inData:
			take := int(min(b.remain, int64(len(p)-n)))
			data = p[n : n+take]
			n += take
			b.tookData(int64(take))
		default:
			if took := b.takeUsual(p[n:]); took > 0 {
				n += took
				continue
			}
			took, err := b.takeLine(p[n:])
			n += took
			if err != nil {
				return n, nil, err
			}
		}
	}
	return n, data, nil
}

// Bounds on what Collect copies, in bytes.
const (
	collectSize  = 4 << 10
	collectBelow = 512 // longer data is handed out without a copy
)

// Collect is Next for callers that take some effort with each piece of data.
// Where chunks are small it returns the data of several as one copy; it does not
// wait for more of them than p has. An error is returned after the data in front
// of it. One body is walked either with Next or with Collect.
func (b *Body) Collect(p []byte) (n int, data []byte, err error) {
	if b.err != nil {
		return min(b.failed, len(p)), nil, b.err
	}
	n, data, err = b.Next(p)
	if err != nil || b.kind != Chunked || len(data) >= collectBelow {
		return n, data, err
	}
	copied := false
	for n < min(len(p), collectSize) && b.state != isDone {
		took, more, err := b.Next(p[n:min(len(p), collectSize)])
		if err != nil {
			b.err, b.failed = err, took
			return n, data, nil
		}
		n += took
		if len(more) > 0 && !copied {
			data, copied = append(make([]byte, 0, collectSize), data...), true
		}
		data = append(data, more...)
	}
	return n, data, nil
}

func (b *Body) tookData(n int64) {
	if b.kind == UntilClose {
		return
	}
	b.remain -= n
	if b.remain > 0 {
		return
	}
	b.state = isDone
	if b.kind == Chunked {
		b.state = inDataEnd
	}
}

// takeUsual takes a line of the framing in its usual form: the end of the data of
// a chunk, or the size of the next one in a few digits and nothing else. It
// returns 0 for any other, and for one that p does not have whole.
func (b *Body) takeUsual(p []byte) (n int) {
	if len(b.line) > 0 || len(p) < 2 {
		return 0
	}
	switch b.state {
	case inDataEnd:
		if p[0] == '\r' && p[1] == '\n' {
			b.state = inChunkLine
			return 2
		}
	case inChunkLine:
		size := int64(0)
		for n < min(8, len(p)-2) {
			d, ok := hexDigit(p[n])
			if !ok {
				break
			}
			size = size<<4 | d
			n++
		}
		if size > 0 && p[n] == '\r' && p[n+1] == '\n' {
			b.remain, b.state = size, inData
			return n + 2
		}
	}
	return 0
}

// takeLine takes the rest of a line of the framing, or what there is of it.
func (b *Body) takeLine(p []byte) (n int, err error) {
	end := bytes.IndexByte(p, '\n')
	n = end + 1
	if end < 0 {
		n = len(p)
	}
	if limit := b.limit(); len(b.line)+n > limit {
		return 0, b.tooLong(limit)
	}
	b.line = append(b.line, p[:n]...)
	if end < 0 {
		return n, nil
	}
	return n, b.endLine()
}

// limit bounds b.line.
func (b *Body) limit() int {
	switch {
	case b.state == inDataEnd:
		return len("\r\n")
	case b.strict:
		return maxStrict
	case b.state == inTrailer:
		return maxTrailer
	}
	return maxChunkLine
}

func (b *Body) tooLong(limit int) error {
	switch b.state {
	case inDataEnd:
		return refuse(http.StatusBadRequest, "the data of a chunk is longer than its size says")
	case inTrailer:
		return refuse(http.StatusBadRequest, "the trailer section of the chunked body has more than %d bytes", limit)
	}
	return refuse(http.StatusBadRequest, "a chunk size line has more than %d bytes", limit)
}

// endLine understands the line that is now whole in b.line.
func (b *Body) endLine() error {
	last := b.line[bytes.LastIndexByte(b.line[:len(b.line)-1], '\n')+1:]
	if b.strict && !bytes.HasSuffix(last, []byte("\r\n")) {
		return refuse(http.StatusBadRequest, "a line of the chunked framing does not end in CR LF")
	}
	text := trimLineEnd(last)
	switch b.state {
	case inDataEnd:
		if len(text) > 0 {
			return b.tooLong(0)
		}
		b.state = inChunkLine
	case inChunkLine:
		size, err := b.parseSize(text)
		if err != nil {
			return err
		}
		b.remain, b.state = size, inData
		if size == 0 {
			b.state = inTrailer
		}
	case inTrailer:
		if len(text) > 0 {
			return b.checkTrailerLine(text)
		}
		b.state = isDone
		return nil // keeps the trailer section in b.line
	}
	b.line = b.line[:0]
	return nil
}

func (b *Body) checkTrailerLine(text []byte) error {
	if !b.strict {
		return nil
	}
	f := parseField(text)
	if !isToken(f.Name) || text[len(f.Name)] != ':' || hasControl(text) {
		return refuse(http.StatusBadRequest, "the trailer line %.80q is not a header field", text)
	}
	return nil
}

// parseSize parses `chunk-size [ chunk-ext ]`.
func (b *Body) parseSize(line []byte) (int64, error) {
	digits, ext, _ := bytes.Cut(line, []byte{';'})
	if !b.strict {
		digits = trimBlank(digits)
	}
	bad := func() error {
		return refuse(http.StatusBadRequest, "the chunk size %.40q is not a hexadecimal number", digits)
	}
	if len(digits) == 0 || b.strict && len(digits) > maxStrictDigits {
		return 0, bad()
	}
	if bytes.IndexByte(ext, '\r') >= 0 || b.strict && (hasControl(ext) || !isChunkExt(line[len(digits):])) {
		return 0, refuse(http.StatusBadRequest, "the chunk extension %.40q is not valid", ext)
	}
	size := int64(0)
	for _, c := range digits {
		d, ok := hexDigit(c)
		if !ok || size > math.MaxInt64>>4 {
			return 0, bad()
		}
		size = size<<4 | d
	}
	return size, nil
}

// isChunkExt reports whether s is a chunk-ext (RFC 9112 §7.1.1).
func isChunkExt(s []byte) bool {
	for len(s) > 0 {
		rest, ok := bytes.CutPrefix(trimBlank(s), []byte{';'})
		if !ok {
			return false
		}
		if rest, ok = cutToken(trimBlank(rest)); !ok {
			return false
		}
		if value, has := bytes.CutPrefix(trimBlank(rest), []byte{'='}); has {
			value = trimBlank(value)
			if rest, ok = cutToken(value); !ok {
				if rest, ok = cutQuoted(value); !ok {
					return false
				}
			}
		}
		s = rest
	}
	return true
}

func cutToken(s []byte) (rest []byte, ok bool) {
	n := 0
	for n < len(s) && IsTokenByte(s[n]) {
		n++
	}
	return s[n:], n > 0
}

func cutQuoted(s []byte) (rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:], true
		}
	}
	return s, false
}

func hexDigit(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	}
	return 0, false
}
