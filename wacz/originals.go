package wacz

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/cdx"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// originalsName is the file in a package that holds the originals which were taken
// from elsewhere, when no other file has that name.
const originalsName = "originals.warc.gz"

// A gatherer looks in other files for originals, and copies them to one of its own:
// the response with its request, the notes that these name, and the warcinfo of its
// file.
type gatherer struct {
	p        *packer
	byID     map[string]*Original
	byLink   map[string]*Original
	kinds    map[string]bool // of the digests of revisits
	found    map[*Original]bool
	path     string // of the file that is written
	records  *os.File
	out      *bufio.Writer   // to records
	sources  []string        // paths of the files of which something was taken
	ids      []string        // of the records that were taken
	taken    map[string]bool // the same
	named    map[string]bool // records that those taken are WARC-Concurrent-To
	warcinfo *archive.Place
	requests []*archive.Place // the last ones of the file, at most requestsKept
	waiting  []*archive.Place // originals whose request may still come, at most visitsKept
	wanted   map[*archive.Place]*Original
}

// gather copies the originals that are missing from the files of Options.Originals,
// and returns the path of the file with them, "" when none was found.
func (p *packer) gather(dir string, missing []*Original, kinds map[string]bool) (path string, err error) {
	g := &gatherer{p: p, kinds: kinds, byID: make(map[string]*Original), byLink: make(map[string]*Original), found: make(map[*Original]bool), wanted: make(map[*archive.Place]*Original),
		taken: make(map[string]bool), named: make(map[string]bool)}
	for _, o := range missing {
		if o.ID != "" {
			g.byID[o.ID] = o
		}
		for _, link := range o.links() {
			g.byLink[link] = o
		}
	}
	records, err := os.CreateTemp(dir, "warctee-pack-*")
	if err != nil {
		return "", err
	}
	defer records.Close()
	g.records, g.out = records, bufio.NewWriterSize(records, 64<<10)
	for _, path := range p.opts.Originals {
		if len(g.found) == len(missing) {
			break
		}
		if err := g.readFile(path); err != nil {
			return "", err
		}
	}
	if err := g.out.Flush(); err != nil || len(g.ids) == 0 {
		return "", err
	}
	g.path = filepath.Join(dir, p.freeName())
	return g.path, g.writeFile(records)
}

// freeName is a name for the file of originals that no other file has.
func (p *packer) freeName() string {
	name := originalsName
	for i := 2; slices.ContainsFunc(p.inputs, func(in input) bool { return filepath.Base(in.path) == name }); i++ {
		name = fmt.Sprintf("%d-%s", i, originalsName)
	}
	return name
}

// writeFile writes the file of originals: a warcinfo, and the records.
func (g *gatherer) writeFile(records *os.File) error {
	f, err := os.Create(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	var names []string
	for _, path := range g.sources {
		names = append(names, filepath.Base(path))
	}
	block := fmt.Sprintf("software: %s\r\nformat: WARC File Format 1.1\r\ndescription: Originals of revisits in this package, copied from %s\r\n",
		g.p.opts.Software, strings.Map(oneLine, strings.Join(names, ", ")))
	id := sha256.Sum256([]byte(strings.Join(g.ids, "\n"))) // the same originals make the same file
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80        // of version 8 (RFC 9562 §5.8)
	h := warc.Header{
		{Name: "WARC-Type", Value: warc.TypeWarcinfo},
		{Name: "WARC-Record-ID", Value: fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])},
		{Name: "WARC-Date", Value: warc.FormatDate(g.p.created, warc.V1_1)},
		{Name: "WARC-Filename", Value: filepath.Base(g.path)},
		{Name: "Content-Type", Value: "application/warc-fields"},
	}
	if err := warc.NewWriter(f, warc.WriterOptions{}).WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
		return err
	}
	if _, err := records.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(f, records); err != nil {
		return err
	}
	return f.Close()
}

// oneLine replaces what would end a line of application/warc-fields.
func oneLine(c rune) rune {
	if c < ' ' || c == 0x7f {
		return ' '
	}
	return c
}

// readFile takes the originals of a file, unless it is one that is packed.
func (g *gatherer) readFile(path string) error {
	info, err := container.Stat(path)
	if err != nil {
		return err
	}
	for _, in := range g.p.inputs {
		if packed, err := os.Stat(in.path); err == nil && os.SameFile(info, packed) {
			return nil
		}
	}
	f, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	g.warcinfo, g.requests, g.waiting = nil, nil, nil
	told := int64(0)
	err = archive.Scan(f, func(place *archive.Place, _ *warc.Reader) error {
		if err := g.p.ctx.Err(); err != nil {
			return err
		}
		if g.p.opts.Progress != nil {
			g.p.opts.Progress(place.Offset - told)
			told = place.Offset
		}
		return g.look(place)
	})
	if damage := (*warc.Error)(nil); errors.As(err, &damage) {
		g.p.summary.OriginalsDamaged = append(g.p.summary.OriginalsDamaged, err)
	} else if err != nil {
		return err
	}
	for _, original := range g.waiting {
		if err := g.take(original, nil); err != nil {
			return err
		}
	}
	return nil
}

// look looks at a record of a file.
func (g *gatherer) look(place *archive.Place) error {
	rec := place.Record
	switch rec.Type() {
	case warc.TypeWarcinfo:
		g.warcinfo = place
	case warc.TypeRequest:
		for i, original := range g.waiting {
			if belong(original.Record, rec) {
				g.waiting = slices.Delete(g.waiting, i, i+1)
				return g.take(original, place)
			}
		}
		if g.requests = append(g.requests, place); len(g.requests) > requestsKept {
			g.requests = slices.Delete(g.requests, 0, 1)
		}
	case warc.TypeMetadata:
		if g.named[rec.ID()] {
			if err := g.copyAll([]*archive.Place{place}); !isDamage(err) { // which the scan reports
				return err
			}
		}
	case warc.TypeResponse, warc.TypeResource:
		o := g.original(rec)
		if o == nil {
			return nil
		}
		g.found[o], g.wanted[place] = true, o
		for _, request := range slices.Backward(g.requests) {
			if belong(rec, request.Record) {
				return g.take(place, request)
			}
		}
		if g.waiting = append(g.waiting, place); len(g.waiting) > visitsKept {
			first := g.waiting[0]
			g.waiting = slices.Delete(g.waiting, 0, 1)
			return g.take(first, nil)
		}
	}
	return nil
}

// original returns the missing original that a record is, nil when it is none or
// was found before.
func (g *gatherer) original(rec *warc.Record) *Original {
	o := g.byID[archive.CleanID(rec.ID())]
	if date, err := rec.Date(); err == nil {
		for _, link := range linksTo(rec.TargetURI(), normalDigest(rec.Header.Get("WARC-Payload-Digest")), date.UTC().Format("20060102150405"), g.kinds) {
			if o == nil {
				o = g.byLink[link]
			}
		}
	}
	if o == nil || g.found[o] {
		return nil
	}
	return o
}

// belong reports whether a capture and a request are WARC-Concurrent-To each other.
func belong(rec, request *warc.Record) bool {
	return slices.Contains(rec.Header.Values("WARC-Concurrent-To"), request.ID()) ||
		slices.Contains(request.Header.Values("WARC-Concurrent-To"), rec.ID())
}

// take copies an original, with its request and the warcinfo that it names where
// these are known. What a replay could not use is not taken.
func (g *gatherer) take(original, request *archive.Place) error {
	o := g.wanted[original]
	delete(g.wanted, original)
	if archive.IsFirst(original.Record) {
		o.Reason = fmt.Sprintf("%v has it in segments, which replay programs do not join", original)
		return nil
	}
	places := []*archive.Place{original}
	if request != nil {
		method, err := methodOf(request)
		if err != nil {
			return g.spoiled(o, err)
		}
		if method != "GET" {
			o.Reason = fmt.Sprintf("%v answers a %.20q, and replay programs find only answers to GET by their URL", original, method)
			return nil
		}
		places = []*archive.Place{request, original}
	}
	if info := g.warcinfo; info != nil && info.Record.ID() == original.Record.Header.Get("WARC-Warcinfo-ID") {
		places = append([]*archive.Place{info}, places...)
	}
	if err := g.copyAll(places); err != nil {
		return g.spoiled(o, err)
	}
	if source := original.File.Path; !slices.Contains(g.sources, source) {
		g.sources = append(g.sources, source)
	}
	return nil
}

// spoiled notes that an original cannot be taken since it, or what belongs to it, is
// damaged, which the scan of the file reports: the next file may have it whole. Another
// error is returned.
func (g *gatherer) spoiled(o *Original, err error) error {
	if !isDamage(err) {
		return err
	}
	delete(g.found, o)
	o.Reason = err.Error()
	return nil
}

func isDamage(err error) bool {
	var damage *warc.Error
	return errors.As(err, &damage)
}

// methodOf returns the method of a request record, "" when it cannot be understood.
func methodOf(place *archive.Place) (string, error) {
	block, err := place.Open()
	if err != nil {
		return "", err
	}
	m, err := archive.ReadMessage(place.Record, block)
	if archive.NoMessage(err) || err == nil && m.Request == nil {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return m.Request.Method, nil
}

// copyAll copies records, all of them or none.
func (g *gatherer) copyAll(places []*archive.Place) error {
	if err := g.out.Flush(); err != nil {
		return err
	}
	start, err := g.records.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	taken := len(g.ids)
	for _, place := range places {
		if err := g.copy(place); err != nil {
			for _, id := range g.ids[taken:] {
				delete(g.taken, id)
			}
			g.ids = g.ids[:taken]
			g.out.Reset(g.records)
			_, seekErr := g.records.Seek(start, io.SeekStart)
			if undo := errors.Join(g.records.Truncate(start), seekErr); undo != nil {
				return undo
			}
			return err
		}
	}
	return nil
}

// copy writes a record as a gzip member, once: its header fields and its block as
// they are.
func (g *gatherer) copy(place *archive.Place) error {
	if id := place.Record.ID(); id != "" && g.taken[id] {
		return nil
	}
	block, err := place.Open()
	if err != nil {
		return err
	}
	rec := place.Record
	g.ids, g.taken[rec.ID()] = append(g.ids, rec.ID()), true
	for _, id := range rec.Header.Values("WARC-Concurrent-To") {
		g.named[id] = true
	}
	w := warc.NewWriter(g.out, warc.WriterOptions{Version: rec.Version})
	if err := w.WriteRecord(rec.Header, block, rec.Length); err != nil {
		return fmt.Errorf("%v: copy the record %s: %w", place, rec.ID(), err)
	}
	return nil
}

// addOriginals looks for the originals that the files do not have, and takes along
// what Options.Originals have of them. It returns an index with these.
func (p *packer) addOriginals(revisits *revisitList, found *foundPages, index *scratch) (*scratch, error) {
	missing, n, err := revisits.missing(p.ctx, p.opts.TempDir, index)
	if err != nil || n == 0 || len(p.opts.Originals) == 0 {
		p.summary.Missing, p.summary.Unresolved = missing, n
		return index, err
	}
	if p.originalsDir, err = os.MkdirTemp(p.opts.TempDir, "warctee-originals-*"); err != nil {
		return index, err
	}
	path, err := p.gather(p.originalsDir, missing, revisits.kinds)
	if err != nil || path == "" {
		p.summary.Missing, p.summary.Unresolved = missing, n
		return index, err
	}
	titles := &finder{p: p, found: found, titlesOnly: true}
	info, err := os.Stat(path)
	if err != nil {
		return index, err
	}
	p.originals = &input{path, info.Size(), info.ModTime()}
	if err := titles.readFile(*p.originals); err != nil {
		return index, err
	}
	merged, err := p.extendIndex(index, path)
	if err != nil {
		return index, err
	}
	index.close()
	before := missing
	p.summary.Missing, p.summary.Unresolved, err = revisits.missing(p.ctx, p.opts.TempDir, merged)
	p.summary.Added = int64(len(before) - len(p.summary.Missing))
	for _, still := range p.summary.Missing { // with the reason that was found for it
		if i := slices.IndexFunc(before, func(o *Original) bool { return o.Revisit == still.Revisit }); i >= 0 {
			still.Reason = before[i].Reason
		}
	}
	return merged, err
}

// extendIndex makes an index of another one and of the lines of a file.
func (p *packer) extendIndex(index *scratch, path string) (merged *scratch, err error) {
	more, err := newScratch(p.opts.TempDir)
	if err != nil {
		return nil, err
	}
	defer more.close()
	summary, err := cdx.Index(p.ctx, more, []string{path}, cdx.Options{TempDir: p.opts.TempDir, Milliseconds: true})
	if err != nil {
		return nil, err
	}
	p.summary.Captures += summary.Entries
	p.summary.Damaged = append(p.summary.Damaged, summary.Damaged...)
	if merged, err = newScratch(p.opts.TempDir); err != nil {
		return nil, err
	}
	a, errA := index.rewind()
	b, errB := more.rewind()
	if err := errors.Join(errA, errB, mergeLines(merged, a, b)); err != nil {
		merged.close()
		return nil, err
	}
	return merged, nil
}

// mergeLines writes the sorted lines of two readers, sorted.
func mergeLines(w io.Writer, a, b io.Reader) error {
	inA, inB := newLines(a), newLines(b)
	moreA, moreB := inA.Scan(), inB.Scan()
	for moreA || moreB {
		next, more := inA, &moreA
		if !moreA || moreB && string(inB.Bytes()) < string(inA.Bytes()) {
			next, more = inB, &moreB
		}
		if _, err := w.Write(append(next.Bytes(), '\n')); err != nil {
			return err
		}
		*more = next.Scan()
	}
	return errors.Join(inA.Err(), inB.Err())
}
