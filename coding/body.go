package coding

import (
	"bufio"
	"io"

	"github.com/warctee/warctee/http1"
)

// A BodyReader reads the payload of a message from its body, whose framing it
// removes.
type BodyReader struct {
	kind http1.Kind
	walk *http1.Body
	raw  *bufio.Reader
	data []byte // a copy, or of the buffer of raw, which stays until more is asked for
	err  error  // sticky, but io.EOF
}

// NewBodyReader returns a reader of the payload of a message, whose body starts
// raw. It leaves raw behind the end of the body. A body that is shorter than its
// framing says ends in [io.ErrUnexpectedEOF]; framing that is broken in an
// *[http1.Error].
func NewBodyReader(raw *bufio.Reader, framing http1.Framing) *BodyReader {
	return &BodyReader{kind: framing.Kind, walk: http1.NewBody(framing, false), raw: raw}
}

func (b *BodyReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.data) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.walk.Done() {
			return 0, io.EOF
		}
		b.fill()
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *BodyReader) fill() {
	if _, err := b.raw.Peek(1); err != nil {
		if b.err = err; err == io.EOF && b.kind != http1.UntilClose {
			b.err = io.ErrUnexpectedEOF
		}
		return
	}
	buffered, _ := b.raw.Peek(b.raw.Buffered())
	n, data, err := b.walk.Collect(buffered)
	b.data, b.err = data, err
	b.raw.Discard(n) // cannot fail: it was peeked
}
