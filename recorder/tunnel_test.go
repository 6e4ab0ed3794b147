package recorder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fetchFor is fetchAside for a client.
func fetchFor(r *Recorder, c Client, method, url string) <-chan result {
	done := make(chan result, 1)
	start := time.Now()
	go func() { // ends with the exchange
		got := result{}
		req, _ := http.NewRequestWithContext(WithClient(context.Background(), c), method, url, nil)
		resp, err := r.RoundTrip(req)
		if got.err, got.at = err, time.Since(start); err == nil {
			var body []byte
			body, got.err = io.ReadAll(resp.Body)
			got.body = string(body)
			resp.Body.Close()
		}
		done <- got
	}()
	return done
}

// A browser has six connections to an origin over HTTP/1.1. It has no more by
// way of a tunnel with HTTP/2; its requests wait as long as it takes, in the
// order in which they came.
func TestConnectionsPerTunnel(t *testing.T) {
	for _, most := range []int{6, 20} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var begun []string
			origin := &countConns{dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				begun = append(begun, r.URL.Path)
				mu.Unlock()
				time.Sleep(3 * time.Second)
			})}
			o := Options{Dial: origin.dialContext}
			if most != 6 {
				o.MaxConnsPerTunnel = most
			}
			r := openForTest(t, o)
			start := time.Now()
			var all []<-chan result
			const requests = 120
			for i := range requests {
				path := fmt.Sprintf("/%d", i)
				all = append(all, fetchFor(r, Client{Name: "here", Tunnel: "first"}, "GET", "http://origin"+path))
				synctest.Wait()
			}
			other := fetchFor(r, Client{Name: "here", Tunnel: "second"}, "GET", "http://origin/other")
			if got := <-other; got.err != nil || got.at != 3*time.Second {
				t.Errorf("another tunnel: %+v, want no wait", got)
			}
			for i, done := range all {
				if got := <-done; got.err != nil {
					t.Errorf("%d: %v", i, got.err)
				}
			}
			if took, want := time.Since(start), 3*time.Second*time.Duration(requests/most); took != want {
				t.Errorf("took %s, want %s", took, want)
			}
			if n := origin.top.Load(); n != int64(most+1) {
				t.Errorf("%d connections at once, want %d for each tunnel", n, most)
			}
			for i, path := range slices.DeleteFunc(begun, func(path string) bool { return path == "/other" }) {
				if n, err := strconv.Atoi(path[1:]); err != nil || n/most != i/most { // so many begin at once
					t.Errorf("%s is the one with the number %d", path, i)
				}
			}
			wantAllGivenBack(t, r)
		})
	}
}

// A page with more long polls than there are connections goes on after 10 s, and
// what releases them comes through.
func TestLongPollsOfATunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{Timeout: time.Hour, Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				close(release)
				return
			}
			<-release
		})})
		page := Client{Tunnel: "page"}
		var polls []<-chan result
		for range 13 {
			polls = append(polls, fetchFor(r, page, "GET", "http://origin/poll"))
			synctest.Wait()
		}
		if got := <-fetchFor(r, page, "POST", "http://origin/release"); got.err != nil || got.at != 2*longAfter {
			t.Errorf("what comes next: %+v, want it after %s", got, 2*longAfter)
		}
		for _, done := range polls {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// The same when there is no room among the long exchanges.
func TestLongPollsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{Timeout: time.Hour, MaxLong: 1, Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) { <-release })})
		page := Client{Tunnel: "page"}
		var polls []<-chan result
		for range 13 {
			polls = append(polls, fetchFor(r, page, "GET", "http://origin/poll"))
		}
		time.Sleep(2*longAfter + time.Second)
		if n := r.Status().InFlight; n != 12 {
			t.Errorf("%d exchanges are under way, want 12 beside the long one", n)
		}
		close(release)
		for _, done := range polls {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// Event streams do not count: a browser has any number of them over HTTP/2.
func TestEventStreamsOfATunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				w.Header().Set("Content-Type", "text/event-stream")
				w.(http.Flusher).Flush()
				<-release
			}
		})})
		page := Client{Tunnel: "page"}
		var streams []<-chan result
		for range 40 {
			streams = append(streams, fetchFor(r, page, "GET", "http://origin/events"))
		}
		synctest.Wait()
		if got := <-fetchFor(r, page, "GET", "http://origin/"); got.err != nil || got.at != 0 {
			t.Errorf("a request beside event streams: %+v, want no wait", got)
		}
		close(release)
		for _, done := range streams {
			if got := <-done; got.err != nil || got.at != 0 {
				t.Errorf("an event stream: %+v, want its head at once", got)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// A request that its client gives up while it waits leaves the line.
func TestGivenUpInTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := openForTest(t, Options{MaxConnsPerTunnel: 1, Dial: originHandler(t, func(http.ResponseWriter, *http.Request) { <-hold })})
		page := Client{Tunnel: "page"}
		first := fetchFor(r, page, "GET", "http://origin/first")
		synctest.Wait()
		ctx, giveUp := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { // ends with giveUp
			req, _ := http.NewRequestWithContext(WithClient(ctx, page), "GET", "http://origin/left", nil)
			_, err := r.RoundTrip(req)
			left <- err
		}()
		synctest.Wait()
		last := fetchFor(r, page, "GET", "http://origin/last")
		synctest.Wait()
		giveUp()
		wantRefusal(t, <-left, PhaseClient, http.StatusServiceUnavailable)
		close(hold)
		for _, done := range []<-chan result{first, last} {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		wantAllGivenBack(t, r)
	})
}

// One client gets seven eighths of the slots and of the long places. The last
// eighth is for others.
func TestSharesOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := openForTest(t, Options{MaxInFlight: 16, MaxLong: 16, Timeout: time.Hour, Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-release
			}
		})})
		var all []<-chan result
		for i := range 40 {
			all = append(all, fetchFor(r, Client{Name: "greedy"}, "GET", fmt.Sprintf("http://origin%d/hold", i)))
		}
		for _, want := range []struct{ short, long int }{{14, 0}, {14, 14}, {14, 14}} {
			synctest.Wait()
			if s := r.Status(); s.InFlight != want.short || s.Long != want.long {
				t.Errorf("%d exchanges are under way and %d long ones, want %+v", s.InFlight, s.Long, want)
			}
			if got := <-fetchFor(r, Client{Name: "modest"}, "GET", "http://origin0/"); got.err != nil || got.at != 0 {
				t.Errorf("another client: %+v, want no wait", got)
			}
			time.Sleep(longAfter + time.Second)
		}
		refused := 0
		close(release)
		for _, done := range all {
			if got := <-done; got.err != nil {
				wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
				refused++
			}
		}
		if n := r.Status().Crowded; refused == 0 || int64(refused) != n {
			t.Errorf("%d are refused, and %d counted", refused, n)
		}
		wantAllGivenBack(t, r)
	})
}
