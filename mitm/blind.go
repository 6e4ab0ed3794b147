package mitm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds the time until the origin of a blind tunnel is reached.
const dialTimeout = 30 * time.Second

// blind relays bytes between the client and the origin, without a record. start
// is when the tunnel was made.
func (in *Interceptor) blind(c *tunnelConn, why string, start time.Time) {
	in.stats.blind.Add(1)
	log := in.logger().With("authority", c.tunnel.Authority, "why", why)
	up, err := in.dial(c.ctx, c.tunnel.Authority)
	if err != nil {
		in.failed(Failure{Time: start, Class: ClassBlindTunnel, Authority: c.tunnel.Authority, Err: err})
		level := slog.LevelWarn
		if _, refused := errors.AsType[interface {
			error
			HTTPStatus() int
		}](err); refused {
			level = slog.LevelDebug // who refuses tells of it as of other refusals
		}
		log.Log(c.ctx, level, "tunnel NOT RECORDED, and its origin cannot be reached", "error", err)
		c.Close()
		return
	}
	r := &relay{idle: in.limits.IdleTimeout, stall: in.limits.StallTimeout, total: &in.stats.blindBytes}
	client := stillCounted{c}
	var sent, received atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() { // stopped by closing either connection
		defer in.recovered(c)
		r.copy(up, client, &sent)
	})
	stop := context.AfterFunc(c.ctx, func() { up.Close() })
	r.copy(client, up, &received)
	wg.Wait()
	stop()
	up.Close()
	in.failed(Failure{Time: start, Class: ClassBlindTunnel, Authority: c.tunnel.Authority, Bytes: sent.Load() + received.Load()})
	log.Warn("tunnel NOT RECORDED", "sent", sent.Load(), "received", received.Load(), "took", time.Since(start))
	c.Close() // after the report: Shutdown waits for it
}

// A stillCounted is a tunnel that Shutdown goes on to wait for when it has been
// closed.
type stillCounted struct{ *tunnelConn }

func (c stillCounted) Close() error { return c.Conn.Close() }

func (in *Interceptor) dial(ctx context.Context, authority string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if in.Dial != nil {
		return in.Dial(ctx, "tcp", authority)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", authority)
}

func (in *Interceptor) failed(f Failure) {
	if in.OnFailure != nil {
		in.OnFailure(f)
	}
}

// relayBuffer is what a blind tunnel costs in each direction, besides its
// goroutine. There may be as many as there are connections.
const relayBuffer = 4 << 10

// A relay copies in both directions. The end of one direction is passed on; the
// other then may go on as long as it is not silent for idle. Nothing else would
// tell a client that is gone from one that only has nothing more to say. Who
// takes nothing for stall counts as gone.
type relay struct {
	idle, stall time.Duration
	total       *atomic.Int64
	half        atomic.Bool // one direction has ended
}

func (r *relay) copy(dst, src net.Conn, count *atomic.Int64) {
	err := r.copyAll(dst, src, count)
	w, ok := dst.(closeWriter)
	if err != nil || !ok || w.CloseWrite() != nil || r.half.Swap(true) {
		dst.Close()
		src.Close()
		return
	}
	dst.SetReadDeadline(time.Now().Add(r.idle))
}

func (r *relay) copyAll(dst, src net.Conn, count *atomic.Int64) error {
	buf := make([]byte, relayBuffer)
	for {
		if r.half.Load() {
			src.SetReadDeadline(time.Now().Add(r.idle))
		}
		n, err := src.Read(buf)
		if n > 0 {
			count.Add(int64(n))
			r.total.Add(int64(n))
			dst.SetWriteDeadline(time.Now().Add(r.stall))
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// handshakeFailed counts and, now and then, tells of clients with which TLS
// was not possible.
func (in *Interceptor) handshakeFailed(c *tunnelConn, err error) {
	reason, untrusted := clientTLSReason(err)
	in.failed(Failure{Time: time.Now(), Class: ClassClientTLS, Authority: c.tunnel.Authority, Err: errors.New(reason)})
	in.stats.handshakeFailures.Add(1) // what is counted has been reported
	log := in.logger().With("authority", c.tunnel.Authority, "error", reason)
	if untrusted {
		if n := in.untrusted.count(); n > 0 {
			log.Warn("a client does not trust our certificate authority; let it trust ca.pem", "times", n)
		}
		return
	}
	if n := in.badTLS.count(); n > 0 {
		log.Warn("the TLS handshake with a client failed", "times", n)
	}
}

// hintEvery is how often the same kind of trouble is logged.
const hintEvery = time.Minute

// A hint counts what is worth a line in the log, but not a line each time.
type hint struct {
	mu   sync.Mutex
	last time.Time
	n    int
}

// count returns how often it was called since it last returned a number, or 0
// when that was not long ago.
func (h *hint) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	if !h.last.IsZero() && time.Since(h.last) < hintEvery {
		return 0
	}
	n := h.n
	h.last, h.n = time.Now(), 0
	return n
}
