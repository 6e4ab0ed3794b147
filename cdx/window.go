package cdx

import "slices"

// A request and its response stand next to each other, or nearly: these bound how
// far apart they are found. A capture whose request is farther away is indexed as
// if it were not known.
const (
	windowRecords = 256
	windowOctets  = 4 << 20 // of their strings and bodies, with heldOverhead for each
	heldOverhead  = 512
)

// A held record waits: each until the next one starts, which shows that it is
// whole, and then a capture for its request and a request for the capture.
type held struct {
	id, target   string
	concurrentTo []string
	entry        *Entry   // nil: it has no line
	request      *Request // that the record holds, or nil
	capture      bool     // a response or revisit, to which a request may belong
	err          error    // why it has no line though it should
	offset       int64
	end          int64 // when it is known before the next record starts
	octets       int   // that it counts for in the window; set by add
}

// belongsTo reports whether two records tell so in WARC-Concurrent-To, whichever
// of them does (WARC 1.1 §5.7).
func (h *held) belongsTo(other *held) bool {
	return h.target == other.target &&
		(slices.Contains(h.concurrentTo, other.id) || slices.Contains(other.concurrentTo, h.id))
}

// memory returns how many octets the record takes: all that a file can make long.
func (h *held) memory() int {
	n := heldOverhead + len(h.id) + len(h.target)
	for _, id := range h.concurrentTo {
		n += 16 + len(id)
	}
	if e := h.entry; e != nil {
		n += len(e.Key) + len(e.URL) + len(e.MIME) + len(e.Digest) + len(e.Method) + len(e.RequestBody)
	}
	if r := h.request; r != nil {
		n += len(r.Method) + len(r.ContentType) + cap(r.Body)
	}
	return n
}

// A window holds the records that wait for each other.
type window struct {
	held   []*held
	octets int
}

// add puts a request or a capture into the window, and returns what need not wait
// any more: the two that belong together, or those that have waited long enough.
func (w *window) add(h *held) (done []*held) {
	for i, other := range slices.Backward(w.held) {
		if h.capture == other.capture || !h.belongsTo(other) {
			continue
		}
		if h.capture {
			h.entry.setRequest(other.request)
		} else {
			other.entry.setRequest(h.request)
		}
		w.held = slices.Delete(w.held, i, i+1)
		w.octets -= other.octets
		return []*held{other, h}
	}
	w.held = append(w.held, h)
	h.octets = h.memory()
	w.octets += h.octets
	for len(w.held) > windowRecords || w.octets > windowOctets {
		done = append(done, w.held[0])
		w.octets -= w.held[0].octets
		w.held = slices.Delete(w.held, 0, 1)
	}
	return done
}
