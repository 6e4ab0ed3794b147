package wacz

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds on a list of pages that are found.
const (
	// DefaultMaxPages is how many pages a list has at most, unless Options say
	// otherwise.
	DefaultMaxPages = 10_000

	// MaxPageText bounds the pages with text in a list, in octets. More have room
	// without it.
	MaxPageText = maxListOctets * 3 / 4

	maxListOctets = 64 << 20
	maxPageURL    = 32 << 10 // octets of the URL of a page; an index has no lines for much longer ones
	repeatsKept   = 1 << 16  // pages of which it is known that they were found before
)

// A rank says how sure it is that a capture is a page to begin with. The list has
// those of a lower rank first, and has room for others when there is some left.
type rank int

const (
	asDocument rank = iota // a browser asked for it as a document, or it is the main page
	entered                // the client came from no other page: somebody wrote its URL
	followed               // it was reached from another page, or its request is not known
	ranks
)

// A foundPage is a line of a list while it is made.
type foundPage struct {
	page
	Digest string `json:"digest,omitempty"` // of a payload with the title, where the page has none yet
}

// A foundList holds the pages of one rank, as many as a list has room for.
type foundList struct {
	*scratch
	pages  int
	octets int64
}

// add adds a page. It leaves the text out when there is no room for it, and returns
// false when there is none for the page.
func (l *foundList) add(p foundPage, maxPages int) (added, whole bool, err error) {
	if l.pages >= maxPages {
		return false, false, nil
	}
	line, err := encodeLine(p)
	if err != nil {
		return false, false, err
	}
	whole = p.Text == "" || l.octets+int64(len(line)) <= MaxPageText
	if !whole {
		p.Text = ""
		if line, err = encodeLine(p); err != nil {
			return false, false, err
		}
	}
	if l.octets+int64(len(line)) > maxListOctets {
		return false, false, nil
	}
	l.pages++
	l.octets += int64(len(line))
	_, err = l.Write(line)
	return true, whole, err
}

func encodeLine(p foundPage) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(p)
	return b.Bytes(), err
}

// A foundPages holds the pages of all ranks.
type foundPages struct {
	maxPages int
	lists    [ranks]*foundList
	repeats  *lru.Cache[string, bool]   // URL and digest of pages
	titles   *lru.Cache[string, string] // by digest of the payload
	unlisted int64                      // pages for which there was no room
	textless int64                      // pages for whose text there was none
}

func newFoundPages(dir string, maxPages int) (*foundPages, error) {
	if maxPages == 0 {
		maxPages = DefaultMaxPages
	}
	f := &foundPages{maxPages: maxPages}
	var err error
	if f.repeats, err = lru.New[string, bool](repeatsKept); err != nil {
		return nil, err
	}
	if f.titles, err = lru.New[string, string](titlesKept); err != nil {
		return nil, err
	}
	for i := range f.lists {
		s, err := newScratch(dir)
		if err != nil {
			f.close()
			return nil, err
		}
		f.lists[i] = &foundList{scratch: s}
	}
	return f, nil
}

// add adds a page. Of those that no browser asked for as a document, one is listed
// of a URL with the same payload: a program may have asked for it a million times.
func (f *foundPages) add(p foundPage, r rank, digest string) error {
	if len(p.URL) > maxPageURL {
		f.unlisted++
		return nil
	}
	if digest != "" {
		if known, _ := f.repeats.ContainsOrAdd(hashOf(p.URL, digest), true); known && r != asDocument {
			return nil
		}
	}
	added, whole, err := f.lists[r].add(p, f.maxPages)
	switch {
	case !added:
		f.unlisted++
	case !whole:
		f.textless++
	}
	return err
}

// pour writes the list: the pages by their ranks, as many as there is room for.
func (f *foundPages) pour(list *pageList) (pages int, err error) {
	out := &foundList{scratch: list.scratch}
	for _, l := range f.lists {
		in, err := l.rewind()
		if err != nil {
			return 0, err
		}
		for d := json.NewDecoder(in); ; {
			var p foundPage
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return 0, err
			}
			if p.Digest != "" {
				p.Title, _ = f.titles.Get(p.Digest)
				p.Digest = ""
			}
			added, whole, err := out.add(p, f.maxPages)
			switch {
			case err != nil:
				return 0, err
			case !added:
				f.unlisted++
				continue
			case !whole:
				f.textless++
			}
			list.header.HasText = list.header.HasText || whole && p.Text != ""
		}
	}
	return out.pages, nil
}

// hashOf is what is remembered of a page.
func hashOf(url, digest string) string {
	sum := sha256.Sum256([]byte(url + "\n" + digest))
	return string(sum[:16])
}

func (f *foundPages) close() {
	for _, l := range f.lists {
		if l != nil {
			l.close()
		}
	}
}
