package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// Classes of errors of admission.
const (
	classStopped = "stopped"
	classPaused  = "paused"
	classCrowded = "crowded"
	classBusy    = "busy"
)

const (
	admissionWait = 30 * time.Second
	roomWait      = 5 * time.Second  // of it, for room on the disk
	roomEvery     = lookEvery / 10   // between two attempts to make some, at least
	longAfter     = 10 * time.Second // from the admission

	// minWaiting is how many requests may wait for their admission where there
	// are not more slots. One of HTTP/2 takes 15 KB, and twice its head.
	minWaiting = 4096
)

// slots count exchanges.
type slots struct{ free chan struct{} }

func newSlots(n int) *slots {
	s := &slots{free: make(chan struct{}, n)}
	for range n {
		s.free <- struct{}{}
	}
	return s
}

func (s *slots) used() int { return cap(s.free) - len(s.free) }

func (s *slots) give() { s.free <- struct{}{} }

func (s *slots) tryTake() bool {
	select {
	case <-s.free:
		return true
	default:
		return false
	}
}

var (
	errClosed      = errors.New("the recorder is shutting down")
	errTooManyLong = errors.New("too many long exchanges and WebSockets are open already (--max-long)")
	errShareOfLong = errors.New("this client or this origin has its share of the long exchanges and WebSockets already (--max-long)")
)

// admit takes the places of an exchange with the origin of that key, for a
// client or nil, and a slot, and waits where they are not to be had at once.
// Back-pressure is here and nowhere else. head is how many bytes the request
// takes meanwhile.
func (r *Recorder) admit(ctx context.Context, client *Client, key string, head int) (*claim, error) {
	if err := r.unavailable(); err != nil {
		return nil, err
	}
	if err := r.crowdedHeads(); err != nil {
		return nil, admissionError(classCrowded, err)
	}
	places := r.pool.places
	cl := places.claim(client, key)
	if err := r.roomInShares(cl, 0); err != nil {
		places.leave(cl)
		return nil, admissionError(classCrowded, err)
	}
	if cl.ready == nil && !r.crowdedDisk() && r.short.tryTake() {
		return cl, nil
	}
	defer r.waiting.Add(-1)
	if n := r.waiting.Add(1); n > r.maxWaiting || int64(places.line(cl)) > r.maxWaiting-r.maxWaiting/4 {
		places.leave(cl)
		return nil, admissionError(classCrowded, fmt.Errorf("%d requests wait for others to end already (--max-in-flight)", n-1))
	}
	r.space.heads.Add(int64(head))
	defer r.space.heads.Add(-int64(head))
	wait := time.NewTimer(admissionWait)
	defer wait.Stop()
	if cl.ready != nil {
		if err := r.awaitPlaces(ctx, wait, cl, key); err != nil {
			places.leave(cl)
			return nil, err
		}
	}
	err := r.awaitRoom(ctx)
	if err == nil {
		err = r.waitForSlot(ctx, wait.C)
	}
	if err != nil {
		places.leave(cl)
		return nil, err
	}
	return cl, nil
}

// crowdedHeads makes what room can be made at once among heads, and returns an
// error when that is too little for another exchange.
func (r *Recorder) crowdedHeads() error {
	if err := r.space.crowdedHeads(); err != nil && !r.roomForHeads(&r.space.heads, r.space.maxMemory/2, nil) {
		return err
	}
	return nil
}

// crowdedDisk makes what room can be made at once on the disk, and reports
// whether that is too little for another exchange. To look for room is work for
// each exchange under way: thousands of requests that wait do not do it often.
func (r *Recorder) crowdedDisk() bool {
	if r.space.crowdedDisk() == nil {
		return false
	}
	last, now := r.madeRoom.Load(), int64(time.Since(r.opened))
	if now-last < int64(roomEvery) || !r.madeRoom.CompareAndSwap(last, now) {
		return true
	}
	r.readers.makeRoom()
	if r.space.crowdedDisk() != nil {
		r.cutSlowPassing()
	}
	return r.space.crowdedDisk() != nil
}

// awaitRoom waits a moment for room on the disk: in most cases a body becomes
// durable, or its client is found to be slow.
func (r *Recorder) awaitRoom(ctx context.Context) error {
	if !r.crowdedDisk() {
		return nil
	}
	over := time.NewTimer(roomWait)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if !r.crowdedDisk() {
				return nil
			}
		case <-over.C:
			if err := r.space.crowdedDisk(); err != nil {
				return admissionError(classCrowded, err)
			}
			return nil
		case <-r.closing:
			return admissionError("shutting-down", errClosed)
		case <-ctx.Done():
			return clientWentAway(ctx)
		}
	}
}

func (r *Recorder) waitForSlot(ctx context.Context, over <-chan time.Time) error {
	if err := r.awaitSlot(ctx, over); err != nil {
		return err
	}
	if err := r.unavailable(); err != nil { // meanwhile
		r.short.give()
		return err
	}
	return nil
}

// awaitPlaces waits for the places of a claim. In the line of its own tunnel
// that may take any time: the line moves on, at the latest when the exchanges
// ahead become long ones, and a browser would wait as long.
func (r *Recorder) awaitPlaces(ctx context.Context, wait *time.Timer, cl *claim, key string) error {
	places := r.pool.places
	kind, waits := places.waitsAt(cl)
	inTunnel := waits && kind == placeTunnel
	err := r.await(ctx, wait.C, cl.ready, func() error {
		switch kind, waits := places.waitsAt(cl); {
		case !waits: // it is its turn
			wait.Reset(0)
			return nil
		case kind == placeTunnel:
			wait.Reset(admissionWait)
			return nil
		case kind == placeClient:
			return fmt.Errorf("this client has its share of the exchanges under way already and it was not this one's turn within %s (--max-in-flight)", admissionWait)
		}
		return fmt.Errorf("%d exchanges with this origin are under way already and it was not this one's turn within %s (--max-connections-per-origin, --max-in-flight)", places.used(key), admissionWait)
	})
	if inTunnel {
		wait.Reset(admissionWait)
	}
	return err
}

func (r *Recorder) awaitSlot(ctx context.Context, over <-chan time.Time) error {
	return r.await(ctx, over, r.short.free, func() error {
		return fmt.Errorf("%d exchanges are under way already and it was not this one's turn within %s (--max-in-flight)", r.options.MaxInFlight, admissionWait)
	})
}

// await receives from ready, or returns why it makes no sense to wait any
// longer. When over fires busy returns that, or nil to go on.
func (r *Recorder) await(ctx context.Context, over <-chan time.Time, ready <-chan struct{}, busy func() error) error {
	for {
		select {
		case <-ready:
			return nil
		case <-over:
			if err := busy(); err != nil {
				return admissionError(classBusy, err)
			}
		case <-r.closing:
			return admissionError("shutting-down", errClosed)
		case <-r.standsStill():
			if err := r.unavailable(); err != nil {
				return err
			}
		case <-ctx.Done():
			return clientWentAway(ctx)
		}
	}
}

// unavailable says why no exchange is taken at all, or nil.
func (r *Recorder) unavailable() error {
	select {
	case <-r.closing:
		return admissionError("shutting-down", errClosed)
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.still.stopped; err != nil {
		return admissionError(classStopped, fmt.Errorf("recording has stopped: %w", r.forClients(err)))
	}
	if err := r.still.reason(); err != nil {
		e := admissionError(classPaused, fmt.Errorf("recording is paused: %w", r.forClients(err)))
		e.Retry = pauseHint
		return e
	}
	return nil
}

// A toldError says in other words what an error is.
type toldError struct {
	error
	words string
}

func (e *toldError) Error() string { return e.words }

func (e *toldError) Unwrap() error { return e.error }

// forClients words an error of the archive so that it does not tell where in
// the file system that is: clients may be far away.
func (r *Recorder) forClients(err error) error {
	words := err.Error()
	for _, dir := range []string{r.dir, r.options.Dir} {
		if filepath.IsAbs(dir) && dir != filepath.Dir(dir) {
			words = strings.ReplaceAll(words, dir+string(filepath.Separator), "")
			words = strings.ReplaceAll(words, "the directory "+dir, "the archive's directory")
			words = strings.ReplaceAll(words, dir, "the archive's directory")
		}
	}
	return &toldError{err, words}
}

func admissionError(class string, err error) *Error {
	return &Error{Phase: PhaseAdmission, Class: class, Status: http.StatusServiceUnavailable, Err: err}
}
