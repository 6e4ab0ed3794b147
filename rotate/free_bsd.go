//go:build darwin || dragonfly || freebsd

package rotate

import (
	"os"

	"golang.org/x/sys/unix"
)

// diskFree returns the bytes that a process without privileges may still use on
// the file system of a directory, and how big that is.
func diskFree(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	available := int64(s.Bavail) // may be negative where root has a reserve
	return uint64(max(0, available)) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), nil
}
