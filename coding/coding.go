// Package coding removes the codings of HTTP: the framing of a body (RFC 9112 §6,
// §7), and content-codings (RFC 9110 §8.4.1), which are gzip, deflate, br and zstd.
//
//	NewBodyReader   message body → payload, as WARC-Payload-Digest takes it
//	NewReader       payload → what the origin encoded
//	Start           the same, of the first octets
package coding

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
)

// Bounds on what is decoded.
const (
	MaxCodings = 3       // one after the other
	maxWindow  = 8 << 20 // octets of history of a zstd frame, which the input chooses; what browsers take (RFC 9659)
)

// ErrUnknown is wrapped by the error about a coding that is not known here.
var ErrUnknown = errors.New("unknown content-coding")

// NewReader returns a reader of what was in r before the codings were applied,
// in that order. It reads no further than it has to. An error is about a coding
// that is unknown, or that does not begin well; later ones come from Read. What
// it returns can be very much longer than r: bounds are the caller's matter.
func NewReader(r io.Reader, codings []string) (io.Reader, error) {
	return newReader(r, codings, func(coding string, r io.Reader) (io.Reader, error) {
		return remove(coding, r, func(r io.Reader) io.Reader { return r }, zstdDecoders)
	})
}

func newReader(r io.Reader, codings []string, remove func(coding string, r io.Reader) (io.Reader, error)) (io.Reader, error) {
	if len(codings) > MaxCodings {
		return nil, fmt.Errorf("%d content-codings, more than %d", len(codings), MaxCodings)
	}
	for i := len(codings) - 1; i >= 0; i-- {
		decoder, err := remove(codings[i], r)
		if err != nil {
			return nil, fmt.Errorf("content-coding %.20q: %w", codings[i], err)
		}
		r = &decoded{coding: codings[i], r: decoder}
	}
	return r, nil
}

// A decoded gives errors their place, and makes one of a panic in a library.
type decoded struct {
	coding string
	r      io.Reader
}

func (d *decoded) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, fmt.Errorf("panic: %v", v)
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("content-coding %.20q: %w", d.coding, err)
		}
	}()
	return d.r.Read(p)
}

// remove removes one coding; zstd from what prepare makes of r, with a decoder of
// the pool.
func remove(coding string, r io.Reader, prepare func(io.Reader) io.Reader, pool *sync.Pool) (io.Reader, error) {
	switch strings.ToLower(coding) {
	case "identity":
		return r, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return inflate(r)
	case "br":
		return brotli.NewReader(r), nil
	case "zstd":
		return newZstdReader(pool, prepare(r))
	}
	return nil, ErrUnknown
}

// inflate decodes deflate, which is zlib's format (RFC 9110 §8.4.1.2) but is
// often sent without its head.
func inflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, _ := br.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}
