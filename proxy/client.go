package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A clientWriter bounds how long a client may take nothing.
type clientWriter struct {
	http.ResponseWriter
	control       *http.ResponseController
	stall         time.Duration
	http2         bool
	method        string
	body          *clientBody // nil: none
	expects       bool        // a 100 (Continue) before it sends the body
	streamsEvents atomic.Bool
	gone          context.Context    // done when the client has closed its sending side, or all of it
	giveUp        context.CancelFunc // ends the exchange

	mu    sync.Mutex
	ended bool // the handler returns, after which control may not be used
}

// hangUp ends the response: over HTTP/1 with the connection, over HTTP/2 with the
// stream.
func (w *clientWriter) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (w *clientWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// Unwrap is for [http.ResponseController].
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *clientWriter) WriteHeader(code int) {
	contentType := w.Header().Get("Content-Type")
	if len(contentType) >= len("text/event-stream") && strings.EqualFold(contentType[:len("text/event-stream")], "text/event-stream") {
		w.streamsEvents.Store(true)
	}
	w.ResponseWriter.WriteHeader(code)
	if w.streamsEvents.Load() {
		if w.gone.Err() != nil {
			w.giveUp()
		}
		w.Flush() // goproxy writes event streams in a way that hides Flush from the body
	}
}

func (w *clientWriter) Write(p []byte) (int, error) {
	defer w.limit()()
	return w.ResponseWriter.Write(p)
}

// limit bounds a write. Over HTTP/1 the deadline stays, for what net/http
// writes when the handler has returned; over HTTP/2 it would end the stream also
// when nothing is being written.
func (w *clientWriter) limit() (lift func()) {
	w.control.SetWriteDeadline(time.Now().Add(w.stall))
	if !w.http2 {
		return func() {}
	}
	return func() { w.control.SetWriteDeadline(time.Time{}) }
}

// interim forwards an interim response, such as 103 (Early Hints). net/http
// itself writes the 100 that a client waits for when the body is read first, in
// another goroutine; until then nothing else may be written.
func (w *clientWriter) interim(code int, fields textproto.MIMEHeader) error {
	if w.expects && !w.body.begun.Load() {
		return nil
	}
	h := w.Header()
	for name, values := range endToEnd(http.Header(fields)) {
		h[name] = values
	}
	w.WriteHeader(code)
	clear(h)
	return nil
}

// Hijack gives goproxy the connection of a CONNECT or a WebSocket.
func (w *clientWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	if err == nil && w.method != http.MethodConnect {
		conn = &stallConn{conn, w.stall}
	}
	return conn, rw, err
}

// A stallConn is a hijacked connection whose client may not take nothing for
// ever.
type stallConn struct {
	net.Conn
	stall time.Duration
}

func (c *stallConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.stall))
	return c.Conn.Write(p)
}

// webSocketBuffer is what a WebSocket costs in each direction. Between its
// messages it has to wait in a Read with a buffer.
const webSocketBuffer = 4 << 10

// WriteTo and ReadFrom keep io.Copy from taking buffers of 32 KiB.

func (c *stallConn) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{c}, make([]byte, webSocketBuffer))
}

func (c *stallConn) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, webSocketBuffer))
}

func (w *clientWriter) Flush() {
	defer w.limit()()
	w.control.Flush()
}
