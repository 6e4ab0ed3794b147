package wacz

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// Bounds on what is remembered while files are read.
const (
	requestsKept = 64   // requests whose response may still come
	visitsKept   = 16   // pages whose request may still come; with their text
	titlesKept   = 4096 // by digest, for the revisits of pages
)

// A pageList is the list of pages while it is made.
type pageList struct {
	*scratch
	header   pageHeader
	mainDate string // of the first capture of the main page
}

// A pageHeader is the first line of a list.
type pageHeader struct {
	Format  string `json:"format"`
	ID      string `json:"id"`
	Title   string `json:"title,omitempty"`
	HasText bool   `json:"hasText,omitempty"`
}

// A page is a line of a list.
type page struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	TS    string `json:"ts"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
}

// copyTo writes the whole list.
func (l *pageList) copyTo(w io.Writer) error {
	r, err := l.rewind()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(l.header); err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return err
}

// read reads the files for pages and revisits, and for their newest record. Pages that
// are given take the place of those that are found.
func (p *packer) read() (list *pageList, found *foundPages, revisits *revisitList, err error) {
	defer func() {
		if err == nil {
			return
		}
		if list != nil {
			list.close()
		}
		if found != nil {
			found.close()
		}
		if revisits != nil {
			revisits.close()
		}
	}()
	s, err := newScratch(p.opts.TempDir)
	if err != nil {
		return nil, nil, nil, err
	}
	list = &pageList{scratch: s, header: pageHeader{Format: "json-pages-1.0", ID: "pages", Title: "Pages"}}
	if s, err = newScratch(p.opts.TempDir); err != nil {
		return list, nil, nil, err
	}
	revisits = &revisitList{scratch: s, kinds: make(map[string]bool)}
	if found, err = newFoundPages(p.opts.TempDir, p.opts.MaxPages); err != nil {
		return list, nil, revisits, err
	}
	f := &finder{p: p, list: list, found: found, revisits: revisits}
	for _, in := range p.inputs {
		if err := f.readFile(in); err != nil {
			return list, found, revisits, err
		}
	}
	p.created = f.newest
	if p.opts.Key != nil {
		p.created = time.Now()
	}
	if !p.opts.Created.IsZero() {
		p.created = p.opts.Created
	}
	if p.opts.Pages != "" {
		if err := p.givenPages(list); err != nil {
			return list, found, revisits, err
		}
	}
	if p.opts.MainPage != "" && list.mainDate == "" {
		return list, found, revisits, fmt.Errorf("the page to begin with, %s, is not in the list of pages", p.opts.MainPage)
	}
	return list, found, revisits, nil
}

// finishPages writes the pages that were found to their list, unless one was given.
func (p *packer) finishPages(list *pageList, found *foundPages) (err error) {
	if p.opts.Pages != "" {
		return nil
	}
	if p.summary.Pages, err = found.pour(list); err == nil {
		p.summary.Unlisted, p.summary.Textless = found.unlisted, found.textless
	}
	return err
}

// A finder looks for pages in files, one after the other.
type finder struct {
	p      *packer
	list   *pageList
	found  *foundPages
	newest time.Time

	in         input // the file that is read
	revisits   *revisitList
	titlesOnly bool // of originals from elsewhere, which are no pages to begin with

	// The requests and the pages of a file that have not found each other.
	requests []request
	visits   []visit
}

// A request is what tells whether somebody wanted a page.
type request struct {
	id           string
	concurrentTo []string
	get          bool
	forPage      bool
	rank         rank // of the page that it asks for
}

// A visit is a page that may be one.
type visit struct {
	foundPage
	digest       string // of the payload
	recordID     string
	concurrentTo []string
	sure         bool // it is the main page
}

// readFile looks at the records of a file.
func (f *finder) readFile(in input) error {
	file, err := archive.Open(in.path)
	if err != nil {
		return err
	}
	defer file.Close()
	compressed, err := f.checkForm(file)
	if err != nil {
		return fmt.Errorf("%s: %w", in.path, err)
	}
	f.in = in
	told, records := int64(0), 0
	progress := func(offset int64) {
		if f.p.opts.Progress != nil && !f.titlesOnly {
			f.p.opts.Progress(offset - told)
			told = offset
		}
	}
	err = archive.Scan(file, func(p *archive.Place, z *warc.Reader) error {
		if err := f.p.ctx.Err(); err != nil {
			return err
		}
		if compressed && p.Nth > 0 {
			return fmt.Errorf("%s: the record at %d is not a gzip member of its own, so a replay cannot read it alone; make it so with warctee convert", in.path, p.Offset)
		}
		progress(p.Offset)
		records++
		if date, err := p.Record.Date(); err == nil && date.After(f.newest) {
			f.newest = date
		}
		return f.readRecord(p.Record, z)
	})
	damage := (*warc.Error)(nil)
	if err != nil && !(errors.As(err, &damage) && records > 0) { // the index tells of damage
		return err
	}
	progress(file.Size)
	return f.endFile()
}

// checkForm refuses the forms of a file that no replay can read. The end of the
// name has to say whether it is compressed.
func (f *finder) checkForm(file *archive.File) (compressed bool, err error) {
	start := make([]byte, 4)
	n, err := file.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	start = start[:n]
	compressed = bytes.HasPrefix(start, []byte{0x1f, 0x8b})
	want := ".warc"
	if compressed {
		want = ".warc.gz"
	}
	switch {
	case n == 0:
		return false, errors.New("the file is empty")
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}) || n == 4 && start[0]&0xf0 == 0x50 && bytes.Equal(start[1:], []byte{0x2a, 0x4d, 0x18}):
		return false, errors.New("a package cannot hold zstd; make it .warc.gz with warctee convert")
	case !strings.HasSuffix(file.Path, want):
		return false, fmt.Errorf("in a package the name of this file has to end in %s; rename it", want)
	}
	return compressed, nil
}

func (f *finder) readRecord(rec *warc.Record, block io.Reader) error {
	scheme, _, _ := strings.Cut(strings.ToLower(rec.TargetURI()), ":")
	if scheme != "http" && scheme != "https" || f.p.opts.Pages != "" && rec.Type() != warc.TypeRevisit {
		return nil
	}
	switch rec.Type() {
	case warc.TypeRequest:
		// What cannot be understood tells nothing.
		if m, err := archive.ReadMessage(rec, block); err == nil && m.Request != nil {
			return f.addRequest(request{
				id:           rec.ID(),
				concurrentTo: rec.Header.Values("WARC-Concurrent-To"),
				get:          m.Request.Method == "GET",
				forPage:      wantsPage(m.Request),
				rank:         rankOf(m.Request),
			})
		}
	case warc.TypeResponse, warc.TypeRevisit, warc.TypeResource:
		m, err := archive.ReadMessage(rec, block)
		if rec.Type() == warc.TypeRevisit && !f.titlesOnly {
			if err := f.addRevisit(rec, m); err != nil {
				return err
			}
		}
		if f.p.opts.Pages != "" || err != nil || m.Response == nil && rec.Type() != warc.TypeResource || m.Response != nil && m.Response.Status != 200 {
			return nil
		}
		isMain := rec.TargetURI() == f.p.opts.MainPage && !f.titlesOnly
		if isMain || isHTML(m.MediaType()) {
			return f.addVisit(f.newVisit(rec, m, isMain))
		}
	}
	return nil
}

// addRevisit notes what a revisit refers to; m is nil when its block cannot be
// understood.
func (f *finder) addRevisit(rec *warc.Record, m *archive.Message) error {
	status := 0
	if m != nil && m.Response != nil {
		status = m.Response.Status
	}
	return f.revisits.add(f.in, rec, status)
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// wantsPage reports whether a request can be for a page, and not for a frame, a
// script's data or another part of one. Browsers say so in Sec-Fetch-Dest, over
// TLS (Fetch Metadata §2.1); else, in Accept, whether it is for a document at all.
func wantsPage(r *http1.Request) bool {
	if dest, ok := r.Get("Sec-Fetch-Dest"); ok {
		return dest == "document"
	}
	if _, ok := r.Get("X-Requested-With"); ok {
		return false
	}
	agent, _ := r.Get("User-Agent")
	accept, ok := r.Get("Accept")
	return !ok || !strings.HasPrefix(agent, "Mozilla/") || strings.Contains(accept, "text/html")
}

// rankOf returns the rank of the page that a request asks for.
func rankOf(r *http1.Request) rank {
	if dest, _ := r.Get("Sec-Fetch-Dest"); dest == "document" {
		return asDocument
	}
	if referer, _ := r.Get("Referer"); referer != "" {
		return followed
	}
	return entered
}

func (f *finder) newVisit(rec *warc.Record, m *archive.Message, isMain bool) visit {
	v := visit{recordID: rec.ID(), concurrentTo: rec.Header.Values("WARC-Concurrent-To"), sure: isMain}
	v.URL = rec.TargetURI()
	if date, err := rec.Date(); err == nil {
		v.TS = date.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	}
	id := sha256.Sum256([]byte(v.URL + "\n" + v.TS + "\n" + v.recordID))
	v.ID = fmt.Sprintf("%x", id[:10])
	v.digest = rec.Header.Get("WARC-Payload-Digest")
	if rec.Type() == warc.TypeRevisit {
		var known bool
		if v.Title, known = f.found.titles.Get(v.digest); !known {
			v.Digest = v.digest // its original may come later
		}
		return v
	}
	if !isHTML(m.MediaType()) {
		return v
	}
	payload, err := m.Decoded()
	if err != nil { // an unknown content-coding
		return v
	}
	contentType := rec.Header.Get("Content-Type")
	if m.Response != nil {
		contentType, _ = m.Response.Get("Content-Type")
	}
	v.Title, v.Text = readHTML(payload, contentType)
	if f.p.opts.NoText {
		v.Text = ""
	}
	if v.digest != "" && v.Title != "" {
		f.found.titles.Add(v.digest, v.Title)
	}
	return v
}

// addRequest gives a request to the page that waits for it, or keeps it.
func (f *finder) addRequest(r request) error {
	for i, v := range f.visits {
		if v.belongsTo(r) {
			f.visits = append(f.visits[:i], f.visits[i+1:]...)
			return f.decide(v, &r)
		}
	}
	f.requests = append(f.requests, r)
	if len(f.requests) > requestsKept {
		f.requests = append(f.requests[:0], f.requests[1:]...)
	}
	return nil
}

// addVisit decides whether a page is one by its request, or lets it wait for
// that. Most writers put the two beside each other, in either order.
func (f *finder) addVisit(v visit) error {
	for _, r := range f.requests {
		if v.belongsTo(r) {
			return f.decide(v, &r)
		}
	}
	f.visits = append(f.visits, v)
	if len(f.visits) > visitsKept {
		v, f.visits = f.visits[0], append(f.visits[:0], f.visits[1:]...)
		return f.decide(v, nil)
	}
	return nil
}

func (v *visit) belongsTo(r request) bool {
	for _, id := range v.concurrentTo {
		if id == r.id {
			return true
		}
	}
	for _, id := range r.concurrentTo {
		if id == v.recordID {
			return true
		}
	}
	return false
}

// endFile decides about the pages without a request.
func (f *finder) endFile() error {
	for _, v := range f.visits {
		if err := f.decide(v, nil); err != nil {
			return err
		}
	}
	f.visits, f.requests = nil, nil
	return nil
}

// decide adds a page to those that are found if it is one. The request is nil when
// it is not known.
func (f *finder) decide(v visit, r *request) error {
	if f.titlesOnly || v.TS == "" || r != nil && !(r.get && (r.forPage || v.sure)) {
		return nil
	}
	rank := followed
	switch {
	case v.sure:
		rank = asDocument
		if f.list.mainDate == "" {
			f.list.mainDate = v.TS
		}
	case r != nil:
		rank = r.rank
	}
	return f.found.add(v.foundPage, rank, v.digest)
}

// givenPages copies the list of pages that was given.
func (p *packer) givenPages(list *pageList) error {
	f, err := os.Open(p.opts.Pages)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.copyPages(list, f); err != nil {
		return fmt.Errorf("%s: %w", p.opts.Pages, err)
	}
	return nil
}

func (p *packer) copyPages(list *pageList, r io.Reader) error {
	lines := newLines(r)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var fields map[string]json.RawMessage
		var known struct {
			ID, URL, TS, Format string
			HasText             bool
		}
		if err := errors.Join(json.Unmarshal(line, &fields), json.Unmarshal(line, &known)); err != nil {
			return fmt.Errorf("line %d is no JSON object of a page: %w", number, err)
		}
		if number == 1 && known.Format != "" {
			list.header = pageHeader{known.Format, known.ID, rawText(fields["title"]), known.HasText}
			continue
		}
		if known.URL == "" {
			return fmt.Errorf("line %d has no url", number)
		}
		if _, err := time.Parse(time.RFC3339, known.TS); err != nil {
			return fmt.Errorf("line %d: ts is %q, not a time such as 2026-11-21T10:15:00Z", number, known.TS)
		}
		if known.ID == "" {
			fields["id"] = fmt.Appendf(nil, `"%x"`, sha256.Sum256(line))
		}
		list.header.HasText = list.header.HasText || len(fields["text"]) > 2
		if known.URL == p.opts.MainPage && list.mainDate == "" {
			list.mainDate = known.TS
		}
		p.summary.Pages++
		if err := json.NewEncoder(list).Encode(fields); err != nil {
			return err
		}
	}
	return lines.Err()
}

func rawText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
