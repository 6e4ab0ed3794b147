package wacz

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warctee/warctee/cdx"
)

// Version is that of the format which is written.
const Version = "1.1.1"

// The names that the format gives.
const (
	packageName = "datapackage.json"
	digestName  = "datapackage-digest.json"
	pagesName   = "pages/pages.jsonl"
	indexName   = "indexes/index.cdx"
	blocksName  = "indexes/index.cdx.gz"
	lookupName  = "indexes/index.idx"
	archiveDir  = "archive/"
	indexesDir  = "indexes/"
	logsDir     = "logs/"
)

// Passes is how many times Pack reads the files: it looks for pages, makes the
// index and copies.
const Passes = 3

// Options say what goes into a package besides the files.
type Options struct {
	Title       string
	Description string   // Markdown
	Software    string   // that makes the package
	MainPage    string   // URL of the page to begin with; a capture of it has to be in the files
	Pages       string   // file with the list of pages; default: those that are found
	NoText      bool     // the list of pages has no text of them
	MaxPages    int      // that are listed of those that are found; default: DefaultMaxPages
	Originals   []string // WARC files from which the originals of revisits are taken that the packed files do not have
	Logs        []string
	Key         *ecdsa.PrivateKey // signs; default: no signature

	// Created is the time of the package and of everything in it. By default
	// it is the newest WARC-Date, so that the same files make the same package;
	// with Key it is now.
	Created  time.Time
	TempDir  string             // for the list of pages and the index; default: os.TempDir
	Progress func(octets int64) // is told what was read of the files, Passes times
}

// A Summary tells what Pack did.
type Summary struct {
	Files    int
	Octets   int64   // of the files
	Captures int64   // lines of the index
	Pages    int     // in the list
	Unlisted int64   // pages for which there was no room in the list
	Textless int64   // pages for whose text there was none
	Damaged  []error // what cannot be replayed, each with its file and offset

	Added            int64       // originals that were taken from Options.Originals
	Missing          []*Original // originals that revisits need and the package has not, at most maxMissing
	Unresolved       int64       // revisits that cannot be replayed without them
	OriginalsDamaged []error     // what could not be read of Options.Originals
}

// A resource is a file in the package, as datapackage.json names it.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// A dataPackage is the content of datapackage.json.
type dataPackage struct {
	Profile      string     `json:"profile"`
	Version      string     `json:"wacz_version"`
	Title        string     `json:"title,omitempty"`
	Description  string     `json:"description,omitempty"`
	Created      string     `json:"created"`
	Modified     string     `json:"modified"`
	Software     string     `json:"software,omitempty"`
	MainPageURL  string     `json:"mainPageUrl,omitempty"`
	MainPageDate string     `json:"mainPageDate,omitempty"`
	Resources    []resource `json:"resources"`
}

// Pack writes a package of WARC files to w. What is damaged in them is told in
// the Summary and is no error, unless nothing of a file can be read. Memory does
// not grow with the files.
func Pack(ctx context.Context, w io.Writer, files []string, opts Options) (Summary, error) {
	p := &packer{ctx: ctx, opts: opts, zip: zip.NewWriter(w), names: make(map[string]bool)}
	err := p.pack(files)
	return p.summary, err
}

type packer struct {
	ctx       context.Context
	opts      Options
	zip       *zip.Writer
	inputs    []input
	created   time.Time
	resources []resource
	names     map[string]bool // of resources
	summary   Summary

	originals    *input // nil: none were taken
	originalsDir string // of it; "" when it was not needed
}

// An input is a WARC file, and how it was when it was looked at first.
type input struct {
	path    string
	size    int64
	changed time.Time
}

func (p *packer) pack(files []string) error {
	if err := p.look(files); err != nil {
		return err
	}
	pages, found, revisits, err := p.read()
	if err != nil {
		return err
	}
	defer pages.close()
	defer found.close()
	defer revisits.close()
	index, err := p.makeIndex(files)
	if err != nil {
		return err
	}
	defer func() { index.close() }() // it may be another one then
	defer func() { os.RemoveAll(p.originalsDir) }()
	if index, err = p.addOriginals(revisits, found, index); err != nil {
		return err
	}
	if err := p.finishPages(pages, found); err != nil {
		return err
	}
	inputs := p.inputs
	if p.originals != nil {
		inputs = append(slices.Clip(inputs), *p.originals)
	}
	for _, in := range inputs {
		if err := p.addFile(archiveDir, in.path, &in); err != nil {
			return err
		}
	}
	if err := p.addIndex(index); err != nil {
		return err
	}
	if err := p.add(pagesName, pages.copyTo); err != nil {
		return err
	}
	for _, path := range p.opts.Logs {
		if err := p.addFile(logsDir, path, nil); err != nil {
			return err
		}
	}
	if err := p.addPackage(pages); err != nil {
		return err
	}
	return p.zip.Close()
}

// look refuses files that cannot be packed because of their names.
func (p *packer) look(files []string) error {
	if len(files) == 0 {
		return errors.New("there are no files to be packed")
	}
	seen := make(map[string]string)
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		if other, twice := seen[name]; twice {
			return fmt.Errorf("%s and %s have the same name, which a package can hold once; rename one", other, path)
		}
		if err := checkName(name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		seen[name] = path
		p.inputs = append(p.inputs, input{path, info.Size(), info.ModTime()})
		p.summary.Files++
		p.summary.Octets += info.Size()
	}
	return nil
}

// checkName refuses names that programs could take for another.
func checkName(name string) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsAny(name, `\/:`) {
		return fmt.Errorf("%q cannot be a name in a package; rename it", name)
	}
	return nil
}

// add adds a file to the package, and remembers its digest.
func (p *packer) add(path string, write func(w io.Writer) error) error {
	w, err := p.create(path)
	if err != nil {
		return err
	}
	sum := &counter{hash: sha256.New()}
	if err := write(io.MultiWriter(w, sum)); err != nil {
		return err
	}
	p.resources = append(p.resources, resource{
		Name:  p.resourceName(path),
		Path:  path,
		Hash:  fmt.Sprintf("sha256:%x", sum.hash.Sum(nil)),
		Bytes: sum.octets,
	})
	return nil
}

func (p *packer) create(path string) (io.Writer, error) {
	return p.zip.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Store, Modified: zipTime(p.created)})
}

// zipTime brings a time into the years that a zip file can tell.
func zipTime(t time.Time) time.Time {
	earliest := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	latest := time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t.UTC().Truncate(2 * time.Second) // the unit of zip
}

var notInResourceName = regexp.MustCompile(`[^-a-z0-9._/]`)

// resourceName makes a name as a data package wants it: unique, of few characters.
func (p *packer) resourceName(path string) string {
	base := notInResourceName.ReplaceAllString(strings.ToLower(filepath.Base(path)), "-")
	name := base
	for i := 2; p.names[name]; i++ {
		name = fmt.Sprintf("%d-%s", i, base)
	}
	p.names[name] = true
	return name
}

// addFile copies a file. What was seen of it before has to be so still.
func (p *packer) addFile(dir, path string, seen *input) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := filepath.Base(path)
	if err := checkName(name); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if p.hasPath(dir + name) {
		return fmt.Errorf("%s: another file of this name is in the package; rename one", path)
	}
	err = p.add(dir+name, func(w io.Writer) error {
		progress := p.opts.Progress
		if seen == nil {
			progress = nil
		}
		_, err := io.CopyBuffer(w, &meter{ctx: p.ctx, r: f, told: progress}, make([]byte, 256<<10))
		return err
	})
	if err != nil || seen == nil {
		return err
	}
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.Size() != seen.size || !info.ModTime().Equal(seen.changed) {
		return fmt.Errorf("%s has changed while it was packed; pack it when its recording has ended", path)
	}
	return nil
}

func (p *packer) hasPath(path string) bool {
	for _, r := range p.resources {
		if r.Path == path {
			return true
		}
	}
	return false
}

// addPackage adds what tells of all the rest.
func (p *packer) addPackage(pages *pageList) error {
	created := p.created.UTC().Format(time.RFC3339)
	text, err := indented(dataPackage{
		Profile: "data-package", Version: Version,
		Title: p.opts.Title, Description: p.opts.Description,
		Created: created, Modified: created, Software: p.opts.Software,
		MainPageURL: p.opts.MainPage, MainPageDate: pages.mainDate,
		Resources: p.resources,
	})
	if err != nil {
		return err
	}
	digest := digestFile{Path: packageName, Hash: fmt.Sprintf("sha256:%x", sha256.Sum256(text))}
	if p.opts.Key != nil {
		if digest.SignedData, err = sign(p.opts.Key, digest.Hash, created, p.opts.Software); err != nil {
			return err
		}
	}
	digestText, err := indented(digest)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		text []byte
	}{{packageName, text}, {digestName, digestText}} {
		w, err := p.create(part.name)
		if err == nil {
			_, err = w.Write(part.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// indented is JSON for people.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// makeIndex writes the index of the files to a file of its own. Its times have
// milliseconds: replayweb.page takes the first capture at or after
// WARC-Refers-To-Date for the original of a revisit, and keeps one capture of a URL
// for each time.
func (p *packer) makeIndex(files []string) (*scratch, error) {
	s, err := newScratch(p.opts.TempDir)
	if err != nil {
		return nil, err
	}
	summary, err := cdx.Index(p.ctx, s, files, cdx.Options{TempDir: p.opts.TempDir, Progress: p.opts.Progress, Milliseconds: true})
	if err != nil {
		s.close()
		return nil, err
	}
	p.summary.Captures, p.summary.Damaged = summary.Entries, summary.Damaged
	return s, nil
}
