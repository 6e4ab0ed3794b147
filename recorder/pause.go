package recorder

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/warctee/warctee/rotate"
)

// When a file fails, what is durable in it stays and the rest goes to a new
// file. When that does not work either recording pauses: nothing is admitted,
// what was captured waits, and every second the writer tries again, from the
// file that failed first. It goes on when all that waited is durable.

const (
	// retryEvery is how often a paused writer tries again.
	retryEvery = time.Second
	// maxTries is how often a file is tried to be cut back, a second between
	// two tries, before it is set aside: the disk is well, the file is not.
	maxTries = 4
)

// errTooBig: what makes a new file, with nothing else in it, too big for the
// file system.
var errTooBig = errors.New("it is bigger than a file may be there")

// isOwnFault reports whether an append failed because of the capture, and not
// of the disk: trying again would change nothing.
func isOwnFault(err error) bool {
	return errors.Is(err, rotate.ErrSource) || errors.Is(err, errEncode) || errors.Is(err, errTooBig)
}

// isTooBig reports whether err, of an append to a file, is the fault of what
// was appended: there is nothing else in the file, and other files work.
func (w *writer) isTooBig(err error, out *output) bool {
	return errors.Is(err, syscall.EFBIG) && out.file.Err() == nil && out.file.Size() == out.first && w.set.Probe() == nil
}

// guard turns a panic into the end of recording: after it nobody knows what is
// in the file.
func (w *writer) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.stop(fmt.Errorf("internal error: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// stop gives up: what waits is lost, and all that comes.
func (w *writer) stop(err error) {
	w.dead = err
	w.r.fail(err)
	w.loseWaiting(err)
}

// trouble is called when a file has failed and was abandoned: a new one may
// work.
func (w *writer) trouble(err error) {
	if errors.Is(err, rotate.ErrLost) {
		w.r.damaged(err)
	}
	switch {
	case w.dead != nil:
		w.loseWaiting(w.dead)
		return
	case w.paused:
		return // the next retry
	}
	w.r.log.Error("cannot write to the archive: trying a new file", "error", err)
	if err = w.flush(); err == nil {
		return
	}
	if w.r.options.StopForGood {
		w.stop(err)
		return
	}
	w.paused = true
	w.r.pause(err)
	w.retryAt.Reset(retryEvery)
}

// flush appends what waits and makes everything durable.
func (w *writer) flush() error {
	if err := w.endLeft(); err != nil {
		return err
	}
	if err := w.work(); err != nil {
		return err
	}
	return w.sync()
}

// retry ends the pause if it can.
func (w *writer) retry() {
	if !w.paused {
		return
	}
	err := w.roomFor(w.waiting)
	if err == nil {
		err = w.set.Probe()
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		w.r.pause(err)
		w.retryAt.Reset(retryEvery)
		return
	}
	w.paused = false
	w.r.resume()
}

// roomFor says, where that can be known, that there is no space for the first
// of what waits: appending it in vain every second would wear the disk.
func (w *writer) roomFor(waiting []*capture) error {
	if len(waiting) == 0 {
		return nil
	}
	free, total, err := w.set.Free()
	if need := waiting[0].needs(); err == nil && total > 0 && free < uint64(need) {
		return fmt.Errorf("%s are free in %s, and %s are needed: %w", size(int64(free)), w.r.options.Dir, size(need), syscall.ENOSPC)
	}
	return nil
}

// abandon ends a file that has failed. What is durable in it stays, the rest
// waits to be appended to another one.
func (w *writer) abandon(out *output) {
	if out.file.Sync() == nil {
		w.settle(out) // what was appended before is whole
	}
	for series, o := range w.series {
		if o == out {
			delete(w.series, series)
		}
	}
	if err := w.end(out); err != nil {
		w.left = append(w.left, out)
	}
}

// end cuts a file back to what is durable, gives it its final name, and makes
// the rest wait. After an error the rest may still be found in the file by the
// next start: appended to another one it would be there twice.
func (w *writer) end(out *output) error {
	name := out.file.Name()
	end := out.file.Salvage
	if out.tries++; out.tries > maxTries {
		end = out.file.SetAside
	}
	err := end(out.durable)
	switch {
	case errors.Is(err, rotate.ErrLeft):
		return err
	case errors.Is(err, rotate.ErrLost):
		// What was durable in it is not under a final name: nothing may
		// refer to it.
		maps.DeleteFunc(w.recent, func(_ string, known *recent) bool { return known.file == out.file })
		w.r.damaged(fmt.Errorf("cannot keep %s: %w", name, err))
	case err != nil:
		// It is tried again, and Close tells.
		w.r.log.Error("cannot finish a file: it is tried again", "file", name, "error", err)
		w.late = true
	}
	for _, c := range out.unsynced {
		w.r.counts.written.Add(-c.appended)
		w.r.space.appended.Add(-c.appended)
		c.setDone(false)
		c.appended = 0
	}
	w.waiting = slices.Concat(out.unsynced, w.waiting)
	out.unsynced = nil
	return nil
}

// endLeft ends the files that could not be ended before.
func (w *writer) endLeft() error {
	for len(w.left) > 0 {
		if err := w.end(w.left[0]); err != nil {
			return err
		}
		w.left = w.left[1:]
	}
	return nil
}

// lose gives up a capture.
func (w *writer) lose(c *capture, err error) {
	if c.counted == nil {
		w.letGo(c)
	} else {
		c.counted.Add(-1)
	}
	w.r.lost(c.x, err)
	c.release()
}

// loseWaiting gives up all that is not in a file, or may not stay there.
func (w *writer) loseWaiting(err error) {
	lost := w.waiting
	w.waiting = nil
	for _, out := range w.left {
		lost = append(lost, out.unsynced...)
		out.unsynced = nil
	}
	w.left = nil
	for _, c := range lost {
		w.lose(c, err)
	}
}
