package rotate

import (
	"os"

	"golang.org/x/sys/windows"
)

// diskFree returns the bytes that this user may still use on the volume of a
// directory, and how big that is.
func diskFree(dir string) (free, total uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(name, &free, &total, nil)
	}
	if err != nil {
		return 0, 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return free, total, nil
}
