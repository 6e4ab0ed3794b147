package wacz

import (
	"bufio"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// Bounds on what is read and kept of a page.
const (
	maxHTML  = 1 << 20 // octets, decoded
	maxTitle = 1 << 10
)

// newLines reads lines of up to maxLine octets.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return lines
}

// readHTML returns the title of a page and the text in it, white space in either
// collapsed. What is behind the first maxHTML octets, or behind an error, is left
// out.
func readHTML(r io.Reader, contentType string) (title, text string) {
	decoded, err := charset.NewReader(io.LimitReader(r, maxHTML), contentType)
	if err != nil { // the page is empty
		return "", ""
	}
	var p prose
	z := html.NewTokenizer(io.LimitReader(decoded, maxHTML))
	z.SetMaxBuf(maxHTML + 1)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(p.title.String()), strings.TrimSpace(p.text.String())
		case html.StartTagToken:
			name, _ := z.TagName()
			p.start(atom.Lookup(name))
		case html.EndTagToken:
			name, _ := z.TagName()
			p.end(atom.Lookup(name))
		case html.SelfClosingTagToken:
			p.space()
		case html.TextToken:
			p.add(z.Text())
		}
	}
}

// prose collects the title and the text of a page.
type prose struct {
	title, text strings.Builder
	within      atom.Atom // title, or one whose content is no text
	images      int       // depth of svg, in which a title is not that of the page
	titled      bool
	gap         bool // white space comes before the next word
}

// inline are the elements that do not part words.
var inline = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Cite: true, atom.Code: true,
	atom.Del: true, atom.Dfn: true, atom.Em: true, atom.Font: true, atom.I: true, atom.Ins: true, atom.Kbd: true,
	atom.Mark: true, atom.Q: true, atom.S: true, atom.Samp: true, atom.Small: true, atom.Span: true,
	atom.Strong: true, atom.Sub: true, atom.Sup: true, atom.Time: true, atom.Tt: true, atom.U: true, atom.Var: true, atom.Wbr: true,
}

func (p *prose) start(tag atom.Atom) {
	if !inline[tag] {
		p.space()
	}
	switch tag {
	case atom.Title:
		p.within = tag
	case atom.Script, atom.Style, atom.Noscript, atom.Iframe, atom.Noframes, atom.Noembed, atom.Textarea, atom.Xmp:
		p.within = tag // the tokenizer takes all up to the end tag for one text
	case atom.Svg:
		p.images++
	}
}

func (p *prose) end(tag atom.Atom) {
	if !inline[tag] {
		p.space()
	}
	if tag == p.within {
		p.titled = p.titled || tag == atom.Title && p.images == 0
		p.within = 0
	}
	if tag == atom.Svg && p.images > 0 {
		p.images--
	}
}

func (p *prose) space() { p.gap = true }

func (p *prose) add(text []byte) {
	switch {
	case p.within == atom.Title && p.images == 0 && !p.titled:
		p.collapse(&p.title, text, maxTitle)
	case p.within == 0 && p.images == 0:
		p.collapse(&p.text, text, maxHTML)
	}
}

// collapse appends text with single spaces, up to a limit.
func (p *prose) collapse(to *strings.Builder, text []byte, limit int) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case r == '\ufeff': // a byte order mark
			continue
		case unicode.IsSpace(r) || unicode.IsControl(r):
			p.gap = true
			continue
		}
		if to.Len()+2*utf8.UTFMax > limit {
			return
		}
		if p.gap && to.Len() > 0 {
			to.WriteByte(' ')
		}
		p.gap = false
		to.WriteRune(r)
	}
}
