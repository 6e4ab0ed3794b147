// Package archive opens WARC files: any record of them by its offset, and what a
// record holds.
//
//	File       a file, from which records are read
//	Message    the HTTP message that is the block of a record, and its payload
package archive

import (
	"io"
	"sync"

	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// A File is a WARC file that is open for reading. It is safe for concurrent use.
type File struct {
	Path string // as given to Open
	Size int64  // in bytes, when it was opened

	f          *container.File
	dictionary func() *warc.Dictionary // of a zstd file; nil: none, or it cannot be read, which its records tell
}

// Open opens a WARC file, which may be one in a package; see [container.Open]. That it
// is one shows when it is read.
func Open(path string) (*File, error) {
	f, err := container.Open(path)
	if err != nil {
		return nil, err
	}
	dictionary := sync.OnceValue(func() *warc.Dictionary {
		d, _ := warc.ReadDictionary(io.NewSectionReader(f, 0, f.Size))
		return d
	})
	return &File{Path: path, Size: f.Size, f: f, dictionary: dictionary}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Records returns a reader of the records from offset on, which is 0 or where a
// record starts, in bytes of the file. What it tells of offsets counts from
// there.
func (f *File) Records(offset int64) *warc.Reader {
	z := warc.NewReader(io.NewSectionReader(f.f, offset, f.Size-offset))
	if offset > 0 {
		z.Dictionary = f.dictionary()
	}
	return z
}

// ReadAt reads bytes of the file, as an [io.ReaderAt].
func (f *File) ReadAt(p []byte, offset int64) (int, error) { return f.f.ReadAt(p, offset) }
