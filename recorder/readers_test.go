package recorder

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
)

// open begins an exchange whose body nobody reads.
func open(t *testing.T, r *Recorder, c Client, url string) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(WithClient(context.Background(), c), "GET", url, nil)
	resp, err := r.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A response that is recorded, but not read, holds a place until its client has
// read it or goes away.
func TestUnreadResponseHoldsAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{OpenIndex: opened(dedup.NewMemory()), Dial: originHandler(t, sized)})
		for i, path := range []string{"/300000", "/300000", "/1000", "/0"} { // the second is a revisit
			unread := open(t, r, Client{Name: "here"}, "http://origin"+path)
			synctest.Wait()
			time.Sleep(time.Second)
			if s := r.Status(); s.Responses+s.Revisits != int64(i+1) || s.Long != 1 || s.InFlight != 0 {
				t.Errorf("%s: status %+v, want it recorded, and a long exchange", path, s)
			}
			body, err := io.ReadAll(unread.Body)
			if n := fmt.Sprint("/", len(body)); err != nil || n != path {
				t.Errorf("%s: %d octets came, error %v", path, len(body), err)
			}
			unread.Body.Close()
			if s := r.Status(); s.Long != 0 || s.InFlight != 0 || s.SpoolMemory+s.SpoolDisk != 0 {
				t.Errorf("%s: when it has been read the status is %+v", path, s)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// Responses that nobody reads do not keep others out when the disk for
// temporary files is used up: the slowest readers are cut. All is recorded.
func TestUnreadResponsesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MinFree: -1, SpoolMemory: 1 << 20, SpoolDisk: 4 << 20, Dial: originHandler(t, sized), Logger: slog.New(slog.DiscardHandler)})
		var hungUp atomic.Int64
		var unread []*http.Response
		const unreads = 40
		for range unreads {
			unread = append(unread, open(t, r, Client{Name: "greedy", HangUp: func() { hungUp.Add(1) }}, "http://origin/300000"))
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			if got := <-fetchFor(r, Client{Name: "modest"}, "GET", "http://other/280000"); got.err != nil || len(got.body) != 280_000 {
				t.Fatalf("another client after %d: %d octets, %v", len(unread), len(got.body), got.err)
			}
		}
		time.Sleep(time.Second)
		s := r.Status()
		if s.Responses != 2*unreads || s.Incomplete != 0 || s.Crowded != 0 || s.SlowClients == 0 || hungUp.Load() != s.SlowClients {
			t.Errorf("status %+v with %d hung up, want all recorded", s, hungUp.Load())
		}
		cut := int64(0)
		for _, resp := range unread {
			if n, err := io.Copy(io.Discard, resp.Body); err != nil {
				cut++
			} else if n != 300_000 {
				t.Errorf("%d octets came", n)
			}
			resp.Body.Close()
		}
		if cut != s.SlowClients {
			t.Errorf("%d clients learn that they were cut, %d were", cut, s.SlowClients)
		}
		wantAllGivenBack(t, r)
		archive(t, r)
	})
}

// The disk is used up before anything is recorded. As soon as the first are,
// the slow readers among them are cut for others.
func TestUnreadResponsesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MinFree: -1, SpoolMemory: 1 << 20, SpoolDisk: 4 << 20, Dial: originHandler(t, sized), Logger: slog.New(slog.DiscardHandler)})
		var unread []*http.Response
		for range 100 {
			req, _ := http.NewRequestWithContext(WithClient(t.Context(), Client{Name: "greedy"}), "GET", "http://origin/300000", nil)
			if resp, err := r.RoundTrip(req); err == nil {
				unread = append(unread, resp)
			}
		}
		time.Sleep(3 * time.Second)
		if got := <-fetchFor(r, Client{Name: "modest"}, "GET", "http://other/280000"); got.err != nil || len(got.body) != 280_000 {
			t.Errorf("another client: %d octets, %v", len(got.body), got.err)
		}
		if s := r.Status(); s.NoRoom != nil {
			t.Errorf("there is no room: %v", s.NoRoom)
		}
		for _, resp := range unread {
			resp.Body.Close()
		}
		wantAllGivenBack(t, r)
		archive(t, r)
	})
}

// When there is no place among the long exchanges the slowest reader is cut, one
// that reads is not.
func TestSlowestReaderIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MaxLong: 2, Dial: originHandler(t, sized), Logger: slog.New(slog.DiscardHandler)})
		reading, unread := open(t, r, Client{}, "http://origin/600000"), open(t, r, Client{}, "http://origin/600000")
		read := make(chan error)
		go func() { // reads all within 3 s
			for range 30 {
				if _, err := io.CopyN(io.Discard, reading.Body, 20_000); err != nil {
					read <- err
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			_, err := io.Copy(io.Discard, reading.Body)
			reading.Body.Close()
			read <- err
		}()
		time.Sleep(2 * time.Second)
		third := open(t, r, Client{}, "http://origin/600000")
		time.Sleep(500 * time.Millisecond)
		if s := r.Status(); s.Long != 2 || s.InFlight != 0 || s.SlowClients != 1 {
			t.Errorf("status %+v, want one reader cut", s)
		}
		if _, err := io.Copy(io.Discard, unread.Body); err == nil {
			t.Error("it is not the one that reads nothing")
		}
		unread.Body.Close()
		if err := <-read; err != nil {
			t.Errorf("the one that reads: %v", err)
		}
		if n, err := io.Copy(io.Discard, third.Body); n != 600_000 || err != nil {
			t.Errorf("the third: %d octets, %v", n, err)
		}
		third.Body.Close()
		wantAllGivenBack(t, r)
	})
}

// A reader for which there is no place among the long exchanges keeps its slot
// while it is not slow.
func TestReaderKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MaxLong: 1, Dial: originHandler(t, sized), Logger: slog.New(slog.DiscardHandler)})
		r.long.tryTake()
		resp := open(t, r, Client{}, "http://origin/600000")
		time.Sleep(500 * time.Millisecond)
		if s := r.Status(); s.InFlight != 1 || s.SlowClients != 0 {
			t.Errorf("status %+v, want a reader that has its slot", s)
		}
		time.Sleep(5 * time.Second)
		if s := r.Status(); s.InFlight != 0 || s.SlowClients != 1 {
			t.Errorf("status %+v, want a slow reader cut", s)
		}
		resp.Body.Close()
		r.long.give()
		wantAllGivenBack(t, r)
	})
}

// Requests that wait for room on the disk look for it together, however many they
// and the exchanges under way are.
func TestMakingRoomIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{MinFree: -1, Dial: originHandler(t, sized)})
		var all []*exchange
		for range 1000 {
			body := newSpool(r.space, r.options.Dir, -1)
			x := &exchange{r: r, received: &message{body: body}, follower: body.follow(), claim: new(claim)}
			all = append(all, x)
			if !r.track(x) {
				t.Fatal("it is closed")
			}
		}
		r.space.disk.Add(1000)
		r.space.full.Store(1000)
		if n := testing.AllocsPerRun(100, func() {
			if !r.crowdedDisk() {
				t.Error("the disk is not crowded")
			}
		}); n > 15 {
			t.Errorf("each request makes %v allocations", n)
		}
		r.space.disk.Add(-1000)
		if r.crowdedDisk() {
			t.Error("the disk is still crowded")
		}
		for _, x := range all {
			r.untrack(x)
			x.received.body.release()
		}
		wantAllGivenBack(t, r)
	})
}
