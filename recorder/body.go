package recorder

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/warctee/warctee/http1"
)

// A body is the entity body of a response for its client: it follows the
// spool and takes the transfer-coding off.
type body struct {
	x      *exchange
	resp   *http.Response
	f      *follower
	walk   *http1.Body
	raw    []byte // seen, not walked over yet
	data   []byte // walked over, not read yet
	err    error
	unhook func() bool
	closed bool
}

func (x *exchange) newBody(ctx context.Context, resp *http.Response, reply *http1.Response) io.ReadCloser {
	b := &body{x: x, resp: resp, walk: http1.NewBody(reply.Framing, false), f: x.follower}
	b.unhook = context.AfterFunc(ctx, b.abort) // undone by Close
	return b
}

// next returns the octets that come next. It calls wait before it blocks.
func (b *body) next(wait func()) ([]byte, error) {
	for b.err == nil && len(b.data) == 0 {
		if len(b.raw) == 0 && !b.walk.Done() {
			if b.raw, b.err = b.f.next(wait); b.err == nil {
				continue
			}
		}
		if b.walk.Done() {
			b.err = b.end(wait)
			break
		}
		if b.err != nil {
			break
		}
		n, data, err := b.walk.Collect(b.raw)
		b.raw, b.data, b.err = b.raw[n:], data, err
	}
	if len(b.data) > 0 {
		data := b.data
		b.data = nil
		return data, nil
	}
	return nil, b.err
}

// end waits for the exchange to end, which may still fail, and hands out the
// trailer.
func (b *body) end(wait func()) error {
	if _, err := b.f.next(wait); err != io.EOF {
		if err == nil {
			err = errors.New("there are bytes past the end of the body")
		}
		return err
	}
	if t := b.walk.Trailer(); len(t) > 0 {
		if b.resp.Trailer == nil {
			b.resp.Trailer = make(http.Header)
		}
		for name, values := range fieldsToHeader(t) {
			b.resp.Trailer[name] = values
		}
	}
	return io.EOF
}

func (b *body) Read(p []byte) (int, error) {
	data, err := b.next(nil)
	if err != nil {
		return 0, err
	}
	n := copy(p, data)
	b.data = data[n:]
	return n, nil
}

// WriteTo writes the body as it arrives; where w has a Flush method, what was
// written is flushed before each wait for more.
func (b *body) WriteTo(w io.Writer) (written int64, err error) {
	flush := func() {}
	if f, ok := w.(http.Flusher); ok {
		flush = f.Flush
	}
	for {
		data, err := b.next(flush)
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		n, err := w.Write(data)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
}

// Close tells that the client wants no more.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.unhook()
	b.abort()
	b.x.clientDone()
	return nil
}

func (b *body) abort() {
	b.f.stop()
	b.x.clientGone()
}
