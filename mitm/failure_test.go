package mitm

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What became of TLS with a client is said in a sentence.
func TestClientTLSReasons(t *testing.T) {
	waits, done := context.WithTimeout(t.Context(), 0)
	defer done()
	for _, test := range []struct {
		err       error
		want      string
		untrusted bool
	}{
		{&net.OpError{Op: "remote error", Err: errors.New("tls: unknown certificate authority")}, "the client does not trust our certificate (unknown certificate authority): let it trust ca.pem", true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, "the client does not trust our certificate (bad certificate): let it trust ca.pem", true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: protocol version not supported")}, "the client refused the handshake: protocol version not supported", false},
		{&net.OpError{Op: "local error", Err: errors.New("tls: bad record MAC")}, "most likely because it does not trust our certificate: let it trust ca.pem", true},
		{context.DeadlineExceeded, "(--header-timeout)", false},
		{os.ErrDeadlineExceeded, "(--header-timeout)", false},
		{(&turn{slots: make(chan struct{}), ctx: waits}).take(), "(--max-handshakes)", false},
		{io.EOF, "closed the connection in the middle of the handshake", false},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "closed the connection in the middle of the handshake", false},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "is not TLS", false},
		{errors.New("tls: client offered only unsupported versions: [301]"), "tls: client offered only unsupported versions: [301]", false},
	} {
		got, untrusted := clientTLSReason(test.err)
		if !strings.HasSuffix(got, test.want) || untrusted != test.untrusted {
			t.Errorf("%v: %q, %t, want %q, %t", test.err, got, untrusted, test.want, test.untrusted)
		}
	}
}
