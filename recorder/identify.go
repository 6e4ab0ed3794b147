package recorder

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"github.com/gabriel-vasile/mimetype"
	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/http1"
)

// Bounds on the look at a payload.
const (
	identifyRaw   = 64 << 10 // octets of the body on the wire
	identifyBytes = 3072     // octets of the payload without its codings; more tells mimetype nothing
)

// A lookBuffer is what a look at a payload needs.
type lookBuffer struct {
	raw   *bufio.Reader
	start [identifyBytes]byte
}

var lookBuffers = sync.Pool{New: func() any { return &lookBuffer{raw: bufio.NewReaderSize(nil, 4<<10)} }}

// identifiedType is what WARC-Identified-Payload-Type says (WARC 1.1 §5.19), "" for
// nothing. Replay programs take it for the Content-Type, so it has to be better
// knowledge than the origin's. Text formats have no signature: between two of them
// the origin knows better, and that something is text, or octets, says nothing.
func (x *exchange) identifiedType() string {
	declared, _ := x.reply.Get("Content-Type")
	declared = http1.MediaType(declared)
	switch found := x.identify(); {
	case found == declared:
		return found
	case found == "text/plain", found == "application/octet-stream", isText(found) && isText(declared):
		return ""
	default:
		return found
	}
}

// isText reports whether a media type is one of a format that is text.
func isText(mediaType string) bool {
	for _, part := range []string{"text/", "json", "xml", "javascript", "ecmascript"} {
		if strings.Contains(mediaType, part) {
			return true
		}
	}
	return false
}

// identify returns the media type of a payload by its first octets, after
// content-codings have been removed. It returns "" for an empty payload, and for
// one that does not decode as its Content-Encoding says.
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
	look := lookBuffers.Get().(*lookBuffer)
	defer lookBuffers.Put(look)
	look.raw.Reset(io.LimitReader(x.received.body.reader(), identifyRaw))
	defer look.raw.Reset(nil)
	n, err := coding.Start(coding.NewBodyReader(look.raw, x.reply.Framing), x.reply.Tokens("Content-Encoding"), look.start[:])
	if n == 0 && err != nil {
		return ""
	}
	mediaType, _, _ = strings.Cut(mimetype.Detect(look.start[:n]).String(), ";")
	return mediaType
}
