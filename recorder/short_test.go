package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A smallDisk has room for total bytes; what the recorder has on it takes some.
type smallDisk struct {
	*faultyFS
	r *Recorder // nil: while it is opened
}

func (d *smallDisk) Free(string) (free, total uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	free = d.free
	if d.r != nil {
		free -= min(free, uint64(d.r.space.appended.Load()+d.r.space.disk.Load()))
	}
	return free, d.total, d.freeErr
}

// When a body finds no room on the disk nobody is admitted until there is room
// again, from that very moment on.
func TestTruncationForWantOfDiskPauses(t *testing.T) {
	for _, upload := range []bool{false, true} {
		t.Run(fmt.Sprint("upload ", upload), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &smallDisk{faultyFS: newFaultyFS(nil)}
				disk.free, disk.total = 8_000_000, 10_000_000
				gate := make(chan struct{})
				r := openForTest(t, Options{fs: disk, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
					sized(w, req)
					w.(http.Flusher).Flush()
					if req.URL.RawQuery == "slow" {
						<-gate
					}
				}), Logger: slog.New(slog.DiscardHandler)})
				disk.mu.Lock()
				disk.r = r
				disk.mu.Unlock()
				big := func(query string) error {
					path, body := "/5000000", ""
					if upload {
						path, body = "/1", string(noise(5_000_000))
					}
					_, err := fetch(r, "POST", "http://origin"+path+query, body)
					return err
				}
				done := make(chan error)
				go func() { done <- big("?slow") }() // ends with the gate
				time.Sleep(time.Millisecond)         // before it is looked at the disk again
				_, err := fetch(r, "GET", "http://origin/1", "")
				wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
				if e := (*Error)(nil); !errors.As(err, &e) || e.Class != classPaused || e.Retry != pauseHint {
					t.Errorf("refused with %+v", e)
				}
				if err == nil || strings.Contains(err.Error(), r.options.Dir) || !strings.Contains(err.Error(), "are free in the archive's directory, of which") {
					t.Errorf("refused with %v", err)
				}
				for _, want := range []string{" are free in " + r.options.Dir, "are needed for what was captured already", "50 kB", "--min-free"} {
					if got := fmt.Sprint(r.Err()); !strings.Contains(got, want) {
						t.Errorf("the reason does not say %q: %s", want, got)
					}
				}
				time.Sleep(30 * time.Second)
				if s := r.Status(); s.Unavailable == nil || s.Pauses != 1 {
					t.Errorf("status %+v, want it to last as long as the room is taken", s)
				}
				close(gate)
				if err := <-done; err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second) // it is appended and durable
				if err := r.Err(); err == nil || !strings.Contains(err.Error(), "100 kB have to stay free (--min-free); it goes on with 5") {
					t.Errorf("what was too little room for one is taken to be enough for the next: %v", err)
				}
				disk.mu.Lock()
				disk.free += 1_500_000
				disk.mu.Unlock()
				time.Sleep(time.Second)
				mustFetch(t, r, "http://origin/1")
				if s := r.Status(); s.Pauses != 1 {
					t.Errorf("status %+v, want one pause", s)
				}
				closeForTest(t, r)
				wantEmpty(t, r.space)
				archive(t, r)
			})
		})
	}
}

// When bodies have all of --spool-disk nobody is admitted until some of it is
// given back.
func TestSpoolDiskIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := openForTest(t, Options{MinFree: -1, SpoolMemory: 1 << 20, SpoolDisk: 1 << 20, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			sized(w, req)
			w.(http.Flusher).Flush()
			if req.URL.RawQuery == "slow" {
				<-gate
			}
		}), Logger: slog.New(slog.DiscardHandler)})
		slow := fetchAside(r, "http://origin/3000000?slow")
		synctest.Wait()
		_, err := fetch(r, "GET", "http://origin/1", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if err == nil || !strings.Contains(err.Error(), "--spool-disk") {
			t.Errorf("refused with %v", err)
		}
		close(gate)
		<-slow
		time.Sleep(time.Second)
		mustFetch(t, r, "http://origin/1")
		closeForTest(t, r)
		wantEmpty(t, r.space)
	})
}

// However much has to stay free, what an empty disk has is enough to go on.
func TestEnoughToGoOn(t *testing.T) {
	for _, test := range []struct {
		min          int64
		total, goOn  uint64
		first, later string
	}{
		{1e9, 100e9, 1.1e9, "1.0 GB have to stay free (--min-free); it goes on with 1.1 GB", "1.0 GB have to stay free (--min-free); it goes on with 1.1 GB"},
		{10e9, 10.5e9, 10.25e9, "10 GB have to stay free (--min-free)", "10 GB have to stay free (--min-free)"},
		{10e9, 9e9, 10e9, "10 GB have to stay free (--min-free)", "10 GB have to stay free (--min-free)"},
	} {
		s := &space{dir: "warcs"}
		o := &Options{MinFree: test.min}
		says := func(free uint64, already bool, want string) {
			t.Helper()
			s.look(free, test.total, o)
			switch got := s.short(already); {
			case want == "" && got != nil:
				t.Errorf("%d of %d free: %v", free, test.total, got)
			case want != "" && (got == nil || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "are free in warcs")):
				t.Errorf("%d of %d free: %v, want it to say %q", free, test.total, got, want)
			}
		}
		says(uint64(test.min), false, "")
		says(uint64(test.min)-1, false, test.first)
		says(test.goOn-1, true, test.later)
		says(test.goOn, true, "")
	}
}

// The disk may stop to tell what it has left: that is said once, and nobody is
// kept away because of what it had before.
func TestMinFreeIsNoLongerKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logFile
		disk := newFaultyFS(nil)
		disk.free, disk.total = 10, 100_000_000
		r := openForTest(t, Options{fs: disk, Dial: originHandler(t, echoPath), Logger: log.logger()})
		if r.Err() == nil {
			t.Error("it does not pause")
		}
		disk.mu.Lock()
		disk.freeErr = errors.ErrUnsupported
		disk.mu.Unlock()
		time.Sleep(time.Minute)
		mustFetch(t, r, "http://origin/1")
		if n := r.Status().Free; n != -1 {
			t.Errorf("%d bytes are free", n)
		}
		if n := strings.Count(log.String(), "--min-free has no effect"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, &log)
		}
		disk.mu.Lock()
		disk.freeErr = nil
		disk.mu.Unlock()
		time.Sleep(time.Second)
		if r.Err() == nil {
			t.Error("it does not pause again")
		}
		closeForTest(t, r)
	})
}

// A start with too little space for good says so in its error; nothing was
// recording that could stop.
func TestTooLittleSpaceAtTheStart(t *testing.T) {
	var log logFile
	disk := newFaultyFS(nil)
	disk.free, disk.total = 10, 100_000_000
	o := Options{Dir: t.TempDir(), MinFree: 1000, StopForGood: true, fs: disk, Logger: log.logger()}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "--min-free") {
		t.Errorf("Open: %v", err)
	}
	if strings.Contains(log.String(), "STOPPED") {
		t.Errorf("the log says:\n%s", &log)
	}
}

// Records of look-ups, of which tunnels that are not recorded give any number, do
// not take the second half of what has to stay free. They are counted, and the log
// says it once in a while.
func TestLookUpsOnANearlyFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logFile
		disk := newFaultyFS(nil)
		disk.free, disk.total = 10_000_000, 100_000_000
		r := openForTest(t, Options{MinFree: 1_000_000, fs: disk, Dial: originHandler(t, echoPath), Logger: log.logger()})
		add := func(n int) {
			for i := range n {
				r.AddResource(Resource{URI: fmt.Sprint("dns:host", i), ContentType: "text/dns", Date: time.Now(), Block: []byte("answer")})
			}
			synctest.Wait()
		}
		add(10)
		disk.mu.Lock()
		disk.free = 499_000
		disk.mu.Unlock()
		time.Sleep(time.Second)
		add(500)
		if s := r.Status(); s.Others != 10 || s.LostRecords != 500 {
			t.Errorf("%d records are written, %d are lost", s.Others, s.LostRecords)
		}
		if n := strings.Count(log.String(), "RECORDS ARE LOST"); n != 1 {
			t.Errorf("it is said %d times", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err == nil || !strings.Contains(err.Error(), "500 records") {
			t.Errorf("Close says %v", err)
		}
	})
}
