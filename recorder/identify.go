package recorder

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/gabriel-vasile/mimetype"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/http1"
)

// Bounds on the look at a payload.
const (
	identifyRaw    = 64 << 10 // octets of the body on the wire
	identifyBytes  = 3072     // octets of the payload without its codings; more tells mimetype nothing
	maxCodings     = 3
	identifyWindow = 8 << 20 // memory of a zstd decoder, which the input chooses
)

// A lookBuffer is what a look at a payload needs.
type lookBuffer struct {
	raw   *bufio.Reader
	start [identifyBytes]byte
}

var lookBuffers = sync.Pool{New: func() any { return &lookBuffer{raw: bufio.NewReaderSize(nil, 4<<10)} }}

// identify returns the media type of a payload by its first octets
// (WARC-Identified-Payload-Type, WARC 1.1 §5.14), after content-codings have been
// removed. It never looks at the Content-Type field. It returns "" for an empty
// payload, and for one that does not decode as its Content-Encoding says.
func (x *exchange) identify() (mediaType string) {
	if x.received.size == 0 {
		return ""
	}
	defer func() {
		if p := recover(); p != nil { // in a library, on hostile input
			x.r.log.Error("cannot identify a payload", "url", x.uri, "error", p)
			mediaType = ""
		}
	}()
	codings := x.reply.Tokens("Content-Encoding")
	if len(codings) > maxCodings {
		return ""
	}
	look := lookBuffers.Get().(*lookBuffer)
	defer lookBuffers.Put(look)
	look.raw.Reset(io.LimitReader(x.received.body.reader(), identifyRaw))
	defer look.raw.Reset(nil)
	payload := io.Reader(&entityReader{walk: http1.NewBody(x.reply.Framing, false), raw: look.raw})
	for i := len(codings) - 1; i >= 0; i-- { // the last was applied last (RFC 9110 §8.4)
		if payload = decoder(codings[i], payload); payload == nil {
			return ""
		}
	}
	n, err := io.ReadFull(payload, look.start[:])
	if n == 0 && err != nil {
		return ""
	}
	mediaType, _, _ = strings.Cut(mimetype.Detect(look.start[:n]).String(), ";")
	return mediaType
}

// decoder returns nil for a coding that it does not know, or that does not
// begin well.
func decoder(coding string, r io.Reader) io.Reader {
	var (
		d   io.Reader
		err error
	)
	switch strings.ToLower(coding) {
	case "identity":
		return r
	case "gzip", "x-gzip":
		d, err = gzip.NewReader(r)
	case "deflate":
		return inflate(r)
	case "br":
		d = brotli.NewReader(r)
	case "zstd":
		d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(identifyWindow), zstd.WithDecoderLowmem(true))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return d
}

// inflate decodes deflate, which is zlib's format (RFC 9110 §8.4.1.2) but is
// often sent without its head.
func inflate(r io.Reader) io.Reader {
	br := bufio.NewReader(r)
	head, _ := br.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		d, err := zlib.NewReader(br)
		if err != nil {
			return nil
		}
		return d
	}
	return flate.NewReader(br)
}

// An entityReader takes the transfer-coding off.
type entityReader struct {
	walk *http1.Body
	raw  *bufio.Reader
	data []byte // of its buffer, which stays until more is asked for
}

func (e *entityReader) Read(p []byte) (int, error) {
	for len(e.data) == 0 {
		if e.walk.Done() {
			return 0, io.EOF
		}
		if _, err := e.raw.Peek(1); err != nil {
			return 0, err
		}
		buffered, _ := e.raw.Peek(e.raw.Buffered())
		n, data, err := e.walk.Next(buffered)
		if err != nil {
			return 0, err
		}
		e.data = data
		e.raw.Discard(n)
	}
	n := copy(p, e.data)
	e.data = e.data[n:]
	return n, nil
}
