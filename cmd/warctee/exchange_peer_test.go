package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// wait waits until ready, which is called with the mutex held, says so.
func (x *scene) wait(what func() string, ready func() bool) {
	x.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		late = true
		x.changed.Broadcast()
	})
	defer timer.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !ready() {
		if late {
			x.Fatalf("waited in vain for %s", what())
		}
		x.changed.Wait()
	}
}

// A peer is an end of a connection that the test plays. What comes is read at
// once and kept until the test takes it.
type peer struct {
	net.Conn
	x    *scene
	name string
	tcp  *net.TCPConn // below TLS

	in  []byte // came and was not taken; guarded by x.mu, as is err
	err error  // no more comes
}

func (x *scene) newPeer(name string, c net.Conn, tcp *net.TCPConn) *peer {
	p := &peer{Conn: c, x: x, name: name, tcp: tcp}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.peers = append(x.peers, p)
	return p
}

// listen reads until the connection is closed, by stop at the latest.
func (p *peer) listen() {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.Read(buf)
		p.x.mu.Lock()
		p.in = append(p.in, buf[:n]...)
		p.err = err
		p.x.changed.Broadcast()
		p.x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// send writes all of s.
func (p *peer) send(s string) {
	p.x.Helper()
	if err := p.trySend(s); err != nil {
		p.x.Fatalf("%s cannot send %.200q: %v", p.name, s, err)
	}
}

func (p *peer) trySend(s string) error {
	p.SetWriteDeadline(time.Now().Add(patience))
	_, err := io.WriteString(p.Conn, s)
	return err
}

// reset closes with a TCP reset.
func (p *peer) reset() {
	p.tcp.SetLinger(0)
	p.tcp.Close()
}

// upTo takes what comes until a part of it ends with end.
func (p *peer) upTo(end string) (s string) {
	p.x.Helper()
	p.waitFor(fmt.Sprintf("%q", end), func() bool {
		i := bytes.Index(p.in, []byte(end))
		if i >= 0 {
			s = p.takeLocked(i + len(end))
		}
		return i >= 0
	})
	return s
}

// take takes n bytes.
func (p *peer) take(n int) (s string) {
	p.x.Helper()
	p.waitFor(fmt.Sprintf("%d bytes", n), func() bool {
		if len(p.in) < n {
			return false
		}
		s = p.takeLocked(n)
		return true
	})
	return s
}

func (p *peer) takeLocked(n int) string {
	s := string(p.in[:n])
	p.in = p.in[n:]
	return s
}

// waitFor fails also when the connection ends before ready.
func (p *peer) waitFor(what string, ready func() bool) {
	p.x.Helper()
	p.x.wait(func() string { return fmt.Sprintf("%s to get %s, which got %.500q", p.name, what, p.in) }, func() bool {
		p.x.Helper()
		if ready() {
			return true
		}
		if p.err != nil {
			p.x.Fatalf("the connection of %s ended (%v) instead of bringing %s; there was %.500q", p.name, p.err, what, p.in)
		}
		return false
	})
}

// rest takes all until the connection ends, and tells how that was: io.EOF is
// a clean end.
func (p *peer) rest() (s string, err error) {
	p.x.Helper()
	p.x.wait(func() string { return fmt.Sprintf("the connection of %s to end, which got %.500q", p.name, p.in) }, func() bool {
		if p.err == nil {
			return false
		}
		s, err = p.takeLocked(len(p.in)), p.err
		return true
	})
	return s, err
}

// ends fails if anything else comes.
func (p *peer) ends() {
	p.x.Helper()
	if s, _ := p.rest(); s != "" {
		p.x.Errorf("%s got %.500q before the connection ended", p.name, s)
	}
}

// request takes a whole request: its bytes.
func (p *peer) request() string {
	p.x.Helper()
	head := p.upTo("\r\n\r\n")
	raw, _, whole := p.body(head)
	if !whole {
		p.x.Fatalf("%s got the request %.200q with a part of the body, %.200q", p.name, head, raw)
	}
	return head + raw
}

// A reply is what a client gets.
type reply struct {
	status  int
	head    string
	body    string // without chunk framing
	trailer string
	whole   bool // false: the connection ended in the middle of the body
}

// reply takes a response to a request of that method, to its end or that of
// the connection.
func (p *peer) reply(method string) reply {
	p.x.Helper()
	r := p.replyHead()
	if method == "HEAD" || r.status < 200 || r.status == 204 || r.status == 304 {
		r.whole = true
		return r
	}
	raw, body, whole := p.body(r.head)
	r.body, r.whole = body, whole
	if strings.Contains(raw, "\r\n") && field(r.head, "Transfer-Encoding") != "" {
		_, r.trailer, _ = strings.Cut(raw[max(0, strings.LastIndex(raw, "\r\n0\r\n")):], "0\r\n")
	}
	return r
}

func (p *peer) replyHead() reply {
	p.x.Helper()
	head := p.upTo("\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.") || len(head) < 12 {
		p.x.Fatalf("%s got %.200q instead of a response", p.name, head)
	}
	status, err := strconv.Atoi(head[9:12])
	if err != nil {
		p.x.Fatalf("%s got the status line of %.200q", p.name, head)
	}
	return reply{status: status, head: head}
}

// body takes the body behind a head: as it came, and without chunk framing.
func (p *peer) body(head string) (raw, entity string, whole bool) {
	p.x.Helper()
	switch length := field(head, "Content-Length"); {
	case strings.EqualFold(field(head, "Transfer-Encoding"), "chunked"):
		return p.chunks()
	case length != "":
		n, err := strconv.Atoi(length)
		if err != nil {
			p.x.Fatalf("%s got the length %q", p.name, length)
		}
		raw = p.atMost(n)
		return raw, raw, len(raw) == n
	case strings.HasPrefix(head, "HTTP/"):
		raw, err := p.rest()
		return raw, raw, err == io.EOF
	}
	return "", "", true
}

// atMost takes n bytes, or fewer when the connection ends.
func (p *peer) atMost(n int) (s string) {
	p.x.Helper()
	p.x.wait(func() string { return fmt.Sprintf("%s to get %d bytes, which got %.500q", p.name, n, p.in) }, func() bool {
		if len(p.in) < n && p.err == nil {
			return false
		}
		s = p.takeLocked(min(n, len(p.in)))
		return true
	})
	return s
}

func (p *peer) chunks() (raw, entity string, whole bool) {
	p.x.Helper()
	line := func() string {
		var b strings.Builder
		for !strings.HasSuffix(b.String(), "\r\n") {
			c := p.atMost(1)
			if c == "" {
				break
			}
			b.WriteString(c)
		}
		raw += b.String()
		return b.String()
	}
	for {
		size := line()
		if !strings.HasSuffix(size, "\r\n") {
			return raw, entity, false
		}
		digits, _, _ := strings.Cut(strings.TrimSuffix(size, "\r\n"), ";")
		n, err := strconv.ParseInt(digits, 16, 32)
		if err != nil {
			p.x.Fatalf("%s got the chunk size %q", p.name, size)
		}
		if n == 0 {
			break
		}
		data := p.atMost(int(n))
		raw, entity = raw+data, entity+data
		if len(data) < int(n) || line() != "\r\n" {
			return raw, entity, false
		}
	}
	for {
		switch l := line(); {
		case l == "\r\n":
			return raw, entity, true
		case !strings.HasSuffix(l, "\r\n"):
			return raw, entity, false
		}
	}
}

// field returns the first value of a header field.
func field(head, name string) string {
	for l := range strings.SplitSeq(head, "\r\n") {
		if n, v, ok := strings.Cut(l, ":"); ok && strings.EqualFold(n, name) {
			return strings.Trim(v, " \t")
		}
	}
	return ""
}
