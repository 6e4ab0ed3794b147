package recorder

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/warctee/warctee/http1"
)

// spillFrom is from where on the head of a long exchange goes to the disk:
// there it takes a file.
const spillFrom = 8 << 10

// spillHead moves a large head of a reply to the disk while the body is under
// way. net/http keeps the header that it has sent to the client, which counts
// until the client is done.
func (x *exchange) spillHead() error {
	x.mu.Lock()
	spills := x.received != nil && !x.ended && x.heads == nil && len(x.received.head) >= spillFrom
	x.mu.Unlock()
	if !spills {
		return nil
	}
	// Without the lock: a disk may hang. Only this changes the head before the
	// exchange has ended.
	head := x.received.head
	s := newSpool(x.r.space, x.r.options.Dir, -1)
	_, err := s.Write(head)
	if err == nil {
		err = s.spill()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || x.ended {
		s.release()
		return err
	}
	x.heads = s
	x.received.head = nil
	x.received.body.weigh(-len(head))
	x.weighLocked(-len(head))
	x.reply = &http1.Response{Framing: x.reply.Framing} // others may still look at what it was
	return nil
}

// fetchHead undoes spillHead, when the exchange has ended.
func (x *exchange) fetchHead() error {
	if x.heads == nil {
		return nil
	}
	raw, err := io.ReadAll(x.heads.reader())
	x.heads.release()
	x.heads = nil
	if err != nil {
		return fmt.Errorf("cannot read the head of the response back: %w", err)
	}
	if x.reply, err = http1.ParseResponse(raw, x.request.method); err != nil {
		return err
	}
	x.received.head = x.reply.Raw
	x.received.body.weigh(len(raw))
	return nil
}

// noRoomForHead refuses a reply for which its origin or client has no memory left.
func noRoomForHead(addr string, err error) *Error {
	return &Error{Phase: PhaseReply, Class: classCrowded, Status: http.StatusServiceUnavailable, Addr: addr, Err: fmt.Errorf("no room for the head of the reply from %s: %w", addr, err)}
}

// roomForHead makes room for n bytes of the reply's head, or returns why there is
// none.
func (x *exchange) roomForHead(n int64) error { return x.r.roomInShares(x.claim, n) }

// roomInShares makes room for n bytes of heads in the shares of a claim, or
// returns why there is none.
func (r *Recorder) roomInShares(cl *claim, n int64) error {
	for _, full := range cl.crowded(r.space, n) {
		if !r.roomForHeads(&full.heads, full.share-n, full.place) {
			return full
		}
	}
	return nil
}

// roomForHeads reports whether heads take no more than a share, or soon will:
// until then it cuts clients that are slow to read what is recorded, and then the
// long exchanges with the largest heads. at is whose share that is; nil:
// everybody's.
func (r *Recorder) roomForHeads(heads *atomic.Int64, share int64, at *place) bool {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.exchanges))
	r.mu.Unlock()
	leaving := int64(0)
	weights := make(map[*exchange]int64)
	for _, x := range all {
		if !x.isAt(at) {
			continue
		}
		if n, ends := x.longHeads(); ends {
			leaving += n
		} else if n >= spillFrom {
			weights[x] = n
		}
	}
	for heads.Load()-leaving > share {
		x := r.readers.slowest(func(x *exchange, one reader) bool { return x.isAt(at) && one.isSlow(x) })
		if x == nil {
			break
		}
		r.readers.cut(x)
	}
	largest := slices.SortedFunc(maps.Keys(weights), func(x, y *exchange) int { return cmp.Compare(weights[y], weights[x]) })
	most := int64(0)
	for _, n := range weights {
		most += n
	}
	if heads.Load()-leaving-most > share {
		return false // to cut them would make too little room
	}
	for heads.Load()-leaving > share && len(largest) > 0 {
		x := largest[0]
		largest = largest[1:]
		leaving += weights[x]
		r.tellNowAndThen("a long exchange was cut, to make room for others: heads take up the memory (--spool-memory)", "url", x.uri)
		x.cut("unspecified")
	}
	return true
}

// isAt reports whether an exchange counts at a place; nil: it counts everywhere.
func (x *exchange) isAt(at *place) bool {
	return x.claim != nil && (at == nil || x.claim.places[at.kind] == at)
}

// longHeads returns how much memory the heads of a long exchange with a reply
// take, and whether it ends already.
func (x *exchange) longHeads() (n int64, ends bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slot != x.r.long || x.received == nil {
		return 0, false
	}
	return x.weight, x.ended || x.reason != ""
}
