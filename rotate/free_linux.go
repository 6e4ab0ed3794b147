package rotate

import (
	"os"

	"golang.org/x/sys/unix"
)

// diskFree returns the bytes that a process without privileges may still use on
// the file system of a directory, and how big that is.
func diskFree(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	for {
		err = unix.Statfs(dir, &s)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := uint64(s.Frsize)
	if unit == 0 {
		unit = uint64(s.Bsize)
	}
	return s.Bavail * unit, s.Blocks * unit, nil
}
