package recorder

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Clients get responses at their own pace. What is left to be read of one that
// is in the archive already holds a place among the long exchanges, and disk
// space or memory, until the client has it. When room is short the slowest of
// these clients is cut: its record is whole.

const (
	// slowReader is how much time a client may still need for a response that
	// is recorded, at its pace so far, before others are served in its place.
	slowReader = 10 * time.Second
	// readerGrace is how long it is not judged by its pace.
	readerGrace = time.Second
)

// readers are the exchanges whose responses are in the archive, but not with
// their clients yet.
type readers struct {
	r *Recorder

	mu  sync.Mutex
	all map[*exchange]reader
}

// A reader is a client with which a response is not yet.
type reader struct {
	since  time.Time // when it was recorded
	left   int64     // octets that it had not taken then …
	taken  int64     // … and those that it had
	onDisk int64     // bytes of its temporary file
	file   bool
}

// add takes an exchange that has been recorded into account. It is a long one
// from now on.
func (rs *readers) add(x *exchange) {
	body := x.received.body
	one := reader{since: time.Now(), taken: x.follower.taken.Load()}
	one.left = body.len() - one.taken
	one.onDisk, one.file = body.takes()
	rs.mu.Lock()
	rs.all[x] = one
	rs.mu.Unlock()
	rs.place(x)
}

// place makes an exchange that is being read a long one. While there is no room
// among those, and no slow reader, it keeps its slot.
func (rs *readers) place(x *exchange) {
	for !x.movesToLong() {
		full := rs.r.long.used() == rs.r.options.MaxLong // else it is the client's share that is
		slowest := rs.slowest(func(other *exchange, one reader) bool {
			return one.isSlow(other) && (full || other.hasClientOf(x))
		})
		if slowest == nil {
			x.tryAgain()
			return
		}
		rs.cut(slowest)
	}
}

func (x *exchange) tryAgain() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slot != nil {
		x.lengthens.Reset(readerGrace)
	}
}

// movesToLong reports whether an exchange that is being read is a long one, or
// is no more.
func (x *exchange) movesToLong() bool {
	x.mu.Lock()
	gone := x.read
	ok := gone || x.slot == nil || x.lengthenLocked()
	x.mu.Unlock()
	if gone { // before it was in the list
		x.freeSlot()
	}
	return ok
}

func (x *exchange) hasClientOf(y *exchange) bool {
	return x.claim.places[placeClient] == y.claim.places[placeClient]
}

func (rs *readers) remove(x *exchange) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, x)
}

// slowest returns the exchange, of those that match, whose client would need
// the most time for the rest, or nil.
func (rs *readers) slowest(match func(*exchange, reader) bool) (slowest *exchange) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var most float64
	for x, one := range rs.all {
		if needs := one.needs(x); (slowest == nil || needs > most) && match(x, one) {
			slowest, most = x, needs
		}
	}
	return slowest
}

// needs returns how many seconds the client will need for the rest, at its pace
// since the exchange was recorded.
func (one reader) needs(x *exchange) float64 {
	took := max(0, x.follower.taken.Load()-one.taken)
	return float64(one.left-took+1) * time.Since(one.since).Seconds() / float64(took+1)
}

// isSlow reports whether others are served in place of the client.
func (one reader) isSlow(x *exchange) bool {
	return time.Since(one.since) > readerGrace && one.needs(x) > slowReader.Seconds()
}

// onlyForClient reports whether nothing but the client keeps the body: to cut it
// makes room at once.
func (x *exchange) onlyForClient() bool { return x.received.body.owners.Load() == 1 }

// cut gives up what a client has not read.
func (rs *readers) cut(x *exchange) {
	rs.remove(x)
	x.mu.Lock()
	read := x.read
	x.mu.Unlock()
	if read {
		return
	}
	rs.r.counts.slow.Add(1)
	rs.r.tellNowAndThen("a client was cut that was slow to read a response, to make room for others: the response is recorded", "url", x.uri)
	x.dropClient()
}

// dropClient gives up the client of a response.
func (x *exchange) dropClient() {
	x.follower.stop()
	x.clientDone()
	if x.client != nil && x.client.HangUp != nil {
		go x.client.HangUp() // ends at once
	}
}

// reclaim makes room after an error of a temporary file. Bodies that are not in
// the archive yet come before clients that have not read theirs, however fast.
func (rs *readers) reclaim(err error) bool {
	noRoom := errors.Is(err, errSpoolDisk) || errors.Is(err, errShort) || errors.Is(err, syscall.ENOSPC)
	noFile := isOutOfFiles(err)
	if !noRoom && !noFile {
		return false
	}
	x := rs.slowest(func(x *exchange, one reader) bool {
		return x.onlyForClient() && (one.onDisk > 0 && noRoom || one.file && noFile)
	})
	if x == nil {
		return false
	}
	rs.cut(x)
	return true
}

// makeRoom cuts the slow readers whose bodies are on the disk until that is no
// longer crowded.
func (rs *readers) makeRoom() {
	for rs.r.space.crowdedDisk() != nil {
		x := rs.slowest(func(x *exchange, one reader) bool { return x.onlyForClient() && one.onDisk > 0 && one.isSlow(x) })
		if x == nil {
			return
		}
		rs.cut(x)
	}
}

// cutSlowPassing cuts the exchanges whose bodies have found no room, and wait for
// clients that take more than readerGrace for a piece of the rest.
func (r *Recorder) cutSlowPassing() {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.exchanges))
	r.mu.Unlock()
	for _, x := range all {
		if !x.cutsSlowPassing() {
			continue
		}
		r.counts.slow.Add(1)
		r.tellNowAndThen("a client was cut that was slow to take a body for which there was no room, to make room for others", "url", x.uri)
		x.dropClient()
	}
}

func (x *exchange) cutsSlowPassing() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.crowds == nil || x.conn == nil || x.reason != "" || x.received.body.waits() < readerGrace {
		return false
	}
	x.cutLocked("unspecified")
	return true
}

// tellNowAndThen logs a warning of what was done to make room, at most once in a
// second.
func (r *Recorder) tellNowAndThen(what string, args ...any) {
	r.mu.Lock()
	tell := time.Since(r.told) >= time.Second
	if tell {
		r.told = time.Now()
	}
	r.mu.Unlock()
	if tell {
		r.log.Warn(what, args...)
	}
}
