package recorder

import (
	"log/slog"
	"sync"

	"github.com/warctee/warctee/dedup"
)

// A committer makes originals known to the index, in its own goroutine and
// after they are durable: the index is never ahead of the archive, and the
// writer never waits for it.
type committer struct {
	index dedup.Index
	log   *slog.Logger
	ended chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	entries []dedup.Entry
	recents []*recent
	closed  bool
	err     error // the last one
}

func startCommitter(index dedup.Index, log *slog.Logger) *committer {
	c := &committer{index: index, log: log, ended: make(chan struct{})}
	c.changed.L = &c.mu
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
	c.changed.Signal()
}

// close commits the rest.
func (c *committer) close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Signal()
	c.mu.Unlock()
	<-c.ended
	return c.err
}

func (c *committer) run() {
	defer close(c.ended)
	for {
		entries, recents := c.take()
		if len(entries) == 0 {
			return
		}
		if err := c.index.Commit(entries); err != nil {
			// Equal payloads will be stored again; nothing is lost.
			c.log.Error("cannot write the dedup index", "error", err)
			c.err = err
		}
		for _, r := range recents {
			r.committed.Store(true)
		}
	}
}

func (c *committer) take() ([]dedup.Entry, []*recent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.entries) == 0 && !c.closed {
		c.changed.Wait()
	}
	entries, recents := c.entries, c.recents
	c.entries, c.recents = nil, nil
	return entries, recents
}
