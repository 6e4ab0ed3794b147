package cdx

import (
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// An Entry is a capture as an index describes it.
type Entry struct {
	Key         string // SURT of URL, to which the request is appended
	Timestamp   string // WARC-Date, 14 digits
	URL         string // WARC-Target-URI
	MIME        string // as declared; warc/revisit for a revisit, unk where a response does not tell
	Status      int    // of the HTTP response; 0: none
	Digest      string // of the payload, as in the field of a record; empty: none
	Length      int64  // in octets, of the gzip member or zstd frame, or of header and block
	Offset      int64  // of them, in the file
	Filename    string
	Method      string // of the request; empty: GET, or not known
	RequestBody string // as it is appended to the URL
}

// Indexed reports whether a record belongs into an index for replay: requests,
// warcinfos, later segments and what was noted about a capture do not.
func Indexed(rec *warc.Record) bool {
	content := mediaType(rec.Header.Get("Content-Type"))
	switch rec.Type() {
	case warc.TypeResponse, warc.TypeRevisit, warc.TypeResource, warc.TypeConversion:
		return content != "application/warc-fields"
	case warc.TypeMetadata: // text/anvl: of Heritrix 1
		return content != "application/warc-fields" && content != "text/anvl"
	}
	return false
}

// NewEntry describes a record. The response is the head that a response or revisit
// record holds, nil when it holds none. The request is the one that was answered,
// or that the record holds, nil when it is not known. Length, Offset and Filename
// are left to the caller. It is an error when the record has no target, or no
// date.
func NewEntry(rec *warc.Record, response *http1.Response, request *Request) (Entry, error) {
	date, err := rec.Date()
	if err != nil {
		return Entry{}, fmt.Errorf("WARC-Date: %w", err)
	}
	e := Entry{
		Timestamp: date.UTC().Format("20060102150405"),
		URL:       strings.Clone(rec.TargetURI()),
		Digest:    strings.Clone(rec.Header.Get("WARC-Payload-Digest")),
	}
	if e.URL == "" {
		return Entry{}, fmt.Errorf("a %s record without WARC-Target-URI", rec.Type())
	}
	if d, err := warc.ParseDigest(e.Digest); err == nil {
		e.Digest = d.String() // so that two spellings of one sum are equal
	}
	e.Key = SURT(e.URL)
	if request != nil {
		e.setRequest(request)
	}
	if response != nil {
		e.Status = response.Status
	}
	switch kind := rec.Type(); {
	case kind == warc.TypeRevisit:
		e.MIME = "warc/revisit"
	case kind == warc.TypeRequest && request != nil:
		e.MIME = mediaType(request.ContentType)
	case response != nil:
		value, _ := response.Get("Content-Type")
		e.MIME = mediaType(value)
	default:
		e.MIME = mediaType(rec.Header.Get("Content-Type"))
	}
	if kind := rec.Type(); e.MIME == "" && kind != warc.TypeRequest || kind == warc.TypeResponse && e.MIME == "application/http" {
		e.MIME = "unk"
	}
	return e, nil
}

// setRequest makes the entry one for captures that answer such a request.
func (e *Entry) setRequest(request *Request) {
	appended, query := request.appendTo(e.URL)
	if appended == e.URL {
		return
	}
	e.Key = SURT(appended)
	e.Method, e.RequestBody = strings.ToUpper(request.Method), query
}

// maxField bounds what is kept of a field of a message, in octets: a line of the
// index has no room for more.
const maxField = MaxLine

// mediaType cuts the parameters off, and leaves the spelling.
func mediaType(value string) string {
	value = strings.TrimLeft(value, " \t")
	if end := strings.IndexAny(value, "; \t\r\n"); end >= 0 {
		value = value[:end]
	}
	return strings.Clone(value[:min(len(value), maxField)])
}

// AppendCDXJ appends the line of an index in CDXJ to dst, with its line feed.
func (e *Entry) AppendCDXJ(dst []byte) []byte {
	dst = append(dst, e.Key...)
	dst = append(dst, ' ')
	dst = append(dst, e.Timestamp...)
	dst = append(dst, " {"...)
	start := len(dst)
	field := func(name, value string) {
		if value == "" {
			return
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = appendJSON(dst, name)
		dst = append(dst, ": "...)
		dst = appendJSON(dst, value)
	}
	status := ""
	if e.Status != 0 {
		status = strconv.Itoa(e.Status)
	}
	field("url", e.URL)
	field("mime", e.MIME)
	field("status", status)
	field("digest", strings.TrimPrefix(e.Digest, "sha1:"))
	field("length", strconv.FormatInt(e.Length, 10))
	field("offset", strconv.FormatInt(e.Offset, 10))
	field("filename", e.Filename)
	field("requestBody", e.RequestBody)
	field("method", e.Method)
	return append(dst, "}\n"...)
}

// HeaderCDX11 is the first line of a classic index with 11 fields: N key, b date,
// a URL, m type, s status, k digest, r redirect, M robot flags, S length, V
// offset, g file.
const HeaderCDX11 = " CDX N b a m s k r M S V g\n"

// AppendCDX11 appends the line of a classic index to dst, with its line feed. The
// redirect and the robot flags are not told.
func (e *Entry) AppendCDX11(dst []byte) []byte {
	status := ""
	if e.Status != 0 {
		status = strconv.Itoa(e.Status)
	}
	for _, field := range []string{
		e.Key, e.Timestamp, e.URL, e.MIME, status, sumInBase32(e.Digest), "", "",
		strconv.FormatInt(e.Length, 10), strconv.FormatInt(e.Offset, 10), e.Filename,
	} {
		if field == "" {
			field = "-"
		}
		dst = append(dst, printable(field)...)
		dst = append(dst, ' ')
	}
	dst[len(dst)-1] = '\n'
	return dst
}

// sumInBase32 returns a digest in the only form that a classic index has for it.
func sumInBase32(digest string) string {
	d, err := warc.ParseDigest(digest)
	if err != nil {
		return digest[strings.IndexByte(digest, ':')+1:]
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(d.Sum)
}

// appendJSON appends a string of JSON in ASCII, so that lines sort the same way
// everywhere. Octets that are no UTF-8 become U+FFFD.
func appendJSON(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s)+2)
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r < 0x7f:
			dst = append(dst, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return append(dst, '"')
}
