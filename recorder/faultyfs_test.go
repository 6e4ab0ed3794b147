package recorder

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/rotate"
)

// A fault is how one operation on the file system fails.
type fault struct {
	err       error
	persisted bool // it was done all the same
	nothing   bool // of a write nothing was done; else a half
}

// A faultyFS is the operating system's file system with faults. Nothing is
// really synced; it remembers what would have been.
type faultyFS struct {
	// fail decides about the n-th operation, from 0; nil: all succeed.
	fail func(n int, op, name string) *fault

	mu      sync.Mutex
	freeErr error
	off     bool // no operation counts, or fails
	narrow  bool // there is only so much room …
	room    int  // … in bytes

	fileLimit int64         // bytes that a file may have; 0: any
	hang      time.Duration // how long the next write takes
	bug       bool          // writes panic
	free      uint64        // what Free returns …
	total     uint64        // … unless this is 0: plenty
	ops       int
	synced    map[string]int64 // by base name without .open: octets
	failed    []string         // operations that did
	last      *fault           // of the last operation
	wrote     []byte           // what was given to the last write that failed
}

func newFaultyFS(fail func(n int, op, name string) *fault) *faultyFS {
	return &faultyFS{fail: fail, synced: make(map[string]int64)}
}

// do performs an operation, or a fault.
func (f *faultyFS) do(op, path string, perform func() error) error {
	f.mu.Lock()
	if f.off {
		f.mu.Unlock()
		return perform()
	}
	n := f.ops
	f.ops++
	var bad *fault
	if f.fail != nil {
		bad = f.fail(n, op, filepath.Base(path))
	}
	f.last = bad
	if bad != nil {
		f.failed = append(f.failed, op+" "+filepath.Base(path))
	}
	f.mu.Unlock()
	if bad == nil {
		return perform()
	}
	if bad.persisted {
		if err := perform(); err != nil {
			return err
		}
	}
	return &fs.PathError{Op: op, Path: path, Err: bad.err}
}

func (f *faultyFS) OpenFile(name string, flag int, perm fs.FileMode) (rotate.Handle, error) {
	var file *os.File
	op := "open"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	err := f.do(op, name, func() (err error) {
		file, err = os.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return &faultyFile{file, f}, nil
}

func (f *faultyFS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do("stat", name, func() (err error) {
		info, err = os.Stat(name)
		return err
	})
	return info, err
}

func (f *faultyFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (f *faultyFS) Remove(name string) error {
	return f.do("remove", name, func() error {
		if info, err := os.Stat(name); err == nil {
			f.giveBack(int(info.Size()))
		}
		return os.Remove(name)
	})
}

func (f *faultyFS) SyncDir(name string) error {
	return f.do("syncdir", name, func() error { return nil })
}

func (f *faultyFS) Free(string) (free, total uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.total == 0 {
		return 1 << 40, 1 << 40, nil
	}
	return f.free, f.total, f.freeErr
}

func (f *faultyFS) Rename(from, to string) error {
	return f.do("rename", from, func() error {
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	})
}

type faultyFile struct {
	*os.File
	fs *faultyFS
}

func (f *faultyFile) Write(p []byte) (n int, err error) {
	done := false
	err = f.fs.do("write", f.Name(), func() (err error) {
		done = true
		f.fs.mu.Lock()
		hang, limit, bug := f.fs.hang, f.fs.fileLimit, f.fs.bug
		f.fs.hang = 0
		f.fs.mu.Unlock()
		if bug {
			panic("a bug")
		}
		time.Sleep(hang)
		if info, err := f.File.Stat(); err == nil && limit > 0 && info.Size()+int64(len(p)) > limit {
			return &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.EFBIG}
		}
		room := f.fs.take(len(p))
		if n, err = f.File.Write(p[:room]); err == nil && room < len(p) {
			err = &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return err
	})
	if err != nil && !done && !f.fs.spares() {
		n, _ = f.File.Write(p[:len(p)/2])
	}
	if err != nil {
		f.fs.wrote = append([]byte(nil), p...) // read after the test
	}
	return n, err
}

// spares reports whether the fault of the last operation did nothing at all.
func (f *faultyFS) spares() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last != nil && f.last.nothing
}

// take returns how many of n bytes find room.
func (f *faultyFS) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.narrow {
		return n
	}
	n = min(n, f.room)
	f.room -= n
	return n
}

// fill leaves so many bytes of room.
func (f *faultyFS) fill(room int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off, f.narrow, f.room = false, true, room
}

// limit bounds what a file may have; 0: nothing.
func (f *faultyFS) limit(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fileLimit = n
}

// count returns how many operations there were.
func (f *faultyFS) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// lift ends all faults.
func (f *faultyFS) lift() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off, f.narrow, f.bug = true, false, false
}

func (f *faultyFile) Truncate(size int64) error {
	return f.fs.do("truncate", f.Name(), func() error {
		if info, err := f.File.Stat(); err == nil {
			f.fs.giveBack(int(info.Size() - size))
		}
		return f.File.Truncate(size)
	})
}

func (f *faultyFS) giveBack(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room += n
}

func (f *faultyFile) Sync() error {
	return f.fs.do("sync", f.Name(), func() error {
		size, err := f.File.Seek(0, io.SeekEnd)
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		f.fs.synced[finalName(f.Name())] = size
		return err
	})
}

func (f *faultyFile) Close() error {
	closed := f.File.Close() // also when it reports a fault
	return f.fs.do("close", f.Name(), func() error { return closed })
}

func finalName(path string) string {
	name := filepath.Base(path)
	if part, ok := strings.CutSuffix(name, ".part"); ok {
		return part[:strings.LastIndexByte(part, '.')]
	}
	return strings.TrimSuffix(name, ".open")
}

// once makes the first operation of that kind on an archive file, after skip
// others, fail.
func once(op string, skip int, bad fault) func(int, string, string) *fault {
	return func(_ int, got, _ string) *fault {
		if got != op {
			return nil
		}
		if skip--; skip != -1 {
			return nil
		}
		return &bad
	}
}

// A watchedIndex is an index in memory that checks, at each commit, that what
// it gets to know is durable.
type watchedIndex struct {
	dedup.Index
	t    *testing.T
	fs   *faultyFS
	look func() // called by each Lookup

	mu        sync.Mutex
	committed []dedup.Entry
}

func (w *watchedIndex) Lookup(digest string) (dedup.Capture, bool, error) {
	c, ok, err := w.Index.Lookup(digest)
	if w.look != nil {
		w.look()
	}
	return c, ok, err
}

func (w *watchedIndex) Commit(entries []dedup.Entry) error {
	w.fs.mu.Lock()
	for _, e := range entries {
		if end, synced := e.Capture.Offset+e.Capture.Length, w.fs.synced[e.Capture.File]; end > synced {
			w.t.Errorf("the index gets %s up to octet %d of %s, of which only %d are durable", e.Capture.RecordID, end, e.Capture.File, synced)
		}
	}
	w.fs.mu.Unlock()
	w.mu.Lock()
	w.committed = append(w.committed, entries...)
	w.mu.Unlock()
	return w.Index.Commit(entries)
}
