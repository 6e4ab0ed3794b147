package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/warctee/warctee/rotate"
)

const (
	// lookEvery is how often the free space of the disk is looked at.
	lookEvery = 250 * time.Millisecond

	// defaultMinFree, or a hundredth of the file system where that is less,
	// is what stays free unless Options say otherwise.
	defaultMinFree = 1e9

	// cutRoom is how much room more than twice what has to stay free is asked
	// for after a body was cut, at most.
	cutRoom = 16 << 20
)

// A space accounts for what exchanges hold in memory and on the disk until it
// is in the archive, and for what the disk has left.
type space struct {
	dir                string // of the temporary files
	maxMemory, maxDisk int64

	memory atomic.Int64 // bodies and blocks in memory, bytes
	heads  atomic.Int64 // what cannot go to the disk: heads, buffers of readers
	disk   atomic.Int64 // bodies and blocks in temporary files …
	full   atomic.Int64 // … when a body found no room there; 0: there is room again

	appended atomic.Int64 // to the archive, since the start
	done     atomic.Int64 // of memory and disk: it is in the archive, but not durable yet
	looked   atomic.Bool  // the following are known
	base     atomic.Int64 // bytes that would be free if nothing had been appended and nothing were on the disk
	wanted   atomic.Int64 // bytes that have to stay free
	total    atomic.Int64 // bytes that the disk has
	cut      atomic.Int64 // bytes of room that were too few for a body, until there are more
	refused  atomic.Bool  // a temporary file got no room, until one does

	// reclaim makes room after an error of a temporary file, and reports
	// whether it makes sense to try again; nil: it never does.
	reclaim func(error) bool
}

var (
	errSpoolDisk = errors.New("all that bodies may have in temporary files is taken (--spool-disk)")
	errShort     = errors.New("the disk is nearly full")
)

// takeMemory reports whether there is room for n further bytes, which are
// taken then.
func (s *space) takeMemory(n int64) bool {
	if s.memory.Add(n)+s.heads.Load() <= s.maxMemory {
		return true
	}
	s.memory.Add(-n)
	return false
}

// takeDisk takes n bytes of disk for a temporary file, or says why there are
// none.
func (s *space) takeDisk(n int64) error {
	if s.disk.Add(n) > s.maxDisk {
		s.disk.Add(-n)
		return fmt.Errorf("%w: %s", errSpoolDisk, size(s.maxDisk))
	}
	if err := s.atLeastHalf("a body under way"); err != nil {
		s.disk.Add(-n)
		return err
	}
	return nil
}

// forSingles says why there is no room for a record that belongs to no exchange.
// Tunnels that are not recorded give such records, of look-ups, while exchanges
// are refused.
func (s *space) forSingles() error { return s.atLeastHalf("a record of a look-up or failure") }

// atLeastHalf says that what is written would leave too little of the disk.
func (s *space) atLeastHalf(what string) error {
	left, least := s.available(), s.wanted.Load()/2
	if left >= least {
		return nil
	}
	return s.shortOf(left, fmt.Sprintf("%s may not leave less than half of what has to stay free (--min-free), %s", what, size(least)))
}

// crowded returns an error when what is under way takes so much that no more
// may come.
func (s *space) crowded() error {
	if err := s.crowdedHeads(); err != nil {
		return err
	}
	return s.crowdedDisk()
}

// crowdedHeads is crowded by the memory for heads.
func (s *space) crowdedHeads() error {
	if s.heads.Load() > s.maxMemory/2 {
		return errors.New("the heads and buffers of what is under way take up the memory (--spool-memory)")
	}
	return nil
}

// crowdedDisk is crowded by the disk: from when a body has found no room there
// until a tenth of that is given back.
func (s *space) crowdedDisk() error {
	if full := s.full.Load(); full > 0 && s.disk.Load() > full/10*9 {
		return fmt.Errorf("%w: %s", errSpoolDisk, size(s.maxDisk))
	}
	s.full.Store(0)
	return nil
}

// available tells how many bytes would be left on the disk if all that is
// spooled were appended. Unless that is known it is a lot.
func (s *space) available() int64 {
	if !s.looked.Load() {
		return math.MaxInt64
	}
	disk := s.disk.Load()
	return s.base.Load() - s.appended.Load() - disk - (s.memory.Load() + disk - s.done.Load())
}

// tryRoom finds out whether a temporary file gets room again where one got none:
// a file system may have other limits than what it says is free.
func (w *spaceWatch) tryRoom() error {
	s := &w.r.space.refused
	if !s.Load() {
		return nil
	}
	err := w.still
	if time.Since(w.tried) >= time.Second {
		w.tried = time.Now()
		if err = tryFile(w.r.options.Dir); err == nil {
			s.Store(false)
		}
	}
	if w.still = err; err != nil {
		return fmt.Errorf("bodies find no room on the disk: %w", err)
	}
	return nil
}

func tryFile(dir string) error {
	f, err := unnamedFile(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(make([]byte, spoolStart))
	return err
}

// look notes what the disk has left.
func (s *space) look(free, total uint64, o *Options) {
	const most = math.MaxInt64 / 4
	s.base.Store(int64(min(free, most)) + s.appended.Load() + s.disk.Load())
	total = min(total, most)
	s.total.Store(int64(total))
	s.wanted.Store(o.StayFree(total))
	s.looked.Store(true)
}

// StayFree returns how many bytes MinFree and MinFreePercent want to stay free of a
// file system that has total bytes.
func (o *Options) StayFree(total uint64) int64 {
	switch {
	case o.MinFree < 0:
		return 0
	case o.MinFree > 0:
		return o.MinFree
	case o.MinFreePercent > 0:
		return int64(float64(total) / 100 * o.MinFreePercent)
	}
	return min(defaultMinFree, int64(total/100))
}

// goOn returns how many bytes have to be free to go on after there were too
// few: somewhat more than what has to stay free, and after a body was cut more
// than it had; but no more than an empty disk has.
func (s *space) goOn() int64 {
	wanted := s.wanted.Load()
	more := max(wanted/10, min(s.cut.Load(), wanted+cutRoom))
	return wanted + min(more, max(0, s.total.Load()-wanted)/2)
}

// short says that the disk is nearly full, or nil. What is short already stays
// so until there is enough to go on.
func (s *space) short(already bool) error {
	wanted, goOn := s.wanted.Load(), s.goOn()
	enough := wanted
	if already {
		enough = goOn
	}
	left := s.available()
	if left >= enough {
		s.cut.Store(0)
		return nil
	}
	rule := fmt.Sprintf("%s have to stay free (--min-free)", size(wanted))
	if size(goOn) != size(wanted) {
		rule += "; it goes on with " + size(goOn)
	}
	return s.shortOf(left, rule)
}

// shortOf says that only so many bytes are left, which is too few for the rule.
func (s *space) shortOf(left int64, rule string) error {
	free := s.base.Load() - s.appended.Load() - s.disk.Load()
	return fmt.Errorf("%w: %s are free in %s, of which %s are needed for what was captured already, and %s", errShort, size(free), s.dir, size(free-left), rule)
}

func size(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

// A spaceWatch looks at the disk from time to time, in its own goroutine: a
// file system may take its time to answer.
type spaceWatch struct {
	r     *Recorder
	set   *rotate.Set
	mute  bool      // it has been said that nothing can be found out, for now
	tried time.Time // when room was looked for …
	still error     // … in vain
	stop  chan struct{}
	ended chan struct{}
}

// watchSpace starts to look at the disk, the first time at once. The error is
// why the recording would stop at once for good.
func (r *Recorder) watchSpace(set *rotate.Set) (*spaceWatch, error) {
	w := &spaceWatch{r: r, set: set, stop: make(chan struct{}), ended: make(chan struct{})}
	if r.options.MinFree < 0 || !w.look() {
		close(w.ended)
		return w, nil
	}
	if err := r.space.short(false); err != nil && r.options.StopForGood {
		close(w.ended)
		return w, err
	} else if err != nil {
		r.setShort(err)
	}
	go w.run() // ended by close
	return w, nil
}

func (w *spaceWatch) close() {
	close(w.stop)
	<-w.ended
}

func (w *spaceWatch) run() {
	defer close(w.ended)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look()
			err := w.r.space.short(w.r.isShort())
			if err == nil {
				err = w.tryRoom()
			}
			w.r.setShort(err)
		case <-w.stop:
			return
		}
	}
}

// look notes what the disk has left. It reports whether that can be found out.
func (w *spaceWatch) look() bool {
	r := w.r
	free, total, err := w.set.Free()
	switch {
	case errors.Is(err, errors.ErrUnsupported), err == nil && total == 0:
		if !w.mute {
			r.log.Warn("it cannot be found out how much space the disk has left: --min-free has no effect", "dir", r.options.Dir)
			w.mute = true
		}
		r.space.looked.Store(false)
		return false
	case err != nil:
		if !w.mute && !errors.Is(err, fs.ErrNotExist) { // that is for the writer to find out
			r.log.Warn("cannot find out how much space the disk has left", "dir", r.options.Dir, "error", err)
			w.mute = true
		}
		return true
	}
	w.mute = false
	r.space.look(free, total, &r.options)
	return true
}
