package recorder

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warctee/warctee/http1"
)

const (
	uploadBuffer = 32 << 10

	// continueWait is how long the body of a request that expects a
	// 100-continue is held back for an origin that does not send one
	// (RFC 9110 §10.1.1).
	continueWait = time.Second
)

var uploadBuffers = sync.Pool{New: func() any { return new([uploadBuffer]byte) }}

// An upload writes a request to its origin and keeps what was written.
type upload struct {
	a       *attempt
	failed  chan error    // what makes the exchange impossible; at most one
	goAhead chan struct{} // closed by goOn, replied or stop
	goneOn  sync.Once

	exited chan struct{} // closed when nothing is written any more

	mu      sync.Mutex // guards the exchange's sent message, and:
	waiting bool       // for a 100
	final   bool       // the final reply is there
	last    bool       // the write of the last byte has begun
	whole   bool       // all has been written
	stopped bool       // nothing more is kept
	client  error      // the client's body broke off
}

// lastWriteWait bounds how long stop waits for a last write that is under way:
// when its origin has replied to it, it returns in no time.
const lastWriteWait = time.Second

func newUpload(a *attempt) *upload {
	return &upload{a: a, failed: make(chan error, 1), goAhead: make(chan struct{}), exited: make(chan struct{})}
}

// start writes a request without a body at once; another one's body goes on in
// a goroutine, because the reply may come before it is whole.
func (u *upload) start() {
	if u.a.x.request.framing.Kind == http1.NoBody {
		u.finish(u.writeLast(u.a.x.request.head))
		return
	}
	go func() { // ends with the body, or when stop closed the connection and the body
		defer func() {
			if p := recover(); p != nil {
				u.finish(fmt.Errorf("reading the request body: %v", p))
			}
		}()
		u.finish(u.run())
	}()
}

// finish tells how the upload ended. An origin that takes no more may have
// sent its reply: that is for the reader of the connection to find out.
func (u *upload) finish(err error) {
	u.mu.Lock()
	u.whole = err == nil
	client := u.client
	u.mu.Unlock()
	close(u.exited)
	if client != nil {
		u.failed <- client
		u.a.conn.abort() // also where the reply has begun already
		return
	}
	u.a.conn.awaitReply(u.a)
}

func (u *upload) run() error {
	x := u.a.x
	if err := u.write(x.request.head); err != nil {
		return err
	}
	if x.request.expects && !u.awaitContinue() {
		return errUnfollowed
	}
	return u.sendBody()
}

// awaitContinue reports whether the body is to be sent: after a 100, or when
// the origin says nothing for a while.
func (u *upload) awaitContinue() bool {
	u.mu.Lock()
	u.waiting = true
	u.stopped = u.stopped || u.final
	u.mu.Unlock()
	wait := time.NewTimer(continueWait)
	defer wait.Stop()
	select {
	case <-u.goAhead:
	case <-wait.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = false
	return !u.stopped
}

// replied tells that the final reply is there: a body that still waits for a
// 100 is not wanted.
func (u *upload) replied() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.final = true
	u.stopped = u.stopped || u.waiting
	u.goOn()
}

// sendBody frames the body anew: a chunk for each read.
func (u *upload) sendBody() error {
	x, req := u.a.x, u.a.req
	buf := uploadBuffers.Get().(*[uploadBuffer]byte)
	defer uploadBuffers.Put(buf)
	chunked := x.request.framing.Kind == http1.Chunked
	const front, back = len("ffffffff\r\n"), len("\r\n")
	room := buf[front : len(buf)-back]
	for rest := x.request.framing.Length; ; {
		if !chunked && rest < int64(len(room)) {
			room = room[:rest]
		}
		n, err := req.Body.Read(room)
		rest -= int64(n)
		whole := !chunked && rest == 0
		if n > 0 {
			if err := u.sendPart(buf[:], front, n, chunked, whole); err != nil {
				return err
			}
		}
		switch {
		case whole:
			return nil
		case err == io.EOF && chunked:
			return u.keepWriting(u.lastChunk(), 0, 0, true)
		case err == io.EOF:
			return u.clientFailed(io.ErrUnexpectedEOF)
		case err != nil:
			return u.clientFailed(err)
		}
	}
}

// sendPart writes buf[front:front+n], as a chunk where that is the framing.
func (u *upload) sendPart(buf []byte, front, n int, chunked, last bool) error {
	if !chunked {
		return u.keepWriting(buf[front:front+n], 0, n, last)
	}
	size := strconv.AppendInt(nil, int64(n), 16)
	start := front - len(size) - len("\r\n")
	copy(buf[start:], size)
	copy(buf[front-2:], "\r\n")
	copy(buf[front+n:], "\r\n")
	return u.keepWriting(buf[start:front+n+2], front-start, front-start+n, false)
}

// lastChunk is the end of a chunked body, with the trailer that the client
// sent.
func (u *upload) lastChunk() []byte {
	b := []byte("0\r\n")
	for _, name := range sortedNames(u.a.req.Trailer) {
		for _, v := range u.a.req.Trailer[name] {
			if isMethod(name) && !strings.ContainsFunc(v, isForbidden) {
				b = fmt.Appendf(b, "%s: %s\r\n", name, v)
			}
		}
	}
	return append(b, "\r\n"...)
}

// keepWriting writes raw, a piece of the body whose payload is raw[from:to],
// and keeps it.
func (u *upload) keepWriting(raw []byte, from, to int, last bool) error {
	// Kept first: once the origin has it the reply can come and end the
	// exchange. A part that could not be written leaves the record
	// truncated anyway.
	u.mu.Lock()
	if u.stopped {
		u.mu.Unlock()
		return errUnfollowed
	}
	_, err := u.a.x.sent.keep(raw[:to], raw[from:to])
	if err == nil {
		_, err = u.a.x.sent.keep(raw[to:], nil)
	}
	u.mu.Unlock()
	if err != nil {
		u.a.x.r.spoolFailed(u.a.x, err)
		u.a.x.makeRoom(u.a.conn.abort)
	}
	if last {
		return u.writeLast(raw)
	}
	return u.write(raw)
}

// writeLast writes the end of the request.
func (u *upload) writeLast(p []byte) error {
	u.mu.Lock()
	u.last = true
	u.mu.Unlock()
	return u.write(p)
}

func (u *upload) write(p []byte) error {
	nc := u.a.conn.nc
	nc.SetWriteDeadline(time.Now().Add(u.a.conn.pool.timeout))
	_, err := nc.Write(p)
	return err
}

// clientFailed ends an upload that the client did not finish.
func (u *upload) clientFailed(err error) error {
	e := &Error{Phase: PhaseClient, Class: "upload-broke-off", Status: http.StatusBadRequest, Err: fmt.Errorf("the request body broke off: %w", err)}
	var refused *http1.Error
	switch {
	case errors.As(err, &refused):
		e.Class, e.Status, e.Err = "bad-request", refused.Status, fmt.Errorf("the request body is not valid: %w", refused)
	case isTimeout(err):
		e.Class, e.Status, e.Err = "timeout", http.StatusRequestTimeout, errors.New("the client stopped sending in the middle of the request body")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return errUnfollowed // the reply was there first; that ended the body
	}
	u.client = e
	return e
}

func (u *upload) clientErr() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.client
}

// goOn lets a body follow that waits for a 100 (Continue).
func (u *upload) goOn() { u.goneOn.Do(func() { close(u.goAhead) }) }

// stop ends the upload and reports whether it was whole. After it the message
// is not touched any more.
func (u *upload) stop() (whole bool) {
	u.mu.Lock()
	u.stopped = true
	whole, last := u.whole, u.last
	u.mu.Unlock()
	if !whole && last {
		whole = u.lastWritten()
	}
	if whole {
		return true
	}
	u.goOn()
	u.a.conn.close()
	if u.a.req.Body != nil {
		u.a.req.Body.Close()
	}
	return false
}

// lastWritten waits for the last write to return.
func (u *upload) lastWritten() bool {
	wait := time.NewTimer(lastWriteWait)
	defer wait.Stop()
	select {
	case <-u.exited:
	case <-wait.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.whole
}
