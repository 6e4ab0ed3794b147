package recorder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// spoolMemory is how many octets a spool keeps in memory before all of
	// them go to a temporary file.
	spoolMemory = 256 << 10
	// spoolSmall is how many it keeps there however little memory there is.
	spoolSmall = 4 << 10
	// spoolTail is how much of a file is collected in memory before it is
	// written, where it comes in pieces of spoolPiece or more.
	spoolTail  = 128 << 10
	spoolPiece = 4 << 10
	// spoolStart is how much start reads of a file.
	spoolStart = 64 << 10
	// followBuffer is what a follower needs to read from a file.
	followBuffer = 32 << 10
)

var followBuffers = sync.Pool{New: func() any { return new([followBuffer]byte) }}

var spoolTails = sync.Pool{New: func() any { return new([spoolTail]byte) }}

// A spool holds bytes that are written once and read many times: the body of
// a message from the wire until its record is durable. It is either all in
// memory or in a file that has no name, but for its last octets.
//
// One goroutine writes (append, pass, end). One follower may read along while
// the bytes arrive; readers made by reader read what has been ended.
type spool struct {
	space  *space
	dir    string
	owners atomic.Int32 // who still needs the bytes; the last one closes the file

	mu       sync.Mutex
	changed  sync.Cond // broadcast at every change of what follows
	mem      []byte    // the bytes while file is nil; what is there is never changed, only appended to
	lent     int64     // memory that is no longer mem's, but the follower still looks at it
	viewed   bool      // the follower looks at mem
	file     *os.File  // unlinked
	tail     []byte    // the last octets, which are not in the file yet
	onDisk   int64     // bytes taken from the space for it
	heads    int64     // and for the heads of its message
	done     int64     // of what it holds, is in the archive or a copy of what is to be appended
	size     int64
	extra    []byte    // bytes on their way to the follower that are not kept …
	passing  time.Time // … since then
	ended    bool
	err      error // how the message ended; nil: whole
	followed bool  // somebody follows
	cut      bool  // nobody waits for the follower any more
}

// newSpool returns an empty spool with one owner, which takes what it needs
// from the space. Temporary files are made in dir; expect tells how many octets
// may come, or -1.
func newSpool(space *space, dir string, expect int64) *spool {
	s := &spool{space: space, dir: dir}
	s.changed.L = &s.mu
	s.owners.Store(1)
	if 0 < expect && expect <= spoolMemory && space.takeMemory(expect) {
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
	if s.tail != nil {
		spoolTails.Put((*[spoolTail]byte)(s.tail[:spoolTail]))
		s.space.memory.Add(-spoolTail)
		s.tail = nil
	}
	s.space.disk.Add(-s.onDisk)
	s.space.heads.Add(-s.heads)
	s.space.done.Add(-s.done)
	s.onDisk, s.heads, s.done = 0, 0, 0
	s.replaceLocked(nil)
}

// weigh takes memory for the head of the message until the spool is released.
func (s *spool) weigh(head int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heads += int64(head)
	s.space.heads.Add(int64(head))
}

// setDone tells whether nothing of it has to be appended any more.
func (s *spool) setDone(done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.space.done.Add(-s.done)
	s.done = 0
	if done {
		s.done = int64(cap(s.mem)+cap(s.tail)) + s.onDisk
		s.space.done.Add(s.done)
	}
}

// Write keeps p, or nothing. What finds no room takes that of clients which are
// slow to read what is in the archive already.
func (s *spool) Write(p []byte) (int, error) {
	for {
		n, err := s.tryWrite(p)
		if err == nil || s.space.reclaim == nil || !s.space.reclaim(err) { // not with the lock: it takes those of others
			return n, err
		}
	}
}

func (s *spool) tryWrite(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if err := s.makeRoomLocked(len(s.mem) + len(p)); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		s.mem = append(s.mem, p...)
	} else if err := s.addLocked(p); err != nil {
		return 0, err // what was written lies beyond size: it does not count
	}
	s.size += int64(len(p))
	s.changed.Broadcast()
	return len(p), nil
}

// makeRoomLocked sees to it that there are n octets of room in memory, or a
// file. Where the one is not to be had the other may.
func (s *spool) makeRoomLocked(n int) error {
	switch {
	case n <= cap(s.mem):
		return nil
	case s.owners.Load() == 0:
		return errUnfollowed // nobody needs it any more
	case n <= spoolMemory && s.growLocked(n):
		return nil
	}
	err := s.spillLocked()
	if err != nil && s.growLocked(n) {
		return nil
	}
	return err
}

// growLocked reports whether there is memory for n octets.
func (s *spool) growLocked(n int) bool {
	room := max(n, min(2*cap(s.mem), spoolMemory), min(4*n, spoolSmall))
	if n > spoolMemory {
		room = n + n/4 // instead of a file
	}
	switch {
	case s.space.takeMemory(int64(room)):
	case s.space.takeMemory(int64(n)):
		room = n
	case n <= spoolSmall:
		room = n
		s.space.memory.Add(int64(n))
	default:
		return false
	}
	s.replaceLocked(append(make([]byte, 0, room), s.mem...))
	return true
}

// replaceLocked gives up the memory for other memory, which has been taken.
func (s *spool) replaceLocked(mem []byte) {
	if n := int64(cap(s.mem)); s.viewed {
		s.viewed = false
		s.lent += n
	} else {
		s.space.memory.Add(-n)
	}
	s.mem = mem
}

// spill moves what is in memory to the file, which gets the rest too.
func (s *spool) spill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil || s.size == 0 || s.owners.Load() == 0 {
		return nil
	}
	return s.spillLocked()
}

func (s *spool) spillLocked() error {
	f, err := unnamedFile(s.dir)
	if err != nil {
		return err
	}
	if err := s.writeFileLocked(f, s.mem, 0); err != nil {
		f.Close()
		return err
	}
	s.file = f
	s.replaceLocked(nil)
	return nil
}

// unnamedFile makes a temporary file that is gone when it is closed.
func unnamedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		return nil, err
	}
	return f, nil
}

// addLocked adds p to the file, by way of the tail where there is memory for it.
func (s *spool) addLocked(p []byte) error {
	if s.tail == nil && len(p) >= spoolPiece && s.owners.Load() > 0 && s.space.takeMemory(spoolTail) {
		s.tail = spoolTails.Get().(*[spoolTail]byte)[:0]
	}
	if len(s.tail)+len(p) > cap(s.tail) {
		if len(s.tail) > 0 {
			if err := s.writeFileLocked(s.file, s.tail, s.inFileLocked()); err != nil {
				return err
			}
			s.tail = s.tail[:0]
		}
		if len(p) > cap(s.tail) {
			return s.writeFileLocked(s.file, p, s.size)
		}
	}
	s.tail = append(s.tail, p...)
	return nil
}

// inFileLocked returns how many octets are in the file.
func (s *spool) inFileLocked() int64 { return s.size - int64(len(s.tail)) }

func (s *spool) writeFileLocked(f *os.File, p []byte, at int64) error {
	n := int64(len(p))
	if err := s.space.takeDisk(n); err != nil {
		return err
	}
	if _, err := f.WriteAt(p, at); err != nil {
		s.space.disk.Add(-n)
		return err
	}
	s.onDisk += n
	return nil
}

// pass hands p to the follower without keeping it, and waits until it is
// taken. It returns false when nobody follows, or the message was cut.
func (s *spool) pass(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra, s.passing = p, time.Now()
	s.changed.Broadcast()
	for len(s.extra) > 0 && s.followed && !s.cut {
		s.changed.Wait()
	}
	s.extra = nil
	return s.followed && !s.cut
}

// waits returns how long pass has waited for the follower.
func (s *spool) waits() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.extra) == 0 {
		return 0
	}
	return time.Since(s.passing)
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

// takes returns how many bytes of the disk it has, and whether it has a file.
func (s *spool) takes() (onDisk int64, file bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onDisk, s.file != nil
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
	if s.file == nil {
		return &memReader{s.mem}
	}
	file := io.NewSectionReader(s.file, 0, s.inFileLocked())
	if len(s.tail) == 0 {
		return file
	}
	return io.MultiReader(file, &memReader{s.tail})
}

// start returns what is in memory or, of what is not, the first octets.
func (s *spool) start() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return s.mem
	}
	start := make([]byte, min(s.size, spoolStart))
	inFile := int(min(s.inFileLocked(), int64(len(start))))
	n, _ := s.file.ReadAt(start[:inFile], 0) // who reads all of it is told of an error
	if n == inFile {
		n += copy(start[n:], s.tail)
	}
	return start[:n]
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
	s     *spool
	off   int64
	taken atomic.Int64 // of off: what is not looked at any more
	buf   []byte       // for what is not in memory to stay
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
	f.lookAwayLocked()
	f.taken.Store(f.off)
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
		f.dropBufferLocked() // there may be thousands that wait
		s.changed.Wait()
	}
}

func (f *follower) viewLocked() ([]byte, error) {
	s := f.s
	if s.file == nil {
		view := s.mem[f.off:]
		f.off = s.size
		s.viewed = true
		return view, nil
	}
	var n int
	var err error
	if before := s.inFileLocked() - f.off; before > 0 {
		n, err = s.file.ReadAt(f.buffer()[:min(followBuffer, before)], f.off)
	} else {
		n = copy(f.buffer(), s.tail[-before:])
	}
	f.off += int64(n)
	if n > 0 {
		return f.buf[:n], nil
	}
	return nil, err
}

func (f *follower) buffer() []byte {
	if f.buf == nil {
		f.buf = followBuffers.Get().(*[followBuffer]byte)[:]
		f.s.space.heads.Add(followBuffer)
	}
	return f.buf
}

// dropBufferLocked is called by who reads, and so does not look at the buffer.
func (f *follower) dropBufferLocked() {
	if f.buf != nil {
		followBuffers.Put((*[followBuffer]byte)(f.buf))
		f.s.space.heads.Add(-followBuffer)
		f.buf = nil
	}
}

// lookAwayLocked tells that what next returned last is not looked at any more.
func (f *follower) lookAwayLocked() {
	f.s.space.memory.Add(-f.s.lent)
	f.s.lent, f.s.viewed = 0, false
}

// stop makes next and pass return. It may be called at any time.
func (f *follower) stop() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.lookAwayLocked()
	if f.buf != nil { // who reads may still look at it: not for the pool
		f.s.space.heads.Add(-followBuffer)
		f.buf = nil
	}
	f.s.followed = false
	f.s.changed.Broadcast()
}
