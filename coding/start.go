package coding

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxTrial bounds what is decoded of the start of a payload, in octets.
const maxTrial = 64 << 10

// CanStart reports whether a payload that has those content-codings, the last of
// them applied last, can start so: with the magic number of gzip (RFC 1952 §2.3.1)
// or zstd (RFC 8878 §3.1), or with what can be decoded as br or deflate. It is true
// for a coding that is not known here, and for too little of a payload to tell.
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
	case "br", "deflate":
		return len(start) == 0 || decodes(outer, start)
	}
	return true
}

// startsWith reports whether b starts with magic, as far as b goes.
func startsWith(b []byte, magic string) bool {
	n := min(len(b), len(magic))
	return string(b[:n]) == magic[:n]
}

// decodes reports whether nothing is wrong with the start of what a coding made,
// but that it ends.
func decodes(coding string, start []byte) bool {
	r, err := NewReader(bytes.NewReader(start), []string{coding})
	if err == nil {
		_, err = io.CopyN(io.Discard, r, maxTrial)
	}
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}
