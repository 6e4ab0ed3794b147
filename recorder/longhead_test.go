package recorder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
)

// largeHeads answers with a head of that many bytes and a body that drips until
// release is closed; paths below /fine have neither.
func largeHeads(size int, release chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fine") {
			io.WriteString(w, r.URL.Path)
			return
		}
		w.Header().Set("Set-Cookie", strings.Repeat("c", size))
		w.Header().Set("Content-Type", "text/html")
		for {
			io.WriteString(w, "<p>drip</p>")
			w.(http.Flusher).Flush()
			select {
			case <-release:
				return
			case <-r.Context().Done():
				return
			case <-time.After(3 * time.Second):
			}
		}
	}
}

// The head of a long exchange goes to the disk, and comes back exactly as it
// was.
func TestLongHeadGoesToDisk(t *testing.T) {
	const length = 100_000
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{OpenIndex: opened(dedup.NewMemory()), Dial: originHandler(t, largeHeads(length, release))})
		first, second := open(t, r, Client{}, "http://origin/1"), open(t, r, Client{}, "http://origin/2")
		if n := r.space.heads.Load(); n < 4*length {
			t.Errorf("heads take %d bytes at first, want %d for each client, and as much for the archive", n, length)
		}
		time.Sleep(longAfter + time.Second)
		if heads, disk := r.space.heads.Load(), r.Status().SpoolDisk; heads > 2*length+70_000 || disk < 2*length {
			t.Errorf("later heads take %d bytes, and %d of disk", heads, disk)
		}
		close(release)
		for _, resp := range []*http.Response{first, second} {
			if n := len(resp.Header.Get("Set-Cookie")); n != length {
				t.Errorf("the client has got a field of %d bytes", n)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
		}
		wantAllGivenBack(t, r)
		records := archive(t, r)
		if n := count(records, "revisit"); n != 1 {
			t.Errorf("there are %d revisits, want 1", n)
		}
		whole := ""
		for i := range records {
			if kind := records[i].Type; kind == "response" || kind == "revisit" {
				whole += block(t, &records[i])
			}
		}
		if n := strings.Count(whole, "\r\nSet-Cookie: "+strings.Repeat("c", length)+"\r\n"); n != 2 || !strings.Contains(whole, "\r\nContent-Type: text/html\r\n") {
			t.Errorf("%d of the heads are whole", n)
		}
	})
}

// What is on the disk is given back also when the exchange is cut, or its
// client goes.
func TestLongHeadIsGivenBack(t *testing.T) {
	for _, how := range []string{"cut", "client gone", "origin gone"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r := openForTest(t, Options{Dial: originHandler(t, largeHeads(50_000, release)), Logger: slog.New(slog.DiscardHandler)})
			resp := open(t, r, Client{}, "http://origin/1")
			time.Sleep(longAfter + time.Second)
			switch how {
			case "cut":
				r.cut()
			case "origin gone":
				r.pool.close()
			}
			synctest.Wait()
			resp.Body.Close()
			wantAllGivenBack(t, r)
			close(release)
			if n := len(block(t, theOne(t, archive(t, r), "response", "http://origin/1"))); n < 50_000 {
				t.Errorf("%s: the record has %d bytes", how, n)
			}
		})
	}
}

// One origin whose heads are large, and whose bodies never end, keeps out nobody
// who wants something else.
func TestLargeHeadsOfOneOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{SpoolMemory: 32 << 20, Dial: originHandler(t, largeHeads(130_000, release)), Logger: slog.New(slog.DiscardHandler)})
		here := Client{Name: "here"}
		var all []<-chan result
		for i := range 136 {
			all = append(all, fetchFor(r, here, "GET", fmt.Sprintf("http://bad/%d", i)))
			synctest.Wait()
			if got := <-fetchFor(r, here, "GET", fmt.Sprintf("http://good/fine/%d", i)); got.err != nil || got.at != 0 {
				t.Fatalf("another origin beside %d: %+v, want no wait", i, got)
			}
		}
		refused := r.Status().Crowded
		if s := r.Status(); s.NoRoom != nil || refused == 0 || refused > 136 {
			t.Errorf("status %+v, want some of the one origin refused", s)
		}
		time.Sleep(longAfter + time.Second)
		if got := <-fetchFor(r, here, "GET", "http://bad/fine"); got.err != nil {
			t.Errorf("the origin itself, when its heads are on the disk: %v", got.err)
		}
		close(release)
		for _, done := range all {
			if got := <-done; got.err != nil {
				refused--
			}
		}
		if refused != 0 {
			t.Errorf("%d more are counted as refused than are", refused)
		}
		wantAllGivenBack(t, r)
	})
}

// The same of many origins: the long exchanges with the largest heads are cut
// for others.
func TestLargeHeadsOfManyOrigins(t *testing.T) {
	for name, client := range map[string]Client{"one client": {Name: "here"}, "unknown clients": {}} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r := openForTest(t, Options{SpoolMemory: 8 << 20, Dial: originHandler(t, largeHeads(130_000, release)), Logger: slog.New(slog.DiscardHandler)})
			var all []<-chan result
			for i := range 120 {
				all = append(all, fetchFor(r, client, "GET", fmt.Sprintf("http://bad%d/%d", i%20, i)))
				synctest.Wait()
				time.Sleep(time.Second)
			}
			time.Sleep(longAfter)
			for i := range 10 {
				if got := <-fetchFor(r, client, "GET", fmt.Sprintf("http://good/fine/%d", i)); got.err != nil || got.at != 0 {
					t.Errorf("%s: another origin: %+v, want no wait", name, got)
				}
			}
			if s := r.Status(); s.Incomplete == 0 || s.NoRoom != nil {
				t.Errorf("%s: status %+v, want some cut", name, s)
			}
			if n := r.space.heads.Load(); n > r.space.maxMemory/2+1<<20 {
				t.Errorf("%s: heads take %d bytes", name, n)
			}
			close(release)
			for _, done := range all {
				<-done
			}
			wantAllGivenBack(t, r)
			archive(t, r)
		})
	}
}

// A long exchange whose head is large is not cut when that makes too little room
// for the head of another one.
func TestLongHeadIsNotCutInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{SpoolMemory: 8 << 20, Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			size := 100_000
			if r.URL.Path == "/huge" {
				size = 900_000
			}
			largeHeads(size, release)(w, r)
		}), Logger: slog.New(slog.DiscardHandler)})
		resp := open(t, r, Client{}, "http://origin/long")
		time.Sleep(longAfter + time.Second)
		var huge []<-chan result
		for range 3 {
			huge = append(huge, fetchAside(r, "http://origin/huge"))
			synctest.Wait()
		}
		if s := r.Status(); s.Crowded == 0 {
			t.Errorf("status %+v, want one refused", s)
		}
		close(release)
		for _, done := range huge {
			<-done
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Errorf("the long exchange: %v", err)
		}
		resp.Body.Close()
		wantAllGivenBack(t, r)
		checkTruncated(t, theOne(t, archive(t, r), "response", "http://origin/long"), "")
	})
}

// A head on the disk is given back also when nobody waits for the reply any more.
func TestLongHeadOfADroppedReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Logger: slog.New(slog.DiscardHandler), Dial: originConns(t, func(_ int, c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				t.Error(err)
			}
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: "+strings.Repeat("x", 50_000)+"\r\n\r\n")
			io.Copy(io.Discard, c)
		})})
		stalls, hints := make(chan struct{}), false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			hints = true
			<-stalls // the client takes the hint later …
			return errors.New("the client has gone")
		}})
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://origin/", nil)
		failed := make(chan error)
		go func() { // ends with the exchange
			_, err := r.RoundTrip(req)
			failed <- err
		}()
		time.Sleep(longAfter + time.Second)
		if r.Status().SpoolDisk < 50_000 {
			t.Errorf("the head is not on the disk: %+v", r.Status())
		}
		close(stalls) // … or never
		if err := <-failed; err == nil || !hints {
			t.Error("there is a reply")
		}
		synctest.Wait()
		if s := r.Status(); s.SpoolDisk != 0 {
			t.Errorf("%d bytes of the disk are still taken", s.SpoolDisk)
		}
		wantAllGivenBack(t, r)
	})
}

// What finds no room on the disk goes there when there is some.
func TestLongExchangeGoesToDiskLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{SpoolDisk: 1 << 20, Dial: originHandler(t, largeHeads(100_000, release)), Logger: slog.New(slog.DiscardHandler)})
		r.space.disk.Add(1 << 20)
		resp := open(t, r, Client{}, "http://origin/1")
		time.Sleep(longAfter + time.Second)
		if n := r.Status().SpoolDisk; n != 1<<20 {
			t.Errorf("%d bytes of the disk are taken, want no more than there are", n)
		}
		r.space.disk.Add(-1 << 20)
		time.Sleep(longAfter)
		if n := r.Status().SpoolDisk; n < 100_000 {
			t.Errorf("%d bytes are on the disk, want the body and the head", n)
		}
		close(release)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		wantAllGivenBack(t, r)
		checkTruncated(t, theOne(t, archive(t, r), "response", "http://origin/1"), "")
	})
}
