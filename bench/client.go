//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// browser is what a browser says of itself in each request.
const browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\n" +
	"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nReferer: https://127.0.0.1/\r\n\r\n"

// A client has one connection, and waits for each answer before the next
// request.
type client struct {
	conn   net.Conn
	in     *bufio.Reader
	host   string // of the origin
	prefix string // of the request targets: the origin's URL where a proxy is asked in plain HTTP
	out    []byte
	body   []byte // to read into
}

// dial connects to an origin, with proxy (host:port, "" for none) in between.
func dial(scheme, host, proxy string, roots *x509.CertPool) (*client, error) {
	c := &client{host: host}
	addr := host
	if proxy != "" {
		addr = proxy
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	switch {
	case scheme == "http" && proxy != "":
		c.prefix = "http://" + host
	case scheme == "https":
		if proxy != "" {
			if err := c.connect(); err != nil {
				conn.Close()
				return nil, fmt.Errorf("CONNECT: %w", err)
			}
		}
		name, _, _ := net.SplitHostPort(host)
		t := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: name})
		if err := t.Handshake(); err != nil {
			conn.Close()
			return nil, err
		}
		c.conn = t
	}
	c.in = bufio.NewReader(c.conn)
	return c, nil
}

func (c *client) connect() error {
	if _, err := fmt.Fprintf(c.conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", c.host, c.host); err != nil {
		return err
	}
	in := bufio.NewReader(c.conn)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || in.Buffered() > 0 {
		return errors.New(resp.Status)
	}
	return nil
}

func (c *client) close() { c.conn.Close() }

// patience bounds how long one exchange may take: past that the harness, or what
// it measures, hangs.
const patience = 5 * time.Minute

// get asks for a file and compares what comes with what it should be. It
// returns how long the first byte of the answer and all of it took.
func (c *client) get(m *mix, visit int64, number int) (first, all time.Duration, err error) {
	p := path(m, visit, number)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", p, err)
		}
	}()
	c.out = append(append(append(c.out[:0], "GET "...), c.prefix...), p...)
	c.out = append(append(append(c.out, " HTTP/1.1\r\nHost: "...), c.host...), "\r\n"...)
	c.out = append(c.out, browser...)
	c.conn.SetDeadline(time.Now().Add(patience))
	start := time.Now()
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, 0, err
	}
	if _, err := c.in.Peek(1); err != nil {
		return 0, 0, err
	}
	first = time.Since(start)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return 0, 0, fmt.Errorf("%s: %s", resp.Status, reason)
	}
	content := m.content(visit, number)
	if err := c.compare(resp.Body, &content); err != nil {
		return 0, 0, err
	}
	return first, time.Since(start), nil
}

func (c *client) compare(body io.Reader, want *content) error {
	if c.body == nil {
		c.body = make([]byte, 64<<10)
	}
	for offset := int64(0); ; {
		n, err := body.Read(c.body)
		if !want.is(c.body[:n], offset) {
			return fmt.Errorf("what came at octet %d is not what the origin has", offset)
		}
		offset += int64(n)
		if err == io.EOF && offset == want.size {
			return nil
		}
		if err == io.EOF {
			err = fmt.Errorf("%d octets came instead of %d", offset, want.size)
		}
		if err != nil {
			return err
		}
	}
}
