package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A Kind says what is wrong.
type Kind string

const (
	Missing    Kind = "missing"    // the file is not there
	Unexpected Kind = "unexpected" // the file is not in the list, which is said to hold all
	Size       Kind = "size"       // the file has another size
	Digest     Kind = "digest"     // the file has another content
	Unreadable Kind = "unreadable" // the file cannot be read, or its digest cannot be computed
	Malformed  Kind = "malformed"  // the list or the bag does not follow its format
)

// A Fault is what is not as the list or bag says.
type Fault struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"` // of the file; of Malformed: a line, or the file of a bag
	Detail string `json:"detail,omitempty"`
}

func (f Fault) String() string {
	if f.Detail == "" {
		return fmt.Sprintf("%s: %q", f.Kind, f.Name)
	}
	return fmt.Sprintf("%s: %q: %s", f.Kind, f.Name, f.Detail)
}

// A Report is what Verify has found.
type Report struct {
	Files  int      // that are listed
	Octets int64    // that were read
	Faults []Fault  // in the order of names
	Notes  []string // what is worth knowing and no fault
}

// Verify compares files with the list at path, a file in the format of
// sha256sum, or with those of the bag at path, a directory. Names are relative to
// the directory of the list. The error is about the list itself.
func Verify(ctx context.Context, path string, opts Options) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, err
	}
	if info.IsDir() {
		return verifyBag(ctx, path, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	list, faults, err := ReadList(f)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(list.Entries) == 0 {
		return Report{}, fmt.Errorf("%s: no list of files with digests, as warctee manifest or sha256sum writes it", path)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	v := &verification{ctx: ctx, root: root, opts: opts, faults: faults}
	v.expected(list.Directories, func(name string) bool { return name == filepath.Base(path) }, list.Entries)
	err = v.compare(list.Entries)
	v.explain(list.WithWorking)
	return v.report(), err
}

// A verification compares files with what is expected of them.
type verification struct {
	ctx   context.Context
	root  *os.Root
	opts  Options
	files int

	notes []string

	mu     sync.Mutex // guards the rest
	octets int64
	faults []Fault
}

func (v *verification) fault(kind Kind, name, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = append(v.faults, Fault{kind, name, fmt.Sprintf(format, args...)})
}

func (v *verification) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

func (v *verification) report() Report {
	slices.SortStableFunc(v.faults, func(a, b Fault) int { return cmp.Compare(a.Name, b.Name) })
	return Report{Files: v.files, Octets: v.octets, Faults: v.faults, Notes: v.notes}
}

// expected looks for files that no entry names, in directories of which the list
// is to have all.
func (v *verification) expected(dirs []string, known func(name string) bool, entries []Entry) {
	if len(dirs) == 0 {
		return
	}
	listed := make(map[string]bool, len(entries))
	for _, e := range entries {
		listed[e.Name] = true
	}
	seen := make(map[string]bool)
	fsys, added := v.root.FS(), []string(nil)
	for _, dir := range dirs {
		fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case v.ctx.Err() != nil:
				return fs.SkipAll
			case err != nil && name == dir && errors.Is(err, fs.ErrNotExist): // its files will be missing
			case err != nil:
				v.fault(Unreadable, name, "%v", err)
			case listed[name] || known(name) || seen[name]:
			case omitted(fsys, name, d) != "":
				if d.IsDir() {
					return fs.SkipDir
				}
			case !d.IsDir() && grows(fsys, name):
				seen[name] = true
				added = append(added, name)
			case !d.IsDir():
				seen[name] = true
				v.fault(Unexpected, name, "")
			}
			return nil
		})
	}
	switch len(added) {
	case 0:
	case 1:
		v.note("1 file of a recording was added since the list was made: %s; list it too", shown(added))
	default:
		v.note("%d files of recordings were added since the list was made: %s; list them too", len(added), shown(added))
	}
}

// explain adds a note about faults of working files, which any recording
// changes. In a list of an earlier version, which took them along unasked, they
// are no faults.
func (v *verification) explain(unasked bool) {
	fsys, working := v.root.FS(), []string(nil)
	v.faults = slices.DeleteFunc(v.faults, func(f Fault) bool {
		isWorking := (f.Kind == Missing || f.Kind == Size || f.Kind == Digest) && wasOmitted(fsys, f.Name)
		if isWorking && !slices.Contains(working, f.Name) {
			working = append(working, f.Name)
		}
		return isWorking && unasked
	})
	what := "is a working file, which later recordings change"
	if len(working) > 1 {
		what = "are working files, which later recordings change"
	}
	switch {
	case len(working) > 0 && unasked:
		v.note("%s %s: not counted as faults; an earlier version has made the list, a new one leaves them out", shown(working), what)
	case len(working) > 0:
		v.note("%s %s", shown(working), what)
	}
}

// compare reads the files. The error is that of the context.
func (v *verification) compare(entries []Entry) error {
	v.files += len(entries)
	here := make([]bool, len(entries)) // and of the right size
	total := int64(0)
	for i, e := range entries {
		info, err := stat(v.root, e.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			v.fault(Missing, e.Name, "")
		case err != nil:
			v.fault(Unreadable, e.Name, "%v", err)
		case e.Size >= 0 && info.Size() != e.Size:
			v.fault(Size, e.Name, "%d octets, not %d", info.Size(), e.Size)
		default:
			here[i] = true
			total += info.Size()
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
	}
	v.opts.started(total)
	return v.opts.each(len(entries), func(i int) error {
		if here[i] {
			v.compareOne(&entries[i])
		}
		return v.ctx.Err()
	})
}

func (v *verification) compareOne(e *Entry) {
	var names []string
	for _, s := range e.Sums {
		if !slices.Contains(names, s.Algorithm) {
			names = append(names, s.Algorithm)
		}
	}
	size, got, err := sums(v.ctx, v.root, e.Name, names, v.opts.Progress)
	if err != nil {
		if v.ctx.Err() == nil {
			v.fault(Unreadable, e.Name, "%v", err)
		}
		return
	}
	v.mu.Lock()
	v.octets += size
	v.mu.Unlock()
	for _, want := range e.Sums {
		i := slices.IndexFunc(got, func(s Sum) bool { return s.Algorithm == want.Algorithm })
		if !bytes.Equal(got[i].Digest, want.Digest) {
			v.fault(Digest, e.Name, "%s is %x, not %x", want.Algorithm, got[i].Digest, want.Digest)
		}
	}
}

// readFile reads a small file of root.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	if _, err := stat(root, name); err != nil {
		return nil, err
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d octets", limit)
	}
	return b, err
}
