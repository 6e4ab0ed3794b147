package check

import (
	"slices"

	"github.com/warctee/warctee/warc"
)

// An index finds records by id.
type index map[string]*Record

// links checks what records say of each other.
func (p *Report) links() {
	ids := make(index)
	for i := range p.Records {
		r := &p.Records[i]
		if r.ID == "" {
			continue
		}
		if first := ids[r.ID]; first != nil {
			p.add(r, RuleUniqueID, "is also the id of the record at offset %d of %s", first.Offset, first.File)
			continue
		}
		ids[r.ID] = r
	}
	for i := range p.Records {
		r := &p.Records[i]
		p.warcinfo(r, ids)
		for _, id := range r.Header.Values("WARC-Concurrent-To") {
			p.concurrent(r, id, ids)
		}
		p.truncated(r, ids)
		if r.Type == warc.TypeRevisit {
			p.revisit(r, ids)
		}
	}
}

func (p *Report) warcinfo(r *Record, ids index) {
	if r.Type == warc.TypeWarcinfo {
		return
	}
	id := r.Header.Get("WARC-Warcinfo-ID")
	info := ids[id]
	switch {
	case id == "":
		p.add(r, RuleWarcinfoID, "is missing")
	case info == nil || info.Type != warc.TypeWarcinfo:
		p.add(r, RuleWarcinfoID, "%s is not a warcinfo record", id)
	case info.File != r.File || info.Offset >= r.Offset:
		p.add(r, RuleWarcinfoID, "%s is not earlier in this file, but at offset %d of %s", id, info.Offset, info.File)
	}
}

// concurrent checks that two records are of one capture.
func (p *Report) concurrent(r *Record, id string, ids index) {
	other := ids[id]
	switch {
	case other == nil:
		p.add(r, RuleConcurrentTo, "%s is not in these files", id)
		return
	case other == r:
		p.add(r, RuleConcurrentTo, "the record names itself")
		return
	case other.File != r.File:
		p.add(r, RuleConcurrentTo, "%s is in another file, %s", id, other.File)
	}
	if other.Date != r.Date {
		p.add(r, RuleConcurrentTo, "WARC-Date is %s here and %s in %s", r.Date, other.Date, id)
	}
	exchange := []string{warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit}
	if !r.is(exchange...) || !other.is(exchange...) {
		return
	}
	if !slices.Contains(other.Header.Values("WARC-Concurrent-To"), r.ID) {
		p.add(r, RuleConcurrentTo, "%s does not name this record", id)
	}
	if other.TargetURI != r.TargetURI {
		p.add(r, RuleConcurrentTo, "%s has another WARC-Target-URI", id)
	}
	if other.Method == "HEAD" && r.PayloadSize > 0 {
		p.add(r, RuleHTTPBody, "the response to a HEAD request has a body")
	}
}

// truncated checks that an incomplete message is marked so. The response to a
// HEAD is complete without the body that its head speaks of.
func (p *Report) truncated(r *Record, ids index) {
	if !r.incomplete || r.Header.Get("WARC-Truncated") != "" || r.Type == warc.TypeRevisit {
		return
	}
	if r.Type == warc.TypeResponse && r.PayloadSize == 0 {
		known := false
		for _, id := range r.Header.Values("WARC-Concurrent-To") {
			if q := ids[id]; q != nil && q.Method != "" {
				known = true
				if q.Method == "HEAD" {
					return
				}
			}
		}
		if !known {
			return
		}
	}
	p.add(r, RuleTruncated, "the HTTP body ends too early, and there is no WARC-Truncated")
}

func (p *Report) revisit(r *Record, ids index) {
	id := r.Header.Get("WARC-Refers-To")
	if profile(r.Header.Get("WARC-Profile")) == identicalPayload {
		if r.BlockSize > 0 && r.Header.Get("WARC-Truncated") != "length" {
			p.add(r, RuleTruncated, "a revisit that keeps the response head is truncated: length")
		}
		for _, name := range []string{"WARC-Refers-To", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"} {
			if r.Header.Get(name) == "" {
				p.add(r, RuleRefersTo, "%s is missing", name)
			}
		}
	}
	if id == "" {
		return
	}
	original := ids[id]
	switch {
	case original == nil:
		p.add(r, RuleRefersTo, "%s is not in these files", id)
		return
	case !original.is(warc.TypeResponse, warc.TypeResource):
		p.add(r, RuleRefersTo, "%s is a %s", id, original.Type)
		return
	case original.File == r.File && original.Offset >= r.Offset:
		p.add(r, RuleRefersTo, "%s is behind the revisit", id)
	}
	p.original(r, original)
}

// original compares a revisit with what it refers to.
func (p *Report) original(r, original *Record) {
	if reason := original.Header.Get("WARC-Truncated"); reason != "" {
		p.add(r, RuleRefersTo, "%s is truncated: %s", original.ID, reason)
	}
	if original.Status == 206 || r.Status == 206 {
		p.add(r, RuleRefersTo, "partial content is neither an original nor a revisit")
	}
	for _, f := range []struct{ here, there string }{
		{"WARC-Refers-To-Target-URI", "WARC-Target-URI"},
		{"WARC-Refers-To-Date", "WARC-Date"},
	} {
		if a, b := r.Header.Get(f.here), original.Header.Get(f.there); a != b && a != "" {
			p.add(r, RuleRefersTo, "%s is %q, but %s has %q", f.here, a, original.ID, b)
		}
	}
	if profile(r.Header.Get("WARC-Profile")) != identicalPayload {
		return
	}
	a, err := warc.ParseDigest(r.Header.Get("WARC-Payload-Digest"))
	b, err2 := warc.ParseDigest(original.Header.Get("WARC-Payload-Digest"))
	if err == nil && err2 == nil && !a.Equal(b) {
		p.add(r, RulePayloadDigest, "%s is not that of the original, %s", a, b)
	}
}
