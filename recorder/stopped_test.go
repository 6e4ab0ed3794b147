package recorder

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Who waits for a slot when recording stops is refused like all who come
// later, and the slots are free again.
func TestWaitingWhenRecordingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := gatedOrigin{"/first": make(chan struct{})}
		var asked atomic.Int32
		r := openForTest(t, Options{MaxInFlight: 1, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			asked.Add(1)
			gates.ServeHTTP(w, req)
		})})
		first := fetchAside(r, "http://origin/first")
		synctest.Wait()
		var waiting []<-chan result
		for range 3 {
			waiting = append(waiting, fetchAside(r, "http://origin/next"))
		}
		synctest.Wait()
		gone := errors.New("the disk is gone")
		r.writer.do(func() error {
			r.writer.stop(gone)
			return nil
		})
		close(gates["/first"])
		if got := <-first; got.err != nil {
			t.Errorf("the exchange that was under way: %v", got.err)
		}
		for _, done := range waiting {
			got := <-done
			wantRefusal(t, got.err, PhaseAdmission, http.StatusServiceUnavailable)
			if !errors.Is(got.err, gone) {
				t.Errorf("refused with %v, which does not say why", got.err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the origin was asked %d times, want once", n)
		}
		synctest.Wait()
		if s := r.Status(); s.InFlight != 0 || s.Lost != 1 || s.Failures != 3 {
			t.Errorf("status %+v, want none under way, 1 lost, 3 failures", s)
		}
		if err := r.Close(t.Context()); !errors.Is(err, gone) {
			t.Errorf("Close: %v", err)
		}
	})
}
