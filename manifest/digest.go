package manifest

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Options say how files are read.
type Options struct {
	Jobs     int                // files that are read at the same time; default: the number of processors
	Started  func(octets int64) // is told how many will be read
	Progress func(octets int64) // is told of each piece that was read; called from several goroutines

	// LeftOut is called for each file of a directory that a list or bag leaves
	// out, with its name in the list, or its path when a bag is made.
	LeftOut func(name string, why Reason)

	everything bool // leave nothing out
}

// A Sum is a digest.
type Sum struct {
	Algorithm string // as in the name of a manifest of BagIt: sha256
	Digest    []byte
}

type algorithm struct {
	name    string
	size    int // octets of the digest
	new     func() hash.Hash
	sumTool bool // known by its length in lists that do not name it
}

// algorithms are those that digests are verified with; RFC 8493 §2.4 names the
// first four of them.
var algorithms = []algorithm{
	{"sha256", sha256.Size, sha256.New, true},
	{"sha512", sha512.Size, sha512.New, true},
	{"sha1", sha1.Size, sha1.New, true},
	{"md5", md5.Size, md5.New, true},
	{"sha384", sha512.Size384, sha512.New384, true},
	{"sha224", sha256.Size224, sha256.New224, true},
}

func algorithmNamed(name string) (algorithm, bool) {
	for _, a := range algorithms {
		if a.name == name {
			return a, true
		}
	}
	return algorithm{}, false
}

// stat looks at a file of root, which has to be a file and no link: a link says
// nothing about what is kept.
func stat(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(filepath.FromSlash(name))
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("it is a symbolic link; name the file that it leads to")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	return info, nil
}

// sums reads a file to its end, at most once whatever the number of digests.
func sums(ctx context.Context, root *os.Root, name string, want []string, progress func(int64)) (size int64, got []Sum, err error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	hashes := make([]hash.Hash, len(want))
	for i, name := range want {
		a, ok := algorithmNamed(name)
		if !ok {
			return 0, nil, fmt.Errorf("digests of %s cannot be computed here", name)
		}
		hashes[i] = a.new()
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		for _, h := range hashes {
			h.Write(buf[:n])
		}
		size += int64(n)
		if progress != nil && n > 0 {
			progress(int64(n))
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, nil, err
		}
	}
	for i, h := range hashes {
		got = append(got, Sum{want[i], h.Sum(nil)})
	}
	return size, got, nil
}

// each does something with n files, some at the same time.
func (o *Options) each(n int, do func(i int) error) error {
	jobs := o.Jobs
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	var g errgroup.Group
	g.SetLimit(jobs)
	for i := range n {
		g.Go(func() error { return do(i) }) // Wait waits for it
	}
	return g.Wait()
}

func (o *Options) started(octets int64) {
	if o.Started != nil {
		o.Started(octets)
	}
}
