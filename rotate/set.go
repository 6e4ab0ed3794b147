package rotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// OpenSuffix ends the name of a file as long as it is written.
	OpenSuffix = ".open"
	// MaxSerial is the highest serial; 0 follows.
	MaxSerial = 99999

	bufferSize = 256 << 10 // bytes per write
	probeSize  = 64 << 10  // bytes that Probe writes
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the set of files is closed")

// Options say how a directory of files is kept. Dir, Name and Verify are
// needed, the rest may stay zero.
type Options struct {
	// Dir is created with mode 0755 when it is missing.
	Dir string

	// MaxSize, in bytes, is where a file is full: one that has reached it is
	// finished before the next append. An append is never split, so files
	// get longer by up to one append. 0 means 1e9.
	MaxSize int64

	// MaxAge bounds the time from the creation of a file to its end. It is
	// looked at in Current and Expire. 0 means no bound.
	MaxAge time.Duration

	// Name returns the base name that a new file will have in the end. When
	// it is taken Name is asked again with the next serial, which counts all
	// files of the process: from 0 to 99999, then from 0 again.
	Name func(series string, created time.Time, serial int) string

	// FileMode is the mode of the files, less the umask. 0 means 0644.
	FileMode fs.FileMode

	// Verify returns how many of the bytes of r, counted from the start, are
	// whole appends. Damage is no error: it ends what is good. Open asks for
	// each file that a process which died has left.
	Verify func(r io.Reader) (good int64, err error)

	// FS is the file system; nil means the operating system's. The directory
	// itself and its lock are always the operating system's.
	FS FS

	// Logger is told what went wrong and was put right. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// A Recovery tells what Open did to a file that had not been finished.
type Recovery struct {
	Name string // base name of the finished file, "" when nothing in it was whole
	Kept int64  // bytes that stay in it
	Cut  int64  // bytes behind them
	Tail string // base name of the file that now holds the bytes cut, "" without any
}

// A Set is a directory of files, one of them being written per series. It is
// not safe for concurrent use.
type Set struct {
	options   Options
	fs        FS
	log       *slog.Logger
	lock      *os.File // nil: closed
	files     map[string]*File
	leftover  []*File // whole and durable, but not renamed yet
	strays    []*File // nothing in them, but not removed yet
	chain     *Chain  // neither committed nor taken back
	serial    int     // of the next file
	recovered []Recovery
	buf       []byte
}

// Open takes the directory for this process and finishes what another one has
// left there. While another process has it the error is [ErrLocked] and names
// the process.
func Open(o Options) (*Set, error) { return OpenContext(context.Background(), o) }

// OpenContext is Open, and gives up when ctx is done: what has not been finished
// by then stays for the next Open.
func OpenContext(ctx context.Context, o Options) (*Set, error) {
	if o.Dir == "" || o.Name == nil || o.Verify == nil {
		return nil, errors.New("rotate: Options.Dir, Name and Verify are needed")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if o.MaxSize == 0 {
		o.MaxSize = 1e9
	}
	if o.FileMode == 0 {
		o.FileMode = 0o644
	}
	if o.FS == nil {
		o.FS = osFS{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("create the directory %s: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Set{options: o, fs: o.FS, log: o.Logger, lock: lock, files: make(map[string]*File), buf: make([]byte, bufferSize)}
	if err := s.recover(ctx); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// makeDir creates a directory and those above it, durably.
func makeDir(dir string) error {
	var above []string // of directories that are missing
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		above = append(above, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range above {
		if err := syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// Recovered returns what Open found and did.
func (s *Set) Recovered() []Recovery { return s.recovered }

// Current returns the file that the next append of a series goes to. A file
// that is full or too old is finished first, and the new one is empty: a preamble
// is the caller's to write ([File.Fresh], [File.Begin]). When that fails or no new
// file can be created the error says so, and the next call tries again; a file
// that is broken ([ErrBroken]) has to be set aside before. A process that has no
// descriptors left goes on with the full file.
func (s *Set) Current(series string) (*File, error) {
	if s.lock == nil {
		return nil, ErrClosed
	}
	now := time.Now()
	old := s.files[series]
	if old != nil && old.err != nil {
		return nil, old.err
	}
	if old != nil && !old.due(now) {
		return old, nil
	}
	next, err := s.create(series, now, OpenSuffix)
	if err != nil {
		if old != nil && old.h != nil && outOfDescriptors(err) {
			if !old.overdue {
				old.overdue = true
				s.log.Warn("no new file can be created: going on with the full one", "file", old.name, "error", err)
			}
			return old, nil
		}
		return nil, fmt.Errorf("start a new file: %w", err)
	}
	if old != nil {
		err := old.finish()
		if old.done {
			delete(s.files, series)
		}
		if err != nil {
			return nil, errors.Join(err, s.discard(next))
		}
	}
	s.files[series] = next
	return next, nil
}

// discard removes a file with nothing in it, now or when that works.
func (s *Set) discard(f *File) error {
	err := f.remove()
	if err != nil {
		s.strays = append(s.strays, f)
	}
	return err
}

// Unfinished reports whether there are files that should have their final
// names, or be gone, and are not: Expire and Finish try again.
func (s *Set) Unfinished() bool { return len(s.leftover)+len(s.strays) > 0 || s.chain != nil }

// create makes an empty file with a name that nobody has, and with a suffix
// behind that as long as it is written.
func (s *Set) create(series string, now time.Time, suffix string) (*File, error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	last := ""
	for range MaxSerial + 1 {
		name := s.options.Name(series, now, s.serial)
		s.serial = (s.serial + 1) % (MaxSerial + 1)
		if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || name[0] == '.' || strings.HasSuffix(name, OpenSuffix) || strings.HasSuffix(name, partSuffix) {
			return nil, fmt.Errorf("%q is no name for a file", name)
		}
		if name == last {
			return nil, fmt.Errorf("%s exists, and the name does not change with the serial", name)
		}
		last = name
		f := &File{set: s, series: series, name: name, path: s.path(name) + suffix, created: now}
		err := f.create()
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("all names up to %s are taken", last)
}

func (s *Set) path(name string) string { return filepath.Join(s.options.Dir, name) }

// own makes sure that the directory is still there and locked by us. One that
// was removed and made anew, or lost its lock file, is locked again; somebody
// else may have been faster.
func (s *Set) own() error {
	dir := s.options.Dir
	ours, err := s.lock.Stat()
	if err != nil {
		return fmt.Errorf("look at the lock of %s: %w", dir, err)
	}
	there, err := os.Stat(s.path(lockName))
	if err == nil && os.SameFile(ours, there) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the lock of %s: %w", dir, err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s is gone: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	s.lock.Close()
	s.lock = lock
	s.log.Warn("the directory was made anew, or somebody removed its lock file: it is locked again", "dir", dir)
	return nil
}

// Probe finds out whether the directory can be written to: it is there and
// locked by this process, and a scratch file can be made durable in it. It is
// for those who wait for that after an error.
func (s *Set) Probe() error {
	if s.lock == nil {
		return ErrClosed
	}
	if err := s.own(); err != nil {
		return err
	}
	name := s.path(spoolPrefix + "probe")
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := h.Write(make([]byte, probeSize))
	if err == nil && n < probeSize {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = h.Sync()
	}
	return errors.Join(err, h.Close(), s.fs.Remove(name))
}

// Free returns how many bytes can still be written to the file system of the
// directory, and how many it has in all. Unlike everything else it may be
// called at any time and from any goroutine.
func (s *Set) Free() (free, total uint64, err error) { return s.fs.Free(s.options.Dir) }

// Finish finishes all files; the next appends go to new ones. A file that
// could not be finished stays: the next call of Current or Finish tries again.
func (s *Set) Finish() error { return s.finishIf(func(*File) bool { return true }) }

// Expire finishes the files which at that time are older than MaxAge.
func (s *Set) Expire(now time.Time) error {
	return s.finishIf(func(f *File) bool { return f.expired(now) })
}

func (s *Set) finishIf(due func(*File) bool) error {
	if s.lock == nil {
		return ErrClosed
	}
	var errs []error
	if s.chain != nil {
		errs = append(errs, s.chain.end())
	}
	leftover := s.leftover
	s.leftover = nil
	for _, f := range leftover {
		err := f.rename()
		if err != nil {
			errs = append(errs, err)
		}
		if !f.done {
			s.leftover = append(s.leftover, f)
		}
	}
	strays := s.strays
	s.strays = nil
	for _, f := range strays {
		if err := s.discard(f); err != nil {
			errs = append(errs, err)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[series]
		if !due(f) {
			continue
		}
		err := f.finish()
		if err != nil {
			errs = append(errs, err)
		}
		if f.done {
			delete(s.files, series)
		}
	}
	return errors.Join(errs...)
}

// Close finishes all files, salvages those that are broken, and gives the
// directory free. What cannot be salvaged is for the next Open to recover. Closing again does nothing.
func (s *Set) Close() error {
	if s.lock == nil {
		return nil
	}
	errs := []error{s.Finish()}
	for _, f := range s.files {
		if f.err != nil {
			errs = append(errs, f.endAt(f.size, func(_ int64, cause error) error { return f.left(cause) }))
		} else if f.h != nil {
			errs = append(errs, f.close())
		}
	}
	errs = append(errs, s.lock.Close())
	s.lock = nil
	return errors.Join(errs...)
}
