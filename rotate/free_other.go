//go:build !darwin && !dragonfly && !freebsd && !linux && !windows

package rotate

import "errors"

func diskFree(string) (free, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
