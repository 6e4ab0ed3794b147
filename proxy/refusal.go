package proxy

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warctee/warctee/http1"
)

// asRefusal words an error of the transport for the client.
func asRefusal(err error) *refusal {
	e := refuse(http.StatusBadGateway, "%s", err)
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		e.status = status.HTTPStatus()
	}
	var again interface{ RetryAfter() time.Duration }
	if errors.As(err, &again) {
		e.retry = again.RetryAfter()
	}
	var told interface {
		ProxyError() string
		FailureClass() string
	}
	e.kind, e.class = "proxy_internal_error", "other"
	if errors.As(err, &told) {
		e.kind, e.class = told.ProxyError(), told.FailureClass()
	}
	return e
}

// proxyError is an error type of RFC 9209 §2.3.
func (e *refusal) proxyError() string {
	switch {
	case e.kind != "":
		return e.kind
	case e.status == http.StatusLoopDetected:
		return "proxy_loop_detected"
	case e.status == http.StatusForbidden, e.status == http.StatusUnauthorized, e.status == http.StatusProxyAuthRequired:
		return "http_request_denied"
	}
	return "http_request_error"
}

// challenge asks for a name and a password (RFC 7617 §2).
const challenge = `Basic realm="warctee", charset="UTF-8"`

func (e *refusal) header() http.Header {
	h := http.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Content-Length":         {strconv.Itoa(len(e.body()))},
		"X-Content-Type-Options": {"nosniff"},
		"Cache-Control":          {"no-store"},
		"Proxy-Status":           {http1.ProxyStatus(e.proxyError(), e.class)},
	}
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retry.Seconds()))))
	}
	switch e.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", challenge)
	case http.StatusProxyAuthRequired:
		h.Set("Proxy-Authenticate", challenge)
	}
	return h
}

func (e *refusal) body() string {
	return "warctee: " + strconv.Itoa(e.status) + " " + http.StatusText(e.status) + ": " + printable(e.reason) + "\n"
}

// printable writes as escapes what does more to a terminal than to show a
// character. A reason may hold what an origin said, such as the names in its
// certificate.
func printable(s string) string {
	if strings.IndexFunc(s, isUnprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if isUnprintable(c) {
			quoted := strconv.QuoteRuneToASCII(c)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func isUnprintable(c rune) bool { return !unicode.IsPrint(c) }

func (e *refusal) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode:    e.status,
		Status:        strconv.Itoa(e.status) + " " + http.StatusText(e.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        e.header(),
		Body:          io.NopCloser(strings.NewReader(e.body())),
		ContentLength: int64(len(e.body())),
		Request:       r,
	}
}

// answer writes a refusal and closes the connection, unless there are other
// streams on it: what follows would be about something else.
func answer(w http.ResponseWriter, r *http.Request, e *refusal) {
	for name, values := range e.header() {
		w.Header()[name] = values
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(e.status)
	io.WriteString(w, e.body())
}
