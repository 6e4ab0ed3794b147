package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"time"

	"github.com/warctee/warctee/http1"
)

// maxAttempts bounds how often a request is sent again after a kept-alive
// connection turned out to be closed.
const maxAttempts = 3

// RoundTrip performs one exchange with an origin and records it. It is an
// [http.RoundTripper]: the body of the response must be closed. Interim
// responses other than 100 are told to an [httptrace.ClientTrace]. When the
// context is done the client counts as gone. The error is an [*Error].
//
// The response streams as it arrives; the exchange is recorded when it has
// ended, which may be after the body was closed.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	x, err := r.begin(req)
	if err == nil {
		var resp *http.Response
		if resp, err = x.roundTrip(req); err == nil {
			return resp, nil
		}
		defer func() { x.end(err) }()
	}
	if req.Body != nil {
		req.Body.Close()
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Phase: PhaseRequest, Class: "internal", Status: http.StatusInternalServerError, Err: err}
	}
	if x != nil {
		e.URL = x.uri
	} else if req.URL != nil {
		e.URL = req.URL.Redacted()
	}
	r.failed(Failure{Time: start, Method: req.Method, URL: e.URL, Phase: e.Phase, Class: e.Class, Status: e.Status, Addr: e.Addr, Err: e.Err})
	return nil, e
}

// begin admits an exchange.
func (r *Recorder) begin(req *http.Request) (*exchange, error) {
	if req.URL == nil {
		return nil, badRequest("the request has no URL")
	}
	request, err := newOriginRequest(req)
	if err != nil {
		return nil, err
	}
	_, key := request.origin()
	client := clientOf(req.Context())
	claim, err := r.admit(req.Context(), client, key, len(request.head))
	if err != nil {
		return nil, err
	}
	x := &exchange{
		r:       r,
		start:   time.Now(),
		request: request,
		client:  client,
		claim:   claim,
		uri:     targetURI(request.scheme, request.authority, request.target),
		slot:    r.short,
	}
	if !r.track(x) {
		x.freePlace()
		x.settle()
		return nil, admissionError("shutting-down", errClosed)
	}
	x.startClock()
	return x, nil
}

// end ends an exchange that has no response.
func (x *exchange) end(err error) {
	if e := (*Error)(nil); errors.As(err, &e) && len(e.instead) > 0 {
		x.keepBadReply(e)
		return
	}
	x.abandon()
}

// abandon ends an exchange of which there is nothing to record.
func (x *exchange) abandon() {
	if x.sent != nil {
		x.sent.body.release()
	}
	x.freePlace()
	x.settle()
	x.r.untrack(x)
}

func (x *exchange) roundTrip(req *http.Request) (*http.Response, error) {
	var last *Error
	for n := range maxAttempts {
		a := newAttempt(x, req)
		a.fresh = n == maxAttempts-1
		e, err := a.run()
		if err == nil {
			return x.response(req, e), nil
		}
		if !errors.As(err, &last) || !last.stale || !x.canRetry(req, last) {
			return nil, err
		}
	}
	return nil, last
}

// canRetry reports whether a request whose connection was closed under it may
// be sent again (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
func (x *exchange) canRetry(req *http.Request, err *Error) bool {
	return err.unsent || x.request.isIdempotent() && x.request.framing.Kind == http1.NoBody && req.Context().Err() == nil
}

func (o *originRequest) isIdempotent() bool {
	switch o.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// An attempt is one sending of a request on one connection.
type attempt struct {
	x      *exchange
	req    *http.Request
	fresh  bool // do not reuse a connection
	conn   *originConn
	reused bool
	upload *upload

	events chan event
	done   chan struct{} // closed when nobody takes events any more

	replied bool // guarded by conn.mu
}

// An event is what the goroutine of a connection tells RoundTrip. One field
// is set.
type event struct {
	interim  *http1.Response
	reply    *http1.Response
	switched *switched
	err      *Error
}

func newAttempt(x *exchange, req *http.Request) *attempt {
	return &attempt{x: x, req: req, events: make(chan event), done: make(chan struct{})}
}

// deliver reports whether RoundTrip has taken the event.
func (a *attempt) deliver(e event) bool {
	select {
	case a.events <- e:
		return true
	case <-a.done:
		return false
	}
}

// run sends the request and waits for the final reply's head.
func (a *attempt) run() (event, error) {
	x, ctx := a.x, a.req.Context()
	defer close(a.done)
	conn, reused, err := x.r.connection(ctx, a)
	if err != nil {
		return event{}, a.clientError(err)
	}
	a.conn, a.reused = conn, reused
	x.spoken = conn.spoken
	x.beginRequest()
	a.upload = newUpload(a)
	if !conn.beginSending() {
		return event{}, errUnsent()
	}
	a.upload.start()
	for {
		select {
		case e := <-a.events:
			switch {
			case e.interim != nil:
				if err := a.interim(e.interim); err != nil {
					return event{}, a.fail(err)
				}
				continue
			case e.err != nil:
				e.err.stale = e.err.stale && a.reused
				return event{}, a.fail(e.err)
			}
			return e, nil
		case err := <-a.upload.failed:
			return event{}, a.fail(err)
		case <-ctx.Done():
			return event{}, a.fail(a.clientError(context.Cause(ctx)))
		case <-x.r.cutting.Done():
			return event{}, a.fail(admissionError("shutting-down", errClosed))
		}
	}
}

// connection takes or dials one, until the recorder is closed.
func (r *Recorder) connection(ctx context.Context, a *attempt) (*originConn, bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.cutting, cancel)()
	return r.pool.get(ctx, a)
}

// errUnsent says that a kept-alive connection was closed before anything was
// sent on it.
func errUnsent() *Error {
	return &Error{Phase: PhaseReply, Class: "reset", Status: http.StatusBadGateway, Err: errors.New("the origin closed its connection again and again"), stale: true, unsent: true}
}

// clientError tells an error that comes from the client's going away from
// others.
func (a *attempt) clientError(err error) error {
	if a.req.Context().Err() == nil {
		return err
	}
	return clientWentAway(a.req.Context())
}

func clientWentAway(ctx context.Context) *Error {
	return &Error{Phase: PhaseClient, Class: "client-gone", Status: http.StatusServiceUnavailable, Err: fmt.Errorf("the client went away before there was a reply: %w", context.Cause(ctx))}
}

// fail ends the attempt so that the origin cannot take a part of the request
// for the whole.
func (a *attempt) fail(err error) error {
	a.conn.abort()
	if whole := a.upload.stop(); !whole && a.x.sent.truncated == "" {
		a.x.sent.truncated = "disconnect"
	}
	if err := a.upload.clientErr(); err != nil {
		return err
	}
	return err
}

// interim lets the upload go on after a 100, and tells the client the others.
func (a *attempt) interim(reply *http1.Response) error {
	if reply.Status == http.StatusContinue {
		a.upload.goOn()
		return nil
	}
	trace := httptrace.ContextClientTrace(a.req.Context())
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(reply.Status, textproto.MIMEHeader(fieldsToHeader(reply.Fields)))
}

// fieldsToHeader gives the fields the form of net/http. Fields without a
// proper name cannot be told in it; the record has them.
func fieldsToHeader(fields []http1.Field) http.Header {
	h := make(http.Header, len(fields))
	for i := range fields {
		if f := &fields[i]; isMethod(string(f.Name)) && !strings.ContainsFunc(string(f.Value), isForbidden) {
			h.Add(string(f.Name), string(f.Value))
		}
	}
	return h
}

func isForbidden(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// response gives the reply the form of net/http.
func (x *exchange) response(req *http.Request, e event) *http.Response {
	reply := e.reply
	if e.switched != nil {
		reply = e.switched.reply
	}
	resp := &http.Response{
		Status:        fmt.Sprintf("%03d %s", reply.Status, reply.Reason),
		StatusCode:    reply.Status,
		Proto:         fmt.Sprintf("HTTP/1.%d", reply.Minor),
		ProtoMajor:    1,
		ProtoMinor:    reply.Minor,
		Header:        fieldsToHeader(reply.Fields),
		ContentLength: -1,
		Close:         !reply.Persistent,
		Request:       req,
	}
	resp.Header.Del("Transfer-Encoding")
	switch f := reply.Framing; f.Kind {
	case http1.Chunked:
		resp.Header.Del("Content-Length")
		resp.TransferEncoding = []string{"chunked"}
		resp.Trailer = announcedTrailer(&reply.Head)
		resp.Header.Del("Trailer") // as net/http does
	case http1.UntilClose:
		resp.Header.Del("Content-Length")
	case http1.Length:
		resp.ContentLength = f.Length
		resp.Header.Set("Content-Length", fmt.Sprint(f.Length))
	case http1.NoBody:
		resp.ContentLength = 0
		if v := resp.Header.Values("Content-Length"); len(v) > 0 {
			resp.Header.Set("Content-Length", v[0])
		}
	}
	if e.switched != nil {
		resp.Body = e.switched
		return resp
	}
	resp.Body = x.newBody(req.Context(), resp, reply)
	return resp
}

// announcedTrailer makes the keys of [http.Response.Trailer].
func announcedTrailer(h *http1.Head) http.Header {
	var trailer http.Header
	for _, name := range h.Tokens("Trailer") {
		if isMethod(name) {
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[http.CanonicalHeaderKey(name)] = nil
		}
	}
	return trailer
}
