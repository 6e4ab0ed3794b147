package recorder

import (
	"fmt"
	"io"

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

// cutLargestHeads ends the long exchange with the largest head, because the
// heads of all leave no memory for others.
func (r *Recorder) cutLargestHeads() {
	var largest *exchange
	var most, leaving int64
	r.mu.Lock()
	for x := range r.exchanges {
		n, cut := x.longHeads()
		switch {
		case cut:
			leaving += n
		case n >= spillFrom && n > most:
			largest, most = x, n
		}
	}
	r.mu.Unlock()
	if largest == nil || r.space.heads.Load()-leaving <= r.space.maxMemory/2 {
		return
	}
	r.tellNowAndThen("a long exchange was cut, to make room for others: the heads of what is under way take up the memory (--spool-memory)", "url", largest.uri)
	largest.cut("unspecified")
}

// longHeads returns how much memory the heads of a long exchange take, and
// whether it has been cut already.
func (x *exchange) longHeads() (n int64, cut bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slot != x.r.long {
		return 0, false
	}
	return x.weight, x.reason != "" || x.conn == nil
}
