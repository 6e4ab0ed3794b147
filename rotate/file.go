package rotate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrBroken is in the error when a file can no longer be appended to: nobody
// knows what is behind its last good byte. It has to be set aside.
var ErrBroken = errors.New("the file is broken")

// ErrLeft is in the error of [File.Salvage] when the file, with all that was
// appended to it, keeps its name until the next Open.
var ErrLeft = errors.New("the file keeps its temporary name")

// ErrLost is in the error of [File.Salvage] when good appends are not under a
// final name.
var ErrLost = errors.New("good appends are not under a final name")

// ErrSource is in the error of [File.Append] when it was a part that could not
// be read: nothing is wrong with the file.
var ErrSource = errors.New("what is to be appended cannot be read")

var errFinished = errors.New("the file is finished")

// A File is being appended to until it is finished or set aside.
type File struct {
	set     *Set
	series  string
	name    string // base name in the end
	path    string // while it is written
	created time.Time

	h       Handle      // nil: closed
	id      fs.FileInfo // to know it again
	first   int64       // length of the preamble
	size    int64       // whole appends
	synced  int64       // of them durable
	err     error       // ErrBroken and its reason
	failed  bool        // a sync failed: what was not durable then never will be
	renamed bool
	done    bool // finished, removed or set aside
	overdue bool // it has been said that it stays although it is full
	retired bool // the next append goes to another one
}

// Name returns the base name that the file has in the end, without ".open".
// It changes only when somebody else takes the name while the file is being
// written.
func (f *File) Name() string { return f.name }

// Info returns what the file was like when it was made, by which it can be known
// again: see [os.SameFile].
func (f *File) Info() fs.FileInfo { return f.id }

// Size returns the length of the preamble and all whole appends, in bytes.
func (f *File) Size() int64 { return f.size }

// Synced returns how many bytes, counted from the start, survive a power cut.
func (f *File) Synced() int64 { return f.synced }

// Preamble returns the length of what Begin wrote, in bytes.
func (f *File) Preamble() int64 { return f.first }

// Fresh reports whether nothing has been written to the file.
func (f *File) Fresh() bool { return f.size == 0 }

// Retire tells that what comes next does not fit into the file: Current finishes
// it, unless there is nothing in it.
func (f *File) Retire() { f.retired = true }

// Err returns an error with ErrBroken when the file has to be set aside, else
// nil.
func (f *File) Err() error { return f.err }

func (f *File) due(now time.Time) bool {
	return f.h == nil || f.size > f.first && (f.retired || f.size >= f.set.options.MaxSize) || f.expired(now)
}

func (f *File) expired(now time.Time) bool {
	max := f.set.options.MaxAge
	return max > 0 && now.Sub(f.created) >= max
}

// create makes the file under its name with ".open"; the error is
// fs.ErrExist when that or the final name is taken.
func (f *File) create() (err error) {
	fsys := f.set.fs
	if _, err := fsys.Stat(f.set.path(f.name)); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.h, err = fsys.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, f.set.options.FileMode)
	if err != nil {
		return err
	}
	f.id, err = f.h.Stat()
	if err == nil {
		err = fsys.SyncDir(f.set.options.Dir)
	}
	if err != nil {
		return errors.Join(err, f.set.discard(f))
	}
	return nil
}

// Begin appends the preamble to a fresh file. A file that has nothing else at its
// end is removed. After an error the file is still fresh, or broken.
func (f *File) Begin(parts ...io.Reader) (err error) {
	_, f.first, err = f.Append(parts...)
	return err
}

// Append writes the parts, one after the other and without a gap, to the end
// of the file: all of them or, when it returns an error, nothing. It returns
// where they begin and how many bytes they are together.
//
// After an error that is not [ErrBroken] the file is as it was before. Still,
// an error in writing (one that is not [ErrSource]) should be the last one:
// Salvage keeps what is good.
func (f *File) Append(parts ...io.Reader) (offset, length int64, err error) {
	if err := f.usable(); err != nil {
		return 0, 0, fmt.Errorf("append to %s: %w", f.name, err)
	}
	offset = f.size
	whole := false
	defer func() { // also when a part panics
		if !whole {
			err = errors.Join(err, f.cutBack())
		}
	}()
	length, err = f.copy(io.MultiReader(parts...))
	if err != nil {
		return offset, 0, fmt.Errorf("append to %s: %w", f.name, err)
	}
	f.size += length
	whole = true
	return offset, length, nil
}

func (f *File) usable() error {
	if f.err != nil {
		return f.err
	}
	if f.h == nil {
		return errFinished
	}
	return nil
}

// copy writes what r holds, in few big pieces.
func (f *File) copy(r io.Reader) (length int64, err error) {
	buf := f.set.buf
	for ended := false; !ended; {
		n := 0
		for n < len(buf) && !ended {
			k, err := r.Read(buf[n:])
			n += k
			if err == io.EOF {
				ended = true
			} else if err != nil {
				return 0, fmt.Errorf("%w: %w", ErrSource, err)
			}
		}
		if n == 0 {
			break
		}
		k, err := f.h.Write(buf[:n])
		if err == nil && k < n {
			err = io.ErrShortWrite
		}
		if err != nil {
			return 0, err
		}
		length += int64(n)
	}
	return length, nil
}

// cutBack removes what a failed append has written.
func (f *File) cutBack() error {
	err := f.h.Truncate(f.size)
	if err == nil {
		return nil
	}
	return f.breaks(fmt.Errorf("cut it back to %d bytes: %w", f.size, err))
}

func (f *File) breaks(cause error) error {
	f.err = fmt.Errorf("%w: %s: %w", ErrBroken, f.name, cause)
	return f.err
}

// Sync makes all appends durable. It also finds out whether the file is still
// there under its name and as long as it should be. An error is final: the
// file is broken, what lies behind Synced is to be appended to another one.
// When nothing lies behind Synced there is nothing to do, and no error.
func (f *File) Sync() error {
	if f.size == f.synced {
		return nil
	}
	if f.err != nil {
		return f.err
	}
	err := f.h.Sync()
	if err == nil {
		err = f.check()
	}
	if err != nil {
		f.failed = true
		return f.breaks(err)
	}
	f.synced = f.size
	return nil
}

// check finds out whether anybody has removed, replaced or changed the file.
func (f *File) check() error {
	there, err := f.set.fs.Stat(f.path)
	if err != nil {
		return fmt.Errorf("somebody removed it while it was being written: %w", err)
	}
	if !os.SameFile(there, f.id) {
		return fmt.Errorf("somebody replaced %s while it was being written", f.path)
	}
	if there.Size() != f.size {
		return fmt.Errorf("it has %d bytes instead of %d: somebody else writes to it", there.Size(), f.size)
	}
	return nil
}

// finish makes the file durable and gives it its final name. What has been
// done is not done again when it is called after an error.
func (f *File) finish() error {
	if f.err != nil && f.size == f.synced {
		return f.Salvage(f.size) // no append is at risk
	}
	if f.err == nil && f.size == f.first {
		return f.remove()
	}
	if err := f.Sync(); err != nil {
		return err // also of a file that was broken before
	}
	if err := f.close(); err != nil {
		return f.breaks(err) // network file systems report late
	}
	return f.rename()
}

func (f *File) close() error {
	if f.h == nil {
		return nil
	}
	err := f.h.Close()
	f.h = nil
	return err
}

// rename takes the ".open" off.
func (f *File) rename() error {
	if !f.renamed {
		path, err := f.renameTo(f.set.path(f.name))
		if errors.Is(err, fs.ErrNotExist) {
			if gone := f.gone(f.size, err); gone != nil || f.done {
				return gone
			}
		}
		if err != nil {
			return fmt.Errorf("finish %s, which is whole: %w", f.name, err)
		}
		if name := filepath.Base(path); name != f.name {
			f.set.log.Warn("the name was taken by somebody else while the file was written", "name", f.name, "new name", name)
			f.name = name
		}
		f.renamed = true
	}
	if err := f.set.fs.SyncDir(f.set.options.Dir); err != nil {
		return fmt.Errorf("make the name of %s durable: %w", f.name, err)
	}
	f.done = true
	return nil
}

// renameTo renames the file to that path or, if it is taken, to another one,
// and returns it. A network file system may report an error for what was done,
// because the first answer got lost: the file itself tells.
func (f *File) renameTo(to string) (path string, err error) {
	path, err = renameFree(f.set.fs, f.path, func(i int) string { return other(to, i) })
	if err == nil || path == "" {
		return path, err
	}
	there, thereErr := f.set.fs.Stat(path)
	_, oldErr := f.set.fs.Stat(f.path)
	if thereErr == nil && os.SameFile(there, f.id) && errors.Is(oldErr, fs.ErrNotExist) {
		return path, nil
	}
	return path, err
}

// other returns the i-th name to try, the 0th being the name itself. What
// tells the type of the file stays at its end.
func other(name string, i int) string {
	if i == 0 {
		return name
	}
	ext := filepath.Ext(name)
	if ext == ".gz" || ext == ".zst" {
		ext = filepath.Ext(strings.TrimSuffix(name, ext)) + ext
	}
	return strings.TrimSuffix(name, ext) + "-" + strconv.Itoa(i) + ext
}

// remove does away with a file in which there are no appends.
func (f *File) remove() error {
	f.close()
	err := f.set.fs.Remove(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = f.set.own() // it is gone, or the whole directory is away
	}
	if err != nil {
		return fmt.Errorf("remove the empty file: %w", err)
	}
	f.done = true
	return nil
}

// Salvage ends a file to which a write failed or of which a Sync failed. The
// next Current of its series returns a new one.
//
// The file is cut back to good, which must be the end of a whole append, and
// finished under its name. After a failed Sync nothing behind Synced is kept,
// whatever good says. A file of which nothing but the preamble is good is
// removed.
//
// With [ErrLeft] in the error it could not be cut back, or not be renamed, or
// the directory is away: all
// that was appended to it may come back when its directory is recovered, so
// nothing of it may be appended elsewhere. The disk may be better later: it may
// be salvaged again, or set aside. With [ErrLost] the file is gone, and appends
// before good with it. With any other error the file is as it should be but for
// its name, which Finish tries again.
func (f *File) Salvage(good int64) error {
	return f.endAt(good, func(good int64, cause error) error {
		if good > f.first {
			return f.left(cause)
		}
		if err := f.remove(); err != nil {
			return f.left(err)
		}
		return nil
	})
}

// SetAside is Salvage for the last time: a file that cannot be cut back, or in
// which nothing is good, is renamed to NAME.bad-TIME; with [ErrLost] when that
// takes good appends away.
func (f *File) SetAside(good int64) error { return f.endAt(good, f.putAway) }

// endAt ends the file behind its first good bytes. Where that is not possible,
// or they are none, the file is given to otherwise.
func (f *File) endAt(good int64, otherwise func(good int64, cause error) error) error {
	if f.set.files[f.series] == f {
		delete(f.set.files, f.series)
	}
	if f.done {
		return nil
	}
	if f.err == nil && f.size == f.first {
		return f.set.discard(f)
	}
	good = min(good, f.size)
	if f.failed {
		good = min(good, f.synced)
	}
	f.cutMoved(good)
	cause := errors.New("no append in it is good")
	if good > f.first {
		cause = f.repair(good)
	}
	if cause == nil {
		err := f.rename()
		if err != nil && !f.done {
			f.set.leftover = append(f.set.leftover, f)
		}
		return err
	}
	f.close()
	err := f.gone(good, cause)
	if err == nil && !f.done {
		err = otherwise(good, cause)
	}
	if errors.Is(err, ErrLeft) {
		if f.err == nil {
			f.breaks(cause)
		}
		f.set.files[f.series] = f
	}
	return err
}

// repair cuts the file back and makes that durable, through a new descriptor:
// after an error the old one may report success for what was never written.
func (f *File) repair(good int64) error {
	if f.h == nil && f.err == nil && f.size == good {
		return nil // only the name is missing
	}
	f.close()
	h, err := f.set.fs.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	there, err := h.Stat()
	switch {
	case err != nil:
	case !os.SameFile(there, f.id):
		err = fmt.Errorf("somebody replaced %s", f.path)
	case there.Size() < good:
		err = fmt.Errorf("it has only %d bytes", there.Size())
	default:
		err = h.Truncate(good)
	}
	if err == nil {
		err = h.Sync()
	}
	if err := errors.Join(err, h.Close()); err != nil {
		return err
	}
	f.size, f.synced = good, good
	return nil
}

// cutMoved cuts a file back that somebody has moved, alone or with its
// directory: what is appended elsewhere should not be in it too. It can only
// try; what was removed for good does not matter.
func (f *File) cutMoved(good int64) {
	there, err := f.set.fs.Stat(f.path)
	moved := errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(there, f.id)
	if moved && f.h != nil && f.h.Truncate(max(0, good)) == nil {
		f.h.Sync()
	}
}

// gone finds out whether somebody has taken the file away; then it is done.
// While the whole directory is away it may come back.
func (f *File) gone(good int64, cause error) error {
	there, err := f.set.fs.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(there, f.id):
		if err := f.set.own(); err != nil {
			return f.left(err)
		}
		f.done = true
		if good > f.first {
			return fmt.Errorf("set %s aside: %w: %w", f.name, ErrLost, errors.Join(cause, err))
		}
		return nil
	case err != nil:
		return f.left(fmt.Errorf("%w (because: %w)", err, cause))
	}
	return nil
}

func (f *File) left(cause error) error {
	return fmt.Errorf("set %s aside: %w: %w", f.name, ErrLeft, cause)
}

// putAway renames the file to NAME.bad-TIME.
func (f *File) putAway(good int64, cause error) error {
	bad := f.path[:len(f.path)-len(OpenSuffix)] + ".bad-" + time.Now().UTC().Format("20060102150405")
	path, err := f.renameTo(bad)
	if err != nil {
		return f.left(fmt.Errorf("%w (because: %w)", err, cause))
	}
	f.done = true
	f.set.log.Error("a file was set aside", "file", filepath.Base(path), "good bytes", max(good, 0), "error", cause)
	err = f.set.fs.SyncDir(f.set.options.Dir)
	if good > f.first {
		return fmt.Errorf("%s was set aside, its first %d bytes are good: %w: %w", path, good, ErrLost, errors.Join(cause, err))
	}
	if err != nil {
		return fmt.Errorf("make the name of %s durable: %w", path, err)
	}
	return nil
}
