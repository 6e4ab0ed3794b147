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

// A clientBody is the body of a client's request. The silence of a client is
// bounded while a Read waits for it, and Close ends a Read that is under way.
//
// The deadline is one of the connection, or of net/http's object for the stream,
// and both serve other requests when the handler has returned. So no Read begins
// after Close, and handlerDone waits for the one that is under way.
type clientBody struct {
	io.ReadCloser
	control *http.ResponseController
	silence time.Duration
	begun   atomic.Bool // a Read has returned
	reading sync.Mutex  // held by Read

	mu     sync.Mutex // guards the deadline, and:
	whole  bool       // a Read has seen the end
	closed bool
}

var errBodyClosed = errors.New("the request body has been closed")

func (b *clientBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if !b.startWaiting() {
		return 0, errBodyClosed
	}
	n, err := b.ReadCloser.Read(p)
	b.begun.Store(true)
	b.stopWaiting(err == io.EOF)
	return n, err
}

// startWaiting sets the deadline for a Read, unless the body is closed.
func (b *clientBody) startWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.control.SetReadDeadline(time.Now().Add(b.silence))
	}
	return !b.closed
}

// stopWaiting lifts the deadline: what comes next is another request, or waits
// for us and not for the client. Over HTTP/2 a deadline that passes ends the
// body, whether or not anybody reads it.
func (b *clientBody) stopWaiting(whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = b.whole || whole
	if b.whole || !b.closed {
		b.control.SetReadDeadline(time.Time{})
	}
}

// Close makes Read return. The body itself is net/http's to close.
func (b *clientBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.whole {
		b.control.SetReadDeadline(time.Unix(1, 0))
	}
	b.closed = true
	return nil
}

func (b *clientBody) isWhole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole
}

// handlerDone is called at the end of the handler. Nobody may be in a Read when
// net/http goes on; and where the reply was let overtake the request, net/http
// does not look for the end of the body itself.
func (b *clientBody) handlerDone(w *clientWriter) {
	b.Close()
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.isWhole() || w.http2 || w.expects && !b.begun.Load() {
		return
	}
	w.Flush()
	b.control.SetReadDeadline(time.Now().Add(unwantedTime))
	io.CopyN(io.Discard, b.ReadCloser, unwantedBytes) // or the connection is closed
}
