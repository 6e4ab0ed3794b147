package mitm

import (
	"context"
	"fmt"
	"net"
)

// A turn is the right of a TLS handshake to be computed, which only so many
// have at once. While it waits for its client it has none: a client that says
// nothing holds up nobody.
type turn struct {
	slots chan struct{} // holds one for each turn that is taken
	ctx   context.Context
	mine  bool
}

// take waits for the turn.
func (t *turn) take() error {
	select {
	case t.slots <- struct{}{}:
		t.mine = true
		return nil
	case <-t.ctx.Done():
		return fmt.Errorf("%d TLS handshakes with other clients did not leave it its turn in time (--max-handshakes)", cap(t.slots))
	}
}

// give gives the turn back, if there is one.
func (t *turn) give() {
	if t.mine {
		<-t.slots
		t.mine = false
	}
}

// read reads from the client; a nil t is that of no handshake.
func (t *turn) read(c net.Conn, p []byte) (int, error) {
	if t == nil {
		return c.Read(p)
	}
	t.give()
	n, err := c.Read(p)
	if err == nil {
		err = t.take()
	}
	return n, err
}
