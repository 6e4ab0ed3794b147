package mitm

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/warctee/warctee/http1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// net/http's server gives a handler those trailer fields of a request over HTTP/2
// that the request has announced, and drops the others. A bareConn therefore reads
// the header blocks along with net/http, and adds fields at their end:
//
//	HEADERS that open a stream with a body    trailer: KEY
//	HEADERS that end it                       KEY: name: value  for each of its fields
//
// KEY is a name that no client knows. withTrailer turns it back into fields.
// They are literals that are not indexed, so that the fields of the client stay as
// they are, and stand in its last frame, from which padding is removed. Only what
// has no room there gets CONTINUATION frames: these cost the connection, instead of
// one stream, when net/http refuses a field.

// trailerKey is the KEY of this process.
var trailerKey = "warctee-trailer-" + strings.ToLower(rand.Text())

// maxTrailer bounds the fields of a trailer section, in bytes: as with HTTP/1.
const maxTrailer = 4000

// A bareConn is a decrypted connection with HTTP/2. It hides that it was TLS:
// net/http starts HTTP/2 on nothing but a *tls.Conn or what seems to have no TLS.
// It is used by one reader.
type bareConn struct {
	net.Conn
	tunnel *Tunnel
	onRead func() // called at least once: when something was read, or at the end
	heads  *headShare

	state   frameState
	head    []byte // of the preface or the frame, as far as it has come
	remain  int    // bytes of the payload of a frame still to come
	out     []byte // to be returned by Read
	decoder *hpack.Decoder
	maxList int    // bounds the header list of a trailer section, as net/http counts it
	last    uint32 // the last stream that was opened
	opens   bool   // the block that is read opens a stream
	ends    bool   // it ends the stream
	block   int    // bytes of the frames of the block
	kept    int    // bytes that the decoders keep after a block of several frames
	fields  []hpack.HeaderField
	size    int // of fields
	list    int // bytes of the header list
}

type frameState int

const (
	inPreface   frameState = iota
	inFrameHead            // collecting the head of a frame
	inPayload              // passing a payload through
	inBlock                // collecting a payload with a part of a header block
	passing                // passing everything through: net/http refuses the connection
)

const frameHead = 9 // bytes of the head of a frame (RFC 9113 §4.1)

func newBareConn(c net.Conn, t *Tunnel, heads *headShare, maxHead int) *bareConn {
	b := &bareConn{Conn: c, tunnel: t, heads: heads, maxList: maxHead}
	b.decoder = hpack.NewDecoder(4096, b.emit)
	b.decoder.SetMaxStringLength(maxHead)
	return b
}

func (c *bareConn) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		switch c.state {
		case passing:
			return c.read(p)
		case inPayload:
			n, err := c.read(p[:min(len(p), c.remain)])
			if c.remain -= n; c.remain == 0 {
				c.state = inFrameHead
			}
			return n, err
		}
		if err := c.collect(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	if c.out = c.out[n:]; len(c.out) == 0 {
		c.out = nil
	}
	return n, nil
}

func (c *bareConn) read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.onRead()
	return n, err
}

func (c *bareConn) Close() error {
	c.onRead()
	c.heads.hold(0)
	return c.Conn.Close()
}

// collect reads until there is something to be returned, or to be passed through.
// When it is interrupted by a deadline, the next call goes on.
func (c *bareConn) collect() error {
	want := frameHead
	switch c.state {
	case inPreface:
		want = len(http2.ClientPreface)
	case inBlock:
		want += c.remain
	}
	for len(c.head) < want {
		c.head = slices.Grow(c.head, want-len(c.head))
		n, err := c.read(c.head[len(c.head):want])
		c.head = c.head[:len(c.head)+n]
		if n == 0 && err != nil {
			return err
		}
	}
	whole := c.head
	c.head = nil
	switch c.state {
	case inPreface:
		c.out, c.state = whole, inFrameHead
		if string(whole) != http2.ClientPreface {
			c.state = passing
		}
	case inFrameHead:
		return c.beginFrame(whole)
	case inBlock:
		c.state = inFrameHead
		return c.endFrame(whole)
	}
	return nil
}

// beginFrame takes the head of a frame.
func (c *bareConn) beginFrame(head []byte) error {
	c.remain = int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind := http2.FrameType(head[3])
	switch {
	case kind != http2.FrameHeaders && kind != http2.FrameContinuation:
		c.out, c.state = head, inPayload
		if c.remain == 0 {
			c.state = inFrameHead
		}
	case c.remain > maxFrame:
		c.out, c.state = head, passing
	case !c.heads.add(c.remain):
		return errCrowded
	default:
		c.head, c.state = head, inBlock
	}
	return nil
}

// endFrame takes a frame with a part of a header block.
func (c *bareConn) endFrame(frame []byte) error {
	c.out = frame
	flags := http2.Flags(frame[4])
	start, end := frameHead, len(frame) // of the part in frame
	if http2.FrameType(frame[3]) == http2.FrameHeaders {
		stream := streamOf(frame)
		c.opens, c.ends = stream > c.last, flags.Has(http2.FlagHeadersEndStream)
		c.last = max(c.last, stream)
		c.fields, c.size, c.list, c.block = nil, 0, 0, 0
		var ok bool
		if start, end, ok = headersFragment(frame); !ok {
			c.refuse()
			return nil
		}
	} else {
		c.kept = max(c.kept, 4*(c.block+len(frame))) // two buffers that have grown: net/http has a decoder too
	}
	c.block += len(frame)
	listed := c.list
	_, err := c.decoder.Write(frame[start:end])
	if !c.heads.add(c.list - listed) { // net/http keeps the fields until the block ends
		return errCrowded
	}
	if flags.Has(http2.FlagHeadersEndHeaders) {
		err = errors.Join(err, c.decoder.Close())
		if !c.heads.hold(c.kept) {
			return errCrowded
		}
	}
	switch {
	case err != nil:
		c.refuse()
	case flags.Has(http2.FlagHeadersEndHeaders):
		c.endBlock(frame, start, end)
	}
	return nil
}

func streamOf(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[5:]) & (1<<31 - 1) }

// refuse makes net/http refuse the connection, also where it would be content with
// the end of a stream: the header blocks that follow cannot be read (RFC 9113 §4.3).
// A HEADERS frame of stream 0 is what it refuses at any point.
func (c *bareConn) refuse() {
	c.out, c.state = []byte{3: byte(http2.FrameHeaders), 8: 0}, passing
}

// headersFragment says where in a HEADERS frame the part of a header block is
// (RFC 9113 §6.2).
func headersFragment(frame []byte) (start, end int, ok bool) {
	flags := http2.Flags(frame[4])
	start, end = frameHead, len(frame)
	if flags.Has(http2.FlagHeadersPadded) {
		if start == end {
			return 0, 0, false
		}
		end -= int(frame[start])
		start++
	}
	if flags.Has(http2.FlagHeadersPriority) {
		start += priorityLen
	}
	return start, end, start <= end
}

const priorityLen = 5 // bytes in a HEADERS frame with the flag PRIORITY

// emit is called with each field of a header block.
func (c *bareConn) emit(f hpack.HeaderField) {
	c.list += int(f.Size())
	if c.opens || f.IsPseudo() {
		return
	}
	if c.size += len(f.Name) + len(f.Value) + len(": \r\n"); c.size <= maxTrailer {
		c.fields = append(c.fields, f)
	}
}

// endBlock adds fields to the header block whose last part is frame[start:end].
func (c *bareConn) endBlock(frame []byte, start, end int) {
	var added []hpack.HeaderField
	switch {
	case c.opens && c.ends:
		return
	case c.opens:
		added = []hpack.HeaderField{{Name: "trailer", Value: trailerKey}}
	case c.size > maxTrailer:
		added = []hpack.HeaderField{{Name: trailerKey}}
	default:
		for _, f := range c.fields {
			added = append(added, hpack.HeaderField{Name: trailerKey, Value: f.Name + ": " + f.Value})
		}
	}
	c.fields = nil
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range added {
		f.Sensitive = true // a literal, never indexed
		c.list += int(f.Size())
		encoder.WriteField(f)
	}
	if !c.opens && c.list > c.maxList {
		c.refuse() // net/http would drop the last fields of the trailer and say nothing
		return
	}
	c.out = extend(frame, start, end, block.Bytes())
}

// extend returns the frame, which ends a header block and has a part of it in
// frame[start:end], with more at the end of the block.
func extend(frame []byte, start, end int, more []byte) []byte {
	kind, flags := http2.FrameType(frame[3]), http2.Flags(frame[4])
	var payload []byte
	if kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersPriority) {
		payload = frame[start-priorityLen : start]
	}
	if kind == http2.FrameHeaders {
		flags &^= http2.FlagHeadersPadded
	}
	payload = slices.Concat(payload, frame[start:end], more)
	var out []byte
	for {
		n := min(len(payload), maxFrame)
		if n < len(payload) {
			flags &^= http2.FlagHeadersEndHeaders
		} else {
			flags |= http2.FlagHeadersEndHeaders
		}
		out = append(out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags))
		out = binary.BigEndian.AppendUint32(out, streamOf(frame))
		out = append(out, payload[:n]...)
		if payload = payload[n:]; len(payload) == 0 {
			return out
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// withTrailer lets a handler see the whole trailer of a request over HTTP/2 when
// it has read the body: announced or not, as with HTTP/1.
func withTrailer(r *http.Request) {
	key := http.CanonicalHeaderKey(trailerKey)
	if _, ok := r.Trailer[key]; !ok {
		return // it has no body
	}
	b := &trailerBody{ReadCloser: r.Body, key: key, told: r.Trailer, length: r.ContentLength}
	b.trailer = make(http.Header, len(r.Trailer)) // not the one into which net/http writes
	for name := range r.Trailer {
		if name != key {
			b.trailer[name] = nil
			b.length, r.ContentLength = -1, -1 // over HTTP/1.1 a trailer wants chunks
		}
	}
	r.Trailer, r.Body = b.trailer, b
}

// A trailerBody is the body of a request over HTTP/2.
type trailerBody struct {
	io.ReadCloser
	key     string
	told    http.Header // by net/http, with the fields of the bareConn
	trailer http.Header // for the handler
	length  int64       // octets still to come by Content-Length; -1: not known, or a trailer is announced
}

func (b *trailerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.length > 0 {
		b.length -= int64(n)
		// Nothing can follow a body of known length over HTTP/1.1, so its last
		// part has to wait until it is known that nothing does.
		if b.length == 0 && err == nil {
			_, err = io.ReadFull(b.ReadCloser, make([]byte, 1))
			if err == nil {
				return n, &http1.Error{Status: http.StatusBadRequest, Reason: "the body is longer than its Content-Length"}
			}
			if err == io.EOF && b.told[b.key] != nil {
				err = &http1.Error{Status: http.StatusBadRequest, Reason: "a trailer follows a body with a Content-Length: announce it in the field Trailer"}
				return 0, err
			}
		}
	}
	if err == io.EOF {
		if refusal := b.end(); refusal != nil {
			return n, refusal
		}
	}
	return n, err
}

// end takes over the trailer.
func (b *trailerBody) end() error {
	for _, line := range b.told[b.key] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return &http1.Error{Status: http.StatusBadRequest, Reason: "the trailer section is too large"}
		}
		b.trailer.Add(name, value)
	}
	delete(b.told, b.key)
	return nil
}
