package recorder

import (
	"sync"
	"time"

	"github.com/warctee/warctee/http1"
)

// A switched is the body of a 101 (Switching Protocols): the connection to the
// origin, to read from and write to. What passes on it is not recorded.
type switched struct {
	c     *originConn
	reply *http1.Response
	x     *exchange
	once  sync.Once
}

// switchProtocols hands the connection to the client, who closes it; the pool
// closes what is open at the end.
func (c *originConn) switchProtocols(a *attempt, reply *http1.Response) bool {
	x := a.x
	if !x.r.long.tryTake() {
		a.deliver(event{err: admissionError(classBusy, errTooManyLong)})
		return false
	}
	if !x.r.pool.places.lengthen(x.claim) {
		x.r.long.give()
		a.deliver(event{err: admissionError(classBusy, errShareOfLong)})
		return false
	}
	x.beginReply(c, reply)
	s := &switched{c: c, reply: reply, x: x}
	if !a.deliver(event{switched: s}) {
		x.r.long.give()
		x.dropReply()
		return false
	}
	x.switched = true
	x.clientDone() // it reads the connection
	uploaded := a.upload.stop()
	c.nc.SetDeadline(time.Time{}) // not before: a write of the request sets one
	x.endBody(uploaded, "", x.bodyEnded(), nil)
	c.handedOver = true
	return false
}

func (s *switched) Read(p []byte) (int, error) {
	if s.c.r < s.c.w {
		n := copy(p, s.c.buf[s.c.r:s.c.w])
		s.c.r += n
		return n, nil
	}
	s.c.buf = nil // there may be thousands of silent ones
	return s.c.nc.Read(p)
}

func (s *switched) Write(p []byte) (int, error) { return s.c.nc.Write(p) }

// Close closes the connection.
func (s *switched) Close() error {
	s.once.Do(func() {
		s.c.close()
		s.x.r.long.give()
		s.c.pool.forget(s.c)
		s.x.r.pool.places.give(s.x.claim, placeTunnel, placeClient, placeOrigin)
	})
	return nil
}
