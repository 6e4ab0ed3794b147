// Package proxy is the forward proxy: an [http.Handler] built on
// github.com/elazarl/goproxy.
//
// It decides what a request is about and where it goes:
//
//	CONNECT host:port      the tunnel goes to Options.Intercept, which gives
//	                       the requests inside it back to the same handler
//	GET http://host/ …     an exchange by Options.Transport
//	GET / … in a tunnel    the same, with the authority of the CONNECT
//	GET / … otherwise      for the proxy itself: Options.Local
//
// It also says who may use it ([Users], [AllowClients]), and where it connects
// to ([Destinations]).
//
// goproxy forwards; its own interception of TLS, its certificate and its
// transport are not used. Whatever goes wrong upstream becomes a response with
// a plain sentence; a body that breaks off cuts the connection to the client,
// so that nobody takes a part for the whole.
package proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/elazarl/goproxy"
	"golang.org/x/net/http/httpguts"
)

// Options of a proxy. Transport and Intercept have to be set.
type Options struct {
	// Transport performs the exchanges. Its errors become responses; one
	// that has a method HTTPStatus() int chooses the status, others give 502;
	// one with a method RetryAfter() time.Duration says when to try again.
	// ProxyError() and FailureClass() string give what Proxy-Status says of it.
	Transport http.RoundTripper
	// Intercept takes over the connection of a CONNECT to authority
	// (host:port) and answers it. It returns at once.
	Intercept func(conn net.Conn, authority string)
	// Tunnel tells through which tunnel a request came, and whether it is
	// encrypted; nil: there are none.
	Tunnel func(ctx context.Context) (authority string, encrypted, ok bool)
	// Context, if set, adds to the context of a request what Transport wants
	// to know, also of its client.
	Context func(context.Context, Client) context.Context
	// Local answers requests to the proxy itself; nil: 404.
	Local http.Handler
	// Users are those who may use the proxy; nil: all. A client has to say who
	// it is with each request, but not again in a tunnel that it was given.
	// The pages of Local are not included.
	Users *Users
	// Destinations are judged before a look-up here; who dials for Transport
	// and Intercept has to ask their method Control. nil: all are allowed.
	Destinations *Destinations
	// OnRefusal, if set, is told of the requests that the proxy itself
	// refuses, but for those of clients that did not say who they are. class
	// is one of docs/failures.md.
	OnRefusal func(r *http.Request, class string, status int, reason string)

	// Timeout bounds how long a client may stay silent in the middle of a
	// request body; default 60 s.
	Timeout time.Duration
	// StallTimeout bounds how long a client may take no byte of a response
	// before it counts as gone; default 10 min.
	StallTimeout time.Duration
	// Logger gets warnings; default [slog.Default].
	Logger *slog.Logger
}

// A Client is what sent a request.
type Client struct {
	Addr  string // as in [http.Request.RemoteAddr]
	HTTP2 bool
	// HangUp ends the response. It may be called at any time.
	HangUp func()
}

type proxy struct {
	Options
	engine *goproxy.ProxyHttpServer
}

// New returns the proxy as a handler.
func New(o Options) http.Handler {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = 10 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Local == nil {
		o.Local = http.NotFoundHandler()
	}
	p := &proxy{Options: o, engine: goproxy.NewProxyHttpServer()}
	p.engine.Tr = nil // never used: every request gets a RoundTripper
	p.engine.ConnectDial = nil
	p.engine.Logger = log.New(slogWriter{o.Logger}, "", 0)
	p.engine.KeepHeader = true // the transport edits what goes upstream
	p.engine.KeepAcceptEncoding = true
	p.engine.NonproxyHandler = o.Local
	p.engine.OnRequest().HandleConnectFunc(func(string, *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		return &goproxy.ConnectAction{Action: goproxy.ConnectHijack, Hijack: p.hijack}, ""
	})
	p.engine.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = goproxy.RoundTripperFunc(p.roundTrip)
		return r, nil
	})
	return p
}

// slogWriter takes the lines of goproxy's logger.
type slogWriter struct{ log *slog.Logger }

func (w slogWriter) Write(line []byte) (int, error) {
	w.log.Debug(strings.TrimSpace(string(line)), "from", "goproxy")
	return len(line), nil
}

func (p *proxy) hijack(r *http.Request, client net.Conn, _ *goproxy.ProxyCtx) {
	authority, err := connectAuthority(r.URL.Host)
	if err != nil { // ServeHTTP has refused it
		client.Close()
		return
	}
	p.Intercept(client, authority)
}

// ServeHTTP answers one request of a client.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p.direct(r); err != nil {
		answer(w, r, err)
		if p.OnRefusal != nil && err.status != http.StatusProxyAuthRequired {
			p.OnRefusal(r, err.class, err.status, err.reason)
		}
		return
	}
	cw := &clientWriter{ResponseWriter: w, control: http.NewResponseController(w), stall: p.StallTimeout, http2: r.ProtoMajor == 2, method: r.Method}
	if r.ContentLength == 0 {
		r.Body = http.NoBody // over HTTP/2 it is another one
	}
	if r.Body != nil && r.Body != http.NoBody {
		body := &clientBody{ReadCloser: r.Body, control: cw.control, silence: p.Timeout}
		cw.body = body
		cw.expects = httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
		r.Body = body
		defer body.handlerDone(cw)
		// A reply may begin before the request is whole. Over HTTP/2 that
		// needs no leave, which is the only error.
		cw.control.EnableFullDuplex()
	}
	ctx, done := p.exchangeContext(r, cw)
	defer done()
	defer cw.end()
	// In place: into a copy net/http would not put the trailer of the body.
	*r = *r.WithContext(ctx)
	p.engine.ServeHTTP(cw, r)
	if !cw.http2 && r.Method != http.MethodConnect {
		cw.limit() // for the end, which net/http writes
	}
}

// direct makes the URL of a request absolute, or refuses the request.
func (p *proxy) direct(r *http.Request) *refusal {
	authority, encrypted, inTunnel := "", false, false
	if p.Tunnel != nil {
		authority, encrypted, inTunnel = p.Tunnel(r.Context())
	}
	forProxy := r.Method != http.MethodConnect && r.URL.Host == "" && r.URL.Scheme == ""
	switch {
	case !inTunnel && !forProxy && p.Users != nil && !p.Users.admit(r, "Proxy-Authorization"):
		return refuse(http.StatusProxyAuthRequired, "this proxy wants a name and a password")
	case r.Method == http.MethodConnect && inTunnel:
		return refuse(http.StatusBadRequest, "a CONNECT inside a tunnel is not supported")
	case r.Method == http.MethodConnect:
		authority, err := connectAuthority(r.URL.Host)
		if err != nil {
			return err
		}
		return p.judge(authority)
	case forProxy && !inTunnel:
		return nil // Local answers whatever it is: nobody has had to say who it is
	case r.Method == http.MethodTrace:
		return refuse(http.StatusMethodNotAllowed, "TRACE is not forwarded")
	case inTunnel:
		return directInTunnel(r, authority, encrypted)
	}
	if err := checkAbsolute(r); err != nil {
		return err
	}
	return p.judge(withPort(r.URL.Host, defaultPort(r.URL.Scheme)))
}

func (p *proxy) judge(authority string) *refusal {
	if p.Destinations == nil {
		return nil
	}
	return p.Destinations.judge(authority)
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// directInTunnel sends a request where its CONNECT went (RFC 9110 §7.4): a
// client that got there cannot ask for another host, and another scheme.
func directInTunnel(r *http.Request, authority string, encrypted bool) *refusal {
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	port := defaultPort(scheme)
	if r.URL.Scheme != "" && r.URL.Scheme != scheme {
		return refuse(http.StatusMisdirectedRequest, "the request is for %s, the tunnel is %s", r.URL.Scheme, scheme)
	}
	host := r.Host
	if r.URL.Host != "" {
		host = r.URL.Host
	} else if text, err := url.PathUnescape(host); err == nil {
		host = text // net/http takes no U-labels; mitm has encoded them
	}
	if host != "" && !strings.EqualFold(withPort(host, port), authority) {
		if ascii, err := connectAuthority(withPort(host, port)); err != nil || ascii != authority {
			return refuse(http.StatusMisdirectedRequest, "the request is for %q, the tunnel goes to %s", host, authority)
		}
	}
	r.URL.Scheme, r.URL.Host = scheme, authority
	return nil
}

func checkAbsolute(r *http.Request) *refusal {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return refuse(http.StatusBadRequest, "the scheme %q is neither http nor https", r.URL.Scheme)
	}
	authority, err := connectAuthority(withPort(r.URL.Host, "80"))
	if err != nil {
		return err
	}
	// As A-labels, and with a port only where there was one.
	if r.URL.Port() == "" {
		authority = strings.TrimSuffix(authority, ":80")
	}
	r.URL.Host = authority
	return nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// connectAuthority checks host:port and returns it in the form that is
// compared: lower-case, A-labels, an IPv6 address in brackets.
func connectAuthority(hostport string) (string, *refusal) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil || host == "" {
		return "", refuse(http.StatusBadRequest, "%q is not a host and a port", hostport)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", refuse(http.StatusBadRequest, "%q has no valid port", hostport)
	}
	if strings.Contains(host, ":") {
		if addr, err := netip.ParseAddr(host); err != nil || addr.Zone() != "" {
			return "", refuse(http.StatusBadRequest, "%q is not an IPv6 address (one with a zone cannot be recorded)", host)
		}
		return net.JoinHostPort(strings.ToLower(host), port), nil
	}
	ascii, ok := asciiHost(host)
	if _, err := netip.ParseAddr(ascii); err != nil && !ok {
		return "", refuse(http.StatusBadRequest, "%q is not a valid host name", host)
	}
	return net.JoinHostPort(ascii, port), nil
}

// exchangeContext is what the transport gets to know of the client. Over
// HTTP/1 a request whose client closed its side is not cancelled: the client
// may only have nothing more to say. A write that fails tells that it has gone.
func (p *proxy) exchangeContext(r *http.Request, w *clientWriter) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	done := cancel
	if r.ProtoMajor == 1 {
		ctx, cancel = context.WithCancel(context.WithoutCancel(r.Context()))
		stop := context.AfterFunc(r.Context(), func() {
			if w.streamsEvents.Load() {
				cancel() // nothing may be written for hours
			}
		})
		done = func() { stop(); cancel() }
	}
	w.gone, w.giveUp = r.Context(), cancel
	if r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: w.interim})
	}
	if p.Context != nil {
		ctx = p.Context(ctx, Client{Addr: r.RemoteAddr, HTTP2: w.http2, HangUp: w.hangUp})
	}
	return ctx, done
}

func (p *proxy) roundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	resp, err := p.Transport.RoundTrip(r)
	if err != nil {
		return asRefusal(err).response(r), nil
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Header = endToEnd(resp.Header)
		resp.Body = &clientCopy{resp.Body}
	}
	// What the origin did not send net/http must not add.
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := resp.Header[name]; !ok {
			resp.Header[name] = nil
		}
	}
	return resp, nil
}

// clientCopy is a body whose failure reaches the client as one: the connection
// is cut, or the stream reset.
type clientCopy struct{ io.ReadCloser }

func (c *clientCopy) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, c.ReadCloser)
	if err != nil {
		if f, ok := w.(http.Flusher); ok {
			f.Flush() // the client gets what there is
		}
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// endToEnd drops the fields that concern the hop between origin and proxy
// (RFC 9110 §7.6.1), which over HTTP/2 break the stream, and Alt-Svc, which
// would lead a browser past the proxy. Proxy-Status stays: it is for the client
// (RFC 9209 §2).
func endToEnd(h http.Header) http.Header {
	h = h.Clone()
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		switch {
		case strings.HasPrefix(name, "Proxy-") && name != "Proxy-Status":
			delete(h, name)
		case name == "Connection", name == "Keep-Alive", name == "Transfer-Encoding", name == "Upgrade", name == "Alt-Svc":
			delete(h, name)
		}
	}
	return h
}

// A refusal is an answer of the proxy itself.
type refusal struct {
	status int
	class  string
	kind   string // an error type of RFC 9209 §2.3; "": it is that of the status
	reason string
	retry  time.Duration // when the client may try again; 0: it is not told
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, class: "not-forwarded", reason: fmt.Sprintf(format, args...)}
}

func (e *refusal) Error() string { return e.reason }

// HTTPStatus is the status of the answer.
func (e *refusal) HTTPStatus() int { return e.status }
