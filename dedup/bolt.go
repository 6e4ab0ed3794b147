package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var bucketName = []byte("captures 1")

// lockTimeout is how long OpenBolt waits for another process to end.
const lockTimeout = time.Second

var errCorrupt = errors.New("the dedup index is damaged")

type boltIndex struct {
	path string
	log  *slog.Logger

	commit sync.Mutex // one Commit at a time

	mu    sync.RWMutex
	store *store // nil: closed
}

// store is one open file.
type store struct {
	db   *bolt.DB
	file *os.File // of db
}

// OpenBolt opens the index in a file, or creates it. A file that is damaged is
// renamed to PATH.corrupt-TIME, now or whenever that is found out, and an empty
// one takes its place; the logger (nil: slog.Default()) is told. A file that
// another process has open is an error.
func OpenBolt(path string, logger *slog.Logger) (Index, error) {
	if logger == nil {
		logger = slog.Default()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open the dedup index: %w", err)
	}
	b := &boltIndex{path: path, log: logger}
	s, err := openStore(path)
	if errors.Is(err, errCorrupt) {
		s, err = b.replace(err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the dedup index %s: %w", path, err)
	}
	b.store = s
	return b, nil
}

func openStore(path string) (*store, error) {
	s := &store{}
	err := guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:      lockTimeout,
			FreelistType: bolt.FreelistMapType,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				s.file, err = os.OpenFile(name, flag, mode)
				return s.file, err
			},
		})
		if err != nil {
			return err
		}
		return s.db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(bucketName)
			if err != nil {
				return err
			}
			bucket.Cursor().First()
			bucket.Cursor().Last()
			return nil
		})
	})
	var system syscall.Errno
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		err = errors.New("another process is using it; stop that one or name another file")
	case !isDatabase(path):
		s.abandon()
		return nil, fmt.Errorf("it is not a dedup index, nor a damaged one: remove or rename it, or name another file")
	case !errors.Is(err, errCorrupt) && !errors.As(err, &system):
		err = fmt.Errorf("%w: %w", errCorrupt, err) // bbolt does not like what is in the file
	}
	s.abandon()
	return nil, err
}

// isDatabase reports whether a file is, or was, a bbolt database: it has the
// magic number of one in a meta page (bbolt's page size is that of the system
// that made the file), or its start holds nothing. Anything else is somebody's own file.
func isDatabase(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true // the error that there was says more
	}
	defer f.Close()
	start := make([]byte, 64<<10+64)
	n, _ := io.ReadFull(f, start)
	start = start[:n]
	if len(bytes.Trim(start[:min(n, 4<<10)], "\x00")) == 0 {
		return true // never written, or lost in a crash
	}
	const offset, magic = 16, 0xED0CDAED // of the magic number in a page
	for _, page := range []int{0, 4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		if at := page + offset; at+4 <= n && (binary.LittleEndian.Uint32(start[at:]) == magic || binary.BigEndian.Uint32(start[at:]) == magic) {
			return true
		}
	}
	return false
}

// abandon gives the file free without touching the database, whose locks may
// be left in any state. Its memory stays mapped: others may still be reading.
func (s *store) abandon() {
	if s.file != nil {
		s.file.Close() // a second time if bbolt has closed it: harmless
	}
}

// guard makes an error of the panics and faults by which bbolt tells that a
// file is damaged or has become too short.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errCorrupt, p)
		}
	}()
	return f()
}

// replace renames a damaged file and opens an empty one.
func (b *boltIndex) replace(cause error) (*store, error) {
	aside := b.path + ".corrupt-" + time.Now().UTC().Format("20060102150405")
	for i := 1; ; i++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.corrupt-%s-%d", b.path, time.Now().UTC().Format("20060102150405"), i)
	}
	if err := os.Rename(b.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cause, err)
	}
	b.log.Warn("the dedup index is damaged: starting an empty one; payloads that it knew are stored once more",
		"index", b.path, "set aside as", aside, "error", cause)
	return openStore(b.path)
}

func (b *boltIndex) current() (*store, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.store == nil {
		return nil, ErrClosed
	}
	return b.store, nil
}

// heal replaces a store that was found damaged, unless somebody else has.
func (b *boltIndex) heal(damaged *store, cause error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store != damaged {
		return nil
	}
	damaged.abandon()
	s, err := b.replace(cause)
	if err != nil {
		return err // the next call tries again
	}
	b.store = s
	return nil
}

func (b *boltIndex) Lookup(digest string) (Capture, bool, error) {
	s, err := b.current()
	if err != nil {
		return Capture{}, false, err
	}
	var c Capture
	var found bool
	err = guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			value := tx.Bucket(bucketName).Get([]byte(digest))
			if value == nil {
				return nil
			}
			if c, found = decode(digest, value); !found {
				b.log.Warn("an entry of the dedup index is damaged: taken as unknown", "index", b.path, "digest", digest)
			}
			return nil
		})
	})
	switch {
	case err == nil:
		return c, found, nil
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return Capture{}, false, ErrClosed
	case errors.Is(err, errCorrupt):
		err = b.heal(s, err) // the empty one that follows does not know it
	}
	if err != nil {
		err = fmt.Errorf("look up in the dedup index %s: %w", b.path, err)
	}
	return Capture{}, false, err
}

func (b *boltIndex) Commit(entries []Entry) error {
	if err := check(entries); err != nil {
		return err
	}
	b.commit.Lock()
	defer b.commit.Unlock()
	err := b.put(entries)
	if errors.Is(err, errCorrupt) {
		err = b.put(entries) // into the new one
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("write the dedup index %s: %w", b.path, err)
	}
	return err
}

// put stores entries. When the store turns out to be damaged it returns
// errCorrupt and has replaced it, if that is possible.
func (b *boltIndex) put(entries []Entry) error {
	s, err := b.current()
	if err != nil || len(entries) == 0 {
		return err
	}
	err = guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) error {
			bucket := tx.Bucket(bucketName)
			for _, e := range entries {
				if err := bucket.Put([]byte(e.Digest), encode(e)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	if now, nowErr := b.current(); err != nil && nowErr == nil && now != s {
		return errCorrupt // a Lookup has found out and replaced it
	}
	if errors.Is(err, errCorrupt) {
		if err := b.heal(s, err); err != nil {
			return err
		}
	}
	return err
}

func (b *boltIndex) Close() error {
	b.commit.Lock()
	defer b.commit.Unlock()
	b.mu.Lock()
	s := b.store
	b.store = nil
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := guard(s.db.Close); err != nil {
		s.abandon()
		return fmt.Errorf("close the dedup index %s: %w", b.path, err)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(digest string, content []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(digest), castagnoli), castagnoli, content)
}

func encode(e Entry) []byte {
	c := &e.Capture
	b := make([]byte, 4, 48+len(c.RecordID)+len(c.TargetURI)+len(c.Date)+len(c.File)+len(c.Method))
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = binary.AppendUvarint(b, uint64(c.Length))
	for _, s := range []string{c.RecordID, c.TargetURI, c.Date, c.File, c.Method} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	binary.BigEndian.PutUint32(b, checksum(e.Digest, b[4:]))
	return b
}

// decode reverses encode; the capture does not refer to b.
func decode(digest string, b []byte) (c Capture, ok bool) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != checksum(digest, b[4:]) {
		return c, false
	}
	b, ok = b[4:], true
	number := func() uint64 {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > math.MaxInt64 {
			ok = false
			return 0
		}
		b = b[width:]
		return n
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			ok = false
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	c.Offset, c.Length = int64(number()), int64(number())
	c.RecordID, c.TargetURI, c.Date, c.File = text(), text(), text(), text()
	if len(b) > 0 { // the first release wrote no method
		c.Method = text()
	}
	if !ok || len(b) > 0 {
		return Capture{}, false
	}
	return c, true
}
