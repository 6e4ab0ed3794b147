package recorder

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A long head takes memory while it is on its way. That counts, so that not too
// many of them come at once, and is given back, however it ends.
func TestHeadOnItsWayCounts(t *testing.T) {
	const most = 512 << 10
	for name, rest := range map[string]string{
		"whole":            "\r\n\r\nok",
		"whole, but close": "\r\nConnection: close\r\n\r\nok",
		"cut":              "",
		"bad":              "\r\n no field\x00\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				r := openForTest(t, Options{SpoolMemory: 3 * most, MaxReplyHead: 2 * most, Logger: slog.New(slog.DiscardHandler), Dial: originConns(t, func(_ int, c net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
						return // the one that is refused
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: "+strings.Repeat("x", most))
					<-gate
					io.WriteString(c, rest)
					if name == "cut" {
						c.Close()
					}
				})})
				first := fetchAside(r, "http://one/")
				synctest.Wait()
				before := r.space.heads.Load()
				if before < most || before > 3*most {
					t.Errorf("%d bytes are counted for a head of %d", before, most)
				}
				second := fetchAside(r, "http://two/")
				synctest.Wait()
				_, err := fetch(r, "GET", "http://three/", "")
				wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
				close(gate)
				<-first
				<-second
				time.Sleep(time.Second)
				if n := r.space.heads.Load(); n != 0 {
					t.Errorf("%d bytes are still counted", n)
				}
				closeForTest(t, r)
				wantEmpty(t, r.space)
			})
		})
	}
}

// What came in place of a reply counts until it is in the archive.
func TestBadReplyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		r := openForTest(t, Options{fs: disk, Logger: slog.New(slog.DiscardHandler), Dial: originConns(t, func(_ int, c net.Conn) {
			http.ReadRequest(bufio.NewReader(c)) // what comes before it is no reply
			io.WriteString(c, "HTTP/1.1 200 OK\r\nA: "+strings.Repeat("x", 100_000))
			c.Close()
		})})
		disk.fill(0)
		if _, err := fetch(r, "GET", "http://origin/", ""); err == nil {
			t.Error("a part of a head is taken for a reply")
		}
		time.Sleep(time.Second)
		if n := r.space.heads.Load(); n < 100_000 {
			t.Errorf("%d bytes are counted, want more than 100000", n)
		}
		disk.lift()
		time.Sleep(2 * time.Second)
		closeForTest(t, r)
		wantEmpty(t, r.space)
		theOne(t, archive(t, r), "resource", "urn:bad-reply:http://origin/")
	})
}
