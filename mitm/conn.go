package mitm

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warctee/warctee/http1"
)

const (
	// What a client may still send to a connection that was given up, so
	// that it sees the answer before the reset (RFC 9112 §9.6).
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20

	maxBlank = 16 // empty lines in front of a head
)

type state int

const (
	inHead    state = iota // collecting the next head
	givesHead              // handing out the copy of a head
	inBody                 // passing a body through
	held                   // behind a CONNECT or an upgrade: keeping what comes
	opaque                 // hijacked: passing everything through
	broken                 // nothing more is read
)

// A conn is a framing connection: a net.Conn for net/http's server that keeps
// the head of each HTTP/1 request as the client sent it. See the package
// comment.
//
// It never hands out bytes of two messages in one Read. So net/http, which
// reads at most one byte ahead while a handler runs, has begun at most one
// message whose handler has not, and is not given that last byte before the
// handler returns.
type conn struct {
	net.Conn         // to the client; below it may be TLS
	tunnel   *Tunnel // nil outside a tunnel
	limits   http1.Limits
	heads    *headShare // for unfinished heads; that of the connection below in a tunnel
	onHead   func()     // called once: when the first head is there, or the connection is closed
	onClose  func()     // called when the connection below is closed

	// Owned by whoever reads, which is one goroutine at a time.
	buf     []byte      // read, but not handed out yet; nil when empty
	scanned int         // bytes of buf that hold no end of a head
	blank   int         // empty lines that were skipped in front of the next head
	next    *message    // the message whose head or body is handed out
	normal  []byte      // the rest of the copy of its head
	remain  int64       // octets of its body still to come, by Content-Length
	chunks  *http1.Body // of its chunked body
	trailer []byte      // of that, not handed out yet
	saved   error       // came together with bytes; to be returned by the next read

	mu           sync.Mutex // guards the rest
	changed      sync.Cond  // state, deadline or closed
	state        state
	err          error         // why the state is broken
	current      *message      // handed out whole, not taken by the handler yet
	serving      bool          // between the last byte of a head and the return of its handler
	cut          bool          // reading has failed since the last head was handed out
	deadline     time.Time     // of reads, as net/http wants it
	headTimeout  time.Duration // for a head to be whole, from its first byte; 0: no limit
	headDeadline time.Time     // zero when no head has begun
	closed       bool
}

func newConn(c net.Conn, t *Tunnel, limits http1.Limits) *conn {
	nothing := func() {}
	fc := &conn{Conn: c, tunnel: t, limits: limits, onHead: nothing, onClose: nothing}
	fc.changed.L = &fc.mu
	return fc
}

// Read hands out normalised heads, bodies as they come, and after a hijack
// everything as it comes. A refused body is an [*http1.Error].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		var n int
		var err error
		switch c.getState() {
		case inHead:
			err = c.readHead(p)
		case givesHead:
			n = copy(p, c.normal)
			c.normal = c.normal[n:]
			if len(c.normal) == 0 {
				c.endHead()
			}
		case inBody:
			n, err = c.readBody(p)
		case held:
			err = c.hold(p)
		case opaque:
			return c.readRaw(p)
		case broken:
			err = c.err
		}
		if err != nil {
			c.noteCut()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *conn) getState() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *conn) setState(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	c.changed.Broadcast()
}

// fail ends reading: from now on Read returns err.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.err = broken, err
	c.changed.Broadcast()
}

func (c *conn) noteCut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

// readRaw reads what is in buf, then from the connection below.
func (c *conn) readRaw(p []byte) (int, error) {
	if len(c.buf) > 0 {
		n := copy(p, c.buf)
		c.buf = c.buf[n:]
		if len(c.buf) == 0 {
			c.buf = nil
		}
		return n, nil
	}
	if err := c.saved; err != nil {
		c.saved = nil
		return 0, err
	}
	return c.Conn.Read(p)
}

// fill reads more into buf. The first bytes come by way of p, so that an idle
// connection needs no buffer.
func (c *conn) fill(p []byte) (err error) {
	if err := c.saved; err != nil {
		c.saved = nil
		return err
	}
	n := 0
	if len(c.buf) == 0 {
		n, err = c.Conn.Read(p)
		c.buf = append(c.buf, p[:n]...)
	} else {
		// Not beyond what a head may have, and one byte more to tell.
		room := min(max(len(c.buf), 2<<10), c.limits.Head()+1-len(c.buf))
		c.buf = slices.Grow(c.buf, room)
		n, err = c.Conn.Read(c.buf[len(c.buf) : len(c.buf)+room])
		c.buf = c.buf[:len(c.buf)+n]
	}
	if n > 0 {
		c.saved, err = err, nil
	}
	return err
}

// readHead reads until a head can be handed out. When it is interrupted by a
// deadline, the next call goes on.
func (c *conn) readHead(p []byte) error {
	c.next = nil // an idle connection needs not remember
	for {
		// Empty lines before a request are to be ignored (RFC 9112 §2.2).
		for c.blank < maxBlank && bytes.HasPrefix(c.buf, []byte("\r\n")) {
			c.buf, c.scanned = c.buf[2:], 0
			c.blank++
		}
		if n := http1.HeadLen(c.buf, c.scanned); n > 0 {
			c.beginHead(n)
			return nil
		}
		if len(c.buf) > 0 {
			if refusal := c.hopeless(c.buf); refusal != nil {
				c.beginRefusal(refusal)
				return nil
			}
			if !c.heads.hold(cap(c.buf)) {
				c.beginRefusal(refuseCrowded())
				return nil
			}
			c.startHeadTimer()
		}
		c.scanned = len(c.buf)
		if err := c.fill(p); err != nil {
			return err
		}
	}
}

// hopeless says whether what is there of a head has to be refused already.
func (c *conn) hopeless(b []byte) *http1.Error {
	switch {
	case b[0] == 0x16:
		return &http1.Error{Status: http.StatusBadRequest, Reason: "this is TLS where HTTP was expected; the address of the proxy starts with http://"}
	case !http1.IsTokenByte(b[0]) && b[0] != '\r', b[0] == '\r' && len(b) > 1:
		return &http1.Error{Status: http.StatusBadRequest, Reason: "this is not an HTTP request"}
	case len(b) <= c.limits.Head():
		return nil
	case bytes.IndexByte(b, '\n') < 0:
		return &http1.Error{Status: http.StatusRequestURITooLong, Reason: "the request line is too long"}
	}
	return &http1.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "the header fields are too large"}
}

// beginHead takes the first n bytes of buf as a head.
func (c *conn) beginHead(n int) {
	raw := c.buf
	if n == len(c.buf) {
		c.buf = nil
	} else {
		raw = bytes.Clone(c.buf[:n])
		c.buf = c.buf[n:]
	}
	c.next, c.normal = parseMessage(raw, c.limits)
	c.headBegun()
}

// beginRefusal refuses a head that is not even whole.
func (c *conn) beginRefusal(refusal *http1.Error) {
	c.next, c.normal = refusedMessage(c.buf, refusal)
	c.buf = nil
	c.headBegun()
}

func (c *conn) headBegun() {
	c.scanned = 0
	c.onHead()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = givesHead
	if !c.headDeadline.IsZero() {
		c.headDeadline = time.Time{}
		c.Conn.SetReadDeadline(c.deadline)
	}
}

// endHead is called when net/http has all of a head.
func (c *conn) endHead() {
	c.normal, c.blank = nil, 0
	c.heads.hold(0) // what is left in buf counts when it is looked at
	c.mu.Lock()
	c.current = c.next
	c.serving, c.cut = true, false
	c.mu.Unlock()
	if c.next.refusal != nil {
		c.fail(io.EOF)
		return
	}
	switch f := c.next.req.Framing; f.Kind {
	case http1.Length:
		c.remain = f.Length
	case http1.Chunked:
		c.chunks = http1.NewBody(f, true)
	}
	if c.remain > 0 || c.chunks != nil {
		c.setState(inBody)
		return
	}
	c.endMessage()
}

// endMessage is called when net/http has all of a message.
func (c *conn) endMessage() {
	c.chunks, c.trailer = nil, nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = inHead
	if c.next.switches && !c.next.served {
		c.state = held
	}
}

// hold waits until it is known what follows. It reads at most once, which
// tells net/http of a client that goes away without having sent more.
func (c *conn) hold(p []byte) error {
	if len(c.buf) == 0 {
		if err := c.fill(p); err != nil || len(c.buf) == 0 {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.state == held {
		if c.closed {
			return net.ErrClosed
		}
		if c.deadline.IsZero() {
			c.changed.Wait()
			continue
		}
		left := time.Until(c.deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		wake := time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		c.changed.Wait()
		wake.Stop()
	}
	return nil
}

// take returns the message of which net/http made r, nil when they disagree.
func (c *conn) take(r *http.Request) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.current
	c.current = nil
	if m == nil || !m.agrees(r) {
		return nil
	}
	return m
}

// errUnread ends a connection whose handler has left a part of the request. It
// is not io.EOF, which net/http would take for the end of the body.
var errUnread = errors.New("the request was answered before it was read")

// resume goes on with HTTP after the handler of m has returned. It does not when
// the handler left a part of the body of a request that the answer was let
// overtake (duplex): net/http could take that part for the next request.
func (c *conn) resume(m *message, duplex bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.served = true
	c.serving = false
	switch {
	case c.state == held:
		c.state = inHead
		c.changed.Broadcast()
	case c.state == inBody && c.next == m && duplex:
		c.state, c.err = broken, errUnread
		c.changed.Broadcast()
	}
}

// release makes the connection opaque, after net/http has let go of it. It
// reports whether net/http had begun to read the copy of a head by then; what
// was meant is the head as the client sent it, which Read returns.
func (c *conn) release() (begun bool) {
	if c.getState() == givesHead {
		begun = true
		c.buf = slices.Concat(c.next.raw, c.buf)
		c.normal = nil
	}
	if c.blank > 0 {
		c.buf = slices.Concat(bytes.Repeat([]byte("\r\n"), c.blank), c.buf)
	}
	c.setState(opaque)
	return begun
}

// startHeadTimer bounds the time for the head that has begun, which net/http
// cannot do because it sees nothing of it yet. Behind a request that is still
// being served there is no hurry.
func (c *conn) startHeadTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headTimeout > 0 && !c.serving && c.headDeadline.IsZero() {
		c.headDeadline = time.Now().Add(c.headTimeout)
		c.Conn.SetReadDeadline(earlier(c.deadline, c.headDeadline))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.changed.Broadcast()
	return c.Conn.SetReadDeadline(earlier(t, c.headDeadline))
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

type closeWriter interface{ CloseWrite() error }

// CloseWrite tells the client that nothing more is sent.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(closeWriter); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection. After a refusal, or in the middle of a body, the
// client may still be sending; then it is given a moment to read the answer.
func (c *conn) Close() error {
	c.mu.Lock()
	linger := (c.state == broken || c.state == inBody) && !c.closed
	first := !c.closed
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	if first {
		c.onHead()
	}
	if linger && c.CloseWrite() == nil {
		go c.linger() // stops after lingerTime, or with a second Close
		return nil
	}
	return c.closeBelow()
}

func (c *conn) closeBelow() error {
	err := c.Conn.Close()
	c.onClose()
	return err
}

func (c *conn) linger() {
	c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, c.Conn, lingerBytes)
	c.closeBelow()
}
