package mitm

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/warctee/warctee/http1"
)

// Limits bound what clients can make the proxy use. Fields that are zero mean
// the default.
type Limits struct {
	// MaxURL and MaxHead bound the target of a request and its header fields,
	// in bytes, MaxFields the number of fields; over HTTP/2 too. Default 64
	// KiB each, and 256.
	MaxURL, MaxHead, MaxFields int
	// HeaderTimeout bounds the time for the head of a request and for a TLS
	// handshake; default 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the time between two requests; default 2 min.
	IdleTimeout time.Duration
	// StallTimeout bounds the time in which either end of a blind tunnel
	// takes no byte, or a client with HTTP/2; default 10 min.
	StallTimeout time.Duration

	// MaxConns bounds the connections of all clients, MaxConnsPerClient those
	// of one address. A tunnel counts until it is closed. Further ones are
	// answered with 503. Default 16384, and three quarters of MaxConns.
	MaxConns, MaxConnsPerClient int
	// MaxUnfinished bounds, in bytes, what all clients together have begun to
	// send and not finished: heads of requests, the first bytes of tunnels, TLS
	// handshakes. One address gets a quarter of it. What finds no room is
	// answered with 503, or closed. Default 64 MiB.
	MaxUnfinished int
	// MaxHandshakes bounds the TLS handshakes that are computed at once. One
	// that waits for its client does not count. Default 64.
	MaxHandshakes int
}

func (l Limits) withDefaults() Limits {
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 2*time.Minute)
	l.StallTimeout = cmp.Or(l.StallTimeout, 10*time.Minute)
	l.MaxConns = cmp.Or(l.MaxConns, 16<<10)
	l.MaxConnsPerClient = cmp.Or(l.MaxConnsPerClient, max(1, l.MaxConns/4*3))
	l.MaxUnfinished = cmp.Or(l.MaxUnfinished, 64<<20)
	l.MaxHandshakes = cmp.Or(l.MaxHandshakes, 64)
	return l
}

// head is what http1 has to know.
func (l Limits) head() http1.Limits {
	return http1.Limits{Target: l.MaxURL, Fields: l.MaxHead, FieldCount: l.MaxFields}.WithDefaults()
}

// maxHeaderBytes is more than the head that is let through, with all of it
// percent-encoded.
func (l Limits) maxHeaderBytes() int { return 3 * l.head().Head() }

const (
	maxStreams = 100      // of one connection with HTTP/2, at once
	maxFrame   = 16 << 10 // bytes of one frame, for which net/http keeps a buffer

	// What a client with HTTP/2 may send of bodies before anybody reads them,
	// on one connection.
	unreadBytes = 256 << 10
)

// NewServer returns a server for a [Listener]. next can use [RequestOf] and
// [TunnelOf]. What it gets has passed the checks of this package; onFailure,
// unless nil, is told of each request that has not. A nil log means
// slog.Default().
//
// A connection that next hijacks carries, from the first byte behind the
// request, what the client sends; so does the bufio.Reader that comes with it,
// but only one of them should be read. After a CONNECT the connection belongs
// to whoever hijacked it; after any other request it is closed when next returns.
func NewServer(next http.Handler, l Limits, onFailure func(Failure), log *slog.Logger) *http.Server {
	l = l.withDefaults()
	s := &http.Server{
		Handler:                      handler(next, l.head(), onFailure),
		ConnContext:                  connContext,
		ConnState:                    connState,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            l.HeaderTimeout,
		IdleTimeout:                  l.IdleTimeout,
		MaxHeaderBytes:               l.maxHeaderBytes(),
		ErrorLog:                     slog.NewLogLogger(orDefault(log).Handler(), slog.LevelWarn),
		Protocols:                    new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: unreadBytes,
			MaxReceiveBufferPerStream:     unreadBytes,
			WriteByteTimeout:              l.StallTimeout,
		},
	}
	s.Protocols.SetHTTP1(true)
	return s
}

func orDefault(log *slog.Logger) *slog.Logger { return cmp.Or(log, slog.Default()) }
