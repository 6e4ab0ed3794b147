package check

import (
	"strings"
	"testing"
)

// TestMessageInPieces cuts a message in two at every place.
func TestMessageInPieces(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x\r\nwiki\r\n5\r\npedia\r\n0\r\nT: x\r\n\r\n!",
		"HTTP/1.1 200 OK\nContent-Length: 9\n\nwikipedia!",
	} {
		for i := range len(in) {
			m, payload := new(message), newDigest("md5:"+strings.Repeat("0", 32))
			m.write([]byte(in[:i]), payload)
			m.write([]byte(in[i:]), payload)
			if m.err != nil || m.bodyErr != nil || m.status != 200 || !m.body.Done() || m.extra != 1 || payload.size != 9 {
				t.Errorf("%q, %q: %+v, payload of %d octets", in[:i], in[i:], m, payload.size)
			}
		}
	}
}
