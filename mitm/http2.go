package mitm

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warctee/warctee/http1"
)

// checkHTTP2 looks at a request over HTTP/2 as if it had come over HTTP/1: the
// origin gets it that way. What net/http has let through has no line ends.
func checkHTTP2(r *http.Request, l http1.Limits) *http1.Error {
	bad := func(format string, args ...any) *http1.Error {
		return &http1.Error{Status: http.StatusBadRequest, Reason: fmt.Sprintf(format, args...)}
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		if name == "Host" && len(values) == 1 && strings.EqualFold(values[0], r.Host) {
			continue // it may be sent besides :authority (RFC 9113 §8.3.1)
		}
		for _, v := range values {
			if strings.Trim(v, " \t") != v { // RFC 9113 §8.2.1
				return bad("the value of header field %s starts or ends with white space", name)
			}
			head = fmt.Appendf(head, "%s: %s\r\n", name, v)
		}
	}
	req, err := l.ParseRequest(append(head, "\r\n"...))
	if err != nil {
		return asRefusal(err)
	}
	if req.Method != r.Method || req.Target != r.RequestURI {
		return bad("the method %.80q and the target %.80q cannot be written in HTTP/1.1", r.Method, r.RequestURI)
	}
	if _, told := req.Get("Content-Length"); told && req.Framing.Length != r.ContentLength {
		return bad("the Content-Length is %d, and the stream has ended", req.Framing.Length) // RFC 9113 §8.1.1
	}
	_, refusal := normalTarget(r.Method, r.RequestURI)
	return refusal
}
