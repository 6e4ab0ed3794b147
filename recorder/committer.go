package recorder

import (
	"log/slog"
	"sync"
	"time"

	"github.com/warctee/warctee/dedup"
)

// commitEvery is the least time between two commits: each one costs two fsyncs,
// and writes whole pages for the few entries that it has in each.
const commitEvery = time.Second

// A committer makes originals known to the index, in its own goroutine and
// after they are durable: the index is never ahead of the archive, and the
// writer never waits for it.
type committer struct {
	index   dedup.Index
	log     *slog.Logger
	changed chan struct{} // has an element when there may be something to commit
	closing chan struct{}
	ended   chan struct{}

	mu      sync.Mutex
	entries []dedup.Entry
	recents []*recent

	err error // of the last attempt; owned by the goroutine until ended
}

func startCommitter(index dedup.Index, log *slog.Logger) *committer {
	c := &committer{index: index, log: log, changed: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	go c.run() // ended by close
	return c
}

func (c *committer) commit(digests []string, originals []*recent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range originals {
		c.entries = append(c.entries, dedup.Entry{Digest: digests[i], Capture: o.Capture})
	}
	c.recents = append(c.recents, originals...)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// close commits the rest.
func (c *committer) close() error {
	close(c.closing)
	<-c.ended
	return c.err
}

func (c *committer) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.changed:
			c.commitAll()
			c.rest()
		case <-c.closing:
			c.commitAll()
			return
		}
	}
}

// rest waits before the next commit.
func (c *committer) rest() {
	for {
		wait := commitEvery
		if c.err != nil {
			wait = retryEvery
		}
		select {
		case <-time.After(wait):
		case <-c.closing:
			return
		}
		if c.err == nil {
			return
		}
		c.commitAll()
	}
}

// commitAll commits what there is. What the index does not take is kept for
// another attempt, but not without bound: what is dropped will be stored
// again, nothing else.
func (c *committer) commitAll() {
	c.mu.Lock()
	entries, recents := c.entries, c.recents
	c.entries, c.recents = nil, nil
	c.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	err := c.index.Commit(entries)
	if err != nil && c.err == nil {
		c.log.Error("cannot write the dedup index: it is tried again", "error", err)
	} else if err == nil && c.err != nil {
		c.log.Warn("the dedup index can be written again")
	}
	done := len(entries)
	if c.err = err; err != nil {
		done = max(0, len(entries)-maxRecent)
		c.mu.Lock()
		c.entries = append(entries[done:], c.entries...)
		c.recents = append(recents[done:], c.recents...)
		c.mu.Unlock()
	}
	for _, r := range recents[:done] {
		r.committed.Store(true)
	}
}
