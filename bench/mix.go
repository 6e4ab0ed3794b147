//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// A mix is what the clients ask for, file after file and over again.
type mix struct {
	name     string
	files    []file
	requests int  // of a run
	same     bool // every visit is the same one, and was made before
}

// A file of a mix. Unless the mix says otherwise its content is another one at
// each visit.
type file struct {
	size    int64  // octets of content
	kind    string // Content-Type
	magic   string // how a content of that kind starts
	from    []byte // where the rest is taken from
	chunked bool   // how the origin frames it
}

// What contents are taken from has these lengths.
const (
	textLength  = 1 << 20
	noiseLength = 4 << 20
)

// newMixes makes all mixes; big is the size of the one file of that name, in
// octets, and all but that get 1/less of the requests.
func newMixes(big int64, less int) map[string]*mix {
	text, noise := newText(textLength), make([]byte, noiseLength)
	rand.NewChaCha8([32]byte{}).Read(noise)
	html := file{kind: "text/html; charset=utf-8", magic: "<!DOCTYPE html>\n", from: text}
	css := file{kind: "text/css", magic: "/* ", from: text}
	js := file{kind: "text/javascript", magic: "// ", from: text}
	image := file{kind: "image/png", magic: "\x89PNG\r\n\x1a\n", from: noise}

	var page []file
	add := func(f file, n int, size int64) {
		for range n {
			f.size = size
			page = append(page, f)
		}
	}
	add(html, 1, 32<<10)
	add(css, 5, 12<<10)
	add(js, 8, 30<<10)
	for i := 0; i < len(page); i += 2 {
		page[i].chunked = true
	}
	const images, least, most = 61, 0.8 * 1024, 45 * 1024
	for i := range images { // many small ones, few large ones
		add(image, 1, int64(least*math.Pow(most/least, float64(i)/(images-1))))
	}
	sized := func(f file, size int64) []file {
		f.size = size
		return []file{f}
	}
	mixes := make(map[string]*mix)
	for _, m := range []*mix{
		{name: "page", files: page, requests: 6000 / less},
		{name: "revisit", files: page, requests: 6000 / less, same: true},
		{name: "small", files: sized(js, 1<<10), requests: 8000 / less},
		{name: "html", files: sized(html, 100<<10), requests: 2400 / less},
		{name: "img", files: sized(image, 100<<10), requests: 3000 / less},
		{name: "big", files: sized(file{kind: "application/octet-stream", from: noise}, big), requests: 1},
	} {
		mixes[m.name] = m
	}
	return mixes
}

// newText makes text that compresses like the markup of a news site: to a
// fifth, as fast as that does.
func newText(length int) []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	syllables := []string{"ta", "re", "mi", "no", "sel", "ka", "lor", "in", "ver", "du", "pa", "ster", "on", "be", "qui", "fa"}
	words := make([]string, 3000)
	for i := range words {
		for range 1 + rng.IntN(3) {
			words[i] += syllables[rng.IntN(len(syllables))]
		}
	}
	often := rand.NewZipf(rng, 1.1, 4, uint64(len(words)-1))
	word := func() string { return words[often.Uint64()] }
	sentence := func(least, most int) []byte {
		var s []byte
		for range least + rng.IntN(most-least) {
			s = append(append(s, word()...), ' ')
		}
		return s
	}
	text := make([]byte, 0, length+8<<10)
	for len(text) < length {
		number := rng.IntN(1e5)
		text = fmt.Appendf(text, `<article class="card card--%s" id="a%d"><a class="card__link" href="/%s/%s-%s-%d.html">`, word(), number, word(), word(), word(), number)
		text = fmt.Appendf(text, `<img class="card__image" src="/img/%d.webp" width="320" height="180" loading="lazy" alt="%s %s"></a>`, number, word(), word())
		text = fmt.Appendf(text, "\n  <h3 class=\"card__title\">%s</h3>\n  <p class=\"card__text\">%s</p>\n</article>\n", sentence(3, 8), sentence(5, 45))
	}
	return text[:length]
}

// A content is that of a file at a visit: a label, which makes it unique, and
// what follows it, which is cut out of file.from as if that had no end.
type content struct {
	size  int64
	label []byte
	from  []byte
	at    int
}

func (m *mix) content(visit int64, number int) content {
	f := &m.files[number]
	label := append(make([]byte, 0, 64), f.magic...)
	label = strconv.AppendInt(append(label, m.name...), visit, 10)
	label = append(strconv.AppendInt(append(label, '.'), int64(number), 10), '\n')
	return content{size: f.size, label: label, from: f.from, at: int(uint64(visit*int64(len(m.files))+int64(number)) * 7919 % uint64(len(f.from)))}
}

// piece returns octets of the content from an offset on: at least one, and no
// more than there are in one piece.
func (c *content) piece(offset int64) []byte {
	if offset < int64(len(c.label)) {
		return c.label[offset:min(c.size, int64(len(c.label)))]
	}
	i := int((int64(c.at) + offset - int64(len(c.label))) % int64(len(c.from)))
	return c.from[i : i+int(min(int64(len(c.from)-i), c.size-offset))]
}

// is reports whether b is what the content has at an offset.
func (c *content) is(b []byte, offset int64) bool {
	if offset+int64(len(b)) > c.size {
		return false
	}
	for len(b) > 0 {
		p := c.piece(offset)
		n := min(len(p), len(b))
		if !bytes.Equal(p[:n], b[:n]) {
			return false
		}
		b, offset = b[n:], offset+int64(n)
	}
	return true
}
