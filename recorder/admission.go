package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Classes of errors of admission.
const (
	classStopped = "stopped"
	classPaused  = "paused"
)

const (
	admissionWait = 30 * time.Second
	longAfter     = 10 * time.Second // from the head of the response
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

// admit waits for a slot. Back-pressure is here and nowhere else.
func (r *Recorder) admit(ctx context.Context) error {
	if err := r.unavailable(); err != nil {
		return err
	}
	if err := r.space.crowded(); err != nil {
		return admissionError("busy", err)
	}
	if r.short.tryTake() {
		return nil
	}
	if err := r.awaitSlot(ctx); err != nil {
		return err
	}
	if err := r.unavailable(); err != nil { // meanwhile
		r.short.give()
		return err
	}
	return nil
}

func (r *Recorder) awaitSlot(ctx context.Context) error {
	wait := time.NewTimer(admissionWait)
	defer wait.Stop()
	for {
		select {
		case <-r.short.free:
			return nil
		case <-wait.C:
			return admissionError("busy", fmt.Errorf("%d exchanges are under way already and none ended within %s (--max-in-flight)", r.options.MaxInFlight, admissionWait))
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
		return admissionError(classStopped, fmt.Errorf("recording has stopped: %w", err))
	}
	if err := r.still.reason(); err != nil {
		e := admissionError(classPaused, fmt.Errorf("recording is paused: %w", err))
		e.Retry = pauseHint
		return e
	}
	return nil
}

func admissionError(class string, err error) *Error {
	return &Error{Phase: PhaseAdmission, Class: class, Status: http.StatusServiceUnavailable, Err: err}
}
