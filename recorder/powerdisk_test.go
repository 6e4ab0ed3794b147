package recorder

import (
	"cmp"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/rotate"
)

// A powerDisk is a directory on a disk that keeps for certain only what was
// synced. Programs see it as it is until the power fails, at the call with the
// number cutAt. Then of what was not synced some survives and some does not, in
// whatever order: changes of the directory, the lengths of files, and every
// page of theirs.
type powerDisk struct {
	t   *testing.T
	dir string // what programs see

	mu      sync.Mutex
	rng     *rand.Rand
	cutAt   int // 0: never
	fail    outage
	calls   int               // in this life
	off     time.Time         // when the power failed; zero: it has not
	failed  []time.Time       // when calls have failed
	files   map[string]*pages // by name, as programs see it
	kept    map[string]*pages // by name, as it is durable
	changes []change          // of the directory, not durable
	created map[string]bool   // all names that archive files ever had
	index   map[string]dedup.Capture
	cuts    int // failures of the power
	torn    int // files of which a part survived
}

// An outage makes calls of a kind fail, after some that succeed.
type outage struct {
	kind        string
	skip, calls int
}

// pages are the content of a file.
type pages struct {
	kept   []byte  // what is durable
	writes []write // what is not, in order
}

// A write is of data, or where there is none of a new length.
type write struct {
	at   int64
	data []byte
}

func (w *write) apply(b []byte) []byte {
	end := int(w.at) + len(w.data)
	if w.data == nil {
		b = b[:min(end, len(b))]
	}
	b = append(b, make([]byte, max(0, end-len(b)))...)
	copy(b[w.at:], w.data)
	return b
}

// settle returns what the disk has when it is not told to sync: the length and
// each page are as they were after any of the writes, or before all.
func (p *pages) settle(rng *rand.Rand) []byte {
	versions := [][]byte{p.kept}
	for _, w := range p.writes {
		versions = append(versions, w.apply(slices.Clone(versions[len(versions)-1])))
	}
	last := len(versions) - 1
	first := rng.IntN(3) // now and then all survives, or nothing
	pick := func() []byte { return versions[[]int{0, last, rng.IntN(last + 1)}[first]] }
	unit := []int{512, 4096}[rng.IntN(2)]
	b := make([]byte, len(pick()))
	for at := 0; at < len(b); at += unit {
		if v := pick(); at < len(v) {
			copy(b[at:min(at+unit, len(b))], v[at:])
		}
	}
	return b
}

func (p *pages) sync() {
	for _, w := range p.writes {
		p.kept = w.apply(p.kept)
	}
	p.writes = nil
}

// A change of the directory: from is "" where a file was created, to where one
// was removed.
type change struct {
	from, to string
	file     *pages
}

func newPowerDisk(t *testing.T, rng *rand.Rand) *powerDisk {
	return &powerDisk{t: t, dir: t.TempDir(), rng: rng, files: make(map[string]*pages), kept: make(map[string]*pages),
		created: make(map[string]bool), index: make(map[string]dedup.Capture)}
}

// do performs a call. note is what the disk learns of it, also when the power
// fails meanwhile; perform is what programs see of it.
func (d *powerDisk) do(kind, path string, note func(), perform func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	refused := &fs.PathError{Op: kind, Path: path, Err: syscall.EIO}
	if !d.off.IsZero() {
		return refused
	}
	d.calls++
	if d.calls == d.cutAt {
		d.off = time.Now()
		note()
		return refused
	}
	if d.fail.kind == kind && d.fail.calls > 0 {
		if d.fail.skip--; d.fail.skip < 0 {
			d.fail.calls--
			d.failed = append(d.failed, time.Now())
			if p := d.files[filepath.Base(path)]; kind == "sync" && p != nil {
				// What was not written by now never will be, and the next
				// sync does not tell.
				p.kept, p.writes = p.settle(d.rng), nil
			}
			return refused
		}
	}
	if err := perform(); err != nil {
		return err
	}
	note()
	return nil
}

func nothing() {}

func (d *powerDisk) setOutage(o outage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = o
}

// endOfFaults lets no further call fail. If one has the power fails now.
func (d *powerDisk) endOfFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = outage{}
	if d.off.IsZero() && len(d.failed) > 0 {
		d.off = time.Now()
	}
}

func (d *powerDisk) change(from, to string, file *pages) {
	d.changes = append(d.changes, change{from, to, file})
}

func (d *powerDisk) OpenFile(path string, flag int, perm fs.FileMode) (rotate.Handle, error) {
	var f *os.File
	name := filepath.Base(path)
	note := nothing
	if flag&os.O_CREATE != 0 {
		note = func() {
			d.files[name] = &pages{}
			d.change("", name, d.files[name])
			if final := strings.TrimSuffix(name, ".open"); final != name && d.created[final] {
				d.t.Errorf("the name %s is given to a second file", final)
			} else if final != name {
				d.created[final] = true
			}
		}
	}
	err := d.do("open", path, note, func() (err error) {
		f, err = os.OpenFile(path, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &powerFile{f, d, d.files[name], flag&os.O_APPEND != 0}, nil
}

func (d *powerDisk) Stat(path string) (info fs.FileInfo, err error) {
	err = d.do("stat", path, nothing, func() (err error) { info, err = os.Stat(path); return err })
	return info, err
}

func (d *powerDisk) ReadDir(path string) (entries []fs.DirEntry, err error) {
	err = d.do("readdir", path, nothing, func() (err error) { entries, err = os.ReadDir(path); return err })
	return entries, err
}

func (d *powerDisk) Remove(path string) error {
	name := filepath.Base(path)
	return d.do("remove", path, func() {
		d.change(name, "", d.files[name])
		delete(d.files, name)
	}, func() error { return os.Remove(path) })
}

func (d *powerDisk) Rename(from, to string) error {
	old, name := filepath.Base(from), filepath.Base(to)
	return d.do("rename", from, func() {
		d.change(old, name, d.files[old])
		d.files[name] = d.files[old]
		delete(d.files, old)
	}, func() error {
		if err := os.Link(from, to); err != nil && d.files[old] != d.files[name] {
			return err
		}
		return os.Remove(from)
	})
}

func (d *powerDisk) Free(string) (free, total uint64, err error) { return 1 << 40, 1 << 40, nil }

func (d *powerDisk) SyncDir(path string) error {
	return d.do("syncdir", path, func() {
		if d.off.IsZero() {
			d.kept, d.changes = maps.Clone(d.files), nil
		}
	}, func() error { return nil })
}

type powerFile struct {
	*os.File
	disk     *powerDisk
	pages    *pages
	appended bool
}

func (f *powerFile) Write(p []byte) (n int, err error) {
	whence := io.SeekCurrent
	if f.appended {
		whence = io.SeekEnd
	}
	at, err := f.File.Seek(0, whence)
	if err != nil {
		return 0, err
	}
	n = len(p)
	note := func() { f.pages.writes = append(f.pages.writes, write{at, slices.Clone(p[:n])}) }
	err = f.disk.do("write", f.Name(), note, func() error { _, err := f.File.Write(p); return err })
	if err != nil && f.disk.off.IsZero() { // it failed in the middle
		n, _ = f.File.Write(p[:len(p)/2])
		note()
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (f *powerFile) Truncate(size int64) error {
	return f.disk.do("truncate", f.Name(), func() { f.pages.writes = append(f.pages.writes, write{at: size}) },
		func() error { return f.File.Truncate(size) })
}

func (f *powerFile) Sync() error {
	return f.disk.do("sync", f.Name(), func() {
		if f.disk.off.IsZero() {
			f.pages.sync()
		}
	}, func() error { return nil })
}

// A powerIndex is the index on a powerDisk: what was committed is durable. One
// that is overtaken by the end of the power is there, or not.
type powerIndex struct{ *powerDisk }

func (x powerIndex) Lookup(digest string) (dedup.Capture, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.index[digest]
	return c, ok, nil
}

func (x powerIndex) Commit(entries []dedup.Entry) error {
	return x.do("commit", "index", func() {
		for _, e := range entries {
			x.index[e.Digest] = e.Capture
			p := cmp.Or(x.kept[e.Capture.File], x.kept[e.Capture.File+".open"])
			if end := e.Capture.Offset + e.Capture.Length; p == nil || end > int64(len(p.kept)) {
				x.t.Errorf("the index gets to know what is not durable: %s up to octet %d", e.Capture.File, end)
			}
		}
	}, func() error { return nil })
}

func (x powerIndex) Close() error { return nil }

// reboot makes programs see what the disk has when the power has failed.
func (d *powerDisk) reboot() {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt, d.calls, d.fail, d.failed = 0, 0, outage{}, nil
	if d.off.IsZero() {
		return
	}
	d.off = time.Time{}
	d.cuts++
	inOrder := d.rng.IntN(2) == 0 // as a journal would have it
	survive := d.rng.IntN(len(d.changes) + 1)
	for i, c := range d.changes {
		if inOrder && i >= survive || !inOrder && d.rng.IntN(2) == 0 || c.from != "" && d.kept[c.from] != c.file {
			continue
		}
		if c.to != "" {
			d.kept[c.to] = c.file
		}
		if c.to == "" || d.rng.IntN(4) > 0 { // else it has both names: a rename by link and unlink
			delete(d.kept, c.from)
		}
	}
	d.changes = nil
	if d.rng.IntN(8) == 0 { // somebody removed the index, or brought back an old one
		maps.DeleteFunc(d.index, func(string, dedup.Capture) bool { return d.rng.IntN(2) == 0 })
	}

	there, err := os.ReadDir(d.dir)
	for _, e := range there {
		err = cmp.Or(err, os.Remove(filepath.Join(d.dir, e.Name())))
	}
	names := make(map[*pages]string)
	for name, p := range d.kept {
		if len(p.writes) > 0 {
			p.kept, p.writes = p.settle(d.rng), nil
			d.torn++
		}
		path := filepath.Join(d.dir, name)
		if first := names[p]; first != "" {
			err = cmp.Or(err, os.Link(first, path))
			continue
		}
		names[p] = path
		err = cmp.Or(err, os.WriteFile(path, p.kept, 0o644))
	}
	if d.rng.IntN(4) == 0 {
		err = cmp.Or(err, os.WriteFile(filepath.Join(d.dir, ".spool-123"), []byte("of an exchange"), 0o600))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.files = maps.Clone(d.kept)
}
