package coding

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTrial = 64 << 10 // octets that are decoded of the start of a payload
	minText  = 16       // octets of text that br hardly ever starts with
)

// CanStart reports whether a payload that has those content-codings, the last of
// them applied last, can start so: with the magic number of gzip (RFC 1952 §2.3.1)
// or zstd (RFC 8878 §3.1), or with what can be decoded as deflate. For br, which has
// no magic number, it is false for a text and for formats that have one: to decode
// some octets of br can take 16 MiB of memory. It is true for a coding that is not
// known here, and for too little of a payload to tell.
func CanStart(codings []string, start []byte) bool {
	outer := ""
	for _, c := range codings {
		if !strings.EqualFold(c, "identity") {
			outer = strings.ToLower(c)
		}
	}
	switch outer {
	case "gzip", "x-gzip":
		return startsWith(start, "\x1f\x8b\x08")
	case "zstd":
		skippable := len(start) > 0 && start[0]&0xf0 == 0x50 && startsWith(start[1:], "\x2a\x4d\x18")
		return skippable || startsWith(start, "\x28\xb5\x2f\xfd")
	case "deflate":
		return len(start) == 0 || inflates(start)
	case "br":
		return !slices.Contains(withMagic, http.DetectContentType(start)) && !startsText(start)
	}
	return true
}

// withMagic are media types that are recognized by at least four octets.
var withMagic = []string{"image/png", "image/gif", "image/webp", "application/pdf", "font/woff", "font/woff2", "application/wasm"}

// startsWith reports whether b starts with magic, as far as b goes.
func startsWith(b []byte, magic string) bool {
	n := min(len(b), len(magic))
	return string(b[:n]) == magic[:n]
}

// startsText reports whether b starts with text in UTF-8, enough of it to tell.
func startsText(b []byte) bool {
	for n := 0; n < minText; {
		c, size := utf8.DecodeRune(b[n:])
		if c == utf8.RuneError && size < 2 || !unicode.IsPrint(c) && !unicode.IsSpace(c) && c != '\ufeff' {
			return false
		}
		n += size
	}
	return true
}

// inflates reports whether nothing is wrong with the start of what deflate made,
// but that it ends.
func inflates(start []byte) bool {
	r, err := NewReader(bytes.NewReader(start), []string{"deflate"})
	if err == nil {
		_, err = io.CopyN(io.Discard, r, maxTrial)
	}
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}
