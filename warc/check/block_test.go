package check

import (
	"strings"
	"testing"

	"github.com/warctee/warctee/http1"
)

// TestMessageInPieces cuts a message in two at every place.
func TestMessageInPieces(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x\r\nwiki\r\n5\r\npedia\r\n0\r\nT: x\r\n\r\n!",
		"HTTP/1.1 200 OK\nContent-Length: 9\n\nwikipedia!",
	} {
		for i := range len(in) {
			m, payload := new(message), newDigest("md5:"+strings.Repeat("0", 32))
			m.write([]byte(in[:i]), payload, newDigest(""))
			m.write([]byte(in[i:]), payload, newDigest(""))
			if m.err != nil || m.bodyErr != nil || m.status != 200 || !m.body.Done() || m.extra != 1 || payload.size != 9 {
				t.Errorf("%q, %q: %+v, payload of %d octets", in[:i], in[i:], m, payload.size)
			}
		}
	}
}

// TestLargeHeads looks at heads that a recording lets pass only when it is told
// to, and at one that has no end.
func TestLargeHeads(t *testing.T) {
	fields := strings.Repeat("X: "+strings.Repeat("y", 4<<10)+"\r\n", 300)
	for name, head := range map[string]string{
		"URL":    "GET /" + strings.Repeat("u", 2<<20) + " HTTP/1.1\r\nHost: h\r\n\r\n",
		"fields": "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n",
		"reply":  "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: 0\r\n\r\n",
	} {
		m := &message{request: name != "reply"}
		m.write([]byte(head[:1<<20]), newDigest(""), newDigest(""))
		m.write([]byte(head[1<<20:]), newDigest(""), newDigest(""))
		if m.err != nil || !m.parsed {
			t.Errorf("%s: %v", name, m.err)
		}
	}
	m := &message{head: make([]byte, http1.Recorded.Head(), http1.Recorded.Head()+1)}
	if m.write([]byte("x"), newDigest(""), newDigest("")); m.err == nil {
		t.Error("the memory for a head has no bound")
	}
}
