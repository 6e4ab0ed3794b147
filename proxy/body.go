package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// What is still read of a request body that nobody wants, so that the
// connection can be used again: mostly it has arrived already.
const (
	unwantedBytes = 256 << 10
	unwantedTime  = 50 * time.Millisecond
)

// A clientBody is the body of a client's request. Silence is bounded, and
// Close ends a Read that is under way.
type clientBody struct {
	io.ReadCloser
	control *http.ResponseController
	silence time.Duration
	begun   atomic.Bool // a Read has returned
	whole   atomic.Bool
	closed  atomic.Bool
	reading sync.Mutex // held by Read
}

var errBodyClosed = errors.New("the request body has been closed")

func (b *clientBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.control.SetReadDeadline(time.Now().Add(b.silence))
	if b.closed.Load() {
		return 0, errBodyClosed
	}
	n, err := b.ReadCloser.Read(p)
	b.begun.Store(true)
	if err == io.EOF {
		b.whole.Store(true)
		b.control.SetReadDeadline(time.Time{}) // what comes next is another request
	}
	return n, err
}

// Close makes Read return. The body itself is net/http's to close.
func (b *clientBody) Close() error {
	if !b.closed.Swap(true) && !b.whole.Load() {
		b.control.SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}

// handlerDone is called at the end of the handler. Nobody may be in a Read when
// net/http goes on; and where the reply was let overtake the request, net/http
// does not look for the end of the body itself.
func (b *clientBody) handlerDone(w *clientWriter) {
	b.Close()
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.whole.Load() || w.http2 || w.expects && !b.begun.Load() {
		return
	}
	w.Flush()
	b.control.SetReadDeadline(time.Now().Add(unwantedTime))
	io.CopyN(io.Discard, b.ReadCloser, unwantedBytes) // or the connection is closed
}
