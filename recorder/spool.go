package recorder

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// spoolMemory is how many octets a spool keeps in memory before all of them
// go to a temporary file.
const spoolMemory = 256 << 10

// A spool holds bytes that are written once and read many times: the body of
// a message from the wire until its record is durable. It is either all in
// memory or all in a file that has no name.
//
// One goroutine writes (append, pass, end). One follower may read along while
// the bytes arrive; readers made by reader read what has been ended.
type spool struct {
	dir    string
	owners atomic.Int32 // who still needs the bytes; the last one closes the file

	mu       sync.Mutex
	changed  sync.Cond // broadcast at every change of what follows
	mem      []byte    // the bytes while file is nil; what is there is never changed, only appended to
	file     *os.File  // unlinked
	size     int64
	extra    []byte // bytes on their way to the follower that are not kept
	ended    bool
	err      error // how the message ended; nil: whole
	followed bool  // somebody follows
	cut      bool  // nobody waits for the follower any more
}

// newSpool returns an empty spool with one owner. Temporary files are made in
// dir; expect tells how many octets may come, or -1.
func newSpool(dir string, expect int64) *spool {
	s := &spool{dir: dir}
	s.changed.L = &s.mu
	s.owners.Store(1)
	if 0 < expect && expect <= spoolMemory {
		s.mem = make([]byte, 0, expect)
	}
	return s
}

// share adds an owner.
func (s *spool) share() *spool {
	s.owners.Add(1)
	return s
}

// release gives up one ownership.
func (s *spool) release() {
	if s.owners.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close() // nothing is lost with an unlinked file
		s.file = nil
	}
	s.mem = nil
}

// Write keeps p.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil && len(s.mem)+len(p) > spoolMemory {
		if err := s.spillLocked(); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		s.mem = append(s.mem, p...)
	} else if n, err := s.file.WriteAt(p, s.size); err != nil {
		return n, err // what was written lies beyond size: it does not count
	}
	s.size += int64(len(p))
	s.changed.Broadcast()
	return len(p), nil
}

// spill moves what is in memory to the file, which gets the rest too.
func (s *spool) spill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		return nil
	}
	return s.spillLocked()
}

func (s *spool) spillLocked() error {
	f, err := os.CreateTemp(s.dir, ".spool-*")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return err
	}
	if _, err := f.WriteAt(s.mem, 0); err != nil {
		f.Close()
		return err
	}
	s.file, s.mem = f, nil
	return nil
}

// pass hands p to the follower without keeping it, and waits until it is
// taken. It returns false when nobody follows, or the message was cut.
func (s *spool) pass(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = p
	s.changed.Broadcast()
	for len(s.extra) > 0 && s.followed && !s.cut {
		s.changed.Wait()
	}
	s.extra = nil
	return s.followed && !s.cut
}

// stopPassing makes pass return. It may be called at any time.
func (s *spool) stopPassing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	s.changed.Broadcast()
}

// end tells that nothing more comes; err says why, nil that the message is
// whole. Only the first call counts.
func (s *spool) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended, s.err = true, err
		s.changed.Broadcast()
	}
}

// len returns how many octets are kept.
func (s *spool) len() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// reader returns a reader of what is kept at the time of the call.
func (s *spool) reader() io.Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return &memReader{s.mem}
}

// A memReader is a bytes.Reader that can do nothing else, so that nobody
// seeks in it.
type memReader struct{ rest []byte }

func (m *memReader) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// A follower reads along.
type follower struct {
	s   *spool
	off int64
	buf []byte // for what is not in memory to stay
}

// follow starts the one follower.
func (s *spool) follow() *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = true
	return &follower{s: s}
}

var errUnfollowed = errors.New("the body has been closed")

// next returns the bytes that come next, valid until the next call. Before it
// has to wait it calls wait once. At the end it returns io.EOF, or the error
// that the message ended with.
func (f *follower) next(wait func()) ([]byte, error) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := true; ; first = false {
		switch {
		case !s.followed:
			return nil, errUnfollowed
		case f.off < s.size:
			return f.viewLocked()
		case len(s.extra) > 0:
			// A copy: the writer does not wait for what the client does
			// with it.
			n := copy(f.buffer(), s.extra)
			s.extra = s.extra[n:]
			s.changed.Broadcast()
			return f.buf[:n], nil
		case s.ended && s.err != nil:
			return nil, s.err
		case s.ended:
			return nil, io.EOF
		}
		if first && wait != nil {
			s.mu.Unlock()
			wait()
			s.mu.Lock()
			continue
		}
		s.changed.Wait()
	}
}

func (f *follower) viewLocked() ([]byte, error) {
	s := f.s
	if s.file == nil {
		view := s.mem[f.off:]
		f.off = s.size
		return view, nil
	}
	n, err := s.file.ReadAt(f.buffer()[:min(int64(len(f.buf)), s.size-f.off)], f.off)
	f.off += int64(n)
	if n > 0 {
		return f.buf[:n], nil
	}
	return nil, err
}

func (f *follower) buffer() []byte {
	if f.buf == nil {
		f.buf = make([]byte, 64<<10)
	}
	return f.buf
}

// stop makes next and pass return. It may be called at any time.
func (f *follower) stop() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.followed = false
	f.s.changed.Broadcast()
}
