package proxy

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// asRefusal words an error of the transport for the client.
func asRefusal(err error) *refusal {
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		return &refusal{status: status.HTTPStatus(), reason: err.Error()}
	}
	return &refusal{status: http.StatusBadGateway, reason: err.Error()}
}

func (e *refusal) header() http.Header {
	return http.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Content-Length":         {strconv.Itoa(len(e.body()))},
		"X-Content-Type-Options": {"nosniff"},
		"Cache-Control":          {"no-store"},
	}
}

func (e *refusal) body() string {
	return "warctee: " + strconv.Itoa(e.status) + " " + http.StatusText(e.status) + ": " + e.reason + "\n"
}

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

// answer writes a refusal and closes the connection: what follows on it would
// be about something else.
func answer(w http.ResponseWriter, e *refusal) {
	for name, values := range e.header() {
		w.Header()[name] = values
	}
	w.Header().Set("Connection", "close")
	w.WriteHeader(e.status)
	io.WriteString(w, e.body())
}
