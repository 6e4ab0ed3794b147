package recorder

import (
	"errors"
	"fmt"
	"maps"
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
	// A capture that cannot be read is tried as often before it is lost.
	maxTries = 4
	// guessEvery is how often a paused writer tries to append what may need
	// less room than there seems to be.
	guessEvery = time.Minute
	// finishWithin bounds the attempts to write, at the end, what waits behind
	// what cannot be written.
	finishWithin = 10 * time.Second
)

// errTooBig: what makes a new file, with nothing else in it, too big for the
// file system.
var errTooBig = errors.New("it is bigger than a file may be there")

// isOwnFault reports whether an append failed because of the capture, and not
// of the disk: trying again would change nothing.
func isOwnFault(err error) bool {
	return errors.Is(err, errEncode) || errors.Is(err, errTooBig) || errors.Is(err, errChainLost)
}

// givesUp reports whether an append failed because the capture cannot be read
// back, and has so often that it is not for the disk: a paused writer tries only
// when that is well.
func (w *writer) givesUp(c *capture, err error) bool {
	if !errors.Is(err, rotate.ErrSource) {
		return false
	}
	c.tries++
	return c.tries > maxTries
}

// isTooBig reports whether err, of an append to a file, is the fault of what
// was appended: there is nothing else in the file, and other files work.
func (w *writer) isTooBig(err error, file *rotate.File) bool {
	return errors.Is(err, syscall.EFBIG) && file != nil && file.Err() == nil && file.Size() == file.Preamble() && w.set.Probe() == nil
}

// guard turns a panic into the end of recording: after it nobody knows what is
// in the file.
func (w *writer) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.stop(w.r.internalError(p))
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
// of what waits: appending it in vain every second would wear the disk. What is
// compressed only when it is appended may need far less than it seems, so that
// is tried from time to time.
func (w *writer) roomFor(waiting []*capture) error {
	if len(waiting) == 0 || waiting[0].chain != nil { // all but the names is on the disk
		return nil
	}
	free, total, err := w.set.Free()
	need, guessed := waiting[0].needs()
	if err == nil && total > 0 && free < uint64(need) {
		if guessed && time.Since(w.guessed) >= guessEvery {
			w.guessed = time.Now()
			return nil
		}
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
	w.r.originals.finished(out.file)
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

// finish makes everything durable and known.
func (w *writer) finish() error {
	var err error
	w.guard(func() { err = w.finishWaiting() })
	w.noteWaiting()
	w.note.close()
	err = errors.Join(err, w.set.Close())
	if w.index != nil {
		err = errors.Join(err, w.index.close())
	}
	return err
}

// noteWaiting counts what waits, for Status, and writes it down.
func (w *writer) noteWaiting() {
	octets := int64(0)
	for _, c := range w.waiting {
		octets += c.octets()
	}
	w.behind.Store(int64(len(w.waiting)))
	w.octets.Store(octets)
	w.note.update(w.waiting)
}

// finishWaiting is the last attempt: what cannot be written now is lost.
func (w *writer) finishWaiting() error {
	if w.dead != nil {
		w.sync()
		w.loseWaiting(w.dead)
		return nil
	}
	var unfit error
	err := w.sync()
	if err != nil || w.paused {
		if err = w.endLeft(); err == nil {
			unfit, err = w.workPast()
			err = errors.Join(err, w.sync())
		}
	}
	if err == nil && unfit == nil && w.paused {
		w.paused = false
		w.r.resume()
	}
	w.loseWaiting(err)
	return errors.Join(unfit, err)
}

// workPast is work for the last time: what cannot be appended is lost alone, as
// long as a file for the others can be started, and not much time has passed.
// It returns why something was lost, and why it has ended before all was done.
func (w *writer) workPast() (unfit, err error) {
	for end := time.Now().Add(finishWithin); ; {
		if err = w.work(); err == nil || !w.canGoOn() || time.Now().After(end) {
			return unfit, err
		}
		if unfit == nil {
			unfit = err
		}
		c := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.lose(c, err)
	}
}

// canGoOn reports whether the first of what waits is all that could not be
// written: nothing of what was written before has come back, and there is a
// file for what comes behind it.
func (w *writer) canGoOn() bool {
	if len(w.waiting) < 2 || w.waiting[0] != w.stuck || len(w.left) > 0 {
		return false
	}
	_, err := w.output(w.waiting[1].x.series)
	return err == nil
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
