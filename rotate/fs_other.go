//go:build !linux

package rotate

import "os"

// renameNew renames a file unless the new name is taken.
func renameNew(from, to string) error { return linkNew(from, to) }

func syncContent(f *os.File) error { return f.Sync() }
