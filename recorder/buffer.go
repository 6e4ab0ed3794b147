package recorder

// tinyReadBuffer is the buffer of an event stream that waits: there may be
// thousands.
const tinyReadBuffer = 1 << 10

// useTinyBuffer is called before an event stream waits, when the buffer is
// empty. One that was filled gives way to a usual one: much is coming.
func (c *originConn) useTinyBuffer() {
	full := c.w == len(c.buf)
	switch {
	case c.small != nil, full && len(c.buf) == readBuffer, !full && len(c.buf) == tinyReadBuffer:
	case full && len(c.buf) == tinyReadBuffer:
		c.buf, c.r, c.w = make([]byte, readBuffer), 0, 0
	default:
		c.buf, c.r, c.w = make([]byte, tinyReadBuffer), 0, 0
		c.weighGrowth(0)
	}
}
