package manifest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Make lists files, and the files in directories, with their SHA-256. The paths
// have to be in base; the names in the list are relative to it. Of the files in a
// directory those that except names, in the form of paths, are left out, and so
// are the [Working] and [Unfinished] ones of a recorder, unless paths names them too.
//
// A file that changes while it is read is an error. So are symbolic links, and
// an unfinished file that paths names.
func Make(ctx context.Context, base string, paths []string, except []string, opts Options) (*List, error) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := tree{root: root, skip: make(map[string]bool), named: make(map[string]bool), opts: &opts}
	for _, path := range except {
		if name, err := nameIn(base, path); err == nil {
			t.skip[name] = true
		}
	}
	for _, path := range paths {
		if name, err := nameIn(base, path); err == nil {
			t.named[name] = true
		}
	}
	l := &List{}
	for _, path := range paths {
		name, err := nameIn(base, path)
		if err != nil {
			return nil, err
		}
		info, err := root.Lstat(filepath.FromSlash(name))
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			l.Directories = append(l.Directories, name)
			err = t.walk(name)
		} else if isUnfinished(name) && !opts.everything {
			return nil, errUnfinished(path)
		} else {
			err = t.add(name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(t.entries) == 0 {
		return nil, errNothing
	}
	slices.SortFunc(t.entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	l.Entries = slices.CompactFunc(t.entries, func(a, b Entry) bool { return a.Name == b.Name })
	slices.Sort(l.Directories)
	return l, digestAll(ctx, root, l.Entries, opts)
}

// nameIn returns the name of path relative to base.
func nameIn(base, path string) (string, error) {
	absBase, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	name, err := filepath.Rel(absBase, abs)
	if err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s is not in %s, the directory of the list: names in it are relative to that", path, absBase)
	}
	return filepath.ToSlash(name), nil
}

// A tree collects the files below a root.
type tree struct {
	root    *os.Root
	skip    map[string]bool
	named   map[string]bool // by the user
	opts    *Options
	entries []Entry
}

func (t *tree) add(name string) error {
	info, err := stat(t.root, name)
	if err != nil {
		return err
	}
	t.entries = append(t.entries, Entry{Name: name, Size: info.Size()})
	return nil
}

// walk adds the files of a directory and of those in it.
func (t *tree) walk(dir string) error {
	fsys := t.root.FS()
	return fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if t.skip[name] || t.named[name] && !d.IsDir() {
			return nil
		}
		if why := omitted(fsys, name, d); why != "" && !t.named[name] && !t.opts.everything {
			t.opts.leftOut(name, why)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if err := t.add(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// digestAll adds the SHA-256 to the entries.
func digestAll(ctx context.Context, root *os.Root, entries []Entry, opts Options) error {
	total := int64(0)
	for i := range entries {
		total += entries[i].Size
	}
	opts.started(total)
	return opts.each(len(entries), func(i int) error {
		e := &entries[i]
		size, got, err := sums(ctx, root, e.Name, []string{"sha256"}, opts.Progress)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if size != e.Size {
			return fmt.Errorf("%s has changed while it was read, from %d to %d octets", e.Name, e.Size, size)
		}
		e.Sums = got
		return nil
	})
}
