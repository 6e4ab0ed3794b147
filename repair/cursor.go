package repair

import (
	"bufio"
	"bytes"
	"context"
	"io"
)

// bufferSize is how much of the input a cursor has in memory.
const bufferSize = 64 << 10

// A source is an input that remembers that it failed, so that nobody takes that
// for damage.
type source struct {
	in   io.ReaderAt
	size int64
	err  error // but io.EOF
}

func (s *source) ReadAt(p []byte, offset int64) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if offset >= s.size {
		return 0, io.EOF
	}
	n, err := s.in.ReadAt(p[:min(int64(len(p)), s.size-offset)], offset)
	switch {
	case n > 0:
		err = nil // it comes again
	case err == io.EOF:
		err = io.ErrUnexpectedEOF // it has become shorter
		s.err = err
	case err != nil:
		s.err = err
	}
	return n, err
}

// A cursor reads a source from an offset on. It can go to another one, which
// costs nothing when it is near behind.
type cursor struct {
	in   *source
	next int64 // of what br reads from it
	br   *bufio.Reader
}

func newCursor(in *source) *cursor {
	c := &cursor{in: in}
	c.br = bufio.NewReaderSize((*cursorInput)(c), bufferSize)
	return c
}

// A cursorInput is what the buffer of a cursor reads from.
type cursorInput cursor

func (c *cursorInput) Read(p []byte) (int, error) {
	n, err := c.in.ReadAt(p, c.next)
	c.next += int64(n)
	return n, err
}

func (c *cursor) offset() int64 { return c.next - int64(c.br.Buffered()) }

func (c *cursor) seek(offset int64) {
	if ahead := offset - c.offset(); ahead >= 0 && ahead <= int64(c.br.Buffered()) {
		c.br.Discard(int(ahead)) // cannot fail: it is buffered
		return
	}
	c.next = offset
	c.br.Reset((*cursorInput)(c))
}

// find returns the offset of the first of some marks at or behind offset, or the
// size of the input. No mark has more than 16 bytes.
func (c *cursor) find(ctx context.Context, offset int64, marks ...[]byte) (int64, error) {
	c.seek(offset)
	for {
		part, err := c.br.Peek(c.br.Size())
		first := -1
		for _, mark := range marks {
			if i := bytes.Index(part, mark); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
		if first >= 0 {
			return c.offset() + int64(first), nil
		}
		if err != nil || ctx.Err() != nil {
			return c.in.size, ctx.Err()
		}
		c.br.Discard(len(part) - 16) // cannot fail: it was peeked
	}
}

// isZero reports whether all of a range is zero bytes, of which at most the
// first 16 MiB are looked at.
func (s *source) isZero(offset, length int64) bool {
	buf := make([]byte, 64<<10)
	for end := offset + min(length, 16<<20); offset < end; {
		n, err := s.ReadAt(buf[:min(int64(len(buf)), end-offset)], offset)
		if err != nil || len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return false
		}
		offset += int64(n)
	}
	return length > 0
}
