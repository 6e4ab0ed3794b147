package recorder

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// Equal payloads that are under way together are all unknown to the index when
// they look: the writer decides.
func TestDuplicatesInFlight(t *testing.T) {
	for _, maxSize := range []int64{1e9, 1} { // all in one file; each in its own
		t.Run(fmt.Sprint("MaxSize ", maxSize), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 16
				var looking sync.WaitGroup
				looking.Add(n)
				disk := newFaultyFS(nil)
				index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk, look: func() {
					looking.Done()
					looking.Wait() // until all have got their answer: unknown
				}}
				r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), MaxSize: maxSize})
				var all []<-chan result
				for i := range n {
					all = append(all, fetchAside(r, fmt.Sprintf("http://origin/same/%d", i)))
				}
				for _, done := range all {
					if got := <-done; got.err != nil {
						t.Error(got.err)
					}
				}
				closeForTest(t, r)
				if s := r.Status(); s.Responses != 1 || s.Revisits != n-1 {
					t.Errorf("%d responses and %d revisits, want 1 and %d", s.Responses, s.Revisits, n-1)
				}
				records := archive(t, r)
				if a, b := count(records, "response"), count(records, "revisit"); a != 1 || b != n-1 {
					t.Errorf("%d responses and %d revisits are recorded, want 1 and %d", a, b, n-1)
				}
				if len(index.committed) != 1 {
					t.Errorf("%d captures were committed to the index, want 1", len(index.committed))
				}
			})
		})
	}
}

// The index gets to know captures, all of them, and only when they are durable
// (watchedIndex checks that).
func TestIndexIsNeverAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newFaultyFS(nil)
		index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: disk}
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), fs: disk, OpenIndex: opened(index), MaxSize: 5000, SyncBytes: 3000})
		const n = 60
		for i := range n {
			mustFetch(t, r, fmt.Sprintf("http://origin/%d", i))
			switch i % 20 {
			case 10:
				synctest.Wait()
			case 15:
				time.Sleep(time.Second)
			case 19:
				if err := r.Rotate(); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(index.committed) != n {
			t.Errorf("a second after the last exchange the index knows %d captures, want %d", len(index.committed), n)
		}
		closeForTest(t, r)
		records := archive(t, r)
		for _, e := range index.committed {
			rec := theOne(t, records, "response", e.Capture.TargetURI)
			if rec.ID != e.Capture.RecordID || rec.Offset != e.Capture.Offset || rec.Length != e.Capture.Length || rec.Date != e.Capture.Date || !strings.HasSuffix(rec.File, "/"+e.Capture.File) {
				t.Errorf("the index has %+v, the archive %+v", e.Capture, rec)
			}
		}
	})
}

// An index outlives the recorder: later recordings refer to earlier files as
// long as they are there.
func TestDuplicatesOfEarlierFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, index := t.TempDir(), dedup.NewMemory()
		dial := originHandler(t, echoPath)
		var r *Recorder
		for i, want := range []string{"response", "revisit", "response"} {
			if i == 2 {
				for _, name := range names(t, dir, "*.warc.gz") {
					if err := os.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			r = openForTest(t, Options{Dir: dir, Dial: dial, OpenIndex: opened(index)})
			mustFetch(t, r, fmt.Sprintf("http://origin/same/%d", i))
			closeForTest(t, r)
			theOne(t, archive(t, r), want, fmt.Sprintf("http://origin/same/%d", i))
		}
	})
}

// What is not whole, has no payload, or is a part is neither an original nor a
// revisit.
func TestNotDuplicable(t *testing.T) {
	const payload = "the same payload for many"
	replies := map[string]string{
		"/partial":   fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n\r\n%s", len(payload), payload),
		"/truncated": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(payload)+1, payload),
		"/empty":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"/unchanged": "HTTP/1.1 304 Not Modified\r\nContent-Length: 25\r\n\r\n",
	}
	synctest.Test(t, func(t *testing.T) {
		index := dedup.NewMemory()
		r := openForTest(t, Options{OpenIndex: opened(index), Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			reply, ok := replies[req.URL.Path]
			if !ok {
				io.WriteString(w, payload)
				return
			}
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, reply)
			c.Close()
		})})
		each := func() {
			for path := range replies {
				_, err := fetch(r, "GET", "http://origin"+path, "")
				if (err != nil) != (path == "/truncated") {
					t.Errorf("%s: %v", path, err)
				}
			}
			if _, err := fetch(r, "HEAD", "http://origin/head", ""); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		each() // none may be an original
		mustFetch(t, r, "http://origin/whole")
		time.Sleep(time.Second)
		each() // nor a revisit
		closeForTest(t, r)
		if s := r.Status(); s.Revisits != 0 || s.Responses != 2*5+1 {
			t.Errorf("%d responses and %d revisits, want 11 and 0", s.Responses, s.Revisits)
		}
		archive(t, r)
	})
}

// An index that fails costs space and nothing else.
func TestIndexFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), OpenIndex: opened(brokenIndex{})})
		recordAll(t, r, "/1", "/same/2")
		time.Sleep(time.Second)
		recordAll(t, r, "/3")
		if err := r.Err(); err != nil {
			t.Errorf("recording has stopped: %v", err)
		}
		if err := r.Close(t.Context()); !errors.Is(err, errBrokenIndex) {
			t.Errorf("Close gives %v, want it to say that the index failed", err)
		}
		wantCaptured(t, archive(t, r), "/1", "/same/2", "/3")
	})
}

// An index that fails for a while gets to know all the same what was recorded
// meanwhile.
func TestIndexFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := &moodyIndex{Index: dedup.NewMemory()}
		index.bad.Store(true)
		r := openForTest(t, Options{Dial: originHandler(t, echoPath), OpenIndex: opened(index)})
		recordAll(t, r, "/1", "/2")
		time.Sleep(time.Minute)
		if n := index.asked.Load(); n < 50 || n > 70 {
			t.Errorf("it was asked %d times in a minute", n)
		}
		recordAll(t, r, "/3")
		index.bad.Store(false)
		time.Sleep(2 * time.Second)
		for _, digest := range r.writer.recently {
			if c, ok, err := index.Lookup(digest); !ok || err != nil {
				t.Errorf("it does not know %s: %v, %v", digest, c, err)
			}
		}
		closeForTest(t, r)
		wantCaptured(t, archive(t, r), "/1", "/2", "/3")
	})
}

type moodyIndex struct {
	dedup.Index
	bad   atomic.Bool
	asked atomic.Int64
}

func (m *moodyIndex) Commit(entries []dedup.Entry) error {
	m.asked.Add(1)
	if m.bad.Load() {
		return errBrokenIndex
	}
	return m.Index.Commit(entries)
}

// discard is an index that knows nothing.
type discard struct{}

func (discard) Lookup(string) (dedup.Capture, bool, error) { return dedup.Capture{}, false, nil }
func (discard) Commit([]dedup.Entry) error                 { return nil }
func (discard) Close() error                               { return nil }

var errBrokenIndex = errors.New("the index is broken")

type brokenIndex struct{}

func (brokenIndex) Lookup(string) (dedup.Capture, bool, error) {
	return dedup.Capture{}, false, errBrokenIndex
}
func (brokenIndex) Commit([]dedup.Entry) error { return errBrokenIndex }
func (brokenIndex) Close() error               { return nil }

// Replay programs find only answers to GET by their URLs. So nothing else is an
// original, and neither does anything else become a revisit.
func TestOnlyAnswersToGetAreDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate sync.WaitGroup // until all have been asked
		r := openForTest(t, Options{OpenIndex: opened(dedup.NewMemory()), Dial: originHandler(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/together" {
				gate.Done()
				gate.Wait()
			}
			io.WriteString(w, "the same payload")
		})})
		var wants [][2]string // type and URL
		long := "http://origin/" + strings.Repeat("l", maxDuplicableURI)
		for _, step := range []struct{ method, url, want string }{
			{"POST", "http://origin/1", "response"},
			{"PUT", "http://origin/2", "response"},
			{"POST", "http://origin/3", "response"},
			{"REPORT", "http://origin/4", "response"},
			{"GET", long, "response"}, // no index has a line for it
			{"GET", "http://origin/5", "response"},
			{"GET", "http://origin/6", "revisit"},
			{"POST", "http://origin/7", "response"},
			{"DELETE", "http://origin/8", "response"},
			{"GET", long + "2", "response"},
		} {
			if _, err := fetch(r, step.method, step.url, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // so that the index knows it
			synctest.Wait()
			wants = append(wants, [2]string{step.want, step.url})
		}
		closeForTest(t, r)
		for _, want := range wants {
			theOne(t, archive(t, r), want[0], want[1])
		}

		r = openForTest(t, Options{OpenIndex: opened(dedup.NewMemory()), Dial: r.options.Dial})
		gate.Add(4)
		var fetching sync.WaitGroup
		for _, method := range []string{"POST", "PUT", "GET", "GET"} {
			fetching.Go(func() { // ends when all have been asked
				if _, err := fetch(r, method, "http://origin/together", ""); err != nil {
					t.Error(err)
				}
			})
		}
		fetching.Wait()
		closeForTest(t, r)
		if s := r.Status(); s.Responses != 3 || s.Revisits != 1 {
			t.Errorf("of four in flight %d are responses and %d revisits, want 3 and 1", s.Responses, s.Revisits)
		}
	})
}

// A fixedIndex learns nothing.
type fixedIndex struct{ dedup.Index }

func (fixedIndex) Commit([]dedup.Entry) error { return nil }

// damageQuietly changes all octets of a file before an offset, but not its time
// of modification. Done again it repairs them.
func damageQuietly(t *testing.T, path string, end int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b[:end] {
		b[i] ^= 0xff
	}
	if err := errors.Join(os.WriteFile(path, b, 0o600), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// An index of the first release does not say which method an original answers: the
// archive does.
func TestIndexWithoutMethods(t *testing.T) {
	for _, test := range []struct {
		name, method, upload string
		options              Options
		want                 string
	}{
		{"GET", "GET", "", Options{}, "revisit"},
		{"GET, plain", "GET", "", Options{Compression: warc.Plain}, "revisit"},
		{"GET, zstd", "GET", "", Options{Compression: warc.Zstd}, "revisit"},
		{"GET, skip lengths", "GET", "", Options{SkipLengths: true}, "revisit"},
		{"POST", "POST", "", Options{}, "response"},
		{"POST, plain", "POST", "GET / HTTP/1.1", Options{Compression: warc.Plain}, "response"},
		{"POST of what looks like a record", "POST", "WARC/1.1\r\nWARC-Type: request\r\nContent-Length: 4\r\n\r\nGET \r\n\r\n", Options{Compression: warc.Plain}, "response"},
		{"long POST", "POST", strings.Repeat("x", 2*requestWindow), Options{Compression: warc.Plain}, "response"},
		{"long GET", "GET", strings.Repeat("x", 2*requestWindow), Options{Compression: warc.Plain}, "response"}, // its start is too far away
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := test.options
				o.Dir = t.TempDir()
				o.Dial = originHandler(t, func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "the same payload") })
				r := openForTest(t, o)
				if _, err := fetch(r, test.method, "http://origin/original", test.upload); err != nil {
					t.Fatal(err)
				}
				closeForTest(t, r)
				original := theOne(t, archive(t, r), "response", "http://origin/original")

				older := fixedIndex{dedup.NewMemory()}
				err := older.Index.Commit([]dedup.Entry{{Digest: original.Header.Get("WARC-Payload-Digest"), Capture: dedup.Capture{
					RecordID: original.ID, TargetURI: original.TargetURI, Date: original.Date,
					File: filepath.Base(original.File), Offset: original.Offset, Length: original.Length,
				}}})
				if err != nil {
					t.Fatal(err)
				}
				o.OpenIndex = opened(older)
				r = openForTest(t, o)
				mustFetch(t, r, "http://origin/again")
				synctest.Wait()             // until it is recorded
				if test.want == "revisit" { // the request is not read again
					damageQuietly(t, original.File, original.Offset-1)
					mustFetch(t, r, "http://origin/third")
				}
				closeForTest(t, r)
				if test.want == "revisit" {
					damageQuietly(t, original.File, original.Offset-1)
					theOne(t, archive(t, r), "revisit", "http://origin/third")
				}
				theOne(t, archive(t, r), test.want, "http://origin/again")
			})
		})
	}
}
