package http1

import "strings"

// Recorded bounds the heads that are read from records. A recording can be told to
// let heads pass that are nearly as large, of which a URL and the fields may have
// 64 MiB.
var Recorded = Limits{Target: 65 << 20, Fields: 65 << 20, FieldCount: 65 << 20}

// MediaType returns the media type that a Content-Type field names: without
// parameters, in lower case (RFC 9110 §8.3.1).
func MediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}
