package mitm

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// maxParting bounds the connections that were refused and are not closed yet.
const maxParting = 64

// A crowd counts the connections of clients, and turns away those that are too
// many.
type crowd struct {
	max, maxPerClient int

	mu      sync.Mutex
	total   int
	clients map[netip.Addr]int
	refused int64
	parting int
}

func newCrowd(l Limits) *crowd {
	return &crowd{max: l.MaxConns, maxPerClient: l.MaxConnsPerClient, clients: make(map[netip.Addr]int)}
}

// enter takes a connection of a client into account until leave is called, or
// says why not.
func (c *crowd) enter(client netip.Addr) (leave func(), why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total >= c.max:
		why = fmt.Sprintf("there are %d connections already (--max-connections)", c.total)
	case c.clients[client] >= c.maxPerClient:
		why = fmt.Sprintf("there are %d connections from %s already (--max-connections-per-client)", c.clients[client], client)
	}
	if why != "" {
		c.refused++
		return nil, why
	}
	c.total++
	c.clients[client]++
	return sync.OnceFunc(func() { c.leave(client) }), ""
}

func (c *crowd) leave(client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.clients[client]--; c.clients[client] == 0 {
		delete(c.clients, client)
	}
}

// refuse answers with a status, and closes. It does not wait for the client: a
// new connection has room for the answer. It is closed a moment later, else the
// client could see a reset in place of the answer.
func (c *crowd) refuse(conn net.Conn, status int, why string) {
	body, again := refusalText(status, why), ""
	if status == http.StatusServiceUnavailable {
		again = "Retry-After: 5\r\n"
	}
	conn.SetWriteDeadline(time.Now().Add(lingerTime))
	_, err := fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"+
		"Proxy-Status: %s\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), proxyStatus(status), again, len(body), body)
	if w, ok := conn.(closeWriter); err != nil || !ok || w.CloseWrite() != nil || !c.part(+1) {
		conn.Close()
		return
	}
	time.AfterFunc(lingerTime, func() {
		conn.Close()
		c.part(-1)
	})
}

// part counts the refused connections that are still open. It returns false
// when there is no room for another one.
func (c *crowd) part(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && c.parting >= maxParting {
		return false
	}
	c.parting += n
	return true
}

// counts returns how many connections there are, and how many were refused.
func (c *crowd) counts() (open int, refused int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, c.refused
}

// addressOf returns the address of a client; all that have none count as one.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
