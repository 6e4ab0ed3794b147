package http1

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
)

// Recorded bounds the heads that are read from records. A recording can be told to
// let heads pass that are nearly as large: fields of 16 MiB, of which there are
// 65,536. Larger ones would take too much memory; see [Error.TooLarge].
var Recorded = Limits{Target: 4 << 20, Fields: 17 << 20, FieldCount: 100_000}

// ParseResponse is [ParseResponse] within the limits on the fields. They are counted
// before they are parsed, which takes far more memory than a short line.
func (l Limits) ParseResponse(raw []byte, method string) (*Response, error) {
	_, fields := cutLine(raw)
	if err := l.WithDefaults().checkSize(fields); err != nil {
		return nil, err
	}
	return ParseResponse(raw, method)
}

// TooLarge reports whether the message is beyond limits on its size, and may be in
// order otherwise.
func (e *Error) TooLarge() bool {
	return e.Status == http.StatusRequestHeaderFieldsTooLarge || e.Status == http.StatusRequestURITooLong
}

// ParseRecordedResponse is [ParseResponse], to a GET, for the head of a message in a
// record, which says itself where the message ends. Where the fields that frame the
// body contradict each other, or mean nothing, the body is all that follows, and
// doubt says what is wrong with them.
func ParseRecordedResponse(raw []byte) (r *Response, doubt, err error) {
	r, err = Recorded.ParseResponse(raw, "GET")
	if err == nil || isTooLarge(err) {
		return r, nil, err
	}
	r, err2 := ParseResponse(withoutFraming(raw), "GET")
	if err2 != nil {
		return nil, nil, err
	}
	r.Head = parseHead(raw)
	return r, err, nil
}

// ParseRecordedRequest is ParseRequest with the limits [Recorded], and is as
// tolerant as [ParseRecordedResponse]. Transfer-Encoding counts more than
// Content-Length (RFC 9112 §6.3).
func ParseRecordedRequest(raw []byte) (r *Request, doubt, err error) {
	r, err = Recorded.ParseRequest(raw)
	if err == nil || isTooLarge(err) {
		return r, nil, err
	}
	_, fields := cutLine(raw)
	if large := Recorded.checkSize(fields); large != nil { // a bad first line is found before that
		return nil, nil, large
	}
	r, err2 := Recorded.ParseRequest(withoutFraming(raw))
	if err2 != nil {
		return nil, nil, err
	}
	r.Head = parseHead(raw)
	r.Framing = Framing{Kind: UntilClose}
	if s, err2 := ParseResponse(append([]byte("HTTP/1.1 200 OK\r\n"), fields...), "GET"); err2 == nil {
		r.Framing = s.Framing
	}
	return r, err, nil
}

func isTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.TooLarge()
}

// withoutFraming returns a head without the fields that frame the body.
func withoutFraming(raw []byte) []byte {
	line, fields := cutLine(raw)
	out := bytes.Clone(line)
	for _, f := range parseFields(fields) {
		if !f.Is("Content-Length") && !f.Is("Transfer-Encoding") {
			out = append(out, f.Raw...)
		}
	}
	return append(out, "\r\n"...)
}

// MediaType returns the media type that a Content-Type field names: without
// parameters, in lower case (RFC 9110 §8.3.1).
func MediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}
