package recorder

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// pauseHint is when clients that are refused during a pause may try again.
const pauseHint = 5 * time.Second

// A standstill tells why no exchange is admitted: one of the reasons is set.
type standstill struct {
	stopped error // for good
	paused  error // the archive cannot be written to
	short   error // the disk is nearly full
	since   time.Time
	begun   chan struct{} // closed while it lasts
}

func (s *standstill) reason() error {
	switch {
	case s.stopped != nil:
		return s.stopped
	case s.paused != nil:
		return s.paused
	}
	return s.short
}

// stand changes the reasons of the standstill; it reports whether there is one
// afterwards, and how long it has lasted.
func (r *Recorder) stand(change func(*standstill)) (stands bool, lasted time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.still
	stood := s.reason() != nil
	change(s)
	switch stands = s.reason() != nil; {
	case stands && !stood:
		s.since = time.Now()
		close(s.begun)
		r.counts.pauses.Add(1)
	case stood && !stands:
		s.begun = make(chan struct{})
	}
	return stands, time.Since(s.since)
}

// fail stops recording for good: nothing is admitted any more.
func (r *Recorder) fail(err error) {
	first := false
	r.stand(func(s *standstill) {
		if first = s.stopped == nil; first {
			s.stopped = err
		}
	})
	if first {
		r.log.Error("RECORDING HAS STOPPED: clients get 503 until the program is started again", "error", err)
	}
}

// pause keeps exchanges away while the archive cannot be written to.
func (r *Recorder) pause(err error) {
	first := false
	r.stand(func(s *standstill) {
		first, s.paused = s.paused == nil, err
	})
	if first {
		r.log.Error("RECORDING IS PAUSED: clients get 503 until the archive can be written to again; what was captured is kept until then, in memory and temporary files: a kill would end it", "error", err)
	}
}

// resume ends the pause.
func (r *Recorder) resume() {
	stands, lasted := r.stand(func(s *standstill) { s.paused = nil })
	if stands {
		r.log.Warn("the archive can be written to again: all that was captured is in it, but RECORDING IS STILL PAUSED", "error", r.Err())
		return
	}
	r.log.Warn("RECORDING GOES ON: the archive can be written to again, and all that was captured is in it", "after", lasted.Round(time.Millisecond))
}

// setShort keeps exchanges away while the disk is nearly full; nil: no longer.
func (r *Recorder) setShort(err error) {
	if err != nil && r.options.StopForGood {
		r.fail(err)
		return
	}
	changed := false
	stands, lasted := r.stand(func(s *standstill) {
		changed, s.short = (s.short == nil) != (err == nil), err
	})
	switch {
	case !changed:
	case err != nil:
		r.log.Error("RECORDING IS PAUSED: clients get 503 until the disk has more space; what is under way is finished", "error", err)
	case !stands:
		r.log.Warn("RECORDING GOES ON: the disk has space again", "after", lasted.Round(time.Millisecond))
	}
}

func (r *Recorder) isShort() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still.short != nil
}

// standsStill returns what is closed when no exchange is admitted any more.
func (r *Recorder) standsStill() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still.begun
}

// Err says why nothing is recorded, for now or for good, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still.reason()
}

// spoolFailed logs that a message cannot be kept whole. Others would fare no
// better: until there is room again nobody is admitted.
func (r *Recorder) spoolFailed(x *exchange, err error) {
	r.log.Error("cannot keep a body: its record will be truncated", "url", x.uri, "dir", r.options.Dir, "error", err)
	held := r.space.disk.Load()
	switch {
	case errors.Is(err, errSpoolDisk):
		r.space.full.Store(held)
	case !r.space.looked.Load(): // and so nobody would end it
	case errors.Is(err, errShort):
		r.space.cut.Store(2 * held)
		r.setShort(err)
	case errors.Is(err, syscall.ENOSPC):
		r.space.cut.Store(2 * held)
		r.space.refused.Store(true)
		r.setShort(fmt.Errorf("a body has found no room on the disk: %w", err))
	}
}
