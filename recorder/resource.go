package recorder

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/warctee/warctee/warc"
)

// A Resource is something that was obtained without HTTP, such as the answer to
// a DNS query (WARC 1.1 §6.4 and annex B).
type Resource struct {
	URI         string // WARC-Target-URI
	ContentType string
	Date        time.Time
	Addr        netip.Addr // of the server that gave it; may be the zero value
	Block       []byte
}

// AddResource records a resource. It does not wait for the disk; when the
// record is lost the log says so, and Close.
func (r *Recorder) AddResource(res Resource) {
	r.addRecord(warc.TypeResource, res)
}

// addRecord submits a record that stands for itself.
func (r *Recorder) addRecord(kind string, res Resource) {
	x := &exchange{r: r, start: res.Date, uri: res.URI, spoken: spoken{addr: netip.AddrPortFrom(res.Addr.Unmap().WithZone(""), 0)}}
	if !r.trackLate(x) {
		r.log.Warn("a record came after the end of the recording", "type", kind, "url", res.URI)
		return
	}
	if err := r.space.forSingles(); err != nil {
		defer r.untrack(x)
		r.counts.lostRecords.Add(1)
		if r.tellsRefusal() {
			r.log.Error("RECORDS ARE LOST: look-ups and failures are not in the archive", "error", err)
		}
		return
	}
	c := &capture{x: x, date: warc.FormatDate(res.Date, r.options.Version), single: true}
	h := &c.response.header
	x.startHeader(h, kind, warc.NewRecordID(), c.date)
	digest := r.options.Digest.New()
	digest.Write(res.Block)
	sum := r.options.Digest.Format(digest.Sum(nil))
	h.Add("WARC-Block-Digest", sum)
	if kind == warc.TypeResource { // its payload is its block
		h.Add("WARC-Payload-Digest", sum)
	}
	h.Add("Content-Type", res.ContentType)
	c.response.length = int64(len(res.Block))
	c.response.pack(r, x.target(), res.Block, nil)
	if !r.writer.submitSingle(c) {
		c.release()
		r.lost(x, errTooManySingles)
		r.untrack(x)
	}
}

// A Failure is an exchange that gave no response.
type Failure struct {
	Time   time.Time // when the exchange began
	Method string
	URL    string
	Phase  Phase
	Class  string // what kind of error it was; see docs/failures.md
	Status int    // what a proxy answers its client
	Addr   string // host:port of the origin, "" when it was not reached for
	Err    error
}

// fields is the block of the metadata record of a failure.
func (f *Failure) fields() []byte {
	fields := []warc.Field{
		{Name: "failurePhase", Value: string(f.Phase)},
		{Name: "failureClass", Value: f.Class},
		{Name: "failureReason", Value: f.Err.Error()},
		{Name: "method", Value: f.Method},
	}
	if f.Addr != "" {
		fields = append(fields, warc.Field{Name: "addressTried", Value: f.Addr})
	}
	fields = append(fields, warc.Field{Name: "fetchTimeMs", Value: strconv.FormatInt(time.Since(f.Time).Milliseconds(), 10)})
	return warcFields(fields)
}
