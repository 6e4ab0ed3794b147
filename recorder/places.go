package recorder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// places bound the exchanges with each origin, and so the connections to it.
// Who waits for a place holds no slot: an origin that keeps its exchanges open
// does not hold up the others.
type places struct {
	max int

	mu      sync.Mutex
	origins map[string]*origin // by scheme and address
}

// An origin is one with which exchanges are under way.
type origin struct {
	used    int
	waiting []chan struct{} // closed when the place is theirs; the first is the oldest
}

func newPlaces(n int) *places { return &places{max: n, origins: make(map[string]*origin)} }

// take waits for a place at an origin.
func (p *places) take(ctx context.Context, key string, closing <-chan struct{}) error {
	turn := p.queue(key)
	if turn == nil {
		return nil
	}
	wait := time.NewTimer(admissionWait)
	defer wait.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-wait.C:
		err = admissionError("busy", fmt.Errorf("%d exchanges with this origin are under way already and none ended within %s (--max-connections-per-origin)", p.max, admissionWait))
	case <-closing:
		err = admissionError("shutting-down", errClosed)
	case <-ctx.Done():
		err = clientWentAway(ctx)
	}
	p.leave(key, turn)
	return err
}

// queue takes a place and returns nil, or what is closed when there is one.
func (p *places) queue(key string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[key]
	if o == nil {
		o = new(origin)
		p.origins[key] = o
	}
	if o.used < p.max {
		o.used++
		return nil
	}
	turn := make(chan struct{})
	o.waiting = append(o.waiting, turn)
	return turn
}

// leave is for who waits no longer; the place may have become theirs meanwhile.
func (p *places) leave(key string, turn chan struct{}) {
	p.mu.Lock()
	o := p.origins[key]
	i := slices.Index(o.waiting, turn)
	if i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		p.give(key)
	}
}

// give gives a place back, to the one who has waited longest.
func (p *places) give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[key]
	if len(o.waiting) > 0 {
		close(o.waiting[0])
		o.waiting = slices.Delete(o.waiting, 0, 1)
		return
	}
	if o.used--; o.used == 0 {
		delete(p.origins, key)
	}
}

// used returns how many places are taken.
func (p *places) used(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.origins[key]; o != nil {
		return o.used
	}
	return 0
}
