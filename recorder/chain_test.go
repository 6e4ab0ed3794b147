package recorder

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// Where there is no room for compressed segments they are compressed again when
// they are appended.
func TestSegmentsWithoutRoom(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), SpoolMemory: 600 << 10, SpoolDisk: 1 << 10})
	mustFetch(t, r, "http://origin/text/220000/x")
	closeForTest(t, r)
	got := oneOf(t, logicalRecords(t, r.options.Dir, smallFile), "response", "/text/220000/x")
	if got.segments < 4 || entity(t, got) != sizedBody("/text/220000/x") {
		t.Errorf("it has %d segments and %d octets", got.segments, len(got.block))
	}
}

// A panic while a record is made for its file is an error of that record.
func TestLatePanic(t *testing.T) {
	rec := late(slog.New(slog.DiscardHandler), []byte("start"), func(w io.Writer) error {
		io.WriteString(w, "more")
		panic("a bug")
	})
	defer rec.close()
	if b, err := io.ReadAll(rec); string(b) != "startmore" || err != errInternal {
		t.Errorf("got %q, error %v", b, err)
	}
}

// A disk that is full in the middle of a chain is waited for; then all is there,
// once, and no part is left.
func TestSegmentsOnFullDisk(t *testing.T) {
	for room := 100; room < 100_000; room += 6_000 {
		synctest.Test(t, func(t *testing.T) {
			fsys := newFaultyFS(nil)
			index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
			r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
			mustFetch(t, r, "http://origin/noise/100/x")
			time.Sleep(time.Second)
			fsys.fill(room)
			recordAll(t, r, "/noise/70000/x")
			if r.Err() == nil {
				recordAll(t, r, "/noise/70000/y")
			}
			time.Sleep(10500 * time.Millisecond) // not at the moment of an attempt
			full := r.Err() != nil
			if full != (room < 75_000) {
				t.Errorf("room for %d: %v", room, r.Err())
			}
			if n := len(names(t, r.options.Dir, "*.part")); full && n > 0 {
				t.Errorf("room for %d: %d parts take it", room, n)
			}
			fsys.lift()
			time.Sleep(2 * time.Second)
			if full {
				recordAll(t, r, "/noise/70000/y")
			}
			closeForTest(t, r)
			wantAllOnce(t, r, "response /noise/100/x", "response /noise/70000/x", "revisit /noise/70000/y")
		})
	}
}

// wantAllOnce checks that these captures are in the archive, once, and nothing is
// left over.
func wantAllOnce(t *testing.T, r *Recorder, captures ...string) {
	t.Helper()
	records := logicalRecords(t, r.options.Dir, smallFile)
	for _, c := range captures {
		kind, path, _ := strings.Cut(c, " ")
		got := oneOf(t, records, kind, path)
		if kind == "response" && entity(t, got) != sizedBody(path) {
			t.Errorf("%s has %d octets", c, len(got.block))
		}
		oneOf(t, records, "request", path)
	}
	if count := len(records) - len(names(t, r.options.Dir, "*.warc*")); count != 2*len(captures) {
		t.Errorf("there are %d records, want %d", count, 2*len(captures))
	}
	if left := append(names(t, r.options.Dir, "*.part"), names(t, r.options.Dir, "*.open")...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Whatever operation on a chain fails once, done or not, all is in the archive,
// once, and no part is left.
func TestSegmentsSurviveFaults(t *testing.T) {
	for _, op := range []string{"create", "open", "write", "sync", "syncdir", "close", "stat", "rename", "truncate"} {
		for skip, failed := 0, true; failed && skip < 40; skip++ {
			for _, bad := range []fault{{err: syscall.EIO}, {err: syscall.EIO, persisted: true}} {
				if bad.persisted && op == "create" {
					continue // it is not known that the file is there
				}
				synctest.Test(t, func(t *testing.T) {
					fsys := newFaultyFS(nil)
					index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
					r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
					mustFetch(t, r, "http://origin/noise/100/x")
					time.Sleep(time.Second)
					fsys.mu.Lock()
					fsys.fail = once(op, skip, bad)
					fsys.mu.Unlock()
					recordAll(t, r, "/noise/70000/x", "/noise/70000/y")
					time.Sleep(5 * time.Second)
					if err := r.Err(); err != nil {
						t.Errorf("it has not gone on: %v", err)
					}
					fsys.mu.Lock()
					failed = len(fsys.failed) > 0
					fsys.mu.Unlock()
					fsys.lift()
					closeForTest(t, r)
					wantAllOnce(t, r, "response /noise/100/x", "response /noise/70000/x", "revisit /noise/70000/y")
				})
				if t.Failed() {
					t.Fatalf("%s %d, persisted %v", op, skip, bad.persisted)
				}
			}
		}
	}
}

// The same when several operations in a row fail, such as those that take a chain
// back.
func TestSegmentsSurviveOutages(t *testing.T) {
	for _, many := range []int{2, 5, 20} {
		for skip, failed := 0, true; failed; skip++ {
			synctest.Test(t, func(t *testing.T) {
				fsys := newFaultyFS(nil)
				index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
				r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
				mustFetch(t, r, "http://origin/noise/100/x")
				time.Sleep(time.Second)
				fsys.mu.Lock()
				first := fsys.ops + skip
				fsys.fail = func(n int, op, _ string) *fault {
					if n < first || n >= first+many {
						return nil
					}
					return &fault{err: syscall.EIO, nothing: op == "write" && n%2 == 0}
				}
				fsys.mu.Unlock()
				recordAll(t, r, "/noise/45000/x")
				time.Sleep(time.Duration(many+3) * time.Second)
				fsys.mu.Lock()
				failed = len(fsys.failed) == many
				fsys.mu.Unlock()
				fsys.lift()
				time.Sleep(2 * time.Second)
				recordAll(t, r, "/noise/45000/y")
				closeForTest(t, r)
				wantAllOnce(t, r, "response /noise/100/x", "response /noise/45000/x", "revisit /noise/45000/y")
			})
			if t.Failed() {
				t.Fatalf("operations from %d on", skip)
			}
		}
	}
}

// A revisit beside a request that does not fit refers to what is durable, though
// its original is in the current file, and the revisit in another one.
func TestRevisitInChainIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFaultyFS(nil)
		named := false
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(dedup.NewMemory()), fs: fsys})
		recordAll(t, r, "/noise/2000/a")
		fsys.mu.Lock()
		fsys.fail = func(_ int, op, name string) *fault {
			if op != "rename" || !strings.HasSuffix(name, ".part") || named {
				return nil
			}
			named = true
			for _, path := range names(t, r.options.Dir, "*.open") {
				info, err := os.Stat(path)
				if err != nil || fsys.synced[finalName(path)] != info.Size() {
					t.Errorf("a revisit is durable before its original: %d octets are, error %v", fsys.synced[finalName(path)], err)
				}
			}
			return nil
		}
		fsys.mu.Unlock()
		if _, err := fetch(r, "GET", "http://origin/noise/2000/b", strings.Repeat(sizedBody("/noise/9000"), 4)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fsys.lift()
		closeForTest(t, r)
		records := logicalRecords(t, r.options.Dir, smallFile)
		if got := oneOf(t, records, "revisit", "/noise/2000/b").header.Get("WARC-Refers-To"); got != oneOf(t, records, "response", "/noise/2000/a").id || !named {
			t.Errorf("it refers to %s", got)
		}
	})
}

// A part that somebody has taken away before any has its name is written again,
// with all others.
func TestPartIsTakenAwayInTime(t *testing.T) {
	for _, part := range []string{"-1.part", "-2.part", "-3.part"} {
		synctest.Test(t, func(t *testing.T) {
			fsys, taken := newFaultyFS(nil), false
			r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
			fsys.mu.Lock()
			fsys.fail = func(_ int, op, name string) *fault {
				if op == "create" && strings.HasSuffix(name, "-4.part") && !taken {
					for _, path := range names(t, r.options.Dir, "*"+part) {
						taken = os.Remove(path) == nil
					}
				}
				return nil
			}
			fsys.mu.Unlock()
			recordAll(t, r, "/noise/70000/x", "/noise/100/x")
			time.Sleep(5 * time.Second)
			fsys.lift()
			if status := r.Status(); !taken || status.Damaged != 0 || status.Lost != 0 || r.Err() != nil {
				t.Errorf("%s was taken: %v; status %+v", part, taken, status)
			}
			closeForTest(t, r)
			wantAllOnce(t, r, "response /noise/70000/x", "response /noise/100/x")
		})
	}
}

// When all of a chain is written it needs no room any more, just names.
func TestWrittenChainNeedsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFaultyFS(nil)
		fsys.free, fsys.total = 1<<40, 1<<40
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), fs: fsys, MinFree: -1, Logger: slog.New(slog.DiscardHandler)})
		fsys.mu.Lock()
		fsys.fail = func(_ int, op, name string) *fault {
			if op == "rename" {
				return &fault{err: syscall.ENOSPC}
			}
			return nil
		}
		fsys.mu.Unlock()
		recordAll(t, r, "/noise/70000/x")
		if r.Err() == nil {
			t.Fatal("nothing is paused")
		}
		fsys.setFree(10_000)
		fsys.lift()
		time.Sleep(3 * time.Second)
		if err := r.Err(); err != nil {
			t.Errorf("it waits for room: %v", err)
		}
		closeForTest(t, r)
		wantAllOnce(t, r, "response /noise/70000/x")
	})
}

// What is in the current file does not wait for a chain to become durable.
func TestCurrentFileIsSyncedBeforeChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, before := newFaultyFS(nil), false
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), fs: fsys, SyncInterval: time.Hour})
		recordAll(t, r, "/noise/100/a")
		fsys.mu.Lock()
		fsys.fail = func(_ int, op, name string) *fault {
			if op == "create" && strings.HasSuffix(name, "-1.part") {
				for _, path := range names(t, r.options.Dir, "*.open") {
					info, err := os.Stat(path)
					before = err == nil && fsys.synced[finalName(path)] == info.Size()
				}
			}
			return nil
		}
		fsys.mu.Unlock()
		recordAll(t, r, "/noise/70000/x")
		fsys.lift()
		if !before {
			t.Error("the chain is begun before the current file is durable")
		}
		closeForTest(t, r)
	})
}

// A start that takes most of a file makes all files too large: it is refused.
func TestOversizeStartOfFile(t *testing.T) {
	for _, how := range []Oversize{OversizeWhole, OversizeSegment, OversizeTruncate} {
		o := Options{Dir: t.TempDir(), MaxSize: smallFile, Oversize: how, Compression: warc.Plain, Warcinfo: []warc.Field{{Name: "description", Value: strings.Repeat("x", 6000)}}}
		r, err := Open(o)
		if err == nil {
			closeForTest(t, r)
		}
		if (err != nil) != (how != OversizeWhole) {
			t.Errorf("%v: %v", how, err)
		}
	}
}

// Somebody who takes a part away when the first one has its name does damage, and
// is told of.
func TestPartIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, renamed := newFaultyFS(nil), 0
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
		fsys.fail = func(_ int, op, name string) *fault {
			if op == "rename" {
				if renamed++; renamed == 2 {
					os.Remove(filepath.Join(r.options.Dir, name))
				}
			}
			return nil
		}
		recordAll(t, r, "/noise/70000/x", "/noise/100/x")
		status := r.Status()
		err := r.Close(t.Context())
		if err == nil || status.Damaged != 1 || status.Lost != 1 || r.Err() != nil {
			t.Errorf("Close: %v; status %+v", err, status)
		}
		if left := names(t, r.options.Dir, "*.part"); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	})
}
