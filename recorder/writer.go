package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
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

// maxSingles bounds the records without an exchange, and so without a slot,
// that wait to be appended.
const maxSingles = 4096

var errTooManySingles = errors.New("too many records wait to be appended already")

// A writer appends captures to files, one after the other, in one goroutine.
// What it does when that fails is in pause.go.
type writer struct {
	r       *Recorder
	queue   chan *capture // room for every admitted exchange: submit never blocks
	calls   chan call
	ended   chan struct{} // closed when the goroutine has ended
	index   *committer    // nil without an index
	singles atomic.Int64  // captures without a slot that are not appended yet
	name    atomic.Value  // string: the current file, for Status
	files   atomic.Int64  // files started, for Status
	behind  atomic.Int64  // captures that wait, for Status …
	octets  atomic.Int64  // … and octets of their blocks

	// Owned by the goroutine.
	set      *rotate.Set
	series   map[string]*output
	waiting  []*capture         // to be appended, in this order
	stuck    *capture           // what work could not append, when that was what it failed at
	left     []*output          // failed, and to be ended before anything is appended
	paused   bool               // nothing is appended but by retry
	dead     error              // nothing is appended any more, because of this
	late     bool               // it has been said that a file cannot be finished
	recent   map[string]*recent // by payload digest: originals since the start
	recently []string           // their digests, the oldest first
	syncAt   *time.Timer
	armed    bool
	buf      []byte // of the records that are being appended
	dirty    int64  // bytes appended, or held back, since the last sync
	retryAt  *time.Timer
	guessed  time.Time // when it last tried whether there is room after all
	note     *waitingNote
	closeErr error
}

type call struct {
	do   func() error
	done chan error
}

// An output is the current file of a series.
type output struct {
	file     *rotate.File
	target   target     // what records need to know of it
	durable  int64      // length of the file that has been synced
	unsynced []*capture // what was appended behind it
	tries    int        // to end it after it has failed
}

// A recent original is known to the writer, whether or not to the index.
type recent struct {
	dedup.Capture
	file      *rotate.File
	committed atomic.Bool
}

func newWriter(r *Recorder, set *rotate.Set) *writer {
	w := &writer{
		r:       r,
		queue:   make(chan *capture, r.options.MaxInFlight+r.options.MaxLong+maxSingles),
		calls:   make(chan call),
		ended:   make(chan struct{}),
		set:     set,
		series:  make(map[string]*output),
		recent:  make(map[string]*recent),
		syncAt:  time.NewTimer(time.Hour),
		retryAt: time.NewTimer(time.Hour),
		note:    openNote(r.dir, r.log),
	}
	w.syncAt.Stop()
	w.retryAt.Stop()
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

// submitSingle is submit for a capture without a slot; false means that there
// is no room.
func (w *writer) submitSingle(c *capture) bool {
	if w.singles.Add(1) > maxSingles {
		w.singles.Add(-1)
		return false
	}
	w.queue <- c
	return true
}

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
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case c, ok := <-w.queue:
			if !ok {
				return
			}
			w.guard(func() { w.take(c) })
			w.r.untrack(c.x)
		case <-w.syncAt.C:
			w.guard(w.syncOrMove)
		case <-w.retryAt.C:
			w.guard(w.retry)
		case now := <-tick.C:
			w.guard(func() { w.expire(now) })
		case c := <-w.calls:
			err := errClosed // unless it panics
			w.guard(func() { err = c.do() })
			c.done <- err
		}
		if w.dirty > 0 && !w.armed {
			w.armed = true
			w.syncAt.Reset(w.r.options.SyncInterval)
		}
		w.noteWaiting()
	}
}

// take appends a capture, or makes it wait.
func (w *writer) take(c *capture) {
	w.waiting = append(w.waiting, c)
	switch {
	case w.dead != nil:
		w.loseWaiting(w.dead)
	case !w.paused:
		if err := w.work(); err != nil {
			w.trouble(err)
		}
	}
}

// work appends what waits. After an error the file that failed is abandoned.
func (w *writer) work() error {
	for len(w.waiting) > 0 {
		c := w.waiting[0]
		err := w.append(c)
		w.stuck = nil
		if err != nil {
			w.stuck = c
		}
		out := w.series[c.x.series]
		switch {
		case err == nil:
			w.count(c)
		case isOwnFault(err), w.givesUp(c, err):
			w.lose(c, err)
		default:
			if out != nil && !errors.Is(err, errInChain) {
				w.abandon(out)
			}
			return err
		}
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		if w.dirty >= w.r.options.SyncBytes {
			if err := w.sync(); err != nil {
				return err
			}
		}
	}
	w.waiting = nil
	return nil
}

// count counts a capture that was appended, not necessarily for the first
// time, and lets its exchange go.
func (w *writer) count(c *capture) {
	counts := &w.r.counts
	kind := &counts.captures
	switch {
	case c.x.received == nil: // no response
		kind = &counts.others
	case c.revisit:
		kind = &counts.revisits
	}
	if c.counted == nil {
		w.countOnce(c)
		w.letGo(c)
	} else {
		c.counted.Add(-1)
	}
	c.counted = kind
	kind.Add(1)
}

func (w *writer) countOnce(c *capture) {
	counts := &w.r.counts
	if c.note.length > 0 {
		counts.others.Add(1)
	}
	if c.x.received == nil {
		return
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

// letGo lets another exchange begin.
func (w *writer) letGo(c *capture) {
	c.x.settle()
	if c.single {
		w.singles.Add(-1)
	}
}

// append writes the records of a capture into the current file of its series.
func (w *writer) append(c *capture) error {
	if c.chain != nil {
		return w.commitChain(c)
	}
	for retired := (*output)(nil); ; {
		out, err := w.output(c.x.series)
		if err != nil {
			return err
		}
		if err := w.decide(c, out); err != nil {
			return err
		}
		switch where, err := w.place(c, out); {
		case err != nil:
			return err
		case where == toChain:
			return w.appendChain(c, out)
		case where == toCurrent || out == retired: // there was no other one to be had
			return w.appendTo(c, out)
		}
		out.file.Retire()
		retired = out
	}
}

// appendTo writes the records of a capture into a file.
func (w *writer) appendTo(c *capture, out *output) error {
	records, used, err := c.encode(out.target, w.buf[:0])
	w.buf = used
	if err != nil {
		return err
	}
	pieces := make([]io.Reader, 0, len(records))
	for _, r := range records {
		defer r.close()
		pieces = append(pieces, r)
	}
	offset, total, err := out.file.Append(pieces...)
	if err != nil {
		if w.isTooBig(err, out.file) {
			err = fmt.Errorf("%w: %w", errTooBig, err)
		}
		return err
	}
	w.r.counts.written.Add(total)
	w.r.space.appended.Add(total)
	c.appended = total
	c.setDone(true)
	w.dirty += total
	for _, s := range c.whole.spools() {
		w.dirty += s.len()
	}
	out.unsynced = append(out.unsynced, c)
	if c.digest != "" && !c.revisit && w.index != nil {
		request, response := records[0], records[1]
		at := offset + request.size
		w.r.originals.wrote(out.file, at)
		w.remember(c.digest, &recent{Capture: c.asOriginal(out.file.Name(), at, response.size), file: out.file})
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
			w.r.originals.finished(out.file)
		}
		out = &output{file: file}
		w.series[series] = out
	}
	if file.Fresh() {
		out.target = w.r.beginCurrent(series)
		if err := w.begin(file, out.target); err != nil {
			return nil, err
		}
		out.durable = file.Size()
		w.name.Store(file.Name())
		w.files.Add(1)
	}
	return out, nil
}

// begin writes what starts a file.
func (w *writer) begin(file *rotate.File, to target) error {
	first, err := w.r.preambleOf(file.Name(), to)
	if err == nil {
		err = file.Begin(bytes.NewReader(first))
	}
	if err != nil {
		return fmt.Errorf("start the new file %s: %w", file.Name(), err)
	}
	w.r.notePreamble(file)
	return nil
}

// decide makes a capture a revisit when its payload is known by now, and a
// response again when the original of a revisit has gone meanwhile.
func (w *writer) decide(c *capture, out *output) error {
	if c.revisit && c.original.File != out.file.Name() && !w.r.originals.has(c.original) {
		c.undoRevisit()
	}
	known := w.recent[c.digest]
	if c.digest == "" || known == nil || c.revisit {
		return nil
	}
	if known.file != out.file {
		// A revisit must not outlive its original (docs/design.md).
		if err := w.syncFile(known.file); err != nil {
			return err
		}
		if !w.r.originals.has(&known.Capture) {
			delete(w.recent, c.digest)
			return nil
		}
	}
	c.makeRevisit(&known.Capture)
	return nil
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

// sync makes everything durable that has been appended. A file with which that
// fails is abandoned.
func (w *writer) sync() (err error) {
	w.armed = false
	w.syncAt.Stop()
	w.dirty = 0
	for _, out := range slices.Collect(maps.Values(w.series)) {
		if e := w.syncOutput(out); e != nil {
			err = e
		}
	}
	return err
}

func (w *writer) syncOutput(out *output) error {
	if len(out.unsynced) == 0 {
		return nil
	}
	if err := out.file.Sync(); err != nil {
		w.r.log.Error("cannot make the archive durable: the last records go to a new file", "file", out.file.Name(), "error", err)
		w.abandon(out)
		return err
	}
	w.settle(out)
	return nil
}

// syncOrMove is sync, and what to do when it fails.
func (w *writer) syncOrMove() {
	if err := w.sync(); err != nil {
		w.trouble(err)
	}
}

func (w *writer) syncFile(f *rotate.File) error {
	for _, out := range w.series {
		if out.file == f {
			return w.syncOutput(out)
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

// rotate finishes the current files. One that cannot be finished stays current.
func (w *writer) rotate() error {
	if w.dead != nil {
		return w.dead
	}
	w.retry() // if it is paused: somebody wants it now
	if w.paused {
		return w.r.Err()
	}
	if w.syncOrMove(); w.paused || w.dead != nil {
		return w.r.Err()
	}
	err := w.set.Finish()
	w.noteFinished()
	if name := w.currentName(); err == nil && name != "" {
		w.r.log.Info("a file was finished", "file", name)
		w.name.Store("")
	}
	return err
}

// noteFinished is called when current files may have been finished.
func (w *writer) noteFinished() {
	for _, out := range w.series {
		w.r.originals.finished(out.file)
	}
}

// expire finishes the files that are too old, and those that could not be
// finished before.
func (w *writer) expire(now time.Time) {
	if w.r.options.MaxAge == 0 && !w.set.Unfinished() || w.paused || w.dead != nil {
		return
	}
	if w.syncOrMove(); w.paused || w.dead != nil { // what Expire finishes is settled
		return
	}
	err := w.set.Expire(now)
	w.noteFinished()
	if errors.Is(err, rotate.ErrLost) {
		w.r.damaged(err)
	} else if err != nil && !w.late {
		w.r.log.Error("cannot finish a file: it is tried again", "error", err)
	}
	w.late = err != nil
}
