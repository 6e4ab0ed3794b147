package cdx

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// keptOctets is how much of a line is sorted in memory. Few lines are longer, but
// whoever made the files could have made all of them so.
const keptOctets = 2 << 10

// longLines holds the lines that are too long to be sorted in memory in a file.
// What is sorted in their place is their start, and where they are. It is safe for
// concurrent use.
type longLines struct {
	dir string

	mu  sync.Mutex
	f   *os.File // nil: there was none
	end int64
	err error // the first one of compare
}

// keep returns what is sorted in place of a line: the line itself when it is
// short.
func (l *longLines) keep(line []byte) (string, error) {
	if len(line) <= keptOctets {
		return string(line), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		f, err := os.CreateTemp(l.dir, "warctee-index-*")
		if err != nil {
			return "", err
		}
		os.Remove(f.Name()) // where that is not possible now, close does it
		l.f = f
	}
	if _, err := l.f.WriteAt(line, l.end); err != nil {
		return "", err
	}
	kept := fmt.Sprintf("%s\x00%d %d", line[:keptOctets], l.end, len(line)) // no line has a zero octet
	l.end += int64(len(line))
	return kept, nil
}

// whole returns the line in place of which something was kept.
func (l *longLines) whole(kept string) (string, error) {
	if len(kept) <= keptOctets {
		return kept, nil
	}
	var offset int64
	var length int
	if _, err := fmt.Sscanf(kept[keptOctets+1:], "%d %d", &offset, &length); err != nil {
		return "", fmt.Errorf("temporary file: %w", err)
	}
	line := make([]byte, length)
	_, err := l.f.ReadAt(line, offset)
	return string(line), err
}

// compare orders what was kept as the lines are ordered. Lines of which one is
// short differ in their starts: the line feed at its end is in no other line.
func (l *longLines) compare(a, b string) int {
	if c := cmp.Compare(a[:min(len(a), keptOctets)], b[:min(len(b), keptOctets)]); c != 0 || a == b {
		return c
	}
	wholeA, errA := l.whole(a)
	wholeB, errB := l.whole(b)
	if err := cmp.Or(errA, errB); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = cmp.Or(l.err, err)
	}
	return strings.Compare(wholeA, wholeB)
}

// close removes the file. The error is the first one of compare.
func (l *longLines) close() error {
	if l.f == nil {
		return nil
	}
	name := l.f.Name()
	l.f.Close()
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		l.err = cmp.Or(l.err, err)
	}
	return l.err
}
