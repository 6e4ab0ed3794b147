package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

const (
	corporaBatch   = 200 // messages for one proxy
	corporaWorkers = 8
	corporaTime    = 15 * time.Second // for one message: much longer than it takes
)

// playAll plays messages in batches, each through a proxy of its own, which has
// to serve an ordinary request afterwards. done gets what is recorded.
func playAll(t *testing.T, list []specimen, play func(x *scene, n int, h *specimen), done func(x *scene, records []check.Record)) {
	for start := 0; start < len(list); start += corporaBatch {
		batch := list[start:min(start+corporaBatch, len(list))]
		x := newScene(t, false, func(f *recordFlags) { f.dedup, f.timeout = "off", 5*time.Second })
		var players sync.WaitGroup
		next := make(chan int)
		for range corporaWorkers {
			players.Add(1)
			go func() { // ends when next is closed
				defer players.Done()
				for n := range next {
					play(x, start+n, &batch[n])
				}
			}()
		}
		for n := range batch {
			next <- n
		}
		close(next)
		players.Wait()
		x.fine("/after")
		x.settled()
		if s := x.proxy.recorder.Status(); s.Lost > 0 || s.Unavailable != nil {
			t.Errorf("status of the recorder: %+v", s)
		}
		x.stop()
		if strings.Contains(x.log.String(), "internal error") || strings.Contains(x.log.String(), "panic") {
			t.Errorf("log of the proxy:\n%s", x.log)
		}
		done(x, warctest.Check(t, x.flags.dir))
	}
}

// exchangeRaw sends bytes through a tunnel, then closes that direction, and
// returns all that comes.
func (x *scene) exchangeRaw(authority, raw string, encrypted bool) (string, error) {
	c, err := net.Dial("tcp", x.proxy.listener.Addr().String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(corporaTime))
	if authority != "" {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
		established := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c, established); err != nil {
			return "", err
		}
	}
	half := c.(interface {
		net.Conn
		CloseWrite() error
	})
	if encrypted {
		host, _, _ := net.SplitHostPort(authority)
		t := tls.Client(c, &tls.Config{RootCAs: x.proxyRoots(), ServerName: host, NextProtos: []string{"http/1.1"}})
		if err := t.Handshake(); err != nil {
			return "", err
		}
		half = t
	}
	go func() { // ends when all is sent, or with the connection
		io.WriteString(half, raw)
		half.CloseWrite()
	}()
	got, err := io.ReadAll(half)
	var hang net.Error
	if errors.As(err, &hang) && hang.Timeout() {
		return string(got), fmt.Errorf("no end after %v: %w", corporaTime, err)
	}
	return string(got), nil // also where the proxy was not ready to read all, and has reset
}

// A countingOrigin answers requests as net/http understands them.
type countingOrigin struct {
	listener net.Listener
	mu       sync.Mutex
	requests int
	got      []*syncBuffer // what came, by connection
}

const counted = "HTTP/1.1 200 OK\r\nX-Origin: yes\r\nContent-Length: 2\r\n\r\nok"

func startCounting(certificate func() (*tls.Certificate, error)) (*countingOrigin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &countingOrigin{listener: l}
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends when the proxy closes, or in time
				defer c.Close()
				c.SetDeadline(time.Now().Add(corporaTime))
				if certificate != nil {
					c = tls.Server(c, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() }})
				}
				o.serve(c)
			}()
		}
	}()
	return o, nil
}

func (o *countingOrigin) serve(c net.Conn) {
	all := new(syncBuffer)
	in := bufio.NewReader(io.TeeReader(c, all))
	o.mu.Lock()
	o.got = append(o.got, all)
	o.mu.Unlock()
	for {
		q, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		o.mu.Lock()
		o.requests++
		o.mu.Unlock()
		reply := counted
		if q.Method == "HEAD" {
			reply = strings.TrimSuffix(counted, "ok")
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// wholeRequests is how many requests our own parser sees in what an origin got.
func wholeRequests(got string) (n int) {
	for rest := []byte(got); len(rest) > 0; n++ {
		end := http1.HeadLen(rest, 0)
		if end == 0 {
			return n
		}
		r, err := http1.ParseRequest(rest[:end])
		if err != nil {
			return n
		}
		b := http1.NewBody(r.Framing, true)
		for rest = rest[end:]; !b.Done(); {
			took, _, err := b.Next(rest)
			if err != nil || took == 0 {
				return n
			}
			rest = rest[took:]
		}
	}
	return n
}

// answers splits what a client got: how many come from the origin.
func answers(got string, isHead bool) (origin, own int, err error) {
	in := bufio.NewReader(strings.NewReader(got))
	for {
		start, _ := in.Peek(in.Size())
		if len(start) == 0 {
			return origin, own, nil
		}
		method := "GET"
		head, _, _ := bytes.Cut(start, []byte("\r\n\r\n"))
		if body, _ := in.Peek(min(in.Size(), len(head)+20)); isHead && !bytes.Contains(body, []byte("\r\n\r\nwarctee:")) {
			method = "HEAD" // a refusal may have a body: it does not know the method
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return origin, own, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return origin, own, err
		}
		switch {
		case resp.StatusCode == 100:
		case resp.Header.Get("X-Origin") != "":
			origin++
		default:
			own++
		}
	}
}

// A requestPlay is what became of a request.
type requestPlay struct {
	h         *specimen
	authority string
	completed bool // it was played with the body that it speaks of
	origin    *countingOrigin
	seen, own int // answers that the client got: of the origin, of the proxy
	answer    string
}

// TestHostileRequests plays the requests, as they are and with the body that they
// speak of, in a tunnel and in TLS in a tunnel.
func TestHostileRequests(t *testing.T) {
	list := hostileRequests(t)
	tallies := newTallies(list)
	var mu sync.Mutex
	var plays []*requestPlay
	playOne := func(x *scene, h *specimen, raw string, encrypted bool) {
		var certificate func() (*tls.Certificate, error)
		if encrypted {
			certificate = func() (*tls.Certificate, error) { return originCA.Leaf("127.0.0.1") }
		}
		o, err := startCounting(certificate)
		if err != nil {
			t.Error(err)
			return
		}
		x.Cleanup(func() { o.listener.Close() }) // late, so that no other gets the port
		p := &requestPlay{h: h, authority: o.listener.Addr().String(), completed: raw != h.raw, origin: o}
		got, err := x.exchangeRaw(p.authority, strings.ReplaceAll(raw, authorityMark, p.authority), encrypted)
		if err != nil {
			t.Errorf("%s/%s: %v", h.suite, h.id, err)
		}
		_, p.answer, _ = strings.Cut(got, "warctee: ")
		if p.seen, p.own, err = answers(got, strings.HasPrefix(raw, "HEAD ")); err != nil {
			t.Errorf("%s/%s: the client got %.300q: %v", h.suite, h.id, got, err)
		}
		mu.Lock()
		defer mu.Unlock()
		plays = append(plays, p)
	}
	playAll(t, list, func(x *scene, n int, h *specimen) {
		for _, encrypted := range []bool{false, true} {
			playOne(x, h, h.raw, encrypted)
			if whole := completeBody(h.raw); whole != h.raw {
				playOne(x, h, whole, encrypted)
			}
		}
	}, func(x *scene, records []check.Record) {
		recorded, blind := make(map[string]int), make(map[string]bool)
		for _, r := range records {
			if u, err := url.Parse(r.TargetURI); err == nil && r.Type == "response" {
				recorded[u.Host]++
			}
		}
		for _, l := range failuresOf(x) {
			if l.Class == "unrecorded-tunnel" {
				blind[l.Address] = true
			}
		}
		for _, p := range plays {
			p.judge(t, tallies[p.h.suite], recorded[p.authority], blind[p.authority])
		}
		plays = nil
	})
	report(t, tallies, explainedRequests)
}

// judge: origin, client and archive must have the same view.
func (p *requestPlay) judge(t *testing.T, c *tally, recorded int, blind bool) {
	c.plays++
	if blind { // neither TLS nor HTTP in it, as it seems
		c.blind++
		if recorded > 0 {
			t.Errorf("%s/%s: there are records of what was not to be recorded", p.h.suite, p.h.id)
		}
		return
	}
	o := p.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	ours, all := 0, ""
	for _, got := range o.got {
		ours += wholeRequests(got.String())
		all += got.String()
	}
	if o.requests != p.seen || o.requests != ours || o.requests != recorded {
		t.Errorf("%s/%s: net/http sees %d requests at the origin, our parser %d; the client got %d answers to them, %d are recorded: %.300q, at the origin %.300q", p.h.suite, p.h.id, o.requests, ours, p.seen, recorded, p.h.raw, all)
	}
	if o.requests > 0 {
		c.forwarded++
	} else {
		c.refused++
	}
	// What a message lacks may be what was wrong with it, or what hid it.
	if contradictory := p.h.suite == "http-desync-guardian"; p.h.verdict == forward && p.completed == (completeBody(p.h.raw) != p.h.raw) || p.h.verdict == refuse && (!p.completed || contradictory) {
		c.judge(p.h, o.requests > 0, p.answer, explainedRequests)
	}
}

// TestHostileReplies plays the replies.
func TestHostileReplies(t *testing.T) {
	list := hostileReplies(t)
	tallies := newTallies(list)
	var mu sync.Mutex
	views := make(map[string]*replyView) // by URL
	playAll(t, list, func(x *scene, n int, h *specimen) {
		v, err := playReply(x, n, h)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s/%s: %v", h.suite, h.id, err)
			return
		}
		views[v.url] = v
		c := tallies[h.suite]
		c.plays++
		switch {
		case v.own:
			c.refused++
		case v.err != nil:
			c.cut++
		default:
			c.forwarded++
		}
		c.judge(h, !v.own, string(v.entity), explainedReplies)
	}, func(x *scene, records []check.Record) {
		for _, r := range records {
			if v := views[strings.TrimPrefix(r.TargetURI, "urn:bad-reply:")]; v != nil {
				v.compare(t, &r)
			}
		}
		for url, v := range views {
			if v.records == 0 && (!v.own || len(v.h.raw) > 0 && !v.nothing) {
				t.Errorf("%s/%s: nothing is recorded of %s", v.h.suite, v.h.id, url)
			}
		}
		clear(views)
	})
	report(t, tallies, explainedReplies)
}

// A replyView is what a client has seen of a reply.
type replyView struct {
	h       *specimen
	url     string
	own     bool // 502: what follows is of no reply
	nothing bool // the proxy saw no octet of a final reply
	status  int
	entity  []byte
	err     error // the entity is cut
	records int
}

// playReply has an origin send a reply, and end.
func playReply(x *scene, n int, h *specimen) (*replyView, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go func() { // ends with the connection, or when the listener is closed
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(corporaTime))
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, h.raw)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
	}()
	authority := l.Addr().String()
	v := &replyView{h: h, url: fmt.Sprintf("http://%s/%d", authority, n)}
	got, err := x.exchangeRaw("", "GET "+v.url+" HTTP/1.1\r\nHost: "+authority+"\r\nConnection: close\r\n\r\n", false)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(strings.NewReader(got))
	resp, err := http.ReadResponse(in, nil)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != 101 {
		resp, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("the client got %.300q: %w", got, err)
	}
	v.status = resp.StatusCode
	v.entity, v.err = io.ReadAll(resp.Body)
	v.own = v.status >= 500 && bytes.HasPrefix(v.entity, []byte("warctee: "))
	v.nothing = v.own && bytes.Contains(v.entity, []byte("it closed the connection"))
	if rest, _ := io.ReadAll(in); len(rest) > 0 && v.err == nil {
		return nil, fmt.Errorf("behind the response the client got %.300q", rest)
	}
	return v, v.secondView()
}

// secondView compares with what net/http sees in the same reply.
func (v *replyView) secondView() error {
	in := bufio.NewReader(strings.NewReader(v.h.raw))
	resp, err := http.ReadResponse(in, nil)
	for err == nil && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(in, nil)
	}
	if err != nil || v.own || strings.Contains(v.h.raw, "HTTP/1.0") && resp.Header.Get("Transfer-Encoding")+strings.Join(resp.TransferEncoding, "") == "" && strings.Contains(strings.ToLower(v.h.raw), "transfer-encoding") {
		return nil
	}
	for name := range resp.Header {
		if strings.HasSuffix(name, " ") {
			return nil // a name with white space behind: browsers take it off
		}
	}
	entity, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != v.status:
		return fmt.Errorf("net/http sees the status %d, the client %d", resp.StatusCode, v.status)
	case err == nil && v.err == nil && !bytes.Equal(entity, v.entity), !bytes.HasPrefix(entity, v.entity) && !bytes.HasPrefix(v.entity, entity):
		return fmt.Errorf("net/http sees %.300q, the client %.300q", entity, v.entity)
	case (err == nil) != (v.err == nil) && err != nil && !isStricter(err):
		return fmt.Errorf("net/http sees %.300q and %v, the client %.300q and %v", entity, err, v.entity, v.err)
	case err == nil && v.err != nil:
		return fmt.Errorf("net/http sees a whole entity, the client %v", v.err)
	}
	return nil
}

// isStricter: net/http does not take chunk framing that browsers do.
func isStricter(err error) bool {
	for _, words := range []string{"malformed", "invalid", "trailer", "bare LF"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// compare compares with a record of the exchange.
func (v *replyView) compare(t *testing.T, r *check.Record) {
	truncated := r.Header.Get("WARC-Truncated")
	switch r.Type {
	case "resource":
		v.records++
		if block, err := r.Block(); !v.own || err != nil || len(block) == 0 || !strings.Contains(v.h.raw, string(block)) {
			t.Errorf("%s/%s: the client got %d, but as no reply is recorded %.300q (%v)", v.h.suite, v.h.id, v.status, block, err)
		}
	case "response":
		v.records++
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(v.entity))
		switch {
		case v.own, r.Status != v.status:
			t.Errorf("%s/%s: the client got %d, recorded is %d", v.h.suite, v.h.id, v.status, r.Status)
		case (v.err == nil) != (truncated == ""):
			t.Errorf("%s/%s: for the client the end was %v, in the record %q", v.h.suite, v.h.id, v.err, truncated)
		case v.err == nil && r.Header.Get("WARC-Payload-Digest") != digest, v.err != nil && r.PayloadSize < int64(len(v.entity)):
			t.Errorf("%s/%s: the client got %.300q, recorded are %d octets of payload, %s", v.h.suite, v.h.id, v.entity, r.PayloadSize, r.Header.Get("WARC-Payload-Digest"))
		}
	}
}
