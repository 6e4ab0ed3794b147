package rotate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// faultFS is the real file system with one fault, and with a memory of what is
// durable. It writes down the calls.
type faultFS struct {
	real  osFS
	calls []string // "op base-name"

	// The fault: the calls of op, counted from 1, from the from-th to the
	// to-th one. to 0 means from alone.
	op       string
	from, to int
	how      how
	errno    syscall.Errno // 0: EIO
	count    int

	limited bool  // there is only so much space
	space   int64 // bytes

	dieAt int // the call, counted from 1, at which the process dies; 0: it lives
	torn  bool
	total int

	synced map[string]int64 // durable length by path
	undo   []func()         // takes back changes of the directory that are not durable
}

type how int

const (
	fails     how = iota // nothing is done
	half                 // a write stops in the middle
	halfQuiet            // and does not say so
	persisted            // it is done, and an error returned
)

var errDead = errors.New("the process is dead")

// at counts a call. do: it is to be carried out; err: it returns that.
func (f *faultFS) at(op, path string) (do how, err error) {
	f.total++
	f.calls = append(f.calls, op+" "+filepath.Base(path))
	if f.dieAt > 0 && f.total >= f.dieAt {
		if f.torn && f.total == f.dieAt {
			return half, errDead
		}
		return fails, errDead
	}
	if op != f.op {
		return persisted, nil
	}
	f.count++
	if f.count < f.from || f.count > max(f.from, f.to) {
		return persisted, nil
	}
	errno := f.errno
	if errno == 0 {
		errno = syscall.EIO
	}
	return f.how, &fs.PathError{Op: op, Path: path, Err: errno}
}

// run carries a call out that has no middle.
func (f *faultFS) run(op, path string, do func() error) error {
	how, err := f.at(op, path)
	if how != persisted {
		if err == nil {
			panic("a fault without an error")
		}
		return err
	}
	return errors.Join(do(), err)
}

func (f *faultFS) OpenFile(name string, flag int, perm fs.FileMode) (h Handle, err error) {
	op := "open"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	err = f.run(op, name, func() (err error) {
		h, err = f.real.OpenFile(name, flag, perm)
		if err == nil && op == "create" {
			f.undo = append(f.undo, func() { os.Remove(name) })
			f.set(name, 0)
		}
		return err
	})
	if err != nil {
		if h != nil {
			h.Close()
		}
		return nil, err
	}
	return &faultFile{Handle: h, fs: f, path: name}, nil
}

func (f *faultFS) set(path string, synced int64) {
	if f.synced == nil {
		f.synced = make(map[string]int64)
	}
	f.synced[path] = synced
}

func (f *faultFS) move(from, to string) {
	if n, ok := f.synced[from]; ok {
		delete(f.synced, from)
		f.set(to, n)
	}
}

func (f *faultFS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.run("stat", name, func() (err error) { info, err = f.real.Stat(name); return err })
	return info, err
}

func (f *faultFS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.run("readdir", name, func() (err error) { entries, err = f.real.ReadDir(name); return err })
	return entries, err
}

func (f *faultFS) Rename(from, to string) error {
	return f.run("rename", from, func() error {
		err := f.real.Rename(from, to)
		if err == nil {
			f.move(from, to)
			f.undo = append(f.undo, func() { os.Rename(to, from); f.move(to, from) })
		}
		return err
	})
}

func (f *faultFS) Remove(name string) error {
	return f.run("remove", name, func() error { delete(f.synced, name); return f.real.Remove(name) })
}

func (f *faultFS) SyncDir(name string) error {
	return f.run("syncdir", name, func() error { f.undo = nil; return nil })
}

func (f *faultFS) Free(dir string) (free, total uint64, err error) {
	err = f.run("free", dir, func() (err error) { free, total, err = f.real.Free(dir); return err })
	return free, total, err
}

// cutPower takes back what is not durable.
func (f *faultFS) cutPower() {
	for i := len(f.undo) - 1; i >= 0; i-- {
		f.undo[i]()
	}
	for path, n := range f.synced {
		if info, err := os.Stat(path); err == nil && info.Size() > n {
			os.Truncate(path, n)
		}
	}
}

type faultFile struct {
	Handle
	fs   *faultFS
	path string
}

func (f *faultFile) Write(b []byte) (n int, err error) {
	how, err := f.fs.at("write", f.path)
	if err == nil && f.fs.limited {
		if f.fs.space < int64(len(b)) {
			n, _ = f.Handle.Write(b[:f.fs.space])
			f.fs.space -= int64(n)
			return n, &fs.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
		}
		f.fs.space -= int64(len(b))
	}
	switch {
	case err == nil:
		return f.Handle.Write(b)
	case how == half:
		n, _ = f.Handle.Write(b[:len(b)/2])
		return n, err
	case how == halfQuiet:
		return f.Handle.Write(b[:len(b)/2])
	case how == persisted:
		f.Handle.Write(b)
	}
	return 0, err
}

func (f *faultFile) Truncate(size int64) error {
	return f.fs.run("truncate", f.path, func() error { return f.Handle.Truncate(size) })
}

func (f *faultFile) Stat() (info fs.FileInfo, err error) {
	err = f.fs.run("fstat", f.path, func() (err error) { info, err = f.Handle.Stat(); return err })
	return info, err
}

func (f *faultFile) Sync() error {
	return f.fs.run("sync", f.path, func() error {
		info, err := f.Handle.Stat()
		if err == nil {
			f.fs.set(f.path, info.Size())
		}
		return err
	})
}

// Close always closes: a descriptor is gone whatever close(2) says.
func (f *faultFile) Close() error {
	_, err := f.fs.at("close", f.path)
	return errors.Join(f.Handle.Close(), err)
}

func (f *faultFS) String() string {
	switch {
	case f.dieAt > 0:
		return fmt.Sprintf("dies at call %d, torn %v", f.dieAt, f.torn)
	case f.limited:
		return fmt.Sprintf("%d bytes free", f.space)
	}
	return fmt.Sprintf("%s %d-%d, %d", f.op, f.from, f.to, f.how)
}
