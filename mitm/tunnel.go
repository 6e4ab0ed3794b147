package mitm

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// A tunnelConn is the client's connection below TLS, from the answer to its
// CONNECT on.
type tunnelConn struct {
	net.Conn
	tunnel  *Tunnel
	ctx     context.Context // done when closed
	onClose func()
	heads   *headShare // for what is peeked at and for the TLS handshake

	peeked  []byte      // of the client; Read returns them first
	turn    *turn       // in a TLS handshake
	shaking atomic.Bool // the same; then it counts when it is closed too
	opening bool        // it is not clear yet what the client speaks; guarded by Interceptor.mu
}

func (c *tunnelConn) Read(p []byte) (int, error) {
	if len(c.peeked) == 0 {
		n, err := c.turn.read(c.Conn, p)
		// crypto/tls keeps the message that it collects, and the record.
		if c.shaking.Load() && !c.heads.add(2*n) {
			return 0, errCrowded
		}
		return n, err
	}
	n := copy(p, c.peeked)
	c.peeked = c.peeked[n:]
	if len(c.peeked) == 0 {
		c.peeked = nil
	}
	return n, nil
}

func (c *tunnelConn) Close() error {
	err := c.Conn.Close()
	if !c.shaking.Load() { // crypto/tls closes it when the time is over, before that is told
		c.onClose()
	}
	return err
}

// CloseWrite tells the client that nothing more is sent.
func (c *tunnelConn) CloseWrite() error {
	if w, ok := c.Conn.(closeWriter); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// What a client speaks in a tunnel.
type protocol int

const (
	undecided   protocol = iota
	saysNothing          // and is gone
	isSilent
	speaksTLS
	speaksHTTP
	speaksOther
)

// maxPeek is how much of a request line is looked at. What is longer can be
// nothing but HTTP.
const maxPeek = 8 << 10

// peek reads until it is clear what the client speaks. why explains speaksOther.
func (c *tunnelConn) peek() (p protocol, why string) {
	for {
		rest := c.peeked
		for blank := 0; blank < maxBlank && bytes.HasPrefix(rest, []byte("\r\n")); blank++ {
			rest = rest[2:] // behind the CONNECT, and no part of what follows
		}
		if p := recognise(rest); p != undecided {
			if p == speaksTLS {
				c.peeked = rest
			}
			return p, "neither TLS nor HTTP"
		}
		b := slices.Grow(c.peeked, max(1<<10, len(c.peeked)))
		if !c.heads.hold(cap(b)) {
			return saysNothing, ""
		}
		n, err := c.Conn.Read(b[len(b):cap(b)])
		c.peeked = b[:len(b)+n]
		switch {
		case n > 0 || err == nil:
		case len(c.peeked) > 0:
			return speaksOther, "not enough of TLS or HTTP"
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.peeked = nil
			return isSilent, ""
		default:
			return saysNothing, ""
		}
	}
}

// recognise tells what starts with b: TLS with the record of a handshake
// (RFC 8446 §5.1), HTTP with a request line (RFC 9112 §3).
func recognise(b []byte) protocol {
	switch {
	case len(b) > 0 && b[0] == 0x16:
		return speaksTLS
	case len(b) == 1 && b[0] == '\r':
		return undecided
	}
	method := 0
	for method < len(b) && isMethodByte(b[method]) {
		method++
	}
	if method == len(b) && method < 64 {
		return undecided
	}
	if method == 0 || method == len(b) || b[method] != ' ' {
		return speaksOther
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && (whole || r != '\r') }):
		return speaksOther
	case whole && len(line) > 9 && bytes.Equal(line[len(line)-9:len(line)-1], []byte(" HTTP/1.")):
		return speaksHTTP
	case whole:
		return speaksOther
	case len(b) > maxPeek:
		return speaksHTTP
	}
	return undecided
}

func isMethodByte(c byte) bool { return 'A' <= c && c <= 'Z' || c == '-' || c == '_' }

// A tunnelListener accepts the connections that deliver gets.
type tunnelListener struct {
	conns  chan net.Conn
	once   sync.Once
	done   chan struct{} // closed by Close
	silent silentConns
}

func (l *tunnelListener) deliver(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		c.Close()
	}
}

func (l *tunnelListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *tunnelListener) Close() error {
	l.once.Do(func() { close(l.done) })
	l.silent.close()
	return nil
}

func (l *tunnelListener) Addr() net.Addr { return tunnelAddr{} }

type tunnelAddr struct{}

func (tunnelAddr) Network() string { return "tunnel" }
func (tunnelAddr) String() string  { return "CONNECT tunnels" }
