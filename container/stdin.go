package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Stdin is the path of standard input. A file of that name is ./-
const Stdin = "-"

// standardInput is what comes from standard input as a file that can be read at any
// offset, since damage, segments and revisits have to be read again. What is no such
// file, as a pipe, is copied to a temporary one, once.
var standardInput = sync.OnceValues(func() (*os.File, error) { return seekable(os.Stdin) })

// openStdin opens standard input, as often as somebody wants to read it.
func openStdin() (*File, error) {
	f, err := standardInput()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &File{Path: Stdin, Size: info.Size(), ModTime: info.ModTime(), ReaderAt: f, close: func() error { return nil }}, nil
}

// seekable returns in, when it is a file that has not been read from, or a
// copy of what is left of it, in a file whose name is removed at once where the
// system allows that.
func seekable(in *os.File) (*os.File, error) {
	if info, err := in.Stat(); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	} else if at, err := in.Seek(0, io.SeekCurrent); info.Mode().IsRegular() && err == nil && at == 0 {
		return in, nil
	}
	spool, err := os.CreateTemp("", "warctee-stdin-")
	if err != nil {
		return nil, fmt.Errorf("a temporary copy of standard input: %w", err)
	}
	os.Remove(spool.Name()) // Windows refuses
	if _, err = io.Copy(spool, in); err != nil {
		return nil, errors.Join(fmt.Errorf("a temporary copy of standard input in %s (TMPDIR names another directory): %w", os.TempDir(), err), spool.Close())
	}
	return spool, nil
}
