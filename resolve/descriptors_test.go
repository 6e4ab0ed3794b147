package resolve

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// What the system says of a server that could not be asked is not lost: no
// descriptors are not the server's fault.
func TestFailureKeepsTheCause(t *testing.T) {
	err := (&server{addr: "192.0.2.1:53"}).failure(&net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", syscall.EMFILE)})
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v does not hold its cause", err)
	}
}
