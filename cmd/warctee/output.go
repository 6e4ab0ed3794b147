package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// An output is a file that is being made. It has its name only once it is whole
// and on the disk; until then there is a file with a longer one beside it.
type output struct {
	*os.File
	path  string
	force bool // a file of that name is replaced
	ended bool
}

// createOutput starts to make a file. One that exists is an error, unless it is
// to be replaced. The caller calls commit when all went well, and discard in any
// case.
func createOutput(path string, force bool) (*output, error) {
	if _, err := os.Lstat(path); err == nil && !force {
		return nil, errOutputExists(path)
	}
	f, err := os.OpenFile(path+".tmp-"+rand.Text()[:8], os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("cannot make %s: %w", path, err)
	}
	return &output{File: f, path: path, force: force}, nil
}

func errOutputExists(path string) error {
	return fmt.Errorf("%s exists: choose another name, or give --force to replace it", path)
}

// commit brings the file to the disk and gives it its name.
func (o *output) commit() error {
	o.ended = true
	err := errors.Join(o.Sync(), o.Close())
	if err == nil {
		err = o.publish()
	}
	if err != nil {
		os.Remove(o.Name())
		return err
	}
	return syncDirectory(filepath.Dir(o.path))
}

func (o *output) publish() error {
	if !o.force {
		// Unlike a rename a link never replaces a file that has come meanwhile.
		err := os.Link(o.Name(), o.path)
		if err == nil {
			return os.Remove(o.Name())
		}
		if errors.Is(err, fs.ErrExist) {
			return errOutputExists(o.path)
		}
		if _, err := os.Lstat(o.path); err == nil { // a file system without links
			return errOutputExists(o.path)
		}
	}
	return os.Rename(o.Name(), o.path)
}

// discard removes what was written, unless it was committed.
func (o *output) discard() {
	if !o.ended {
		o.ended = true
		o.Close()
		os.Remove(o.Name())
	}
}

// syncDirectory brings the names in a directory to the disk. On Windows there is
// nothing to call: NTFS journals its directories.
func syncDirectory(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// untilSignal returns a context that ends when the user or the system wants the
// program to end, so that what is half done can be removed.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// A wordsFlag collects texts.
type wordsFlag struct {
	values []string
	kind   string // what --help calls one
}

func (w *wordsFlag) Set(text string) error { w.values = append(w.values, text); return nil }
func (w *wordsFlag) Type() string          { return w.kind }
func (w *wordsFlag) String() string        { return strings.Join(w.values, ",") }
