package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// afterRefusal is how long a client may go on sending a request body that
// nobody reads, so that it gets the response rather than a reset.
const afterRefusal = 500 * time.Millisecond

// A clientBody is the body of a client's request. Silence is bounded, and
// Close ends a Read that is under way.
type clientBody struct {
	io.ReadCloser
	control *http.ResponseController
	silence time.Duration
	begun   atomic.Bool // a Read has returned
	whole   atomic.Bool
	closed  atomic.Bool
}

var errBodyClosed = errors.New("the request body has been closed")

func (b *clientBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errBodyClosed
	}
	b.control.SetReadDeadline(time.Now().Add(b.silence))
	n, err := b.ReadCloser.Read(p)
	b.begun.Store(true)
	if err == io.EOF {
		b.whole.Store(true)
		b.control.SetReadDeadline(time.Time{}) // what comes next is another request
	}
	return n, err
}

// Close leaves the rest to net/http, which reads a little of it when the
// handler has returned.
func (b *clientBody) Close() error {
	if !b.closed.Swap(true) && !b.whole.Load() {
		b.control.SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}

// handlerDone lets net/http look for the end of the body, for a while.
func (b *clientBody) handlerDone() {
	if b.closed.Load() && !b.whole.Load() {
		b.control.SetReadDeadline(time.Now().Add(afterRefusal))
	}
}
