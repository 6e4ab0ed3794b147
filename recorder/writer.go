package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/rotate"
)

// maxRecent bounds the originals that the writer keeps in memory after the
// index has them: an exchange that asked the index just before is told by the
// writer.
const maxRecent = 1 << 16

// A writer appends captures to files, one after the other, in one goroutine.
type writer struct {
	r     *Recorder
	queue chan *capture // room for every admitted exchange: submit never blocks
	calls chan call
	ended chan struct{} // closed when the goroutine has ended
	index *committer    // nil without an index
	name  atomic.Value  // string: the current file, for Status
	files atomic.Int64  // files started, for Status

	// Owned by the goroutine.
	set      *rotate.Set
	series   map[string]*output
	recent   map[string]*recent // by payload digest: originals since the start
	recently []string           // their digests, the oldest first
	gone     map[string]bool    // names of files that could not be kept
	syncAt   *time.Timer
	armed    bool
	dirty    int64 // bytes appended since the last sync
	closeErr error
}

// errOrphan: a revisit record whose original is in a file that could not be
// kept; its own payload is no longer there.
var errOrphan = errors.New("the original that this revisit refers to could not be kept")

type call struct {
	do   func() error
	done chan error
}

// An output is the current file of a series.
type output struct {
	file     *rotate.File
	durable  int64      // length of the file that has been synced
	unsynced []*capture // what was appended behind it
}

// A recent original is known to the writer, whether or not to the index.
type recent struct {
	dedup.Capture
	file      *rotate.File
	committed atomic.Bool
}

func newWriter(r *Recorder, set *rotate.Set) *writer {
	w := &writer{
		r:      r,
		queue:  make(chan *capture, r.options.MaxInFlight+r.options.MaxLong),
		calls:  make(chan call),
		ended:  make(chan struct{}),
		set:    set,
		series: make(map[string]*output),
		recent: make(map[string]*recent),
		gone:   make(map[string]bool),
		syncAt: time.NewTimer(time.Hour),
	}
	w.syncAt.Stop()
	w.name.Store("")
	if r.index != nil {
		w.index = startCommitter(r.index, r.log)
	}
	go w.run() // ends when the queue is closed
	return w
}

// submit hands a capture over. Its slot is held until it is appended, so there
// is always room.
func (w *writer) submit(c *capture) { w.queue <- c }

func (w *writer) currentName() string { return w.name.Load().(string) }

// do runs f in the goroutine.
func (w *writer) do(f func() error) error {
	c := call{do: f, done: make(chan error, 1)}
	select {
	case w.calls <- c:
		return <-c.done
	case <-w.ended:
		return errClosed
	}
}

// close appends what has been submitted, makes it durable and finishes the
// files. Nothing may be submitted any more.
func (w *writer) close() error {
	close(w.queue)
	<-w.ended
	return w.closeErr
}

func (w *writer) run() {
	defer close(w.ended)
	defer func() { w.closeErr = w.finish() }()
	age := time.NewTicker(time.Second)
	defer age.Stop()
	for {
		select {
		case c, ok := <-w.queue:
			if !ok {
				return
			}
			w.guard(c, func() { w.write(c) })
			if w.dirty >= w.r.options.SyncBytes {
				w.sync()
			}
		case <-w.syncAt.C:
			w.sync()
		case now := <-age.C:
			w.expire(now)
		case c := <-w.calls:
			c.done <- c.do()
		}
		if w.dirty > 0 && !w.armed {
			w.armed = true
			w.syncAt.Reset(w.r.options.SyncInterval)
		}
	}
}

// guard turns a panic into a loud end of recording: after it nobody knows what
// is in the file.
func (w *writer) guard(c *capture, f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.r.fail(fmt.Errorf("internal error: %v\n%s", p, debug.Stack()))
			w.lose(c, errors.New("internal error in the writer"))
		}
	}()
	f()
}

// write appends one capture and settles what is to be done with it.
func (w *writer) write(c *capture) {
	if err := w.r.Err(); err != nil {
		w.lose(c, err)
		return
	}
	err := w.append(c)
	if err != nil {
		w.r.log.Error("cannot append to the archive: trying a new file", "url", c.x.uri, "error", err)
		err = w.startOver(c)
	}
	if err != nil {
		w.r.fail(err)
		w.lose(c, err)
		return
	}
	w.count(c)
	c.x.freeSlot()
	w.r.untrack(c.x)
}

func (w *writer) lose(c *capture, err error) {
	w.r.lost(c.x, err)
	c.release()
	c.x.freeSlot()
	w.r.untrack(c.x)
}

func (w *writer) count(c *capture) {
	counts := &w.r.counts
	if c.single {
		counts.others.Add(1)
		return
	}
	if c.revisit {
		counts.revisits.Add(1)
	} else {
		counts.captures.Add(1)
	}
	if reason := c.x.received.truncated; reason != "" {
		counts.truncated.Add(1)
		level := slog.LevelInfo // the origin or the client ended it
		if c.x.incomplete {
			level = slog.LevelWarn
		}
		w.r.log.Log(context.Background(), level, "a response is recorded in part", "url", c.x.uri, "WARC-Truncated", reason, "octets", c.x.received.body.size)
	}
	if c.x.incomplete {
		counts.incomplete.Add(1)
	}
}

// append writes the records of a capture into the current file of its series.
func (w *writer) append(c *capture) error {
	out, err := w.output(c.x.series)
	if err != nil {
		return err
	}
	if err := w.decide(c, out); err != nil {
		return err
	}
	v, tag := w.r.options.Version, out.file.Tag()
	var pieces []io.Reader
	before := int64(0)
	if !c.single {
		if pieces, before, err = c.request.encode(v, tag); err != nil {
			return err
		}
	}
	response, length, err := c.response.encode(v, tag)
	if err != nil {
		return err
	}
	offset, total, err := out.file.Append(append(pieces, response...)...)
	if err != nil {
		return err
	}
	if total != before+length {
		panic(fmt.Sprintf("appended %d bytes, not %d", total, before+length))
	}
	w.r.counts.written.Add(total)
	w.dirty += total
	out.unsynced = append(out.unsynced, c)
	if c.digest != "" && !c.revisit && w.index != nil {
		w.remember(c.digest, &recent{Capture: c.asOriginal(out.file.Name(), offset+before, length), file: out.file})
	}
	return nil
}

// output returns the file that the next record of a series goes to. A file
// that was finished meanwhile is durable.
func (w *writer) output(series string) (*output, error) {
	file, err := w.set.Current(series)
	if err != nil {
		return nil, err
	}
	out := w.series[series]
	if out == nil || out.file != file {
		if out != nil {
			w.settle(out)
		}
		out = &output{file: file, durable: file.Size()}
		w.series[series] = out
		w.name.Store(file.Name())
		w.files.Add(1)
	}
	return out, nil
}

// decide makes a capture a revisit when its payload is known by now.
func (w *writer) decide(c *capture, out *output) error {
	known := w.recent[c.digest]
	if c.revisit && w.gone[c.referred] {
		return errOrphan
	}
	if c.digest == "" || known == nil || c.revisit {
		return nil
	}
	if known.file != out.file {
		// A revisit must not outlive its original (docs/design.md).
		if err := w.syncFile(known.file); err != nil {
			return err
		}
	}
	return c.makeRevisit(&known.Capture)
}

func (w *writer) remember(digest string, original *recent) {
	w.recent[digest] = original
	w.recently = append(w.recently, digest)
	for len(w.recently) > maxRecent {
		oldest := w.recent[w.recently[0]]
		if oldest != nil && !oldest.committed.Load() {
			return
		}
		delete(w.recent, w.recently[0])
		w.recently = w.recently[1:]
	}
}

// sync makes everything durable that has been appended.
func (w *writer) sync() {
	w.armed = false
	w.syncAt.Stop()
	w.dirty = 0
	for _, out := range slices.Collect(maps.Values(w.series)) {
		if len(out.unsynced) == 0 {
			continue
		}
		if err := out.file.Sync(); err != nil {
			w.r.log.Error("cannot make the archive durable: writing the last records to a new file", "file", out.file.Name(), "error", err)
			if err := w.moveOn(out); err != nil {
				w.r.fail(err)
			}
			continue
		}
		w.settle(out)
	}
}

func (w *writer) syncFile(f *rotate.File) error {
	for _, out := range w.series {
		if out.file == f && len(out.unsynced) > 0 {
			if err := f.Sync(); err != nil {
				return err
			}
			w.settle(out)
		}
	}
	return nil
}

// settle notes that all of a file is durable: its originals go to the index,
// its captures are released.
func (w *writer) settle(out *output) {
	var originals []*recent
	var digests []string
	for _, c := range out.unsynced {
		if known := w.recent[c.digest]; known != nil && !c.revisit && c.digest != "" {
			originals, digests = append(originals, known), append(digests, c.digest)
		}
		c.release()
	}
	if len(originals) > 0 {
		w.index.commit(digests, originals)
	}
	out.unsynced = nil
	out.durable = out.file.Size()
}

// startOver ends a file to which an append failed, and appends the capture to
// a new one.
func (w *writer) startOver(c *capture) error {
	out := w.series[c.x.series]
	if out == nil {
		return w.append(c) // there was no file yet: once more
	}
	// What was appended before is whole; when it can be made durable only
	// this capture has to move.
	if err := out.file.Sync(); err == nil {
		w.settle(out)
	}
	if err := w.moveOn(out); err != nil {
		return err
	}
	return w.append(c)
}

// moveOn cuts a file back to what is durable and appends the rest to a new
// one. Its error means that something is lost.
func (w *writer) moveOn(out *output) error {
	moved := out.unsynced
	out.unsynced = nil
	for series, o := range w.series {
		if o == out {
			delete(w.series, series)
		}
	}
	w.forget(moved, out.file)
	aside := out.file.SetAside(out.durable)
	if aside != nil && !errors.Is(aside, rotate.ErrLeft) && !errors.Is(aside, rotate.ErrLost) {
		w.r.log.Error("cannot give a file its final name yet", "file", out.file.Name(), "error", aside)
		aside = nil // it is tried again, and Close tells
	}
	if aside != nil {
		// What was durable in it is not under a final name: nothing may
		// refer to it, and nothing more is recorded.
		aside = fmt.Errorf("cannot keep %s: %w", out.file.Name(), aside)
		w.gone[out.file.Name()] = true
		maps.DeleteFunc(w.recent, func(_ string, known *recent) bool { return known.file == out.file })
	}
	if errors.Is(aside, rotate.ErrLeft) {
		// What was not durable may be found in it by the next start:
		// appended to another file it would be there twice.
		w.loseAll(moved, aside)
		return aside
	}
	for i, c := range moved {
		err := w.append(c)
		if errors.Is(err, errOrphan) {
			w.loseAll(moved[i:i+1], err)
		} else if err != nil {
			w.loseAll(moved[i:], err)
			return errors.Join(aside, err)
		}
	}
	return aside
}

// forget drops the originals among captures that are about to leave a file.
func (w *writer) forget(captures []*capture, file *rotate.File) {
	for _, c := range captures {
		if known := w.recent[c.digest]; known != nil && known.file == file && !c.revisit {
			delete(w.recent, c.digest)
		}
	}
}

// loseAll gives up captures that had been appended once.
func (w *writer) loseAll(captures []*capture, err error) {
	for _, c := range captures {
		w.r.lost(c.x, err)
		c.release()
	}
}

// rotate finishes the current files. One that cannot be finished stays current.
func (w *writer) rotate() error {
	w.sync()
	err := w.set.Finish()
	if name := w.currentName(); err == nil && name != "" {
		w.r.log.Info("a file was finished", "file", name)
		w.name.Store("")
	}
	return err
}

// expire finishes the files that are too old.
func (w *writer) expire(now time.Time) {
	if w.r.options.MaxAge == 0 {
		return
	}
	w.sync() // what Expire finishes is settled
	if err := w.set.Expire(now); err != nil {
		w.r.log.Error("cannot finish a file", "error", err)
	}
}

// finish makes everything durable and known.
func (w *writer) finish() error {
	w.sync()
	err := w.set.Close()
	if w.index != nil {
		err = errors.Join(err, w.index.close())
	}
	return err
}
