package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc"
)

// maxOriginals bounds the originals that are remembered, some 50 bytes each. One
// that was forgotten is read again.
const maxOriginals = 1 << 17

// originals know which records may be referred to. An index is never trusted
// more than the files: a file may be removed, replaced by a repaired one, or
// restored from a backup. So an original is read once, as a whole, and after
// that its files only have to be the same: by device and inode, size and time
// of modification. What this process has written need not be read.
type originals struct {
	dir     string
	log     *slog.Logger
	cutting context.Context // done when all that is under way is cut

	mu    sync.Mutex
	files map[string]*originalFile // by base name
	known int                      // records in files
	told  map[string]bool          // files that were logged as damaged

	dictionary struct { // of the file that was read last
		sync.Mutex
		of    fs.FileInfo
		value *warc.Dictionary
	}
}

// An originalFile is a file with originals, as it was when they were found whole.
type originalFile struct {
	info    fs.FileInfo
	growing bool                     // this process writes to it
	records map[int64][]continuation // by offset
}

// A continuation is a file that has a further segment of an original.
type continuation struct {
	name string
	info fs.FileInfo
}

func newOriginals(dir string, log *slog.Logger, cutting context.Context) *originals {
	return &originals{dir: dir, log: log, cutting: cutting, files: make(map[string]*originalFile), told: make(map[string]bool)}
}

// stat returns where a file is found by its base name. It may get its final
// name in this moment.
func (o *originals) stat(name string) (path string, info fs.FileInfo, err error) {
	final := filepath.Join(o.dir, filepath.Base(name))
	for _, path := range []string{final, final + rotate.OpenSuffix, final} {
		if info, err = os.Stat(path); err == nil {
			if !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is no file", path)
			}
			return path, info, err
		}
	}
	return "", nil, err
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// is reports whether a file is still the one that it was.
func (f *originalFile) is(path string, info fs.FileInfo) bool {
	if !f.growing {
		return unchanged(f.info, info)
	}
	if !os.SameFile(f.info, info) {
		return false
	}
	if !strings.HasSuffix(path, rotate.OpenSuffix) {
		f.info, f.growing = info, false // nothing is appended any more
	}
	return true
}

// has reports whether an original was found whole, and its files are still the
// same. It reads nothing.
func (o *originals) has(c *dedup.Capture) bool {
	path, info, err := o.stat(c.File)
	if err != nil || info.Size() < c.Offset+c.Length {
		return false
	}
	further, ok := o.recall(c, path, info)
	if !ok {
		return false
	}
	for _, f := range further {
		info, err := os.Stat(filepath.Join(o.dir, f.name))
		if err != nil || !unchanged(f.info, info) {
			return false
		}
	}
	return true
}

func (o *originals) recall(c *dedup.Capture, path string, info fs.FileInfo) (further []continuation, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.files[c.File]
	if f == nil {
		return nil, false
	}
	if !f.is(path, info) {
		o.known -= len(f.records)
		delete(o.files, c.File)
		return nil, false
	}
	further, ok = f.records[c.Offset]
	return further, ok
}

// remember notes an original that is whole.
func (o *originals) remember(name string, offset int64, info fs.FileInfo, growing bool, further []continuation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known >= maxOriginals {
		clear(o.files)
		o.known = 0
	}
	f := o.files[name]
	if f == nil || !f.growing && !growing && !unchanged(f.info, info) || !os.SameFile(f.info, info) {
		if f != nil {
			o.known -= len(f.records)
		}
		f = &originalFile{info: info, growing: growing, records: make(map[int64][]continuation)}
		o.files[name] = f
	}
	if _, known := f.records[offset]; !known {
		o.known++
	}
	f.records[offset] = further
}

// wrote notes an original that was appended to a file.
func (o *originals) wrote(f *rotate.File, offset int64) {
	o.remember(f.Name(), offset, f.Info(), true, nil)
}

// finished notes that nothing more is appended to a file, if it has its final
// name.
func (o *originals) finished(f *rotate.File) {
	info, err := os.Stat(filepath.Join(o.dir, f.Name()))
	if err != nil || !os.SameFile(info, f.Info()) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.files[f.Name()]; known != nil && known.growing {
		known.info, known.growing = info, false
	}
}

// wroteChain notes an original that was written to files which have their final
// names: the first one, at an offset, and those with its further segments.
func (o *originals) wroteChain(files []*rotate.File, offset int64) {
	var all []continuation
	for _, f := range files {
		info, err := os.Stat(filepath.Join(o.dir, f.Name()))
		if err != nil || !os.SameFile(info, f.Info()) {
			return // it will not be referred to
		}
		all = append(all, continuation{f.Name(), info})
	}
	o.remember(all[0].name, offset, all[0].info, false, all[1:])
}

// find reports whether there is an original with a payload, whole and where the
// index says. It may read all of it.
func (o *originals) find(c *dedup.Capture, payload string) bool {
	if o.has(c) {
		return true
	}
	err := o.read(c, payload)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), o.cutting.Err() != nil:
	case errors.Is(err, errNotGet):
		o.log.Debug("it is not known that an original answers a GET: its payload is stored again", "file", c.File, "offset", c.Offset, "error", err)
	case o.isNews(c.File):
		o.log.Warn("the original of a payload is not as it was: the payload is stored again", "file", c.File, "offset", c.Offset, "record", c.RecordID, "error", err)
	}
	return err == nil
}

// isNews reports whether nothing was said about this file yet, and notes that
// something is said now.
func (o *originals) isNews(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.told) > 1000 {
		clear(o.told)
	}
	first := !o.told[name]
	o.told[name] = true
	return first
}

// read reads an original and remembers it. Where the index does not say which
// method it answers, the request is read too.
func (o *originals) read(c *dedup.Capture, payload string) error {
	path, _, err := o.stat(c.File)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	z := warc.NewReader(o.until(io.NewSectionReader(f, c.Offset, c.Length)))
	z.Strict = true
	if z.Dictionary, err = o.dictionaryOf(f, info); err != nil {
		return err
	}
	rec, err := readWhole(z)
	if err != nil {
		return err
	}
	var further []continuation
	switch h := rec.Header; {
	case rec.ID() != c.RecordID:
		return fmt.Errorf("there is the record %s", rec.ID())
	case rec.Type() != warc.TypeResponse || h.Get("WARC-Truncated") != "" || h.Get("WARC-Payload-Digest") != payload:
		return errors.New("the record is not what it was")
	case h.Get("WARC-Segment-Number") != "":
		if further, err = o.readSegments(c, rec); err != nil {
			return err
		}
	}
	if _, err := z.Next(); err != io.EOF {
		return errors.New("the record does not end where it did")
	}
	if c.Method == "" {
		if err := o.answersGet(f, c, z.Dictionary); err != nil {
			return err
		}
	}
	o.remember(c.File, c.Offset, info, strings.HasSuffix(path, rotate.OpenSuffix), further)
	return nil
}

// readWhole reads the next record and compares its block with its digest.
func readWhole(z *warc.Reader) (warc.Record, error) {
	rec, err := z.Next()
	if err != nil {
		return warc.Record{}, err
	}
	digest, err := warc.ParseDigest(rec.Header.Get("WARC-Block-Digest"))
	if err != nil {
		return warc.Record{}, err
	}
	sum := digest.Algorithm.New()
	if _, err := io.Copy(sum, z); err != nil {
		return warc.Record{}, err
	}
	if !digest.Equal(warc.Digest{Algorithm: digest.Algorithm, Sum: sum.Sum(nil)}) {
		return warc.Record{}, errors.New("the block is not what its digest says")
	}
	return *rec, nil
}

// until reads from r until everything under way is cut.
func (o *originals) until(r io.Reader) io.Reader { return &untilReader{o.cutting, r} }

type untilReader struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// dictionaryOf returns the dictionary with which a zstd file starts, or nil.
func (o *originals) dictionaryOf(f *os.File, info fs.FileInfo) (*warc.Dictionary, error) {
	d := &o.dictionary
	d.Lock()
	defer d.Unlock()
	if d.of == nil || !os.SameFile(d.of, info) || !d.of.ModTime().Equal(info.ModTime()) {
		value, err := warc.ReadDictionary(io.NewSectionReader(f, 0, info.Size()))
		if err != nil {
			return nil, err
		}
		d.of, d.value = info, value
	}
	return d.value, nil
}

// nameParts takes the name of a file apart: what stands in front of the time,
// the serial, and what stands after it; see Recorder.fileName.
var nameParts = regexp.MustCompile(`^(.+-)\d{17}-(\d{5})(-[a-z2-7]{8}-.+)$`)

// readSegments reads the further segments of an original. Each stands at the
// start of a file of its own, and the serials of these files follow on one
// another.
func (o *originals) readSegments(c *dedup.Capture, first warc.Record) (further []continuation, err error) {
	name := nameParts.FindStringSubmatch(c.File)
	if name == nil || first.Header.Get("WARC-Segment-Number") != "1" {
		return nil, errors.New("its further segments cannot be found")
	}
	serial, err := strconv.Atoi(name[2])
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return nil, err
	}
	bySerial := make(map[string]string)
	for _, e := range entries {
		if m := nameParts.FindStringSubmatch(e.Name()); m != nil && m[1] == name[1] && m[3] == name[3] {
			bySerial[m[2]] = e.Name()
		}
	}
	length := first.Length
	for number := 2; ; number++ {
		serial = (serial + 1) % (rotate.MaxSerial + 1)
		file := bySerial[fmt.Sprintf("%05d", serial)]
		if file == "" {
			return nil, fmt.Errorf("segment %d: %w", number, fs.ErrNotExist)
		}
		info, rec, err := o.readSegment(file)
		if err != nil {
			return nil, fmt.Errorf("segment %d, %s: %w", number, file, err)
		}
		h := rec.Header
		if rec.Type() != warc.TypeContinuation || h.Get("WARC-Segment-Origin-ID") != c.RecordID || h.Get("WARC-Segment-Number") != strconv.Itoa(number) || h.Get("WARC-Truncated") != "" {
			return nil, fmt.Errorf("%s does not start with segment %d of it", file, number)
		}
		further = append(further, continuation{file, info})
		length += rec.Length
		if total := h.Get("WARC-Segment-Total-Length"); total == strconv.FormatInt(length, 10) {
			return further, nil
		} else if total != "" {
			return nil, fmt.Errorf("its segments have %d octets together, and the last one says %s", length, total)
		}
	}
}

// readSegment reads the record that follows the warcinfo record of a file.
func (o *originals) readSegment(name string) (fs.FileInfo, warc.Record, error) {
	f, err := os.Open(filepath.Join(o.dir, name))
	if err != nil {
		return nil, warc.Record{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, warc.Record{}, err
	}
	z := warc.NewReader(o.until(f))
	z.Strict = true
	if _, err := z.Next(); err != nil {
		return nil, warc.Record{}, err
	}
	rec, err := readWhole(z)
	return info, rec, err
}
