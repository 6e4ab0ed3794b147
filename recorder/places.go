package recorder

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Places bound what one origin, one client and one tunnel of a client may have
// of what all share. A request takes all its places at once, or waits and
// holds none: an origin that keeps its exchanges open does not hold up requests
// to others, and a client does not hold up other clients.
type places struct {
	limits [placeKinds]placeLimit

	mu  sync.Mutex
	all map[placeKey]*place // those where somebody is
}

// A placeKind is what a place belongs to. Requests wait in this order.
type placeKind uint8

const (
	placeTunnel placeKind = iota // a tunnel of a client, with many requests at once
	placeClient                  // all tunnels and connections of a client
	placeOrigin                  // by scheme and address
	placeKinds
)

type placeKey struct {
	kind placeKind
	name any
}

// A placeLimit is how many exchanges one place of a kind takes; 0: any number.
type placeLimit struct{ all, short, long int }

// A place counts the exchanges that are there.
type place struct {
	placeKey
	claims  int // that have it, or will want it
	used    int
	short   int          // of used: those that are not long ones
	waiting []*claim     // the first is the oldest
	heads   atomic.Int64 // bytes that heads take, of space.heads
}

// A claim is what one exchange has, or waits for. It is guarded by places.mu,
// but for places, which do not change, and weight.
type claim struct {
	places [placeKinds]*place // nil: none
	held   [placeKinds]bool
	long   bool
	weight atomic.Int64  // bytes that the heads of the exchange take
	at     *place        // that it waits for; nil: it does not wait
	ready  chan struct{} // closed when it has its places
}

// newPlaces returns the places for exchanges that share the given numbers of
// slots. One origin gets at most three quarters of these, and one client
// seven eighths: a client with one bad origin keeps slots for others.
func newPlaces(o *Options) *places {
	p := &places{all: make(map[placeKey]*place)}
	p.limits[placeTunnel] = placeLimit{short: o.MaxConnsPerTunnel}
	p.limits[placeClient] = placeLimit{short: o.MaxInFlight - o.MaxInFlight/8, long: o.MaxLong - o.MaxLong/8}
	p.limits[placeOrigin] = placeLimit{all: o.MaxConnsPerOrigin, short: o.MaxInFlight - o.MaxInFlight/4, long: o.MaxLong - o.MaxLong/4}
	return p
}

// claim takes the places of an exchange, or makes it wait for them: then the
// ready of what is returned is not nil.
func (p *places) claim(c *Client, origin string) *claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	cl := new(claim)
	if c != nil && c.Tunnel != nil {
		cl.places[placeTunnel] = p.placeLocked(placeKey{placeTunnel, c.Tunnel})
	}
	if c != nil && c.Name != "" {
		cl.places[placeClient] = p.placeLocked(placeKey{placeClient, c.Name})
	}
	cl.places[placeOrigin] = p.placeLocked(placeKey{placeOrigin, origin})
	if p.tryLocked(cl) {
		return cl
	}
	cl.ready = make(chan struct{})
	return cl
}

func (p *places) placeLocked(key placeKey) *place {
	at := p.all[key]
	if at == nil {
		at = &place{placeKey: key}
		p.all[key] = at
	}
	at.claims++
	return at
}

// tryLocked takes all places of a claim, or puts it into the line of one that
// is full.
func (p *places) tryLocked(cl *claim) bool {
	for _, at := range cl.places {
		if at != nil && !p.hasRoomLocked(at) {
			cl.at = at
			at.waiting = append(at.waiting, cl)
			return false
		}
	}
	cl.at = nil
	for kind, at := range cl.places {
		if at != nil {
			at.used++
			at.short++
			cl.held[kind] = true
		}
	}
	return true
}

func (p *places) hasRoomLocked(at *place) bool {
	l := p.limits[at.kind]
	return (l.all == 0 || at.used < l.all) && (l.short == 0 || at.short < l.short)
}

// leave is for a claim that is given up. It may have got its places meanwhile.
func (p *places) leave(cl *claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cl.at != nil {
		i := slices.Index(cl.at.waiting, cl)
		cl.at.waiting = slices.Delete(cl.at.waiting, i, i+1)
		cl.at = nil
	}
	for kind, at := range cl.places {
		if cl.held[kind] {
			p.giveLocked(cl, placeKind(kind))
		} else if at != nil {
			p.forgetLocked(at)
		}
	}
}

// waitsAt returns the kind of place that a claim waits for, if it waits.
func (p *places) waitsAt(cl *claim) (kind placeKind, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cl.at == nil {
		return 0, false
	}
	return cl.at.kind, true
}

// line returns how many wait where a claim does.
func (p *places) line(cl *claim) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cl.at == nil {
		return 0
	}
	return len(cl.at.waiting)
}

// give gives places of these kinds back, those that are held.
func (p *places) give(cl *claim, kinds ...placeKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(cl, kinds...)
}

func (p *places) giveLocked(cl *claim, kinds ...placeKind) {
	for _, kind := range kinds {
		if !cl.held[kind] {
			continue
		}
		cl.held[kind] = false
		at := cl.places[kind]
		at.used--
		if !cl.long {
			at.short--
		}
		p.forgetLocked(at)
		p.passOnLocked(at)
	}
}

// lengthen makes a claim that of a long exchange, if its client and its origin
// do not have their shares of those already. Its tunnel may begin another one in
// any case.
func (p *places) lengthen(cl *claim) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(cl, placeTunnel)
	if cl.long {
		return true
	}
	for kind, at := range cl.places {
		if l := p.limits[kind].long; cl.held[kind] && l > 0 && at.used-at.short >= l {
			return false
		}
	}
	cl.long = true
	for kind, at := range cl.places {
		if cl.held[kind] {
			at.short--
			p.passOnLocked(at)
		}
	}
	return true
}

// passOnLocked gives what there is to those that have waited longest. One that
// has to wait elsewhere too goes there.
func (p *places) passOnLocked(at *place) {
	for len(at.waiting) > 0 && p.hasRoomLocked(at) {
		cl := at.waiting[0]
		at.waiting = slices.Delete(at.waiting, 0, 1)
		if p.tryLocked(cl) {
			close(cl.ready)
		}
	}
}

func (p *places) forgetLocked(at *place) {
	if at.claims--; at.claims == 0 {
		delete(p.all, at.placeKey)
	}
}

// weigh counts bytes that heads of the exchange take, to its client and origin.
func (cl *claim) weigh(n int64) {
	cl.weight.Add(n)
	for _, at := range cl.places {
		if at != nil {
			at.heads.Add(n)
		}
	}
}

// crowded returns the places whose share of the memory is less than their heads
// take with n further bytes. An exchange that is alone there may have any number.
func (cl *claim) crowded(s *space, n int64) (full []*crowdedPlace) {
	most := s.maxMemory / 2
	for kind, share := range [placeKinds]int64{placeClient: most / 4 * 3, placeOrigin: most / 2} {
		at := cl.places[kind]
		if at == nil || share == 0 {
			continue
		}
		if has := at.heads.Load(); has > cl.weight.Load() && has+n > share {
			full = append(full, &crowdedPlace{at, share})
		}
	}
	return full
}

type crowdedPlace struct {
	*place
	share int64 // bytes
}

func (c *crowdedPlace) Error() string {
	return fmt.Sprintf("the heads and buffers of what is under way %s take up %s, its share of the memory (--spool-memory)", sharers[c.kind], size(c.heads.Load()))
}

var sharers = [placeKinds]string{placeClient: "for this client", placeOrigin: "with this origin"}

// used returns how many places at an origin are taken.
func (p *places) used(origin string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.all[placeKey{placeOrigin, origin}]; at != nil {
		return at.used
	}
	return 0
}
