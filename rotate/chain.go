package rotate

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partSuffix ends the name of a file of a chain that is not committed:
// NAME.KEY-NUMBER.part.
const partSuffix = ".part"

// A Chain is an append that needs several files. They are made beside the
// current file of the series, which stays as it is, and all get their final
// names or none does.
//
// What tells whether a chain was committed is the name of its first file. All
// files are durable before that gets its final name, and only then do the
// others get theirs. So a first file that is still a part is one of a chain
// that nobody was told of; parts without their first one are to be kept.
type Chain struct {
	set    *Set
	series string
	key    string
	files  []*File
	named  bool // the first file may have its final name: there is no way back
}

// Chain starts a chain. A set has one at a time: where the one before could be
// neither committed nor taken back, that is tried again first, and its error is
// returned.
func (s *Set) Chain(series string) (*Chain, error) {
	if s.lock == nil {
		return nil, ErrClosed
	}
	if s.chain != nil {
		if err := s.chain.end(); err != nil {
			return nil, err
		}
	}
	s.chain = &Chain{set: s, series: series, key: strings.ToLower(rand.Text()[:8])}
	return s.chain, nil
}

// Next makes the last file durable and returns a new one, which is fresh. Only
// that one may be appended to.
func (c *Chain) Next() (*File, error) {
	if err := c.seal(); err != nil {
		return nil, err
	}
	suffix := fmt.Sprintf(".%s-%d%s", c.key, len(c.files)+1, partSuffix)
	f, err := c.set.create(c.series, time.Now(), suffix)
	if err != nil {
		return nil, fmt.Errorf("start a new file: %w", err)
	}
	c.files = append(c.files, f)
	return f, nil
}

// seal makes the last file durable and closes it.
func (c *Chain) seal() error {
	if len(c.files) == 0 {
		return nil
	}
	last := c.files[len(c.files)-1]
	if last.h == nil && last.err == nil {
		return nil
	}
	if err := last.Sync(); err != nil {
		return err
	}
	if err := last.close(); err != nil {
		return last.breaks(err) // network file systems report late
	}
	return nil
}

// Commit makes the files durable under their final names. After an error it may
// be called again, or Abort. With [ErrLost] somebody has taken files of the chain
// away when it was too late to take it back.
func (c *Chain) Commit() error {
	if err := c.seal(); err != nil {
		return err
	}
	if !c.named { // as long as there is a way back
		for _, f := range c.files {
			if err := f.check(); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	var lost error
	for _, f := range c.files {
		if f.done {
			continue
		}
		c.named = true
		switch err := f.rename(); {
		case errors.Is(err, ErrLost):
			lost = errors.Join(lost, err)
		case err != nil:
			return err
		}
	}
	if c.set.chain == c {
		c.set.chain = nil
	}
	return lost
}

// Committed reports whether there is no way back: the chain can only be committed,
// now or by the next Open.
func (c *Chain) Committed() bool { return c.named }

// Abort takes a chain back that is not committed. After an error the files are
// parts still, which the next Chain, Finish, Close or Open does away with.
func (c *Chain) Abort() error {
	if c.named {
		return errors.New("the chain has been committed")
	}
	// The first file goes last: until then it tells that the others are not
	// to be kept.
	if err := c.discardStrays(); err != nil {
		return err
	}
	for i := len(c.files) - 1; i >= 0; i-- {
		if i == 0 {
			if err := c.set.fs.SyncDir(c.set.options.Dir); err != nil {
				return fmt.Errorf("take back the parts of %s: %w", c.files[0].name, err)
			}
		}
		if err := c.files[i].remove(); err != nil {
			return err
		}
		c.files = c.files[:i]
	}
	if c.set.chain == c {
		c.set.chain = nil
	}
	return nil
}

// discardStrays removes files of the chain that were made, and then could not be used.
func (c *Chain) discardStrays() error {
	for i, f := range slices.Backward(c.set.strays) {
		if !strings.Contains(f.path, "."+c.key+"-") {
			continue
		}
		if err := f.remove(); err != nil {
			return err
		}
		c.set.strays = slices.Delete(c.set.strays, i, i+1)
	}
	return nil
}

func (c *Chain) end() error {
	if c.named {
		return c.Commit()
	}
	return c.Abort()
}

// A part is a file of a chain that a process has left.
type part struct {
	path, final string
	number      int
}

// parsePart understands the path of a part, or says that it is none.
func parsePart(path string) (p part, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, partSuffix)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return part{}, "", false
	}
	key, number, ok := strings.Cut(rest[dot+1:], "-")
	n, err := strconv.Atoi(number)
	return part{path, rest[:dot], n}, key, ok && err == nil && n > 0 && key != ""
}

// recoverChain gives the parts of a chain their final names when it was
// committed, and else makes tails of them.
func (s *Set) recoverChain(parts []part) error {
	// The first one comes last: see Abort.
	slices.SortFunc(parts, func(a, b part) int { return b.number - a.number })
	first := parts[len(parts)-1]
	committed := first.number != 1 || s.hasFinalName(first)
	for _, p := range parts {
		r, err := s.recoverPart(p, committed)
		if err != nil {
			return fmt.Errorf("recover %s (move it away, with all of its kind, to start without it): %w", p.path, err)
		}
		s.recovered = append(s.recovered, r)
		s.log.Warn("a file of an unfinished chain was recovered", "file", p.path, "name", r.Name, "kept", r.Kept, "cut", r.Cut, "tail", r.Tail)
	}
	return nil
}

// hasFinalName reports whether a part has its final name too: a rename by link
// and unlink that was interrupted in the middle.
func (s *Set) hasFinalName(p part) bool {
	a, err := s.fs.Stat(p.path)
	b, err2 := s.fs.Stat(p.final)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

func (s *Set) recoverPart(p part, committed bool) (r Recovery, err error) {
	there, err := s.fs.Stat(p.path)
	if err != nil {
		return r, err
	}
	switch size := there.Size(); {
	case size == 0:
		if err := s.fs.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		return r, s.fs.SyncDir(s.options.Dir)
	case committed:
		r.Kept = size
		r.Name, err = s.finishAs(p.path, p.final)
	default:
		r.Cut = size
		if err := s.syncPath(p.path); err != nil {
			return r, err
		}
		r.Tail, err = s.finishAs(p.path, p.final+".tail")
	}
	return r, err
}

func (s *Set) syncPath(path string) error {
	h, err := s.fs.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(h.Sync(), h.Close())
}
