package recorder

import "github.com/warctee/warctee/warc"

// keepBadReply records an exchange whose origin has answered with something
// that is no reply: the request, and what came instead. That is a resource with
// a URI of its own, so that no reader takes it for a response, and nothing
// replays it as one.
func (x *exchange) keepBadReply(e *Error) {
	x.bodyEnded()
	x.freePlace()
	go func() { // ends by itself; Recorder.Close waits for it
		x.submit(x.packBadReply(e))
	}()
}

func (x *exchange) packBadReply(e *Error) (c *capture, err error) {
	defer x.r.recoverPacking(&c, &err)
	c = &capture{x: x, date: warc.FormatDate(x.start, x.r.options.Version)}
	requestID, resourceID := warc.NewRecordID(), warc.NewRecordID()
	x.describeRequest(c, requestID, resourceID)

	h := &c.response.header
	x.startHeader(h, warc.TypeResource, resourceID, c.date)
	h.Set("WARC-Target-URI", "urn:bad-reply:"+x.uri)
	h.Add("WARC-Concurrent-To", requestID)
	digest := x.r.options.Digest.New()
	digest.Write(e.instead)
	sum := x.r.options.Digest.Format(digest.Sum(nil))
	h.Add("WARC-Block-Digest", sum)
	h.Add("WARC-Payload-Digest", sum) // a resource's payload is its block
	x.addSpoken(h)
	addTruncated(h, e.cut)
	h.Add("Content-Type", "application/octet-stream")
	c.response.length = int64(len(e.instead))
	c.weigh(len(x.sent.head) + len(e.instead))

	c.packRequest()
	c.response.pack(x.r, x.target(), e.instead, nil)
	c.fitLarge()
	return c, nil
}
