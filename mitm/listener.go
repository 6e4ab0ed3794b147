package mitm

import (
	"net"
	"sync"
)

// NewListener returns a listener whose connections are framing connections.
// When it is closed, it closes those that have not sent the head of a request
// yet; else [http.Server.Shutdown] waits five seconds for them.
func NewListener(l net.Listener) net.Listener {
	return &listener{Listener: l}
}

type listener struct {
	net.Listener
	silent silentConns
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	fc := newConn(c, nil)
	l.silent.watch(fc, &fc.onHead)
	return fc, nil
}

func (l *listener) Close() error {
	err := l.Listener.Close()
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
