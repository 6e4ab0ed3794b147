package mitm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/warctee/warctee/http1"
)

type (
	connKey    struct{}
	tunnelKey  struct{}
	requestKey struct{}
)

// RequestOf returns the head of the request as the client sent it, nil for
// HTTP/2, which has none. ctx is the context of a request that came through
// [NewServer].
func RequestOf(ctx context.Context) *http1.Request {
	req, _ := ctx.Value(requestKey{}).(*http1.Request)
	return req
}

// TunnelOf returns the tunnel through which a request came, nil when it came
// directly.
func TunnelOf(ctx context.Context) *Tunnel {
	t, _ := ctx.Value(tunnelKey{}).(*Tunnel)
	return t
}

// connContext is for the field of that name of [http.Server]. The server's
// ReadHeaderTimeout then also counts for the later requests of a connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	var t *Tunnel
	switch c := c.(type) {
	case *conn:
		t = c.tunnel
		if srv, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
			c.headTimeout = srv.ReadHeaderTimeout
		}
	case *bareConn:
		t = c.tunnel
	}
	ctx = context.WithValue(ctx, connKey{}, c)
	if t != nil {
		ctx = context.WithValue(ctx, tunnelKey{}, t)
	}
	return ctx
}

// connState is for the field of that name of [http.Server]. When a body was
// refused after its answer had begun, net/http takes what it has left of it for a
// request, and would answer that too.
func connState(c net.Conn, s http.ConnState) {
	if c, ok := c.(*conn); ok && s == http.StateIdle && c.getState() == broken {
		c.CloseWrite()
	}
}

// handler serves requests with next, or answers those that are refused.
func handler(next http.Handler, limits http1.Limits, onFailure func(Failure)) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, e *http1.Error) {
		answer(w, r, e)
		if onFailure != nil {
			f := Failure{Time: time.Now(), Class: ClassBadRequest, Status: e.Status, Err: e}
			if t := TunnelOf(r.Context()); t != nil {
				f.Authority = t.Authority
			}
			onFailure(f)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.serve(next, refuse, w, r)
			return
		}
		if r.ProtoMajor == 1 {
			refuse(w, r, &http1.Error{Status: http.StatusBadRequest, Reason: "HTTP/2 was agreed on in the TLS handshake, but this is HTTP/1"})
			return
		}
		if e := checkHTTP2(r, limits); e != nil {
			refuse(w, r, e)
			return
		}
		withTrailer(r)
		next.ServeHTTP(w, r)
	})
}

func (c *conn) serve(next http.Handler, refuse func(http.ResponseWriter, *http.Request, *http1.Error), w http.ResponseWriter, r *http.Request) {
	m := c.take(r)
	if m == nil {
		c.fail(io.EOF)
		refuse(w, r, &http1.Error{Status: http.StatusBadRequest, Reason: "it is not clear where this request begins"})
		return
	}
	if m.refusal != nil {
		refuse(w, r, m.refusal)
		return
	}
	rw := &responseWriter{ResponseWriter: w, conn: c}
	done := false
	defer func() {
		switch {
		case !rw.hijacked:
			c.resume(m, rw.duplex)
		case !done || r.Method != http.MethodConnect:
			c.Close()
		}
	}()
	// Not a copy of r: net/http puts the trailer fields into its own.
	*r = *r.WithContext(context.WithValue(r.Context(), requestKey{}, m.req))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &requestBody{r.Body, c}
	}
	next.ServeHTTP(rw, r)
	done = true
}

// answer answers with a sentence of plain text, and has the connection closed
// unless there are other streams on it.
func answer(w http.ResponseWriter, r *http.Request, e *http1.Error) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Proxy-Status", proxyStatus(e.Status))
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	w.WriteHeader(e.Status)
	io.WriteString(w, refusalText(e.Status, e.Reason))
}

// proxyStatus is the Proxy-Status of an answer of this package.
func proxyStatus(status int) string {
	switch status {
	case http.StatusServiceUnavailable:
		return http1.ProxyStatus("proxy_internal_response", "crowded")
	case http.StatusForbidden:
		return http1.ProxyStatus("http_request_denied", "policy")
	}
	return http1.ProxyStatus("http_request_error", ClassBadRequest)
}

func refusalText(status int, why string) string {
	return fmt.Sprintf("warctee: %d %s: %s\n", status, http.StatusText(status), why)
}

// A responseWriter learns of the hijacking of its connection.
type responseWriter struct {
	http.ResponseWriter
	conn     *conn
	hijacked bool
	duplex   bool // the answer may overtake the request
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// EnableFullDuplex is for http.ResponseController.
func (w *responseWriter) EnableFullDuplex() error {
	w.duplex = true
	return http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

func (w *responseWriter) Flush() { _ = w.FlushError() }

func (w *responseWriter) FlushError() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// ReadFrom keeps the way open that net/http has for copying.
func (w *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(w.ResponseWriter, r)
}

func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	if begun := w.conn.release(); begun {
		rw.Reader = bufio.NewReader(w.conn)
	}
	return c, rw, nil
}
