package recorder

import (
	"crypto/tls"
	"hash"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// An exchange is a request and its response while they are under way. It
// passes through these hands:
//
//	RoundTrip      until the reply's head is there
//	originConn     the goroutine of the connection: until the body has ended
//	finish         digests, look-up, compression
//	writer         until its records are durable
//
// Each hands it on whole; only what the mutex guards is touched by others.
type exchange struct {
	r       *Recorder
	start   time.Time
	request *originRequest
	uri     string // WARC-Target-URI
	client  *Client
	claim   *claim // its places
	series  string

	sent       *message // the request on the wire
	received   *message // the response on the wire; set when its head is there
	reply      *http1.Response
	follower   *follower // of the received body, for the client
	spoken     spoken
	heads      *spool // has received.head and all of reply but its framing, when they are on the disk
	switched   bool   // to another protocol, of which it keeps the places
	incomplete bool   // the record lacks, because of us, what the client was given

	mu        sync.Mutex  // guards the following, and sent and received for becomeLong
	slot      *slots      // where it is counted; nil when no longer
	read      bool        // its client wants no more of the response, or there is none
	settled   bool        // it is in a file, or nothing of it will be
	weight    int64       // bytes of heads that count for its client and origin
	conn      *originConn // while the body is under way
	ended     bool        // nothing comes from the origin any more
	finished  bool        // endBody was called
	crowds    *time.Timer // cuts it when it has found no room for a body, and goes on
	reason    string      // why it was cut by us: a WARC-Truncated value
	gone      bool        // the client no longer reads
	lengthens *time.Timer // calls becomeLong
	finisher  *time.Timer // cuts it when the client has gone
}

// What was spoken with the origin, and with whom.
type spoken struct {
	addr   netip.AddrPort
	tls    string // "tls/1.3", or "" without TLS
	cipher string // IANA name

	untrusted string // why the certificate would not be trusted; "" when it is, or without TLS
}

func newSpoken(addr netip.AddrPort, state *tls.ConnectionState) spoken {
	s := spoken{addr: netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port())}
	if state != nil {
		s.tls = strings.ToLower(strings.Replace(tls.VersionName(state.Version), " ", "/", 1))
		s.cipher = tls.CipherSuiteName(state.CipherSuite)
	}
	return s
}

// A message is what is recorded of a request or a response: the head, the
// octets of the body as on the wire, and digests that grow with them.
type message struct {
	head      []byte
	body      *spool
	limit     int64 // octets of body that are kept
	block     hash.Hash
	payload   hash.Hash
	strong    hash.Hash // of the payload too, where the other one can be forged; else nil
	size      int64     // octets of payload that are kept
	truncated string    // WARC-Truncated, or ""
}

func (r *Recorder) newMessage(head []byte, expect int64) *message {
	m := &message{
		head:    head,
		body:    newSpool(r.space, r.options.Dir, min(expect, r.options.MaxBody)),
		limit:   r.options.MaxBody,
		block:   r.options.Digest.New(),
		payload: r.options.Digest.New(),
	}
	m.block.Write(head)
	m.body.weigh(len(head))
	if r.options.Digest == warc.SHA1 {
		m.strong = warc.SHA256.New()
	}
	return m
}

// keep records raw, whose last octets are payload. It returns how many octets
// of raw were kept; fewer than all of them means that the message is
// truncated from here on.
func (m *message) keep(raw, payload []byte) (kept int, err error) {
	if m.truncated != "" {
		return 0, nil
	}
	if room := m.limit - m.body.len(); int64(len(raw)) > room {
		m.truncated = "length"
		cut := len(raw) - int(room)
		raw, payload = raw[:room], payload[:max(0, len(payload)-cut)]
	}
	if _, err := m.body.Write(raw); err != nil {
		m.truncated = "unspecified"
		return 0, err
	}
	m.block.Write(raw)
	m.payload.Write(payload)
	if m.strong != nil {
		m.strong.Write(payload)
	}
	m.size += int64(len(payload))
	return len(raw), nil
}

// keepable returns so much from the start of raw as keep keeps all of or nothing.
func (m *message) keepable(raw []byte) []byte {
	if room := m.limit - m.body.len(); 0 < room && room < int64(len(raw)) {
		return raw[:room]
	}
	return raw
}

// expectedBody tells how many octets a body will have on the wire, or -1.
func expectedBody(f http1.Framing) int64 {
	switch f.Kind {
	case http1.NoBody:
		return 0
	case http1.Length:
		return f.Length
	}
	return -1
}

// beginReply is called when the head of the final reply is there.
func (x *exchange) beginReply(c *originConn, reply *http1.Response) {
	m := x.r.newMessage(reply.Raw, expectedBody(reply.Framing))
	m.body.share()               // for the client
	m.body.weigh(len(reply.Raw)) // as the header that the client gets
	x.follower = m.body.follow()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.weighLocked(2 * len(reply.Raw))
	x.reply, x.received, x.conn = reply, m, c
	if x.r.cutting.Err() != nil {
		x.cutLocked("unspecified") // Recorder.cut came too early for it
	}
}

// dropReply undoes beginReply: nobody waits for the reply any more.
func (x *exchange) dropReply() {
	x.bodyEnded()
	x.clientDone()
	x.received.body.release()
	if x.heads != nil {
		x.heads.release()
		x.heads = nil
	}
}

// keep records raw, octets of the reply's body on the wire, of which the last
// are payload. What is beyond the limit goes to the client only. It returns
// false when the rest is wanted by nobody.
func (x *exchange) keep(raw, payload []byte) bool {
	kept, err := x.received.keep(raw, payload)
	if err != nil {
		x.r.spoolFailed(x, err)
		x.makeRoom(func() { x.cutLocked("unspecified") })
	}
	return kept == len(raw) || x.received.body.pass(raw[kept:])
}

// makeRoom is called when a body has found no room. What is kept of it stays
// where it is until the exchange ends, and nobody is admitted meanwhile:
// therefore it may not go on for ever.
func (x *exchange) makeRoom(cut func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.crowds != nil || x.ended {
		return
	}
	x.crowds = time.AfterFunc(crowdsFor, func() { // stopped by bodyEnded
		x.mu.Lock()
		defer x.mu.Unlock()
		if !x.ended {
			x.r.log.Warn("an exchange whose body found no room has been cut to make some", "url", x.uri)
			cut()
		}
	})
}

// crowdsFor is how long an exchange may go on whose body has found no room.
const crowdsFor = time.Minute

// endBody is called when the body has ended: whole, or for the reason that
// WARC-Truncated will give, where cut tells that it was us; err is what the
// client gets to know. uploaded tells whether the request was sent whole.
func (x *exchange) endBody(uploaded bool, reason, cut string, err error) {
	if cut != "" && (reason == "disconnect" || reason == "time") {
		reason = cut // the read failed because of it
	}
	x.mu.Lock()
	again := x.finished // by a connection that panicked behind it
	x.finished = true
	x.mu.Unlock()
	if again {
		return
	}
	// The client was given, or has given, more than is recorded, or would have
	// been.
	x.incomplete = x.received.truncated != "" || x.sent.truncated != "" && x.sent.truncated != "disconnect" || cut == "unspecified" && reason == cut
	if x.received.truncated == "" {
		x.received.truncated = reason
	}
	if !uploaded && x.sent.truncated == "" {
		x.sent.truncated = "disconnect"
	}
	x.received.body.end(err)
	x.r.finishAside(x)
}

// beginRequest is called before the request is sent, each time.
func (x *exchange) beginRequest() {
	if x.sent != nil {
		x.sent.body.release()
	}
	m := x.r.newMessage(x.request.head, expectedBody(x.request.framing))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent == nil {
		x.weighLocked(len(m.head))
	}
	x.sent = m
}

// weighLocked counts bytes of heads until the exchange gives its slot back.
func (x *exchange) weighLocked(n int) {
	x.weight += int64(n)
	x.claim.weigh(int64(n))
}

// startClock is called when the exchange is admitted: from now on it may
// become a long one, whoever lets it take long.
func (x *exchange) startClock() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lengthens = time.AfterFunc(longAfter, x.becomeLong) // stopped by settle and freeSlot
}

// becomeLong moves an exchange that still runs to the slots of the long ones,
// if there is room, and its bodies to disk. It comes again, because there may
// be room later, and more of the bodies. What has ended stays where it is: it
// waits for the archive, and only so many may.
func (x *exchange) becomeLong() {
	x.mu.Lock()
	if x.slot == nil || x.ended {
		reads := x.settled && !x.read
		x.mu.Unlock()
		if reads {
			x.r.readers.place(x)
		}
		return
	}
	x.lengthenLocked()
	messages := [...]*message{x.sent, x.received}
	x.mu.Unlock()
	if err := x.spill(messages[:]); err != nil {
		x.r.tellNowAndThen("cannot move a long exchange to disk: it is tried again", "url", x.uri, "error", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slot != nil && !x.ended {
		x.lengthens.Reset(longAfter)
	}
}

// spill moves bodies, and the head of the reply, to the disk. It is called
// without the lock: a disk may hang.
func (x *exchange) spill(messages []*message) error {
	for _, m := range messages {
		if m == nil {
			continue
		}
		if err := m.body.spill(); err != nil {
			return err
		}
	}
	return x.spillHead()
}

// lengthenLocked moves an exchange to the slots of the long ones, if there is
// room in its client's and origin's shares. It reports whether it is there.
func (x *exchange) lengthenLocked() bool {
	if x.slot == x.r.long {
		return true
	}
	if !x.r.long.tryTake() {
		x.r.pool.places.give(x.claim, placeTunnel)
		return false
	}
	if !x.r.pool.places.lengthen(x.claim) {
		x.r.long.give()
		return false
	}
	x.slot.give()
	x.slot = x.r.long
	return true
}

// freePlace lets another exchange with the origin begin. It may be called
// again.
func (x *exchange) freePlace() { x.r.pool.places.give(x.claim, placeTunnel, placeOrigin) }

// settle is called when the archive needs nothing more of an exchange. It gives
// the slot back, unless a client still reads the response.
func (x *exchange) settle() {
	x.mu.Lock()
	x.settled = true
	if x.lengthens != nil {
		x.lengthens.Stop()
	}
	reads := x.received != nil && !x.read
	x.mu.Unlock()
	if reads {
		x.r.readers.add(x)
		return
	}
	x.freeSlot()
}

// clientDone is called when the client wants no more of the response: what was
// kept for it is given back, once.
func (x *exchange) clientDone() {
	x.mu.Lock()
	before, settled := x.read, x.settled
	x.read = true
	x.mu.Unlock()
	if before {
		return
	}
	x.received.body.release()
	if settled {
		x.freeSlot()
	}
}

// freeSlot gives the slot back, once.
func (x *exchange) freeSlot() {
	x.r.readers.remove(x)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slot == nil {
		return
	}
	x.lengthens.Stop()
	x.slot.give()
	x.slot = nil
	x.claim.weigh(-x.weight)
	x.weight = 0
	if !x.switched {
		x.r.pool.places.give(x.claim, placeClient)
	}
}

// clientGone decides what becomes of a response that nobody reads any more:
// a short rest of known length is fetched, everything else is cut.
func (x *exchange) clientGone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone || x.conn == nil {
		return
	}
	x.gone = true
	rest := int64(-1)
	switch f := x.reply.Framing; f.Kind {
	case http1.NoBody:
		return // it ends by itself
	case http1.Length:
		rest = f.Length - x.received.body.len()
	}
	if rest < 0 || rest > x.r.options.FinishBytes || x.received.limit < x.reply.Framing.Length {
		x.cutLocked("disconnect")
		return
	}
	x.finisher = time.AfterFunc(x.r.options.FinishTime, func() { x.cut("disconnect") }) // stopped by bodyEnded
}

// cut ends a response whose body is under way; reason is what WARC-Truncated
// will say.
func (x *exchange) cut(reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cutLocked(reason)
}

func (x *exchange) cutLocked(reason string) {
	if x.conn != nil && x.reason == "" {
		x.reason = reason
		x.conn.abort() // nothing that comes after the cut counts
		x.received.body.stopPassing()
	}
}

// bodyEnded takes the exchange from its connection. It returns why we cut it,
// or "".
func (x *exchange) bodyEnded() (reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn, x.ended = nil, true
	for _, t := range []*time.Timer{x.finisher, x.crowds} {
		if t != nil {
			t.Stop()
		}
	}
	return x.reason
}

// maxDuplicableURI is the longest URL of an original or a revisit, in bytes: an index
// for replay has no lines for much longer ones (cdx.MaxLine), so that nobody would
// find the original.
const maxDuplicableURI = 16 << 10

// isDuplicable reports whether the response can be, or have, an original: it
// is whole and has a payload of its own (truncated, partial and empty
// ones poison an index), and it answers a GET. Replay programs look an original up
// by its URL alone, where only answers to GET are; and replayweb.page cuts the keys
// of revisits that answer other methods, which have the body of the request in them.
func (x *exchange) isDuplicable() bool {
	switch {
	case x.request.method != http.MethodGet, len(x.uri) > maxDuplicableURI:
		return false
	case x.received.truncated != "", x.received.size == 0:
		return false
	case x.reply.Status == http.StatusPartialContent, x.reply.Status == http.StatusNotModified, x.reply.Status < 200:
		return false
	}
	return true
}
