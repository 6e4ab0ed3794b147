//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// An origin serves the mixes, over http and https. It is no more than what the
// clients need: net/http would take a good part of the processors, which the
// proxies would then lack as well.
type origin struct {
	mixes  map[string]*mix
	plain  net.Listener
	tls    net.Listener
	served atomic.Int64 // answers begun
}

func startOrigin(mixes map[string]*mix, leaf *tls.Certificate) (*origin, error) {
	o := &origin{mixes: mixes}
	var err error
	if o.plain, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if o.tls, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}}); err != nil {
		return nil, err
	}
	for _, l := range []net.Listener{o.plain, o.tls} {
		go func() { // ends with close
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go o.serve(c) // ends when the other side closes the connection
			}
		}()
	}
	return o, nil
}

func (o *origin) close() {
	o.plain.Close()
	o.tls.Close()
}

// host is where the origin serves a scheme.
func (o *origin) host(scheme string) string {
	if scheme == "https" {
		return o.tls.Addr().String()
	}
	return o.plain.Addr().String()
}

// path is the URL path of a file at a visit.
func path(m *mix, visit int64, number int) string {
	return fmt.Sprintf("/%s/%d/%d", m.name, visit, number)
}

// serve answers the requests that come over a connection, of which it reads
// the path alone.
func (o *origin) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		m, visit, number := o.file(line)
		for len(bytes.TrimRight(line, "\r\n")) > 0 {
			if line, err = in.ReadSlice('\n'); err != nil {
				return
			}
		}
		if m == nil {
			fmt.Fprintf(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		o.served.Add(1)
		if out, err = m.answer(c, out, visit, number); err != nil {
			return
		}
	}
}

// file understands a request line: GET /MIX/VISIT/NUMBER HTTP/1.1.
func (o *origin) file(line []byte) (m *mix, visit int64, number int) {
	words := bytes.Fields(line)
	if len(words) != 3 || string(words[0]) != "GET" {
		return nil, 0, 0
	}
	parts := bytes.Split(words[1], []byte("/"))
	if len(parts) != 4 {
		return nil, 0, 0
	}
	m = o.mixes[string(parts[1])]
	visit, err := strconv.ParseInt(string(parts[2]), 10, 64)
	number, err2 := strconv.Atoi(string(parts[3]))
	if m == nil || err != nil || err2 != nil || number < 0 || number >= len(m.files) {
		return nil, 0, 0
	}
	return m, visit, number
}

const (
	chunkSize = 8 << 10
	writeSize = 64 << 10
)

// answer writes a response. It returns buf, which it uses, for the next one.
func (m *mix) answer(c net.Conn, buf []byte, visit int64, number int) ([]byte, error) {
	f, content := &m.files[number], m.content(visit, number)
	b := fmt.Appendf(buf[:0], "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: %s\r\nContent-Type: %s\r\n", time.Now().UTC().Format(http.TimeFormat), f.kind)
	b = fmt.Appendf(b, "Last-Modified: Tue, 17 Nov 2026 08:15:30 GMT\r\nETag: \"%x-%x\"\r\nCache-Control: public, max-age=3600\r\n", visit, number)
	b = append(b, "Vary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\nStrict-Transport-Security: max-age=31536000\r\n"...)
	if f.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
	} else {
		b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", f.size)
	}
	for offset, inChunk := int64(0), int64(0); offset < f.size; {
		if f.chunked && inChunk == 0 {
			inChunk = min(chunkSize, f.size-offset)
			b = append(strconv.AppendInt(b, inChunk, 16), "\r\n"...)
		}
		p := content.piece(offset)
		p = p[:min(len(p), writeSize)]
		if f.chunked {
			p = p[:min(int64(len(p)), inChunk)]
		}
		b = append(b, p...)
		offset += int64(len(p))
		if f.chunked {
			if inChunk -= int64(len(p)); inChunk == 0 {
				b = append(b, "\r\n"...)
			}
		}
		if len(b) >= writeSize {
			if _, err := c.Write(b); err != nil {
				return b, err
			}
			b = b[:0]
		}
	}
	if f.chunked {
		b = append(b, "0\r\n\r\n"...)
	}
	_, err := c.Write(b)
	return b, err
}
