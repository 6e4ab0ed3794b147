package mitm

import "time"

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
