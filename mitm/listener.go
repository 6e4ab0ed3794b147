package mitm

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// A Listener accepts framing connections, no more at once than its limits
// allow.
type Listener struct {
	net.Listener
	// Refuse, unless nil, says why a client may not connect, who is then
	// answered with 403; "": it may. It has to be set before Accept is called.
	Refuse func(client net.Addr) (why string)

	limits  Limits
	log     *slog.Logger
	crowd   *crowd
	heads   *headRoom
	full    hint // for connections that are refused
	starved hint // for want of file descriptors
	silent  silentConns
	close   func()
	closed  chan struct{}
}

// NewListener returns a listener for a server of [NewServer]. When it is
// closed, it closes those of its connections that have not sent the head of a
// request yet; else [http.Server.Shutdown] waits five seconds for them. A nil
// log means slog.Default().
func NewListener(l net.Listener, limits Limits, log *slog.Logger) *Listener {
	limits = limits.withDefaults()
	closed := make(chan struct{})
	return &Listener{
		Listener: l,
		limits:   limits,
		log:      orDefault(log),
		crowd:    newCrowd(limits),
		heads:    newHeads(limits),
		close:    sync.OnceFunc(func() { close(closed) }),
		closed:   closed,
	}
}

// Connections returns how many connections of clients are open, tunnels
// included, and how many have been refused.
func (l *Listener) Connections() (open int, refused int64) { return l.crowd.counts() }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.accept()
		if err != nil {
			return nil, err
		}
		if l.Refuse != nil {
			if why := l.Refuse(c.RemoteAddr()); why != "" {
				l.crowd.refuse(c, http.StatusForbidden, why)
				continue
			}
		}
		leave, why := l.crowd.enter(addressOf(c))
		if leave == nil {
			l.crowd.refuse(c, http.StatusServiceUnavailable, why)
			if n := l.full.count(); n > 0 {
				l.log.Warn("connections of clients are refused", "why", why, "times", n)
			}
			continue
		}
		fc := newConn(c, nil, l.limits.head())
		fc.heads = l.heads.share(addressOf(c))
		fc.onClose = func() { fc.heads.leave(); leave() }
		l.silent.watch(fc, &fc.onHead)
		return fc, nil
	}
}

// accept waits while there are no file descriptors.
func (l *Listener) accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		c, err := l.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return c, err
		}
		if n := l.starved.count(); n > 0 {
			l.log.Warn("no file descriptor is left for a client (raise ulimit -n or lower --max-connections)", "error", err, "times", n)
		}
		select {
		case <-time.After(wait):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.close()
	l.silent.close()
	return err
}

// silentConns are connections that have not sent a request yet.
type silentConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// watch adds a connection, after setting *spoke to what is to be called when it
// has sent a request or is closed.
func (s *silentConns) watch(c net.Conn, spoke *func()) {
	*spoke = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	})
	s.mu.Lock()
	closed := s.closed
	if !closed {
		if s.conns == nil {
			s.conns = map[net.Conn]bool{}
		}
		s.conns[c] = true
	}
	s.mu.Unlock()
	if closed {
		c.Close()
	}
}

// close closes the connections, and those that are added later.
func (s *silentConns) close() {
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}
