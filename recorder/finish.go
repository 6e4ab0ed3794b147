package recorder

import (
	"net/http"
	"strings"
	"time"

	"github.com/warctee/warctee/dedup"
)

// finisherIdle is how long a goroutine waits for another exchange to finish.
const finisherIdle = time.Second

// finishAside finishes an exchange in another goroutine, so that neither the
// client nor the connection waits for compression. One that waits takes it: its
// stack has grown already.
func (r *Recorder) finishAside(x *exchange) {
	select {
	case r.finishing <- x:
	default:
		go r.finisher(x) // ends when it is idle, or with the recorder; Recorder.Close waits for the exchanges
	}
}

func (r *Recorder) finisher(x *exchange) {
	idle := time.NewTimer(finisherIdle)
	defer idle.Stop()
	for {
		x.finish()
		idle.Reset(finisherIdle)
		select {
		case x = <-r.finishing:
		case <-idle.C:
			return
		case <-r.closing:
			return
		}
	}
}

// finish makes an exchange that has ended ready for the writer.
func (x *exchange) finish() {
	c, err := x.pack()
	x.received.body.release()
	x.submit(c, err)
}

// submit hands the exchange to the writer, unless it could not be packed.
func (x *exchange) submit(c *capture, err error) {
	x.sent.body.release()
	if err != nil {
		x.r.lost(x, err)
		x.settle()
		x.r.untrack(x)
		return
	}
	x.r.writer.submit(c)
}

// recoverPacking is deferred while a capture is packed.
func (r *Recorder) recoverPacking(c **capture, err *error) {
	if p := recover(); p != nil {
		*err = r.internalError(p)
	}
	if *err != nil && *c != nil {
		(*c).release()
	}
}

func (x *exchange) pack() (c *capture, err error) {
	defer x.r.recoverPacking(&c, &err)
	if err := x.fetchHead(); err != nil {
		return nil, err
	}
	c = x.newCapture()
	x.r.counts.received.Add(c.response.length)
	c.packRequest()
	if original := x.r.lookUp(c.digest); original != nil {
		c.response.hold(x.received.head, x.received.body)
		c.makeRevisit(original)
	} else {
		c.response.pack(x.r, x.target(), x.received.head, x.received.body)
	}
	c.fitLarge()
	return c, nil
}

// packRequest packs the request and the note.
func (c *capture) packRequest() {
	x := c.x
	c.request.pack(x.r, x.target(), x.sent.head, x.sent.body)
	if c.note.length > 0 {
		c.note.pack(x.r, x.target(), x.noteBlock(), nil)
	}
}

// lookUp asks the index for an original that can still be referred to. This is
// the only place where an exchange waits for the index.
func (r *Recorder) lookUp(digest string) *dedup.Capture {
	if digest == "" || r.index == nil {
		return nil
	}
	original, ok, err := r.index.Lookup(digest)
	if err != nil {
		r.log.Error("cannot look up a payload in the index: it is stored again", "error", err)
		return nil
	}
	if !ok || original.Method != http.MethodGet && original.Method != "" || !r.holds(&original, digest) {
		return nil
	}
	return &original
}

// holds reports whether an original is there, whole, with that payload. It may
// take as long as reading what was just received.
func (r *Recorder) holds(original *dedup.Capture, digest string) bool {
	if r.originals.has(original) {
		return true
	}
	places := r.packing
	if original.Length > spoolMemory {
		places = r.packingBig
	}
	places <- struct{}{}
	defer func() { <-places }()
	payload, _, _ := strings.Cut(digest, " ") // a strong one may follow
	return r.originals.find(original, payload)
}
