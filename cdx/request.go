package cdx

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode/utf8"
)

// A Request is what an index needs to know of a request.
type Request struct {
	Method      string
	ContentType string // as sent, with its parameters
	Body        []byte // without its transfer-coding; MaxRequestBody octets are enough
}

// MaxRequestBody bounds what is looked at of the body of a request, in octets.
const MaxRequestBody = 1 << 20

// maxQuery bounds what is appended to a URL, in characters.
const maxQuery = 4096

// appendTo appends a request to the URL that it was sent to, as the IIPC's "CDX
// for non-GET requests" and pywb do: captures of one URL that answer different
// requests get different keys. The query is what stands for the body.
func (r *Request) appendTo(url string) (appended, query string) {
	method := strings.ToUpper(r.Method)
	if method == "GET" {
		return url, ""
	}
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	appended = url + separator + "__wb_method=" + method
	if query = r.query(method); query != "" {
		appended += "&" + query
	}
	return appended, query
}

// query makes a query of the body.
func (r *Request) query(method string) string {
	if method != "POST" && method != "PUT" || len(r.Body) == 0 {
		return ""
	}
	// pywb compares the type as it was sent, and so does this: both have to find
	// the same key.
	is := func(prefix string) bool { return strings.HasPrefix(r.ContentType, prefix) }
	query, ok := "", false
	switch body := r.Body[:min(len(r.Body), MaxRequestBody)]; {
	case is("application/x-www-form-urlencoded"):
		query, ok = formQuery(body)
	case is("multipart/"):
		query, ok = multipartQuery(body, r.ContentType)
	case is("application/json"):
		query, _ = jsonQuery(body)
		ok = true
	case is("text/plain"):
		query, ok = jsonQuery(body)
	}
	if !ok {
		query = "__wb_post_data=" + base64.StdEncoding.EncodeToString(r.Body[:min(len(r.Body), maxQuery)])
	}
	return firstCharacters(query, maxQuery)
}

// formQuery decodes the body of a form. Its names and values are not encoded
// again.
func formQuery(body []byte) (string, bool) {
	if !utf8.Valid(body) {
		return "", false
	}
	b := bytes.ReplaceAll(body, []byte("+"), []byte(" "))
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] == '%' && i+2 < len(b) {
			if high, low := hexDigit(b[i+1]), hexDigit(b[i+2]); high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return toUTF8(out), true
}

// multipartQuery makes a query of the fields of a form (RFC 7578), also of the
// content of files.
func multipartQuery(body []byte, contentType string) (string, bool) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return "", false
	}
	var q queryBuilder
	form := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for !q.full() {
		part, err := form.NextRawPart()
		if err != nil {
			break // the end, or as far as it can be understood
		}
		value, err := io.ReadAll(part)
		if err != nil { // the form ends without its boundary
			value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
		}
		if part.FileName() == "" {
			value = []byte(toUTF8(value))
		}
		q.add(part.FormName(), string(value))
	}
	return q.b.String(), true
}

// toUTF8 replaces what is not UTF-8 by U+FFFD: each octet, or the start of a
// character that is not continued.
func toUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		for more := 3; r == utf8.RuneError && n == 1 && more > 1; more-- {
			if len(b) >= more && !utf8.FullRune(b[:more]) {
				n = more
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// A queryBuilder puts a query together.
type queryBuilder struct {
	b strings.Builder
}

func (q *queryBuilder) full() bool { return q.b.Len() >= maxQuery }

func (q *queryBuilder) add(name, value string) {
	if q.b.Len() > 0 {
		q.b.WriteByte('&')
	}
	q.b.WriteString(url.QueryEscape(name))
	q.b.WriteByte('=')
	q.b.WriteString(url.QueryEscape(value))
}

// firstCharacters returns at most n characters of s.
func firstCharacters(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
