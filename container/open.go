package container

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A name such as site.wacz!archive/data.warc.gz is that of a file in a package.
const (
	suffix    = ".wacz"
	separator = suffix + "!"
)

// archiveDir is where a package has its WARC files (WACZ 1.1.1 §5).
const archiveDir = "archive/"

// A File is a file that is open for reading, or a stored member of a package. It is
// safe for concurrent use.
type File struct {
	Path    string // as given to Open
	Size    int64  // octets
	ModTime time.Time

	io.ReaderAt
	close func() error
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// Divide divides the name of a member into those of its package and of the file in it.
// It reports false for other names, and for that of a file that exists.
func Divide(path string) (pkg, name string, ok bool) {
	i := strings.LastIndex(path, separator)
	if i < 0 {
		return "", "", false
	}
	if _, err := os.Lstat(path); err == nil {
		return "", "", false
	}
	i += len(separator)
	return path[:i-1], path[i:], true
}

// Stat describes the file that is read for a path: the package of a member, or what
// comes from standard input.
func Stat(path string) (os.FileInfo, error) {
	if path == Stdin {
		f, err := standardInput()
		if err != nil {
			return nil, err
		}
		return f.Stat()
	}
	if pkg, _, ok := Divide(path); ok {
		path = pkg
	}
	return os.Stat(path)
}

// Open opens a regular file, or a member of a package, such as
// site.wacz!archive/data.warc.gz, or [Stdin]. A member that is compressed by the zip is
// refused.
func Open(path string) (*File, error) {
	if path == Stdin {
		return openStdin()
	}
	pkg, name, ok := Divide(path)
	if !ok {
		return openFile(path)
	}
	f, err := openFile(pkg)
	if err != nil {
		return nil, err
	}
	at, err := f.find(name)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{Path: path, Size: at.size, ModTime: f.ModTime, ReaderAt: io.NewSectionReader(f, at.start, at.size), close: f.close}, nil
}

func openFile(path string) (*File, error) {
	// To open a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	return &File{Path: path, Size: info.Size(), ModTime: info.ModTime(), ReaderAt: f, close: f.Close}, nil
}

// A member is where a file of a package is.
type member struct {
	start, size int64
	packed      bool // by the zip
}

// A directory is where the WARC files of a package are.
type directory struct {
	path    string
	size    int64
	changed time.Time
	members map[string]member
}

// The directory that was read last: the files of a package are opened one after the
// other, and it can be long.
var (
	lastMu sync.Mutex
	last   directory // guarded by lastMu
)

// directory returns the directory of a package.
func (f *File) directory() (map[string]member, error) {
	lastMu.Lock()
	defer lastMu.Unlock()
	if last.members != nil && last.path == f.Path && last.size == f.Size && last.changed.Equal(f.ModTime) {
		return last.members, nil
	}
	files, err := NewZip(f, f.Size)
	if err != nil {
		return nil, err
	}
	d := directory{f.Path, f.Size, f.ModTime, make(map[string]member)}
	for _, entry := range files {
		if !strings.HasPrefix(entry.Name, archiveDir) || !isArchive(entry.Name) {
			continue
		}
		if _, twice := d.members[entry.Name]; twice {
			return nil, fmt.Errorf("there are two files named %q in the package: programs differ in which they take", cut(entry.Name))
		}
		start, err := entry.DataOffset()
		if err != nil {
			return nil, err
		}
		size := int64(entry.UncompressedSize64)
		if size < 0 || start > f.Size || size > f.Size-start && entry.Method == zip.Store {
			return nil, fmt.Errorf("%q reaches behind the end of the package, which is cut or damaged", cut(entry.Name))
		}
		packed := entry.Method != zip.Store || entry.Flags&1 != 0 || entry.CompressedSize64 != entry.UncompressedSize64
		d.members[strings.Clone(entry.Name)] = member{start, size, packed}
	}
	last = d
	return d.members, nil
}

// find returns where the file of that name is in a package.
func (f *File) find(name string) (member, error) {
	members, err := f.directory()
	if err != nil {
		return member{}, err
	}
	at, ok := members[name]
	switch {
	case !ok:
		return at, errors.New("the package has no WARC file of this name; 'warctee ls' of the package shows those that it has")
	case at.packed:
		return at, errors.New("it is compressed or encrypted by the zip, so that no part of it can be read alone: take it out with unzip, and pack it again with 'warctee pack'")
	}
	return at, nil
}

// Members returns the WARC files in a package, in the order of their names, as Open
// takes them. It returns a [*FormError] for a zip file that is no package.
func Members(path string) ([]string, error) {
	if path == Stdin {
		return nil, errors.New("standard input is a zip file: a package is read from a file of its own, whose name ends in .wacz")
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	members, err := f.directory()
	switch named := strings.HasSuffix(path, suffix); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(members) == 0 && !named:
		return nil, &FormError{path, Zip}
	case len(members) == 0:
		return nil, fmt.Errorf("%s: there are no WARC files (%s*.warc, *.warc.gz) in this package", path, archiveDir)
	case !named:
		return nil, fmt.Errorf("%s: this is a WACZ, but its name does not end in .wacz: rename it", path)
	}
	names := slices.Sorted(maps.Keys(members))
	for i, name := range names {
		names[i] = path + "!" + name
	}
	return names, nil
}

// isArchive reports whether a package has a WARC file under that name.
func isArchive(name string) bool {
	for _, end := range []string{".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// maxDirectory bounds the directory of a zip file, in octets. It is held in memory, and
// takes up to ten times as much there.
const maxDirectory = 8 << 20

// NewZip returns the files of a zip, in the order of their places. No two of them may
// have octets in common: such files are many times as large as the zip. Names are as
// they are there, and so may lead anywhere.
func NewZip(r io.ReaderAt, size int64) ([]*zip.File, error) {
	bounded := &boundedReader{r: r}
	bounded.left.Store(maxDirectory)
	z, err := zip.NewReader(bounded, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("no zip file that can be read: %w", err)
	}
	bounded.open.Store(true)
	type span struct{ start, end int64 }
	spans := make([]span, 0, len(z.File))
	for _, f := range z.File {
		start, err := f.DataOffset()
		if err != nil {
			return nil, fmt.Errorf("no zip file that can be read: %q: %w", cut(f.Name), err)
		}
		spans = append(spans, span{start, start + int64(f.CompressedSize64)})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return nil, fmt.Errorf("two files in the zip have the octets from %d on in common: it was made to cost time or space, and is not read", spans[i].start)
		}
	}
	return z.File, nil
}

func cut(s string) string { return s[:min(len(s), 200)] }

// A boundedReader bounds what is read before it is open.
type boundedReader struct {
	r    io.ReaderAt
	left atomic.Int64
	open atomic.Bool
}

func (b *boundedReader) ReadAt(p []byte, offset int64) (int, error) {
	if !b.open.Load() && b.left.Add(-int64(len(p))) < 0 {
		return 0, fmt.Errorf("its directory has more than %d MB", maxDirectory>>20)
	}
	return b.r.ReadAt(p, offset)
}
