package recorder

import (
	"bufio"
	"io"
	"net/http"
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
// knowledge than the origin's, and must never make a page or a script of what the
// origin served as something else. Text formats have no signature, and all that is
// active in a browser is text: where something else is declared, the origin knows
// better. Where nothing is declared, it has to be what a browser would take it for.
func (x *exchange) identifiedType() string {
	declared, contradictory := x.declaredType()
	found, sniffed := x.identify()
	switch {
	case found == declared && !contradictory:
		return found
	case found == "text/plain", found == "application/octet-stream":
		return ""
	case !isText(found) && !isActive(found):
		return found
	case declared == "" && found == sniffed && !x.reply.HasToken("X-Content-Type-Options", "nosniff"):
		return found
	}
	return ""
}

// declaredType returns the media type that the origin declares, and whether it
// declares another one too.
func (x *exchange) declaredType() (declared string, contradictory bool) {
	for _, value := range x.reply.Values("Content-Type") {
		mediaType := http1.MediaType(value)
		contradictory = contradictory || declared != "" && mediaType != declared
		declared = mediaType
	}
	return declared, contradictory
}

// isText reports whether a media type is one of a format that is text, among them
// HTML, SVG, all of XML and scripts.
func isText(mediaType string) bool {
	for _, part := range []string{"text/", "json", "xml", "svg", "javascript", "ecmascript"} {
		if strings.Contains(mediaType, part) {
			return true
		}
	}
	return false
}

// isActive reports whether a media type that is no text is one of programs, or of
// pages in an envelope.
func isActive(mediaType string) bool {
	switch mediaType {
	case "application/x-shockwave-flash", "application/x-java-applet", "application/java-archive", "application/wasm":
		return true
	}
	return strings.HasPrefix(mediaType, "message/") || strings.HasPrefix(mediaType, "multipart/")
}

// identify returns the media type of a payload by its first octets, after
// content-codings have been removed, and the one that a browser takes it for where
// none is declared (WHATWG MIME Sniffing §7.1). Both are "" for an empty payload,
// and for one that does not decode as its Content-Encoding says.
func (x *exchange) identify() (mediaType, sniffed string) {
	if x.received.size == 0 {
		return "", ""
	}
	defer func() {
		if p := recover(); p != nil { // in a library, on hostile input
			x.r.log.Error("cannot identify a payload", "url", x.uri, "error", p)
			mediaType, sniffed = "", ""
		}
	}()
	look := lookBuffers.Get().(*lookBuffer)
	defer lookBuffers.Put(look)
	look.raw.Reset(io.LimitReader(x.received.body.reader(), identifyRaw))
	defer look.raw.Reset(nil)
	n, err := coding.Start(coding.NewBodyReader(look.raw, x.reply.Framing), x.reply.Tokens("Content-Encoding"), look.start[:])
	if n == 0 && err != nil {
		return "", ""
	}
	start := look.start[:n]
	return http1.MediaType(mimetype.Detect(start).String()), http1.MediaType(http.DetectContentType(start))
}
