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
)

// A space accounts for what exchanges hold in memory and on the disk until it
// is in the archive, and for what the disk has left.
type space struct {
	maxMemory, maxDisk int64

	memory atomic.Int64 // bodies and blocks in memory, bytes
	heads  atomic.Int64 // what cannot go to the disk: heads, buffers of readers
	disk   atomic.Int64 // bodies and blocks in temporary files

	appended atomic.Int64 // to the archive, since the start
	done     atomic.Int64 // of memory and disk: it is in the archive, but not durable yet
	looked   atomic.Bool  // the following are known
	base     atomic.Int64 // bytes that would be free if nothing had been appended and nothing were on the disk
	wanted   atomic.Int64 // bytes that have to stay free
}

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
		return fmt.Errorf("bodies have %s in temporary files already (--spool-disk)", size(s.maxDisk))
	}
	if free := s.available(); free < s.wanted.Load()/2 {
		s.disk.Add(-n)
		return fmt.Errorf("only %s of disk are left, half of what has to stay free (--min-free)", size(free))
	}
	return nil
}

// crowded says that heads alone take so much memory that no more may come.
func (s *space) crowded() error {
	if s.heads.Load() <= s.maxMemory/2 {
		return nil
	}
	return errors.New("the heads of what is under way take up the memory (--spool-memory)")
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

// look notes what the disk has left.
func (s *space) look(free, total uint64, o *Options) {
	const most = math.MaxInt64 / 4
	s.base.Store(int64(min(free, most)) + s.appended.Load() + s.disk.Load())
	s.wanted.Store(o.minFree(min(total, most)))
	s.looked.Store(true)
}

// minFree is how much of a file system has to stay free.
func (o *Options) minFree(total uint64) int64 {
	switch {
	case o.MinFree > 0:
		return o.MinFree
	case o.MinFreePercent > 0:
		return int64(float64(total) / 100 * o.MinFreePercent)
	}
	return min(defaultMinFree, int64(total/100))
}

// short says that the disk is nearly full, or nil. What is short already stays
// so until there is somewhat more than what has to stay free.
func (s *space) short(dir string, already bool) error {
	wanted := s.wanted.Load()
	enough := wanted
	if already {
		enough += wanted / 10
	}
	left := s.available()
	if left >= enough {
		return nil
	}
	free := s.base.Load() - s.appended.Load() - s.disk.Load()
	return fmt.Errorf("the disk is nearly full: %s are free in %s, of which %s are needed for what was captured already, and %s have to stay free (--min-free)", size(free), dir, size(free-left), size(enough))
}

func size(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

// A spaceWatch looks at the disk from time to time, in its own goroutine: a
// file system may take its time to answer.
type spaceWatch struct {
	r     *Recorder
	set   *rotate.Set
	mute  bool // it has been said that nothing can be found out
	stop  chan struct{}
	ended chan struct{}
}

// watchSpace starts to look at the disk, the first time at once.
func (r *Recorder) watchSpace(set *rotate.Set) *spaceWatch {
	w := &spaceWatch{r: r, set: set, stop: make(chan struct{}), ended: make(chan struct{})}
	if r.options.MinFree < 0 || !w.look() {
		close(w.ended)
		return w
	}
	go w.run() // ended by close
	return w
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
		case <-w.stop:
			return
		}
	}
}

// look reports whether it makes sense to look again.
func (w *spaceWatch) look() bool {
	r := w.r
	free, total, err := w.set.Free()
	switch {
	case errors.Is(err, errors.ErrUnsupported), err == nil && total == 0:
		r.log.Warn("it cannot be found out how much space the disk has left: --min-free has no effect", "dir", r.options.Dir)
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
	r.setShort(r.space.short(r.options.Dir, r.isShort()))
	return true
}
