//go:build !windows

package rotate

import (
	"errors"
	"os"
	"syscall"
)

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// outOfDescriptors reports whether it would have worked with fewer files open.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
