package rotate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FS is what a Set asks of a file system. Tests put faults here.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (Handle, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// Rename never replaces a file: it fails with fs.ErrExist.
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Free returns how many bytes a process without privileges may still use
	// on the file system of a directory, and how many it has in all;
	// errors.ErrUnsupported where that cannot be known.
	Free(dir string) (free, total uint64, err error)
}

// Handle is an open file of an FS.
type Handle interface {
	io.ReadWriteSeeker
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes the content and the length durable.
	Sync() error
	Close() error
}

// osFS is the operating system's file system.
type osFS struct{}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncContent(f.File) }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }
func (osFS) SyncDir(name string) error                  { return syncDir(name) }

func (osFS) Free(dir string) (free, total uint64, err error) { return diskFree(dir) }

func (osFS) Rename(from, to string) error {
	err := renameNew(from, to)
	if errors.Is(err, fs.ErrExist) && sameFile(from, to) {
		// Two names of one file: a rename by link and unlink that was
		// interrupted in the middle.
		return os.Remove(from)
	}
	return err
}

func sameFile(a, b string) bool {
	x, err := os.Lstat(a)
	if err != nil {
		return false
	}
	y, err := os.Lstat(b)
	return err == nil && os.SameFile(x, y)
}

// linkNew renames by link and unlink, which fails when the new name is taken.
// Where there are no hard links (FAT) it looks first: the directory is locked,
// so that only a stranger could come in between.
func linkNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// renameFree renames to the first of the names that is free. It returns the
// name, also of an attempt that failed.
func renameFree(fsys FS, from string, to func(i int) string) (string, error) {
	for i := range 1000 {
		name := to(i)
		if err := fsys.Rename(from, name); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", fmt.Errorf("rename %s: the names up to %s are all taken", from, to(999))
}
