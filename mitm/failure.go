package mitm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Classes of failures.
const (
	ClassBadRequest  = "bad-request"       // a request head that was refused
	ClassClientTLS   = "client-tls"        // no TLS with the client: it may not trust our authority
	ClassBlindTunnel = "unrecorded-tunnel" // relayed without a record
)

// A Failure is what came from a client and is no exchange, so that nothing of
// it is recorded.
type Failure struct {
	Time      time.Time // when it began
	Class     string
	Authority string // of the tunnel; "" outside one
	Status    int    // that was answered, or 0
	Bytes     int64  // that were relayed, both ways
	Err       error  // nil for a tunnel that was relayed in good order
}

// clientTLSReason says why there is no TLS with a client, and whether that is
// because of our certificate.
func clientTLSReason(err error) (reason string, untrusted bool) {
	op, _ := errors.AsType[*net.OpError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	text := strings.TrimPrefix(err.Error(), "remote error: tls: ")
	switch {
	case op != nil && op.Op == "remote error" && strings.Contains(text, "certificate"):
		return fmt.Sprintf("the client does not trust our certificate (%s): let it trust ca.pem", text), true
	case op != nil && op.Op == "remote error":
		return "the client refused the handshake: " + text, false
	case op != nil && op.Op == "local error" && strings.Contains(text, "bad record MAC"):
		// The alert of OpenSSL, which in TLS 1.3 sends it in the clear.
		return "the client broke the handshake off, most likely because it does not trust our certificate: let it trust ca.pem", true
	case notTLS:
		return "what the client sent is not TLS", false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the client did not finish the handshake in time (--header-timeout)", false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the client closed the connection in the middle of the handshake", false
	}
	return err.Error(), false
}
