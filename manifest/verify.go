package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	Files  int     // that are listed
	Octets int64   // that were read
	Faults []Fault // in the order of names; at most 10,000
	// Further is how many faults there are besides, of those that were found last.
	Further int
	Notes   []string // what is worth knowing and no fault
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
	// The list is read again for each look at its files: it can be long.
	var list List
	var names nameSet
	n := 0
	faults, err := list.scan(f, func(e Entry) error {
		if n++; len(list.Directories) > 0 {
			names.add(e.Name)
		}
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	if n == 0 {
		return Report{}, fmt.Errorf("%s: no list of files with digests, as warctee manifest or sha256sum writes it", path)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	v := &verification{ctx: ctx, root: root, opts: opts, faults: faults}
	names.sort()
	v.expected(list.Directories, func(name string) bool { return name == filepath.Base(path) || names.has(name) })
	err = v.compare(func(use func(batch []Entry) error) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return inBatches(f, use)
	})
	v.explain(list.WithWorking)
	return v.report(), err
}

// batchSize is how many files are looked at together.
const batchSize = 1024

// inBatches calls use for the files of a list, of so many at a time.
func inBatches(list io.Reader, use func(batch []Entry) error) error {
	batch := make([]Entry, 0, batchSize)
	_, err := new(List).scan(list, func(e Entry) error {
		if batch = append(batch, e); len(batch) < batchSize {
			return nil
		}
		err := use(batch)
		batch = batch[:0]
		return err
	})
	if err != nil {
		return err
	}
	return use(batch)
}

// A nameSet is the names of files, of which it has hashes: one of 64 bits that two names
// have in common by chance is not to be expected.
type nameSet struct {
	seed   maphash.Seed
	hashes []uint64
}

func (s *nameSet) add(name string) {
	if len(s.hashes) == 0 {
		s.seed = maphash.MakeSeed()
	}
	s.hashes = append(s.hashes, maphash.String(s.seed, name))
}

// sort is called between the last add and the first has.
func (s *nameSet) sort() { slices.Sort(s.hashes) }

func (s *nameSet) has(name string) bool {
	if len(s.hashes) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(s.hashes, maphash.String(s.seed, name))
	return ok
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
	more   int // faults that are not in faults
}

// maxFaults bounds the faults that are reported one by one.
const maxFaults = 10_000

func (v *verification) fault(kind Kind, name, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.faults) >= maxFaults {
		v.more++
		return
	}
	v.faults = append(v.faults, Fault{kind, cut(name), cut(fmt.Sprintf(format, args...))})
}

// cut bounds what is said of a fault, in bytes: no file has so long a name.
func cut(s string) string {
	const limit = 4 << 10
	if len(s) <= limit {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

func (v *verification) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

func (v *verification) report() Report {
	slices.SortStableFunc(v.faults, func(a, b Fault) int { return cmp.Compare(a.Name, b.Name) })
	return Report{Files: v.files, Octets: v.octets, Faults: v.faults, Further: v.more, Notes: v.notes}
}

// expected looks for files that no entry names, in directories of which the list
// is to have all.
func (v *verification) expected(dirs []string, known func(name string) bool) {
	if len(dirs) == 0 {
		return
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
			case known(name) || seen[name]:
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

// compare reads the files. All calls use for them, of some at a time, in the same order
// whenever it is called. The error is that of the context, or of all.
func (v *verification) compare(all func(use func(batch []Entry) error) error) error {
	var here []bool // and of the right size
	total := int64(0)
	err := all(func(batch []Entry) error {
		for i := range batch {
			is, size := v.isHere(&batch[i])
			here = append(here, is)
			total += size
			if err := v.ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.files += len(here)
	v.opts.started(total)
	next := 0
	return all(func(batch []Entry) error {
		first := next
		if next += len(batch); next > len(here) {
			return errors.New("the list has changed while it was read")
		}
		return v.opts.each(len(batch), func(i int) error {
			if here[first+i] {
				v.compareOne(&batch[i])
			}
			return v.ctx.Err()
		})
	})
}

// isHere reports whether a file is there and has the size that is listed, and what that is.
func (v *verification) isHere(e *Entry) (is bool, size int64) {
	info, err := stat(v.root, e.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.fault(Missing, e.Name, "")
	case err != nil:
		v.fault(Unreadable, e.Name, "%v", err)
	case e.Size >= 0 && info.Size() != e.Size:
		v.fault(Size, e.Name, "%d octets, not %d", info.Size(), e.Size)
	default:
		return true, info.Size()
	}
	return false, 0
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
