package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/warctee/warctee/http1"
)

const (
	readBuffer    = 16 << 10
	bigReadBuffer = 128 << 10
	maxInterim    = 1 << 20 // bytes of interim responses of one exchange

	// longBody is from where on reading a body takes longer than its client
	// should wait for the first byte.
	longBody = 64 << 10
)

var bigBuffers = sync.Pool{New: func() any { return new([bigReadBuffer]byte) }}

// An originConn is a connection to an origin. One goroutine reads it from
// start to end: while idle it watches for the close, in an exchange it reads
// the reply's head for RoundTrip and then the body into the spool.
type originConn struct {
	pool   *pool
	addr   string // host:port
	key    string // in the pool
	spoken spoken

	idleSince time.Time // guarded by the pool's mutex

	// Owned by the goroutine.
	nc      net.Conn // writes: the exchange's RoundTrip and upload
	buf     []byte
	small   []byte // the usual buf, while buf is one of bigBuffers
	grown   int64  // what buf takes beyond the usual, counted as heads …
	grownBy *claim // … of this exchange
	busy    bool   // a body comes in pieces that fill the small one
	r, w    int    // buf[r:w] has been read from nc and not used yet
	scanned int    // of buf[r:w], for a head that is not whole yet

	below           *socket // below TLS; nil without
	asksCertificate bool    // the origin, in the TLS handshake

	handedOver bool // switched to another protocol: the client closes it

	mu      sync.Mutex
	attempt *attempt  // nil: idle
	sending bool      // its request has begun
	until   time.Time // when the time for the reply is over; zero: it has not begun
	closed  bool
}

// assign puts an exchange on an idle connection, unless it has been closed.
func (c *originConn) assign(a *attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.attempt != nil {
		return false
	}
	c.nc.SetReadDeadline(time.Time{})
	c.attempt, c.sending, c.until = a, false, time.Time{}
	return true
}

// beginSending returns false when the connection was closed before.
func (c *originConn) beginSending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = !c.closed
	return c.sending
}

// awaitReply starts the time that the origin has for its reply.
func (c *originConn) awaitReply(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt == a && !a.replied {
		c.until = time.Now().Add(c.pool.timeout)
		c.nc.SetReadDeadline(c.until)
	}
}

// replying ends it.
func (c *originConn) replying(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.replied = true
}

// close makes every read and write end. It may be called at any time.
func (c *originConn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.nc.Close()
}

// abort closes at once and without the farewell of TLS: the origin cannot take
// what it got for whole, and cannot answer to it.
func (c *originConn) abort() {
	nc := c.nc
	if c.below != nil {
		nc = c.below.Conn
	}
	if t, ok := nc.(*net.TCPConn); ok {
		t.SetLinger(0) // RST
	}
	nc.Close()
	c.close()
}

// serve reads the connection to its end.
func (c *originConn) serve() {
	defer func() {
		if p := recover(); p != nil {
			c.failAttempt(p)
		}
		c.weighGrowth(0)
		if !c.handedOver {
			c.close()
			c.pool.forget(c)
		}
	}()
	for c.serveOne() {
	}
}

// failAttempt ends the exchange of a connection that panicked.
func (c *originConn) failAttempt(p any) {
	c.mu.Lock()
	a := c.attempt
	c.mu.Unlock()
	if a == nil {
		return
	}
	err := a.x.r.internalError(p)
	waited := a.deliver(event{err: &Error{Phase: PhaseReply, Class: "internal", Status: http.StatusInternalServerError, Err: err}})
	switch {
	case a.x.received == nil:
	case waited: // RoundTrip ends the exchange
		a.x.dropReply()
	default:
		a.x.bodyEnded()
		a.x.endBody(a.upload.stop(), "unspecified", "unspecified", err)
		a.x.freePlace()
	}
}

// serveOne waits for the first byte of a reply, reads the reply, and reports
// whether the connection waits for another exchange.
func (c *originConn) serveOne() bool {
	err := c.fill()
	c.mu.Lock()
	a := c.attempt
	if a == nil || !c.sending {
		// Nothing was asked: the server closes the connection, or says that
		// it will (408). It cannot be used.
		c.closed = true
	}
	sending, until := c.sending, c.until
	c.mu.Unlock()
	switch {
	case a == nil:
		return false
	case !sending:
		a.deliver(event{err: errUnsent()})
		return false
	case err != nil:
		e := c.noReply(err)
		// A time-out may still be that of the idle connection.
		e.stale = !isTimeout(err) || time.Now().Before(until) || until.IsZero()
		a.deliver(event{err: e})
		return false
	}
	return c.serveReply(a)
}

// serveReply reads one reply, of which the first bytes are there.
func (c *originConn) serveReply(a *attempt) bool {
	reply, failure := c.readReply(a)
	if failure != nil {
		a.deliver(event{err: failure})
		return false
	}
	if reply.Status == http.StatusSwitchingProtocols {
		return c.switchProtocols(a, reply)
	}
	x := a.x
	if err := x.roomForHead(int64(2 * len(reply.Raw))); err != nil {
		a.deliver(event{err: noRoomForHead(c.addr, err)})
		return false
	}
	a.upload.replied()
	x.beginReply(c, reply)
	if !a.deliver(event{reply: reply}) {
		x.dropReply()
		return false
	}
	events, persistent := isEventStream(&reply.Head), reply.Persistent
	if events { // it lasts, and a client may have any number
		x.r.pool.places.give(x.claim, placeTunnel)
	}
	reason, err := c.readBody(x, reply.Framing, events)
	// From here on nobody cuts this exchange by closing a connection that
	// may carry another one.
	cut := x.bodyEnded()
	// A reply that came before the request was whole leaves the connection
	// in the middle of that request.
	whole := a.upload.stop()
	if whole && err == nil && c.r < c.w {
		x.r.log.Warn("the origin sent bytes past the end of its reply", "url", x.uri, "bytes", c.w-c.r)
	}
	again := err == nil && whole && persistent && c.r == c.w && c.release()
	x.endBody(whole, reason, cut, err)
	x.freePlace()
	return again
}

// release gives the connection back to the pool.
func (c *originConn) release() bool {
	c.mu.Lock()
	c.attempt, c.sending = nil, false
	usable := !c.closed
	if usable {
		c.nc.SetReadDeadline(time.Now().Add(idleTimeout))
	}
	c.mu.Unlock()
	c.shrink()
	return usable && c.pool.put(c)
}

// fill reads more bytes into the buffer, which grows when it is full.
func (c *originConn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		grown := c.buf
		if c.r == 0 {
			grown = make([]byte, 2*len(c.buf))
			c.weighGrowth(len(grown) - readBuffer)
		}
		c.w = copy(grown, c.buf[c.r:c.w])
		c.buf, c.r = grown, 0
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// readReply reads heads until the final one. Interim responses are handed to
// RoundTrip (RFC 9110 §15.2).
func (c *originConn) readReply(a *attempt) (*http1.Response, *Error) {
	interim := 0
	for {
		raw, err := c.readHead(a.x)
		if err != nil {
			if err.Class != classCrowded {
				err.instead = bytes.Clone(c.buf[c.r:c.w])
			}
			return nil, err
		}
		bad := func(err error) *Error {
			e := c.badReply(err, "unspecified")
			e.instead = slices.Concat(raw, c.buf[c.r:c.w])
			return e
		}
		if n := bytes.Count(raw, []byte{'\n'}) - 2; n > c.pool.maxFields { // parsed they take far more memory
			return nil, bad(fmt.Errorf("its head has %d fields, more than %d (--max-reply-fields)", n, c.pool.maxFields))
		}
		reply, parseErr := http1.ParseResponse(raw, a.x.request.method)
		switch {
		case parseErr != nil:
			return nil, bad(parseErr)
		case reply.Status == http.StatusSwitchingProtocols && !(a.x.request.webSocket && isWebSocket(&reply.Head)):
			return nil, bad(errors.New("it switches to a protocol that was not asked for"))
		case reply.Status >= 200 || reply.Status == http.StatusSwitchingProtocols:
			c.replying(a)
			return reply, nil
		}
		if interim += len(raw); interim > maxInterim {
			return nil, bad(fmt.Errorf("more than %d bytes of interim responses", maxInterim))
		}
		a.deliver(event{interim: reply})
	}
}

// badReply refuses what came in place of a reply; cut is why it is not read on.
func (c *originConn) badReply(err error, cut string) *Error {
	return &Error{Phase: PhaseReply, Class: "bad-reply", Status: http.StatusBadGateway, Addr: c.addr, Err: fmt.Errorf("the reply from %s is not valid HTTP/1.1: %w", c.addr, err), cut: cut}
}

// noReply words an error of reading.
func (c *originConn) noReply(err error) *Error {
	if c.asksCertificate && isRemoteAlert(err) {
		return certificateDemanded(PhaseReply, c.addr, err)
	}
	e := upstreamError(PhaseReply, c.addr, err)
	e.cut = truncatedBy(err)
	return e
}

// readHead returns a copy of the next head, whose memory counts for x.
func (c *originConn) readHead(x *exchange) ([]byte, *Error) {
	c.grownBy = x.claim
	for c.scanned = 0; ; {
		have := c.buf[c.r:c.w]
		if n := http1.HeadLen(have, c.scanned); 0 < n && n <= c.pool.maxHead {
			c.r += n
			return append([]byte(nil), have[:n]...), nil
		}
		if !couldBeHTTP(have) {
			return nil, c.badReply(fmt.Errorf("it starts with %.40q", have), "unspecified")
		}
		if len(have) > c.pool.maxHead {
			return nil, c.badReply(fmt.Errorf("its head has more than %d bytes (--max-reply-head)", c.pool.maxHead), "length")
		}
		c.scanned = len(have)
		if c.r == 0 && c.w == len(c.buf) {
			if err := x.roomForHead(int64(2*len(c.buf)) - readBuffer - c.grown); err != nil {
				return nil, noRoomForHead(c.addr, err)
			}
		}
		if err := c.fill(); isClose(err) {
			if len(have) == 0 {
				return nil, c.noReply(io.EOF) // after an interim response
			}
			return nil, c.badReply(errors.New("the connection was closed in the middle of its head"), "disconnect")
		} else if err != nil {
			return nil, c.noReply(err)
		}
	}
}

// couldBeHTTP tells early that an endless stream of something else is no head.
func couldBeHTTP(b []byte) bool {
	const start = "HTTP/"
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n] || n > 0 && (b[0]|0x20) == 'h'
}

// readBody reads the body into the spool. It returns what WARC-Truncated has
// to say and what the reader of the body gets to know.
//
// Silence is bounded, but for event streams, which may have nothing to tell for
// hours. Chunk framing breaks no silence, only payload does: else an origin
// could spend weeks on the line of a chunk size.
func (c *originConn) readBody(x *exchange, framing http1.Framing, events bool) (reason string, err error) {
	body := http1.NewBody(framing, false)
	c.busy = false
	defer c.leaveBigBuffer()
	long := framing.Kind != http1.Length || framing.Length >= longBody
	heard := time.Now()
	for first := true; !body.Done(); first = false {
		if c.r == c.w {
			deadline := heard.Add(c.pool.timeout)
			if events {
				deadline = time.Time{}
				c.useTinyBuffer()
			}
			err := c.fillBody(deadline)
			if framing.Kind == http1.UntilClose && isClose(err) {
				if c.below != nil && c.below.ended {
					x.r.log.Warn("the origin closed the connection without the farewell of TLS: the end of the response cannot be verified", "url", x.uri)
				}
				return "", nil
			} else if err != nil {
				return truncatedBy(err), bodyError(err)
			}
		}
		n, payload, err := body.Collect(x.received.keepable(c.buf[c.r:c.w]))
		if err != nil {
			x.keep(c.buf[c.r:c.w], nil) // as received, what it may be
			c.r = c.w
			return "unspecified", fmt.Errorf("the chunked framing is broken: %w", err)
		}
		raw := c.buf[c.r : c.r+n]
		c.r += n
		if !x.keep(raw, payload) {
			return "length", errUnfollowed
		}
		if len(payload) > 0 {
			heard = time.Now() // not before keep, which may wait for the client
		}
		if first && long { // let the client have it before more is read
			runtime.Gosched()
		}
	}
	return "", nil
}

// fillBody reads more of a body into the buffer, which is empty. A connection
// that waits has a small one: only what comes in large pieces gets a big one.
func (c *originConn) fillBody(deadline time.Time) error {
	c.nc.SetReadDeadline(deadline)
	switch {
	case c.busy:
		c.useBigBuffer()
	case len(c.buf) != tinyReadBuffer:
		c.shrink()
	}
	err := c.fill()
	if c.busy = c.w-c.r >= readBuffer; !c.busy {
		c.leaveBigBuffer()
	}
	return err
}

// useBigBuffer is called when the buffer is empty.
func (c *originConn) useBigBuffer() {
	if c.small == nil && len(c.buf) == readBuffer {
		c.small, c.buf = c.buf, bigBuffers.Get().(*[bigReadBuffer]byte)[:]
	}
}

// leaveBigBuffer goes back to the small one, unless there is too much for it:
// then the connection is about to be given up.
func (c *originConn) leaveBigBuffer() {
	if rest := c.buf[c.r:c.w]; c.small != nil && len(rest) <= len(c.small) {
		big := c.buf
		c.r, c.w = 0, copy(c.small, rest)
		c.buf, c.small, c.busy = c.small, nil, false
		bigBuffers.Put((*[bigReadBuffer]byte)(big))
	}
}

// shrink gives up a buffer that has grown for a long head, if it is empty.
func (c *originConn) shrink() {
	if c.small == nil && c.r == c.w && len(c.buf) != readBuffer {
		c.buf, c.r, c.w = make([]byte, readBuffer), 0, 0
		c.weighGrowth(0)
	}
}

// weighGrowth counts what the buffer takes beyond the usual.
func (c *originConn) weighGrowth(n int) {
	more := int64(n) - c.grown
	c.grown = int64(n)
	c.pool.space.heads.Add(more)
	if c.grownBy != nil {
		c.grownBy.weigh(more)
	}
}

// A socket is the connection below TLS. It tells what crypto/tls keeps to
// itself: whether it was closed without the close_notify of TLS.
type socket struct {
	net.Conn
	ended bool // owned by who reads
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.ended = s.ended || err == io.EOF
	return n, err
}

// isClose reports whether the other side has ended the connection, be it
// without the close_notify of TLS.
func isClose(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func truncatedBy(err error) string {
	if isTimeout(err) {
		return "time"
	}
	return "disconnect"
}

func bodyError(err error) error {
	switch {
	case isTimeout(err):
		return errors.New("the origin stopped sending in the middle of the body")
	case isClose(err):
		return io.ErrUnexpectedEOF
	}
	return rootCause(err)
}

func isEventStream(h *http1.Head) bool {
	contentType, _ := h.Get("Content-Type")
	return hasMediaType(contentType, "text/event-stream")
}
