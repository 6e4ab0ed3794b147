package rotate

// Free returns the bytes that a process without privileges may still use on the
// file system of a directory, and how big that is.
func Free(dir string) (free, total uint64, err error) { return diskFree(dir) }
