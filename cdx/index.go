package cdx

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/lanrat/extsort"
	"golang.org/x/sync/errgroup"

	"github.com/warctee/warctee/archive"
)

// A Format is the form of the lines of an index.
type Format int

const (
	CDXJ  Format = iota // the key, the date and an object of JSON
	CDX11               // 11 fields, the first line names them
)

// Options say what Index does.
type Options struct {
	Format   Format
	All      bool               // every record that has a target, requests too; default: those that can be replayed
	Root     string             // the folder to which names of files are relative; default: only the last part of their paths
	Jobs     int                // files that are read at the same time; default: as many as there are processors
	TempDir  string             // where lines are sorted that do not fit into memory; default: os.TempDir
	Progress func(octets int64) // is told what was read of the files; it has to be safe for concurrent use

	// Milliseconds writes times of 17 digits where WARC-Date has a fraction of a second.
	// An index for others has 14.
	Milliseconds bool
}

// A Summary tells what Index did.
type Summary struct {
	Octets  int64   // of the files
	Records int64   // in them
	Entries int64   // lines of the index
	Damaged []error // what could not be indexed: file, offset, and why
}

// MaxLine bounds a line of an index, in octets. A capture whose line is longer,
// because of its URL, is told in Summary.Damaged.
const MaxLine = 64 << 10

// sortLines is how many lines are sorted in memory, each of keptOctets at most.
// About six times as many can be there at the same time.
const sortLines = 4096

// maxDamaged bounds Summary.Damaged for each file.
const maxDamaged = 100

// Index writes the sorted index of files to w. What is damaged in a file is in the
// Summary and is no error: what comes before it is indexed. An error is one of
// reading, writing or sorting, or of ctx.
func Index(ctx context.Context, w io.Writer, files []string, opts Options) (Summary, error) {
	if opts.Jobs < 1 {
		opts.Jobs = runtime.GOMAXPROCS(0)
	}
	if opts.TempDir == "" {
		opts.TempDir = os.TempDir()
	}
	if _, err := os.Stat(opts.TempDir); err != nil {
		return Summary{}, fmt.Errorf("folder for sorting: %w", err)
	}
	x := &indexer{opts: &opts, lines: make(chan string, 256), damaged: make([][]error, len(files)), long: longLines{dir: opts.TempDir}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sorter, sorted, failed := extsort.Generic(x.lines, fromBytes, toBytes, x.long.compare, &extsort.Config{
		ChunkSize: sortLines, NumWorkers: 1, ChanBuffSize: 0, SortedChanBuffSize: 256, TempFilesDir: opts.TempDir,
	})
	var scanned error
	var scanning sync.WaitGroup
	// It ends when all files are read, or ctx is done.
	scanning.Go(func() {
		defer close(x.lines)
		if scanned = x.scanAll(ctx, files); scanned != nil {
			cancel()
		}
	})
	sorter.Sort(ctx)
	err := x.write(w, sorted)
	if err != nil {
		cancel()
	}
	sortErr := <-failed
	scanning.Wait()
	for range sorted {
		// What is left after an error.
	}
	longErr := x.long.close()
	switch {
	case scanned != nil:
		err = scanned
	case err == nil && (sortErr != nil || longErr != nil):
		err = fmt.Errorf("sorting: %w", cmp.Or(sortErr, longErr))
	}
	for _, d := range x.damaged {
		x.summary.Damaged = append(x.summary.Damaged, d...)
	}
	return x.summary, err
}

func fromBytes(b []byte) (string, error) { return string(b), nil }
func toBytes(s string) ([]byte, error)   { return []byte(s), nil }

// An indexer is what the scans of one Index share.
type indexer struct {
	opts    *Options
	lines   chan string // as they are sorted
	long    longLines
	damaged [][]error // by file

	mu      sync.Mutex
	summary Summary
}

// scanAll reads the files.
func (x *indexer) scanAll(ctx context.Context, files []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(x.opts.Jobs)
	for i, path := range files {
		group.Go(func() error { return x.scanFile(ctx, i, path) })
	}
	return group.Wait()
}

func (x *indexer) scanFile(ctx context.Context, i int, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := x.name(path)
	if err != nil {
		return err
	}
	f, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := &scanner{file: f, name: name, opts: x.opts}
	var line []byte
	s.emit = func(e *Entry) error {
		if x.opts.Format == CDX11 {
			line = e.AppendCDX11(line[:0])
		} else {
			line = e.AppendCDXJ(line[:0])
		}
		if len(line) > MaxLine {
			s.tell(fmt.Errorf("%s: record at offset %d: its line would have %d octets, more than %d: %.80s…", path, e.Offset, len(line), MaxLine, e.URL))
			return nil
		}
		kept, err := x.long.keep(line)
		if err != nil {
			return fmt.Errorf("sorting: %w", err)
		}
		select {
		case x.lines <- kept:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = s.scan(ctx)
	x.damaged[i] = s.damaged
	x.mu.Lock()
	defer x.mu.Unlock()
	x.summary.Octets += f.Size
	x.summary.Records += s.records
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}

// name returns how the index names a file.
func (x *indexer) name(path string) (string, error) {
	if x.opts.Root == "" {
		return filepath.Base(path), nil
	}
	root, err := filepath.Abs(x.opts.Root)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	name, err := filepath.Rel(root, path)
	return filepath.ToSlash(name), err
}

// write writes the sorted lines.
func (x *indexer) write(w io.Writer, sorted <-chan string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if x.opts.Format == CDX11 {
		out.WriteString(HeaderCDX11)
	}
	for kept := range sorted {
		line, err := x.long.whole(kept)
		if err != nil {
			return fmt.Errorf("sorting: %w", err)
		}
		if _, err := out.WriteString(line); err != nil {
			return err
		}
		x.summary.Entries++
	}
	return out.Flush()
}
