package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc/check"
)

// stdinName is how the arguments of a command name standard input. A file of that
// name is ./-
const stdinName = "-"

// An inputFile is a file that a command reads, or standard input.
type inputFile interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// openInput opens a file that a command reads. The caller closes it.
func openInput(path string) (inputFile, error) {
	if path != stdinName {
		return os.Open(path)
	}
	f, err := standardInput()
	if err != nil {
		return nil, err
	}
	return shared{f}, nil
}

// openArchive opens an archive file for reading.
func openArchive(path string) (*archive.File, error) {
	if path != stdinName {
		return archive.Open(path)
	}
	f, err := standardInput()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return archive.New(path, shared{f}, info.Size()), nil
}

// openChecked opens a file for check.
func openChecked(path string) (check.Input, error) { return openInput(path) }

// shared is a file that several read and none closes.
type shared struct{ *os.File }

func (shared) Close() error { return nil }

// standardInput is what comes from standard input as a file that can be read at any
// offset, since damage, segments and revisits have to be read again. What is no such
// file, as a pipe, is copied to a temporary one, once.
var standardInput = sync.OnceValues(func() (*os.File, error) { return seekable(os.Stdin) })

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

// refuseStdin is the error of a command that cannot work with standard input,
// with the reason.
func refuseStdin(files []string, command, reason string) error {
	for _, path := range files {
		if path == stdinName {
			return usageError{fmt.Errorf("%s cannot read standard input (-): %s", command, reason)}
		}
	}
	return nil
}
