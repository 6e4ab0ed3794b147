package http1

import (
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

// MediaType returns the media type that a Content-Type field names: without
// parameters, in lower case (RFC 9110 §8.3.1).
func MediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}
