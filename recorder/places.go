package recorder

import (
	"slices"
	"sync"
)

// places bound the exchanges with each origin, and so the connections to it.
// Who waits for a place holds no slot, and those that are not long ones yet
// have only a part of the slots: an origin that keeps its exchanges open does
// not hold up the others.
type places struct {
	max, maxShort int

	mu      sync.Mutex
	origins map[string]*origin // by scheme and address
}

// An origin is one with which exchanges are under way.
type origin struct {
	used    int
	short   int             // of used: those that are not long ones
	waiting []chan struct{} // closed when the place is theirs; the first is the oldest
}

// newPlaces returns n places at each origin, for exchanges that have to share
// the given number of slots. One origin gets at most three quarters of these.
func newPlaces(n, slots int) *places {
	return &places{max: n, maxShort: slots - slots/4, origins: make(map[string]*origin)}
}

func (p *places) roomLocked(o *origin) bool { return o.used < p.max && o.short < p.maxShort }

// queue takes a place and returns nil, or what is closed when there is one.
func (p *places) queue(key string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[key]
	if o == nil {
		o = new(origin)
		p.origins[key] = o
	}
	if p.roomLocked(o) {
		o.used++
		o.short++
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
		p.give(key, false)
	}
}

// give gives a place back; long tells that lengthen was called.
func (p *places) give(key string, long bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[key]
	o.used--
	if !long {
		o.short--
	}
	p.passOnLocked(o)
	if o.used == 0 {
		delete(p.origins, key)
	}
}

// lengthen tells that who has a place is a long exchange now.
func (p *places) lengthen(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[key]
	o.short--
	p.passOnLocked(o)
}

// passOnLocked gives what there is to those who have waited longest.
func (p *places) passOnLocked(o *origin) {
	for len(o.waiting) > 0 && p.roomLocked(o) {
		o.used++
		o.short++
		close(o.waiting[0])
		o.waiting = slices.Delete(o.waiting, 0, 1)
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
