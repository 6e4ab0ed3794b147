package mitm

import (
	"errors"
	"io"

	"github.com/warctee/warctee/http1"
)

// A requestBody is the body of a request as net/http reads it, but for its
// errors: of a trailer that was refused net/http only says that it is too long.
type requestBody struct {
	io.ReadCloser
	conn *conn
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.conn.mu.Lock()
		defer b.conn.mu.Unlock()
		if refusal, ok := errors.AsType[*http1.Error](b.conn.err); ok {
			err = refusal
		}
	}
	return n, err
}
