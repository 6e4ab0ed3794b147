package recorder

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A Phase is a step of an exchange at which it can fail.
type Phase string

const (
	PhaseAdmission Phase = "admission"  // no place for another exchange, or the recorder has stopped
	PhaseRequest   Phase = "request"    // the client's request, or its body
	PhaseResolve   Phase = "resolve"    // looking up the host
	PhaseConnect   Phase = "connect"    // reaching the origin
	PhaseTLS       Phase = "tls"        // the TLS handshake with the origin
	PhaseReply     Phase = "reply-head" // waiting for the reply, or what came was none
	PhaseWrite     Phase = "write"      // appending to the archive
	PhaseClient    Phase = "client"     // the client went away before there was a reply
)

// An Error is why an exchange gave no response.
type Error struct {
	Phase  Phase
	Class  string // what kind of error; see docs/failures.md
	Status int    // what a proxy answers its client: 400, 502, 503, 504 …
	URL    string // the target
	Addr   string // host:port of the origin, "" when it was not reached for
	Err    error
	Retry  time.Duration // when it makes sense to try again; 0: not known

	// stale says that a kept-alive connection turned out to be closed:
	// another attempt may be made.
	stale bool
	// unsent says that no byte of the request had been written.
	unsent bool
	// instead is what the origin sent in place of a reply, as far as it was
	// read; cut is the WARC-Truncated of it.
	instead []byte
	cut     string
}

// Error is one sentence that names what failed, on what, and the remedy where
// there is one.
func (e *Error) Error() string {
	if e.URL == "" {
		return e.Err.Error()
	}
	return e.URL + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// HTTPStatus is the status of the answer that a proxy gives.
func (e *Error) HTTPStatus() int { return e.Status }

// RetryAfter is when the client may try again; 0: not known.
func (e *Error) RetryAfter() time.Duration { return e.Retry }

// FailureClass is the kind of error in docs/failures.md.
func (e *Error) FailureClass() string { return e.Class }

// proxyErrors are the error types of RFC 9209 §2.3 for the classes that have one
// whatever the phase. Of the others the proxy says that it has not tried.
var proxyErrors = map[string]string{
	"no-such-host":          "dns_error",
	"dns":                   "dns_error",
	"refused":               "connection_refused",
	"unreachable":           "destination_ip_unroutable",
	"reset":                 "connection_terminated",
	"empty-reply":           "connection_terminated",
	"untrusted-certificate": "tls_certificate_error",
	"not-tls":               "tls_protocol_error",
	"tls-handshake":         "tls_protocol_error",
	"client-certificate":    "tls_alert_received",
	"bad-reply":             "http_protocol_error",
	"bad-request":           "http_request_error",
	"upload-broke-off":      "http_request_error",
	"client-gone":           "http_request_error",
	"no-descriptors":        "proxy_internal_error",
	"internal":              "proxy_internal_error",
	"lost":                  "proxy_internal_error",
	"other":                 "proxy_internal_error",
}

// ProxyError is the error type of RFC 9209 §2.3 that says most of the error.
func (e *Error) ProxyError() string {
	switch {
	case e.Class == classPolicy && e.Status == http.StatusLoopDetected:
		return "proxy_loop_detected"
	case e.Class == classPolicy:
		return "destination_ip_prohibited"
	case e.Class == "timeout" && e.Phase == PhaseClient:
		return "http_request_error"
	case e.Class == "timeout" && e.Phase == PhaseResolve:
		return "dns_timeout"
	case e.Class == "timeout" && e.Phase == PhaseReply:
		return "connection_read_timeout"
	case e.Class == "timeout":
		return "connection_timeout"
	}
	return cmp.Or(proxyErrors[e.Class], "proxy_internal_response")
}

// upstreamError words a failure to get a reply from an origin.
func upstreamError(phase Phase, addr string, err error) *Error {
	e := &Error{Phase: phase, Status: http.StatusBadGateway, Addr: addr, Class: upstreamClass(phase, err)}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		e.Phase = PhaseResolve
	}
	if isOutOfFiles(err) {
		e.Status = http.StatusServiceUnavailable
		e.Err = fmt.Errorf("cannot connect to %s: warctee has no file descriptor left: %w (raise ulimit -n, or lower --max-connections)", addr, rootCause(err))
		return e
	}
	if dns != nil {
		e.Err = fmt.Errorf("cannot find the host %s: %s", dns.Name, dnsReason(dns))
		if dns.IsTimeout {
			e.Status = http.StatusGatewayTimeout
		}
		return e
	}
	var policy interface{ HTTPStatus() int }
	cause := rootCause(err)
	switch {
	case errors.As(err, &policy): // a refusal by Options.Dial
		e.Status, cause = policy.HTTPStatus(), policy.(error)
	case isTimeout(err):
		e.Status, cause = http.StatusGatewayTimeout, errors.New("no answer in time")
	case phase == PhaseTLS:
		cause = tlsReason(err)
	case phase == PhaseReply && errors.Is(err, io.EOF):
		cause = errors.New("it closed the connection")
	}
	switch phase {
	case PhaseConnect:
		e.Err = fmt.Errorf("cannot connect to %s: %w", addr, cause)
	case PhaseTLS:
		e.Err = fmt.Errorf("no TLS connection with %s: %w", addr, cause)
	default:
		e.Err = fmt.Errorf("no reply from %s: %w", addr, cause)
	}
	return e
}

// classPolicy is of refusals by Options.Dial.
const classPolicy = "policy"

// upstreamClass sorts the errors that are told in docs/failures.md.
func upstreamClass(phase Phase, err error) string {
	var (
		dns    *net.DNSError
		policy interface{ HTTPStatus() int }
		verify *tls.CertificateVerificationError
		header tls.RecordHeaderError
	)
	switch {
	case isOutOfFiles(err):
		return "no-descriptors"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no-such-host"
	case errors.As(err, &policy):
		return classPolicy
	case isTimeout(err):
		return "timeout"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &verify):
		return "untrusted-certificate"
	case errors.As(err, &header):
		return "not-tls"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case phase == PhaseReply && errors.Is(err, io.EOF):
		return "empty-reply"
	case phase == PhaseTLS:
		return "tls-handshake"
	}
	return "other"
}

// isRemoteAlert reports whether the other side has ended TLS with an alert.
func isRemoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// certificateDemanded is for an origin that has asked for the certificate of
// a client, and got none.
func certificateDemanded(phase Phase, addr string, err error) *Error {
	return &Error{Phase: phase, Class: "client-certificate", Status: http.StatusBadGateway, Addr: addr, Err: fmt.Errorf("no TLS connection with %s: it demands the certificate of a client, and warctee has none: %w", addr, rootCause(err))}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// isOutOfFiles reports whether there was no file descriptor: that is not the
// origin's fault.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func dnsReason(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "no such host in the DNS"
	case err.IsTimeout:
		return "the DNS server does not answer"
	}
	return err.Err
}

// rootCause drops the layers that repeat the address.
func rootCause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// tlsReason says what is wrong with the origin's TLS and what can be done.
func tlsReason(err error) error {
	var (
		verify *tls.CertificateVerificationError
		header tls.RecordHeaderError
	)
	cause := rootCause(err)
	says := func(words string) bool { return strings.Contains(cause.Error(), words) }
	switch {
	case errors.As(err, &verify):
		return fmt.Errorf("its certificate is not trusted: %w (to record it all the same: --insecure-upstream or, with an authority of your own, SSL_CERT_DIR/SSL_CERT_FILE)", certReason(verify.Err))
	case errors.As(err, &header):
		return errors.New("it does not speak TLS on that port")
	case isClose(err):
		return errors.New("it closed the connection in the middle of the handshake")
	case says("no application protocol"), says("unadvertised ALPN protocol"):
		return fmt.Errorf("it offers no HTTP/1.1, which is what can be recorded: %w", cause)
	case says("protocol version"):
		return fmt.Errorf("it speaks no TLS 1.2 or newer: %w", cause)
	case isRemoteAlert(err):
		return fmt.Errorf("it refused the handshake: %w", cause)
	}
	return cause
}

func certReason(err error) error {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		_, why, _ := strings.Cut(unknown.Error(), "unknown authority")
		return errors.New("signed by an unknown authority" + why)
	}
	return err
}

// errInternal is what everybody is told of a panic but the log.
var errInternal = errors.New("internal error, see the log")

// internalError logs a panic, and returns what to say instead.
func (r *Recorder) internalError(p any) error {
	r.log.Error("internal error", "panic", p, "stack", string(debug.Stack()))
	return errInternal
}
