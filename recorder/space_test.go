package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/warc"
)

// sized answers /N with N octets, which do not compress.
func sized(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	var n int
	fmt.Sscanf(r.URL.Path, "/%d", &n)
	w.Write(noise(n))
}

func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(n) | 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// Spools take memory, then disk, and give both back, whoever lets go first.
func TestSpace(t *testing.T) {
	for _, test := range []struct {
		name         string
		memory, disk int64
		size         int
		kept         int64
		onDisk       bool
	}{
		{"in memory", 1 << 20, 1 << 30, 100_000, 100_000, false},
		{"too long for memory", 1 << 20, 1 << 30, 600_000, 600_000, true},
		{"no memory", 1000, 1 << 30, 100_000, 100_000, true},
		{"little memory, and so little to keep", 1, 1 << 30, spoolSmall, spoolSmall, false},
		{"neither", 200_000, 1, 600_000, 100_000, false},
		{"a little of both", 200_000, 350_000, 600_000, 300_000, true},
		{"memory instead of the disk", 10 << 20, 1, 900_000, 900_000, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			space := &space{maxMemory: test.memory, maxDisk: test.disk}
			s := newSpool(space, t.TempDir(), -1)
			s.weigh(123)
			f := s.follow()
			var view []byte
			for at := 0; at < test.size; {
				n := min(100_000, test.size-at)
				if _, err := s.Write(make([]byte, n)); err != nil {
					break
				}
				at += n
				if view == nil {
					view, _ = f.next(nil)
				}
			}
			if s.len() != test.kept || (s.file != nil) != test.onDisk {
				t.Errorf("%d octets are kept, on disk %v; want %d, %v", s.len(), s.file != nil, test.kept, test.onDisk)
			}
			if got := space.memory.Load(); got > max(test.memory, spoolSmall) {
				t.Errorf("%d bytes of memory are taken", got)
			}
			if got := space.disk.Load(); got > test.disk || test.onDisk && got != s.inFileLocked() {
				t.Errorf("%d bytes of disk are taken", got)
			}
			if test.onDisk && test.memory > 100_000 && space.memory.Load() == 0 {
				t.Error("what the follower looks at counts for nothing")
			}
			s.end(nil)
			for {
				if _, err := f.next(nil); err != nil {
					break
				}
			}
			f.stop()
			s.release()
			wantEmpty(t, space)
		})
	}
}

// A write that fails takes nothing.
func TestSpaceOfAFailedWrite(t *testing.T) {
	space := plenty()
	s := newSpool(space, t.TempDir(), -1)
	fillSpool(t, s, spoolMemory+1)
	before := space.disk.Load()
	s.file.Close()
	if _, err := s.Write(make([]byte, spoolTail)); err == nil || s.len() != spoolMemory+1 || space.disk.Load() != before {
		t.Errorf("%v, %d octets are kept and %d bytes taken", err, s.len(), space.disk.Load())
	}
	s.release()
	wantEmpty(t, space)
}

// Bodies that find no room are passed on whole and recorded in part, in both
// directions; when all is over nothing is taken any more.
func TestNoRoomForBodies(t *testing.T) {
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		t.Run(compression.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openForTest(t, Options{Dial: originHandler(t, sized), SpoolMemory: 50_000, SpoolDisk: 400_000, Compression: compression})
				for _, test := range []struct {
					url, upload string
					cutRequest  bool
					cutResponse bool
				}{
					{"http://origin/1000", "", false, false},
					{"http://origin/150000", "", false, false},
					{"http://origin/900000", "", false, true},
					{"http://origin/1001", strings.Repeat("x", 600_000), true, false},
				} {
					before := r.Status()
					got, err := fetch(r, "POST", test.url, test.upload)
					var n int
					fmt.Sscanf(test.url, "http://origin/%d", &n)
					if err != nil || got != string(noise(n)) {
						t.Errorf("%s: the client got %d octets, %v", test.url, len(got), err)
					}
					time.Sleep(time.Second)
					if s := r.Status(); (s.Incomplete > before.Incomplete) != (test.cutRequest || test.cutResponse) || s.SpoolDisk != 0 || s.SpoolMemory != 0 {
						t.Errorf("%s: status %+v", test.url, s)
					}
				}
				closeForTest(t, r)
				wantEmpty(t, r.space)
				records := archive(t, r)
				for uri, want := range map[string][2]string{
					"http://origin/150000": {"", ""},
					"http://origin/900000": {"", "unspecified"},
					"http://origin/1001":   {"unspecified", ""},
				} {
					checkTruncated(t, theOne(t, records, "request", uri), want[0])
					checkTruncated(t, theOne(t, records, "response", uri), want[1])
				}
			})
		})
	}
}

// A compressed block that finds no room is compressed when it is appended.
func TestNoRoomForCompressedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := &watchedIndex{t: t, fs: newFaultyFS(nil), Index: discard{}}
		r := openForTest(t, Options{Dial: originHandler(t, sized), SpoolMemory: 1, SpoolDisk: 250_000, OpenIndex: opened(index), fs: index.fs})
		if _, err := fetch(r, "GET", "http://origin/200000", string(noise(40_000))); err != nil {
			t.Fatal(err)
		}
		closeForTest(t, r)
		wantEmpty(t, r.space)
		records := archive(t, r)
		for kind, size := range map[string]int64{"request": 40_000, "response": 200_000} {
			rec := theOne(t, records, kind, "http://origin/200000")
			if checkTruncated(t, rec, ""); rec.PayloadSize != size {
				t.Errorf("the %s has %d octets of payload, want %d", kind, rec.PayloadSize, size)
			}
			if kind == "response" && (len(index.committed) != 1 || index.committed[0].Capture.Offset != rec.Offset || index.committed[0].Capture.Length != rec.Length) {
				t.Errorf("the index has %+v, the archive %d, %d", index.committed, rec.Offset, rec.Length)
			}
		}
	})
}

// Heads of short exchanges cannot go to the disk: when they take up half of the
// memory nobody is admitted until some are gone, and the status says so.
func TestCrowdedByHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := openForTest(t, Options{SpoolMemory: 100_000, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 10_000))
			w.(http.Flusher).Flush()
			<-gate
		})})
		var all []<-chan result
		for _, host := range []string{"a", "b", "c"} {
			all = append(all, fetchAside(r, "http://"+host+"/"))
			synctest.Wait()
		}
		_, err := fetch(r, "GET", "http://origin/", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if s := r.Status(); s.NoRoom == nil || s.Crowded != 1 {
			t.Errorf("status %+v", s)
		} else if !strings.Contains(err.Error(), "--spool-memory") {
			t.Errorf("refused with %v", err)
		}
		close(gate)
		for _, done := range all {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}
		time.Sleep(time.Second)
		mustFetch(t, r, "http://origin/")
		closeForTest(t, r)
		wantEmpty(t, r.space)
	})
}

// setFree sets what the disk says about itself.
func (f *faultyFS) setFree(free uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = free
}

// Before the disk is full nobody is admitted any more; what is under way is
// finished. With some more space it goes on.
func TestMinFree(t *testing.T) {
	for name, o := range map[string]Options{
		"bytes":   {MinFree: 1000_000},
		"percent": {MinFreePercent: 1},
		"default": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newFaultyFS(nil)
				disk.free, disk.total = 50_000_000, 100_000_000
				gates := gatedOrigin{"/late": make(chan struct{})}
				o.Dial, o.fs = originHandler(t, gates.ServeHTTP), disk
				r := openForTest(t, o)
				late := fetchAside(r, "http://origin/late")
				mustFetch(t, r, "http://origin/1")
				try := func(free uint64, admitted bool) {
					t.Helper()
					disk.setFree(free)
					time.Sleep(time.Second)
					_, err := fetch(r, "GET", "http://origin/1", "")
					switch s := r.Status(); {
					case admitted && err != nil:
						t.Errorf("%d bytes free: %v", free, err)
					case !admitted:
						wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
						if s.Unavailable == nil || !strings.Contains(s.Unavailable.Error(), "--min-free") || !strings.Contains(s.Unavailable.Error(), r.options.Dir) {
							t.Errorf("the reason is %v", s.Unavailable)
						}
					}
				}
				try(1_100_000, true)
				try(990_000, false)
				close(gates["/late"])
				if got := <-late; got.err != nil {
					t.Error(got.err)
				}
				try(1_050_000, false) // the same to and fro every few seconds helps nobody
				try(1_200_000, true)
				try(1_050_000, true)
				synctest.Wait()
				if s := r.Status(); s.Pauses != 1 || s.Lost != 0 || s.Responses != 5 {
					t.Errorf("status %+v", s)
				}
				try(10, false)
				closeForTest(t, r) // nothing is lost
				archive(t, r)
			})
		})
	}
}

// What is spooled and still has to be appended counts as used.
func TestMinFreeCountsSpools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		disk.free, disk.total = 10_000_000, 100_000_000
		gate := make(chan struct{})
		r := openForTest(t, Options{MinFree: 7_000_000, fs: disk, Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			w.Write(noise(2_000_000))
			w.(http.Flusher).Flush()
			<-gate
		})})
		done := fetchAside(r, "http://origin/1")
		synctest.Wait()
		disk.setFree(8_000_000) // the temporary file
		time.Sleep(time.Second)
		if s := r.Status(); s.Unavailable == nil || s.Free > 6_000_000 || s.Free < 5_999_000-spoolTail {
			t.Errorf("status %+v, want 6000000 free", s) // room for a tail counts as if it were full
		}
		close(gate)
		<-done
		time.Sleep(time.Second) // it is appended and released
		if s := r.Status(); s.Free < 7_900_000 || s.Unavailable != nil {
			t.Errorf("status %+v, want 8000000 free", s)
		}
		closeForTest(t, r)
		archive(t, r)
	})
}

// What is in the archive needs no space there any more, even while a slow client
// still reads it.
func TestMinFreeOfASlowClient(t *testing.T) {
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		synctest.Test(t, func(t *testing.T) {
			disk := newFaultyFS(nil)
			disk.free, disk.total = 10_000_000, 100_000_000
			r := openForTest(t, Options{fs: disk, Dial: originHandler(t, sized), Compression: compression})
			req, _ := http.NewRequest("GET", "http://origin/2000000", nil)
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if s := r.Status(); s.Responses != 1 || s.SpoolDisk < 2_000_000-spoolTail || s.Free < 9_900_000 {
				t.Errorf("%v: status %+v, want what is free: 10000000", compression, s)
			}
			if b, err := io.ReadAll(resp.Body); len(b) != 2_000_000 || err != nil {
				t.Errorf("the client got %d octets, %v", len(b), err)
			}
			resp.Body.Close()
			closeForTest(t, r)
			wantEmpty(t, r.space)
		})
	}
}

// A body on the disk grows until half of what has to stay free is used up.
func TestMinFreeStopsSpools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		disk.free, disk.total = 10_000_000, 100_000_000
		r := openForTest(t, Options{MinFree: 9_000_000, fs: disk, Dial: originHandler(t, sized)})
		if got := mustFetch(t, r, "http://origin/6000000"); len(got) != 6_000_000 {
			t.Errorf("the client got %d octets", len(got))
		}
		closeForTest(t, r)
		if s := r.Status(); s.Incomplete != 1 {
			t.Errorf("status %+v, want one incomplete", s)
		}
		rec := theOne(t, archive(t, r), "response", "http://origin/6000000")
		checkTruncated(t, rec, "unspecified")
		// Each octet is on the disk once, and once more when it is appended.
		if n := rec.PayloadSize; n < 2_600_000 || n > 2_750_000+spoolTail {
			t.Errorf("%d octets are recorded, want those that leave 4500000", n)
		}
	})
}

// With StopForGood a disk that is nearly full ends the recording, but not what
// is under way.
func TestMinFreeStopsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		disk.free, disk.total = 10_000_000, 100_000_000
		gates := gatedOrigin{"/late": make(chan struct{})}
		r := openForTest(t, Options{MinFree: 1_000_000, StopForGood: true, fs: disk, Dial: originHandler(t, gates.ServeHTTP)})
		late := fetchAside(r, "http://origin/late")
		synctest.Wait()
		disk.setFree(10)
		time.Sleep(time.Second)
		disk.setFree(10_000_000)
		close(gates["/late"])
		if got := <-late; got.err != nil {
			t.Error(got.err)
		}
		time.Sleep(time.Minute)
		_, err := fetch(r, "GET", "http://origin/1", "")
		wantRefusal(t, err, PhaseAdmission, http.StatusServiceUnavailable)
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "--min-free") {
			t.Errorf("Close: %v", err)
		}
		if s := r.Status(); s.Lost != 0 {
			t.Errorf("status %+v", s)
		}
		wantCaptured(t, archive(t, r), "/late")
	})
}

// Where nobody can tell how much is free it is said, once.
func TestMinFreeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex
		disk := newFaultyFS(nil)
		disk.freeErr, disk.total = errors.ErrUnsupported, 1
		r := openForTest(t, Options{fs: disk, Dial: originHandler(t, echoPath), Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
		time.Sleep(time.Minute)
		mustFetch(t, r, "http://origin/1")
		if s := r.Status(); s.Free != -1 {
			t.Errorf("%d bytes are free", s.Free)
		}
		closeForTest(t, r)
		mu.Lock()
		defer mu.Unlock()
		if n := strings.Count(log.String(), "--min-free has no effect"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, log.String())
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Compressing takes memory: only so many bodies are compressed at once, the
// others wait, and nobody waits for them but the archive. What is small does not
// wait for what is big, and what has no body for nothing.
func TestCompressionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Dial: originHandler(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/empty"):
			case strings.HasPrefix(r.URL.Path, "/big"):
				fmt.Fprint(w, r.URL.Path, strings.Repeat(" text", spoolMemory/4))
			default:
				echoPath(w, r)
			}
		})})
		hold := func(places chan struct{}) {
			for range cap(places) {
				places <- struct{}{}
			}
		}
		letGo := func(places chan struct{}) {
			for range cap(places) {
				<-places
			}
		}
		hold(r.packing)
		hold(r.packingBig)
		var paths []string
		for i := range 2 * cap(r.packing) {
			for _, kind := range []string{"/small", "/big"} {
				paths = append(paths, fmt.Sprint(kind, i))
				mustFetch(t, r, "http://origin"+paths[len(paths)-1])
			}
		}
		r.AddResource(Resource{URI: "dns:origin", ContentType: "text/dns", Date: time.Now(), Block: []byte("20000101000000\n")})
		synctest.Wait()
		if s := r.Status(); s.Responses != 0 || s.Others != 1 || s.InFlight != len(paths) {
			t.Errorf("status %+v, want all but the resource to wait", s)
		}
		mustFetch(t, r, "http://origin/empty")
		synctest.Wait()
		if s := r.Status(); s.Responses != 1 {
			t.Errorf("status %+v, want one without a body", s)
		}
		letGo(r.packing)
		synctest.Wait()
		if s := r.Status(); s.Responses != int64(1+2*cap(r.packing)) {
			t.Errorf("status %+v, want all that are small", s)
		}
		letGo(r.packingBig)
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), append(paths, "/empty")...)
	})
}

// A start with too little space, when the recording is not to go on by itself.
func TestMinFreeStopsAtTheStart(t *testing.T) {
	disk := newFaultyFS(nil)
	disk.free, disk.total = 10, 100_000_000
	dir := t.TempDir()
	if _, err := Open(Options{Dir: dir, MinFree: 1000, StopForGood: true, fs: disk, Logger: testLogger(t)}); err == nil || !strings.Contains(err.Error(), "--min-free") {
		t.Errorf("Open: %v", err)
	}
	closeForTest(t, openForTest(t, Options{Dir: dir})) // it is not locked
}

// Bodies of sizes at the borders of buffers, windows and spools.
func TestSizesAtBorders(t *testing.T) {
	var sizes []int
	for _, n := range []int{0, 1, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, spoolMemory} {
		sizes = append(sizes, max(0, n-1), n, n+1)
	}
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		synctest.Test(t, func(t *testing.T) {
			r := openForTest(t, Options{Dial: originHandler(t, sized), Compression: compression})
			for i, n := range sizes {
				if got := mustFetch(t, r, fmt.Sprintf("http://origin/%d?%d", n, i)); got != string(noise(n)) {
					t.Errorf("the client got %d octets, want %d", len(got), n)
				}
			}
			closeForTest(t, r)
			records := archive(t, r)
			for i, n := range sizes {
				if got := theOne(t, records, "response", fmt.Sprintf("http://origin/%d?%d", n, i)).PayloadSize; got != int64(n) {
					t.Errorf("%d octets are recorded, want %d", got, n)
				}
			}
		})
	}
}
