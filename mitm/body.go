package mitm

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/warctee/warctee/http1"
)

// A requestBody is the body of a request as net/http reads it, but for its
// errors.
type requestBody struct {
	io.ReadCloser
	conn *conn
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.conn.bodyError(err)
	}
	return n, err
}

// bodyError returns why net/http, which says err, cannot read the body of a
// request. Of what is refused here it may only see that it is too long. When
// nothing is, and reading has not failed, it has refused the framing itself; the
// rest of the body then must not be taken for requests.
func (c *conn) bodyError(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refusal, ok := errors.AsType[*http1.Error](c.err); ok {
		return refusal
	}
	if c.cut || c.state == opaque || errors.Is(err, http.ErrBodyReadAfterClose) {
		return err
	}
	refusal := &http1.Error{Status: http.StatusBadRequest, Reason: err.Error()}
	c.state, c.err = broken, refusal
	c.changed.Broadcast()
	return refusal
}

// readBody passes a body through, by Content-Length without a copy.
func (c *conn) readBody(p []byte) (int, error) {
	if c.chunks != nil {
		return c.readChunked(p)
	}
	p = p[:min(int64(len(p)), c.remain)]
	n, err := c.readRaw(p)
	c.remain -= int64(n)
	if c.remain == 0 {
		c.endMessage()
		if err != nil { // it belongs to the next message
			c.saved, err = err, nil
		}
	}
	return n, err
}

// readChunked hands out the trailer section when it is whole: net/http would
// take the rest of one that is refused for a request.
func (c *conn) readChunked(p []byte) (int, error) {
	if c.chunks.Done() {
		n := copy(p, c.trailer)
		c.trailer = c.trailer[n:]
		if len(c.trailer) == 0 {
			c.endMessage()
		}
		return n, nil
	}
	n, err := c.readRaw(p)
	took := 0
	for took < n && !c.chunks.Done() {
		k, _, bad := c.chunks.Next(p[took:n])
		if bad != nil { // net/http must not see the bytes, it might like them
			c.fail(bad)
			return took, nil
		}
		took += k
	}
	if !c.chunks.Done() {
		hand := took - max(0, c.chunks.Pending()-len(c.trailer))
		c.trailer = append(c.trailer, p[hand:took]...)
		return hand, err
	}
	if rest := p[took:n]; len(rest) > 0 {
		c.buf = append(bytes.Clone(rest), c.buf...)
	}
	if err != nil {
		c.saved = err
	}
	if len(c.trailer) > 0 {
		c.trailer = append(c.trailer, p[:took]...)
		return 0, nil // it comes with the next Read
	}
	c.endMessage()
	return took, nil
}
