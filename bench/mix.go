//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// A file of the page. Its content is another one at each visit.
type file struct {
	size int    // octets
	kind string // Content-Type
	from []byte // where its content is taken from
}

// mix is a page: 1 html, 5 css, 8 js, 61 images.
var mix = newMix()

// rawLength is the length of what contents are taken from.
const rawLength = 4 << 20

func newMix() (files []file) {
	text, noise := make([]byte, 0, rawLength), make([]byte, rawLength)
	rand.NewChaCha8([32]byte{}).Read(noise)
	words := strings.Fields(`<div class= <a href= </a> </div> <p> </p> <span> return function margin: 0; padding:
		width: the of and a to in is that it was for on are with as his they be at one have this from by hot word but
		what some we can out other were all there when up use your how said an each she`)
	rng := rand.New(rand.NewPCG(1, 1))
	for len(text) < rawLength {
		text = append(append(text, words[rng.IntN(len(words))]...), ' ')
		if rng.IntN(8) == 0 {
			text = strconv.AppendInt(text, rng.Int64N(1e6), 10)
		}
	}
	add := func(n int, f file) {
		for range n {
			files = append(files, f)
		}
	}
	add(1, file{32 << 10, "text/html", text})
	add(5, file{12 << 10, "text/css", text})
	add(8, file{30 << 10, "text/javascript", text})
	const images, least, most = 61, 0.8 * 1024, 45 * 1024
	for i := range images { // many small ones, few large ones
		add(1, file{int(least * math.Pow(most/least, float64(i)/(images-1))), "image/png", noise})
	}
	return files
}

// content is that of a file at a visit: a label, which makes it unique, and
// what follows it.
func (f *file) content(visit int64, number int) (label, rest []byte) {
	label = fmt.Appendf(nil, "%d of visit %d\n", number, visit)
	size := f.size - len(label)
	at := int(uint64(visit*int64(len(mix))+int64(number)) * 7919 % uint64(rawLength-size))
	return label, f.from[at : at+size]
}

// serveMix is the origin: /VISIT/NUMBER.
func serveMix(w http.ResponseWriter, r *http.Request) {
	var visit int64
	var number int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d/%d", &visit, &number); err != nil || number < 0 || number >= len(mix) {
		http.NotFound(w, r)
		return
	}
	f := &mix[number]
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Content-Length", strconv.Itoa(f.size))
	label, rest := f.content(visit, number)
	w.Write(label)
	w.Write(rest)
}

// A visitCounter numbers the visits of a program run.
type visitCounter struct{ n atomic.Int64 }

func (c *visitCounter) next() int64 { return c.n.Add(1) }

// visit gets all files of the page, one after the other, and returns how many
// octets they had.
func visit(client *http.Client, origin string, number int64) (octets int64, err error) {
	var body bytes.Buffer
	for i := range mix {
		u := fmt.Sprintf("%s/%d/%d", origin, number, i)
		resp, err := client.Get(u)
		if err != nil {
			return 0, err
		}
		body.Reset()
		_, err = io.Copy(&body, resp.Body)
		resp.Body.Close()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", u, err)
		}
		label, rest := mix[i].content(number, i)
		if got, ok := bytes.CutPrefix(body.Bytes(), label); resp.StatusCode != http.StatusOK || !ok || !bytes.Equal(got, rest) {
			return 0, fmt.Errorf("%s: %s, and %d octets that are not those of the origin", u, resp.Status, body.Len())
		}
		octets += int64(body.Len())
	}
	return octets, nil
}
