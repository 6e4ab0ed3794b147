package recorder

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits for a place at an origin when recording pauses is refused at once,
// because of the pause, and the places stay right.
func TestPauseWhileWaitingForAPlace(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			gates := gatedOrigin{"/first": make(chan struct{})}
			r := openForTest(t, Options{Dial: originHandler(t, gates.ServeHTTP), MaxConnsPerOrigin: 1, Logger: slog.New(slog.DiscardHandler)})
			first := fetchAside(r, "http://origin/first")
			synctest.Wait()
			var waiting []<-chan result
			for range 3 {
				waiting = append(waiting, fetchAside(r, "http://origin/next"))
			}
			synctest.Wait()
			time.Sleep(time.Second)
			cause, class, retry := errors.New("the disk is full"), classPaused, pauseHint
			if stops {
				class, retry = classStopped, 0
				r.fail(cause)
			} else {
				r.pause(cause)
			}
			for _, done := range waiting {
				got := <-done
				wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
				if e := (*Error)(nil); !errors.As(got.err, &e) || e.Class != class || e.Retry != retry || !errors.Is(e, cause) {
					t.Errorf("refused with %+v", e)
				}
				if got.at != time.Second {
					t.Errorf("refused after %s", got.at)
				}
			}
			if !stops {
				r.resume()
				next := fetchAside(r, "http://origin/next")
				synctest.Wait()
				close(gates["/first"])
				if got := <-next; got.err != nil {
					t.Error(got.err)
				}
			} else {
				close(gates["/first"])
			}
			<-first
			if !stops {
				wantAllGivenBack(t, r)
			} else if err := r.Close(t.Context()); !errors.Is(err, cause) {
				t.Errorf("Close: %v", err)
			}
			if n := len(r.pool.places.all); n != 0 {
				t.Errorf("%d origins are still counted", n)
			}
		})
	}
}

// Who has waited in vain is not told that nothing ended: others were first.
func TestNotItsTurn(t *testing.T) {
	for name, o := range map[string]Options{
		"--max-in-flight":              {MaxInFlight: 1},
		"--max-connections-per-origin": {MaxConnsPerOrigin: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o.Dial = originHandler(t, func(http.ResponseWriter, *http.Request) { time.Sleep(9 * time.Second) })
				r := openForTest(t, o)
				var all []<-chan result
				for i := range 5 {
					url := "http://origin/"
					if o.MaxInFlight > 0 {
						url = fmt.Sprintf("http://origin%d/", i)
					}
					all = append(all, fetchAside(r, url))
					synctest.Wait()
				}
				for i, done := range all {
					got := <-done
					if i < 4 && got.err == nil {
						continue
					}
					wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
					if got.err == nil || !strings.Contains(got.err.Error(), "turn within 30s") || !strings.Contains(got.err.Error(), name) || strings.Contains(got.err.Error(), "none ended") {
						t.Errorf("%d: refused with %v", i, got.err)
					}
				}
				closeForTest(t, r)
			})
		})
	}
}
