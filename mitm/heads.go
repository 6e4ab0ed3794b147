package mitm

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/warctee/warctee/http1"
)

// A headRoom counts the memory of what clients have begun to say and not finished:
// heads of requests, the first bytes of tunnels, TLS handshakes. Nobody has had to
// say who they are by then.
type headRoom struct {
	max, maxPerClient int // bytes

	mu      sync.Mutex
	total   int
	clients map[netip.Addr]int
}

// newHeads lets each client have a quarter, so that no single one takes all, and
// always two heads.
func newHeads(l Limits) *headRoom {
	perClient := max(l.MaxUnfinished/4, 2*l.head().Head())
	return &headRoom{max: max(l.MaxUnfinished, perClient), maxPerClient: perClient, clients: make(map[netip.Addr]int)}
}

// A headShare is what one connection has of it. A nil one is not bounded. It is
// safe for concurrent use.
type headShare struct {
	of     *headRoom
	client netip.Addr
	held   int  // guarded by of.mu
	left   bool // the connection is closed; guarded by of.mu
}

func (h *headRoom) share(client netip.Addr) *headShare { return &headShare{of: h, client: client} }

// hold changes how many bytes the connection has. It reports false, and changes
// nothing, when there is no room for as many.
func (s *headShare) hold(n int) bool {
	return s.change(func(held int) int { return n - held })
}

// add takes n more bytes.
func (s *headShare) add(n int) bool {
	return s.change(func(int) int { return n })
}

func (s *headShare) change(by func(held int) int) bool {
	if s == nil {
		return true
	}
	h := s.of
	h.mu.Lock()
	defer h.mu.Unlock()
	n := by(s.held)
	switch {
	case s.left: // nothing is kept for long
		return true
	case n > 0 && (h.total+n > h.max || h.clients[s.client]+n > h.maxPerClient):
		return false
	}
	s.changeLocked(n)
	return true
}

func (s *headShare) changeLocked(n int) {
	s.held += n
	s.of.total += n
	if s.of.clients[s.client] += n; s.of.clients[s.client] == 0 {
		delete(s.of.clients, s.client)
	}
}

// leave gives everything back, for good.
func (s *headShare) leave() {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.changeLocked(-s.held)
	s.left = true
}

// shareOf is that of a connection which a Listener has accepted; nil: none.
func shareOf(c net.Conn) *headShare {
	if c, ok := c.(*conn); ok {
		return c.heads
	}
	return nil
}

// errCrowded is why a connection is closed that has not got as far as HTTP.
var errCrowded = errors.New("the beginnings of requests take up the memory (--max-unfinished)")

// refuseCrowded is the same for a request.
func refuseCrowded() *http1.Error {
	return &http1.Error{Status: http.StatusServiceUnavailable, Reason: errCrowded.Error()}
}
