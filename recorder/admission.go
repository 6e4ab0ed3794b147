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
)

const (
	admissionWait = 30 * time.Second
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
	errTooManyLong = errors.New("too many long exchanges and WebSockets are open already")
)

// admit takes a place at the origin with that key and a slot, and waits where
// they are not to be had at once. Back-pressure is here and nowhere else. head
// is how many bytes the request takes meanwhile.
func (r *Recorder) admit(ctx context.Context, key string, head int) error {
	if err := r.unavailable(); err != nil {
		return err
	}
	if err := r.space.crowded(); err != nil {
		return admissionError(classCrowded, err)
	}
	places := r.pool.places
	turn := places.queue(key)
	if turn == nil && r.short.tryTake() {
		return nil
	}
	defer r.waiting.Add(-1)
	if r.waiting.Add(1) > r.maxWaiting {
		places.leave(key, turn)
		return admissionError(classCrowded, fmt.Errorf("%d requests wait for others to end already (--max-in-flight)", r.maxWaiting))
	}
	r.space.heads.Add(int64(head))
	defer r.space.heads.Add(-int64(head))
	wait := time.NewTimer(admissionWait)
	defer wait.Stop()
	if turn != nil {
		if err := r.awaitPlace(ctx, wait.C, key, turn); err != nil {
			places.leave(key, turn)
			return err
		}
	}
	if err := r.waitForSlot(ctx, wait.C); err != nil {
		places.give(key, false)
		return err
	}
	return nil
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

func (r *Recorder) awaitPlace(ctx context.Context, over <-chan time.Time, key string, turn <-chan struct{}) error {
	return r.await(ctx, over, turn, func() error {
		return fmt.Errorf("%d exchanges with this origin are under way already and it was not this one's turn within %s (--max-connections-per-origin, --max-in-flight)", r.pool.places.used(key), admissionWait)
	})
}

func (r *Recorder) awaitSlot(ctx context.Context, over <-chan time.Time) error {
	return r.await(ctx, over, r.short.free, func() error {
		return fmt.Errorf("%d exchanges are under way already and it was not this one's turn within %s (--max-in-flight)", r.options.MaxInFlight, admissionWait)
	})
}

// await receives from ready, or says why it makes no sense any more; busy says
// so when it has taken too long, which over tells.
func (r *Recorder) await(ctx context.Context, over <-chan time.Time, ready <-chan struct{}, busy func() error) error {
	for {
		select {
		case <-ready:
			return nil
		case <-over:
			return admissionError("busy", busy())
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
