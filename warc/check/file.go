package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// A file is a file that is being checked, from one goroutine.
type file struct {
	*checker
	index    int
	path     string
	in       *container.File
	size     int64
	findings chan<- Finding
	told     bool // something was found

	compressed bool     // as the first bytes say
	patterns   [][]byte // that a record can start with

	dictionary *warc.Dictionary // of a .warc.zst; nil where there is none

	reach  int64 // up to where the file has been read
	budget int64 // bytes that readers may still use: what is damaged is read again

	records   int64        // so far
	warcinfos []string     // the last ids of warcinfo records
	lastInfo  string       // the WARC-Warcinfo-ID that a fact was made of last
	version   warc.Version // of the last record

	mediaTypes map[string]string // some of the file, with the rule that each breaks

	buf []byte
}

// The budget allows for a file to be read some times over. Only one that was
// made to be slow needs more.
const (
	maxRereads = 8
	spare      = 16 << 20
)

func (f *file) check(ctx context.Context) error {
	in, err := container.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	f.in, f.size, f.buf, f.mediaTypes = in, in.Size, make([]byte, 64<<10), make(map[string]string)
	f.budget = maxRereads*f.size + spare
	summary := &f.summaries[f.index]
	summary.Bytes = f.size
	if err := f.name(); err != nil {
		return err
	}
	if err := f.walk(ctx); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if summary.Records == 0 && !f.told {
		f.add(&Record{}, RuleEmpty, "the file has no records")
	}
	f.options.Progress(f.size - f.reach)
	return nil
}

// Starts of files and of records (RFC 1952 §2.3.1, RFC 8878 §3.1.1, the IIPC's
// text on zstd).
var (
	magics = map[string][]byte{"no compression": []byte("WARC/"), "gzip": gzipMagic, "zstd": zstdMagic}

	gzipMagic       = []byte("\x1f\x8b\x08")
	zstdMagic       = []byte("\x28\xb5\x2f\xfd")
	dictionaryMagic = []byte("\x5d\x2a\x4d\x18")
)

// name compares the name of the file with what is in it.
func (f *file) name() error {
	start := make([]byte, 8)
	n, err := f.in.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return err
	}
	start = start[:n]
	name, open := strings.CutSuffix(filepath.Base(f.path), ".open")
	if open {
		f.add(&Record{}, RuleOpen, "the name of the file ends in .open: it was not finished")
	}
	const none, gzip, zstd = "no compression", "gzip", "zstd"
	in, byName := none, none
	switch {
	case bytes.HasPrefix(start, gzipMagic[:2]):
		in = gzip
	case bytes.HasPrefix(start, zstdMagic), bytes.HasPrefix(start, dictionaryMagic):
		in = zstd
	}
	switch {
	case strings.HasSuffix(name, ".gz"):
		byName = gzip
	case strings.HasSuffix(name, ".zst"):
		byName = zstd
	}
	if f.path == container.Stdin {
		byName = in
	}
	if in != byName && n > 0 {
		f.add(&Record{}, RuleCompression, "in the file is %s, but its name tells of %s", in, byName)
	}
	f.compressed = in != none
	f.patterns = [][]byte{magics[in]}
	if in != byName {
		f.patterns = append(f.patterns, magics[byName])
	}
	f.dictionary, err = dictionary(f.in)
	return err
}

// dictionary returns the dictionary that a file starts with, nil where there is
// none. That it is damaged is what a reader says.
func dictionary(in io.ReaderAt) (*warc.Dictionary, error) {
	d, err := warc.ReadDictionary(io.NewSectionReader(in, 0, 1<<62))
	if failed := (*fs.PathError)(nil); err != nil && !errors.As(err, &failed) {
		return nil, nil
	}
	return d, err
}

// walk goes over the records, and on behind what is damaged.
func (f *file) walk(ctx context.Context) error {
	for offset := int64(0); offset < f.size; {
		s := f.section(ctx, offset)
		z := s.reader()
		z.Strict = true
		broken, err := f.strict(z, s)
		f.spend(z)
		if err == io.EOF {
			return nil
		}
		if broken == nil {
			return err
		}
		next, err := f.damaged(ctx, broken)
		if err != nil {
			return err
		}
		offset = next
	}
	return nil
}

// A section is a file from some offset on.
type section struct {
	f     *file
	ctx   context.Context
	start int64 // where it starts
	at    int64 // what is read next
}

func (f *file) section(ctx context.Context, start int64) *section {
	return &section{f: f, ctx: ctx, start: start, at: start}
}

// reader returns a reader of the section. The offsets that it tells count from
// its start.
func (s *section) reader() *warc.Reader {
	z := warc.NewReader(s)
	if s.start > 0 {
		z.Dictionary = s.f.dictionary
	}
	return z
}

var errBudget = errors.New("too much damage")

func (s *section) Read(p []byte) (int, error) {
	n, err := s.f.readAt(s.ctx, p, s.at)
	s.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// spend counts what a reader has used.
func (f *file) spend(z *warc.Reader) { f.budget -= z.InputOffset() }

// readAt reads, and tells of progress. At the end of the file it returns io.EOF.
func (f *file) readAt(ctx context.Context, p []byte, offset int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.in.ReadAt(p, offset)
	if reach := offset + int64(n); reach > f.reach {
		f.options.Progress(reach - f.reach)
		f.reach = reach
	}
	return n, err
}

// A damage is what a strict reader stopped at.
type damage struct {
	rule   string
	err    error
	offset int64   // in the file, of the record or its member
	record *Record // whose block was being read, or nil
}

// strict checks records up to the end of the file, an io.EOF, or to damage.
func (f *file) strict(z *warc.Reader, s *section) (*damage, error) {
	for {
		var r *Record
		head, err := z.Next()
		if err == nil {
			r = f.record(head, s)
			var b *block
			if b, err = f.readBlock(r, z); err == nil {
				f.accept(r, b)
			}
		}
		f.frameHead(r, z)
		if broken := (*warc.Error)(nil); errors.As(err, &broken) {
			return &damage{broken.Rule, broken.Err, broken.Offset + s.start, r}, err
		}
		if err != nil {
			return nil, err
		}
	}
}

// frameHead reports what the zstd frames of a record do not tell.
func (f *file) frameHead(r *Record, z *warc.Reader) {
	if flaw := z.FrameFlaw(); flaw != nil && r != nil {
		f.add(r, RuleFrameHead, "%v", flaw)
	}
}

func (f *file) record(head *warc.Record, s *section) *Record {
	f.version = head.Version
	return &Record{
		File: f.path, Offset: head.Offset + s.start, Version: head.Version, Header: head.Header, BlockSize: head.Length,
		Type: head.Type(), ID: head.ID(), TargetURI: head.TargetURI(), Date: head.Header.Get("WARC-Date"), start: s.start, place: f.records, headSize: int64(len(head.Raw)),
	}
}

// damaged reports damage, and returns where a strict reader can go on: behind
// what a tolerant one can read, or at the next record that can be found.
func (f *file) damaged(ctx context.Context, d *damage) (next int64, err error) {
	next, forgiven, err := f.forgive(ctx, d.offset)
	skipped := err == nil && next <= d.offset
	if skipped {
		next, err = f.resync(ctx, d.offset)
	}
	gaveUp := errors.Is(err, errBudget)
	if err != nil && !gaveUp {
		return 0, err
	}
	at := d.record
	if at == nil && len(forgiven) > 0 {
		at = forgiven[0].record
	}
	if at == nil {
		at = &Record{Offset: d.offset, Version: f.version}
	}
	rule, message := d.rule, d.err.Error()
	if next == f.size && at.BlockSize == 0 && errors.Is(d.err, warc.ErrHalfEnd) {
		rule = RuleEndShort
	}
	if skipped {
		lost := next - d.offset
		f.summaries[f.index].Skipped += lost
		switch {
		case next < f.size:
			message += fmt.Sprintf("; %d bytes were skipped, the check goes on at offset %d", lost, next)
		case f.isCut(ctx, d):
			rule = RuleCut
			message = fmt.Sprintf("the file ends in the middle of a record, of which %d bytes are there: %s", lost, message)
		default:
			message += fmt.Sprintf("; no record comes in the %d bytes to the end of the file", lost)
		}
	}
	f.add(at, rule, "%s", message)
	for _, r := range forgiven {
		f.accept(r.record, r.block)
	}
	if len(forgiven) == 0 && d.record != nil {
		d.record.damaged = true // others may speak of it
		f.facts(d.record)
	}
	if gaveUp {
		f.giveUp(next)
		return f.size, nil
	}
	return next, nil
}

// isCut reports whether the file ended before what was begun. In a file without
// compression a length that is too large looks the same.
func (f *file) isCut(ctx context.Context, d *damage) bool {
	if !errors.Is(d.err, io.ErrUnexpectedEOF) || d.rule != warc.RuleMember && f.compressed {
		return false
	}
	start := make([]byte, len("WARC/"))
	n, _ := f.readAt(ctx, start, d.offset) // what cannot be read is no start
	return slices.ContainsFunc(f.patterns, func(p []byte) bool {
		k := min(n, len(p))
		return k > 0 && bytes.Equal(start[:k], p[:k])
	})
}

// giveUp reports that the file is not read any further.
func (f *file) giveUp(offset int64) {
	f.add(&Record{Offset: offset, Version: f.version}, RuleNotChecked, "there is so much damage that the %d bytes from here on were not checked", f.size-offset)
}
