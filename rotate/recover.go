package rotate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const spoolPrefix = ".spool-"

// recover finishes the files that a process which died has left, and removes
// its spools. It may be interrupted anywhere, also by ctx, and starts over then.
func (s *Set) recover(ctx context.Context) error {
	entries, err := s.fs.ReadDir(s.options.Dir)
	if err != nil {
		return fmt.Errorf("look for unfinished files: %w", err)
	}
	chains := make(map[string][]part)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := s.path(e.Name())
		if strings.HasPrefix(e.Name(), spoolPrefix) {
			if err := s.fs.Remove(path); err != nil {
				return fmt.Errorf("remove a spool that was left: %w", err)
			}
		}
		if p, key, ok := parsePart(path); ok {
			chains[key] = append(chains[key], p)
		}
		if strings.HasSuffix(e.Name(), OpenSuffix) {
			r, err := s.recoverFile(ctx, path)
			if ctx.Err() != nil && err != nil {
				return fmt.Errorf("interrupted while recovering %s, which stays as it is: %w", path, context.Cause(ctx))
			}
			if err != nil {
				return fmt.Errorf("recover %s (move it away to start without it): %w", path, err)
			}
			s.recovered = append(s.recovered, r)
			if r.Kept+r.Cut == 0 {
				s.log.Warn("an unfinished file with nothing in it was removed", "file", e.Name())
				continue
			}
			s.log.Warn("an unfinished file was recovered", "file", e.Name(), "name", r.Name, "kept", r.Kept, "cut", r.Cut, "tail", r.Tail)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(chains)) {
		if err := s.recoverChain(chains[key]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) recoverFile(ctx context.Context, path string) (r Recovery, err error) {
	h, err := s.fs.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	size, err := h.Seek(0, io.SeekEnd)
	if err != nil {
		return r, err
	}
	if _, err := h.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	s.log.Info("an unfinished file is looked through for what is whole in it", "file", filepath.Base(path), "bytes", size)
	good, err := s.options.Verify(bufio.NewReaderSize(interruptible{ctx, h}, 64<<10))
	if err != nil {
		return r, err
	}
	if good < 0 || good > size {
		return r, fmt.Errorf("%d of its %d bytes were found good", good, size)
	}
	r.Kept, r.Cut = good, size-good
	final := strings.TrimSuffix(path, OpenSuffix)
	switch {
	case size == 0:
		return r, s.fs.Remove(path)
	case good == 0:
		r.Tail, err = s.finishAs(path, final+".tail")
		return r, err
	case r.Cut > 0:
		if r.Tail, err = s.saveTail(ctx, h, good, final+".tail"); err != nil {
			return r, err
		}
		if err := h.Truncate(good); err != nil {
			return r, err
		}
	}
	if err := h.Sync(); err != nil {
		return r, err
	}
	r.Name, err = s.finishAs(path, final)
	return r, err
}

// An interruptible reader fails when ctx is done.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(p)
}

// finishAs renames durably, to another name if that one is taken, and returns
// the base name.
func (s *Set) finishAs(from, to string) (string, error) {
	path, err := renameFree(s.fs, from, func(i int) string { return other(to, i) })
	if err != nil {
		return "", err
	}
	return filepath.Base(path), s.fs.SyncDir(s.options.Dir)
}

// saveTail copies what is behind good to a new file, durably.
func (s *Set) saveTail(ctx context.Context, h Handle, good int64, path string) (name string, err error) {
	if _, err := h.Seek(good, io.SeekStart); err != nil {
		return "", err
	}
	var tail Handle
	for i := 0; ; i++ {
		name = other(path, i)
		tail, err = s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.options.FileMode)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || i == 999 {
			return "", err
		}
	}
	_, err = io.Copy(tail, interruptible{ctx, h})
	if err == nil {
		err = tail.Sync()
	}
	if err := errors.Join(err, tail.Close()); err != nil {
		return "", errors.Join(err, s.fs.Remove(name))
	}
	return filepath.Base(name), s.fs.SyncDir(s.options.Dir)
}
