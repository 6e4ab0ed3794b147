package rotate

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file unless the new name is taken.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return linkNew(from, to) // NFS and others do not know the flag
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// syncContent leaves out the times of the file.
func syncContent(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
