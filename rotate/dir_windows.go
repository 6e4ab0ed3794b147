package rotate

import (
	"errors"

	"golang.org/x/sys/windows"
)

// syncDir has nothing to call: NTFS journals its directories.
func syncDir(string) error { return nil }

// outOfDescriptors reports whether it would have worked with fewer files open.
func outOfDescriptors(err error) bool {
	return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES)
}
