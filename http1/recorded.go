package http1

import (
	"bytes"
	"strings"
)

// Recorded bounds the heads that are read from records. A recording can be told to
// let heads pass that are nearly as large, of which a URL and the fields may have
// 64 MiB.
var Recorded = Limits{Target: 65 << 20, Fields: 65 << 20, FieldCount: 65 << 20}

// ParseRecordedResponse is [ParseResponse], to a GET, for the head of a message in a
// record, which says itself where the message ends. Where the fields that frame the
// body contradict each other, or mean nothing, the body is all that follows, and
// doubt says what is wrong with them.
func ParseRecordedResponse(raw []byte) (r *Response, doubt, err error) {
	r, err = ParseResponse(raw, "GET")
	if err == nil {
		return r, nil, nil
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
	if err == nil {
		return r, nil, nil
	}
	r, err2 := Recorded.ParseRequest(withoutFraming(raw))
	if err2 != nil {
		return nil, nil, err
	}
	r.Head = parseHead(raw)
	r.Framing = Framing{Kind: UntilClose}
	_, fields := cutLine(raw)
	if s, err2 := ParseResponse(append([]byte("HTTP/1.1 200 OK\r\n"), fields...), "GET"); err2 == nil {
		r.Framing = s.Framing
	}
	return r, err, nil
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
