package wacz

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lanrat/extsort"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

// An Original is the capture that revisits refer to.
type Original struct {
	URL      string `json:"url"`
	Date     string `json:"date,omitempty"`   // WARC-Refers-To-Date
	ID       string `json:"id,omitempty"`     // of the record, without brackets
	Digest   string `json:"digest,omitempty"` // of the payload
	File     string `json:"file,omitempty"`   // in which it is, where the revisit says so
	Revisit  string `json:"revisit"`          // the first record that needs it: file and offset
	Revisits int64  `json:"-"`                // how many do
	Reason   string `json:"-"`                // why it was not taken though it was found; else empty
}

// Bounds on the missing originals that are remembered.
const (
	maxMissing       = 100_000
	maxMissingOctets = 32 << 20 // of what is known of them
)

// Digests of a payload of no octets, which a replay needs no original for.
var emptyDigests = []string{"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}

// normalDigest is a digest as an index has it, but with its algorithm.
func normalDigest(digest string) string {
	if d, err := warc.ParseDigest(digest); err == nil {
		return d.String()
	}
	return digest
}

// A revisitList has, for each revisit, the original that it needs.
type revisitList struct {
	*scratch
	n     int64
	kinds map[string]bool // of the digests: their algorithms, or noDigest
}

const noDigest = "none"

// add adds a revisit record. Of a redirect replay programs need no payload.
func (l *revisitList) add(in input, rec *warc.Record, status int) error {
	h := rec.Header
	o := Original{
		URL:     strings.TrimSuffix(strings.TrimPrefix(h.Get("WARC-Refers-To-Target-URI"), "<"), ">"),
		Date:    h.Get("WARC-Refers-To-Date"),
		ID:      archive.CleanID(h.Get("WARC-Refers-To")),
		Digest:  normalDigest(h.Get("WARC-Payload-Digest")),
		File:    h.Get("WARC-Refers-To-Filename"),
		Revisit: fmt.Sprintf("%s offset %d", in.path, rec.Offset),
	}
	if container := h.Get("WARC-Refers-To-Container"); o.File == "" {
		o.File = container
	}
	if o.URL == "" {
		o.URL = rec.TargetURI()
	}
	if status >= 300 && status < 400 || slices.Contains(emptyDigests, o.Digest) {
		return nil
	}
	l.n++
	l.kinds[o.kind()] = true
	return json.NewEncoder(l).Encode(o)
}

// An Original is found by its URL and digest, or by its URL and second.
func linkOf(kind, url, value string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + url + "\n" + value))
	return fmt.Sprintf("%x", sum[:16])
}

// algorithms are those of digests that are told apart; "" stands for any other.
var algorithms = []string{"sha1", "sha256", ""}

func algorithmOf(digest string) string {
	name, _, _ := strings.Cut(digest, ":")
	if slices.Contains(algorithms, name) {
		return name
	}
	return ""
}

// kind is the algorithm of the digest, or noDigest.
func (o *Original) kind() string {
	if o.Digest == "" {
		return noDigest
	}
	return algorithmOf(o.Digest)
}

// links are those by which a revisit finds its original. By its second it does so
// only where the digests cannot be compared: of two captures in a second one can be
// of something else.
func (o *Original) links() (links []string) {
	if o.Digest != "" {
		links = append(links, linkOf("digest", o.URL, o.Digest))
	}
	if date, err := warc.ParseDate(o.Date, warc.V1_1); err == nil {
		for _, other := range algorithms {
			if other != o.kind() {
				links = append(links, linkOf("second "+other, o.URL, date.UTC().Format("20060102150405")))
			}
		}
	}
	if links == nil {
		links = append(links, linkOf("url", o.URL, ""))
	}
	return links
}

// linksTo are those by which revisits of such kinds find a capture with a digest, at
// a time of 14 digits or more.
func linksTo(url, digest, timestamp string, kinds map[string]bool) []string {
	links := []string{linkOf("digest", url, digest)}
	own := algorithmOf(digest)
	if len(kinds) > 1 || !kinds[own] { // some have no digest, or another one
		links = append(links, linkOf("second "+own, url, timestamp[:14]))
	}
	if kinds[noDigest] {
		links = append(links, linkOf("url", url, ""))
	}
	return links
}

// linksOfLine are those by which the capture of a line of an index is found. It is
// by none when it is a revisit itself, or answers another method than GET: replay
// programs do not find these by their URL.
func linksOfLine(line []byte, kinds map[string]bool) ([]string, error) {
	key, fields, ok := bytes.Cut(line, []byte(" {"))
	_, timestamp, _ := bytes.Cut(key, []byte(" "))
	var entry struct{ URL, MIME, Digest, Method string }
	if err := json.Unmarshal(append([]byte("{"), fields...), &entry); err != nil || !ok || len(timestamp) < 14 {
		return nil, fmt.Errorf("the index has a line that is none: %.100q", line)
	}
	if entry.MIME == "warc/revisit" || entry.Method != "" {
		return nil, nil
	}
	digest := entry.Digest
	if !strings.Contains(digest, ":") {
		digest = "sha1:" + digest
	}
	return linksTo(entry.URL, digest, string(timestamp), kinds), nil
}

// missing returns the originals that revisits need and that the index does not have,
// at most maxMissing, and how many revisits need these or others. Links are sorted
// outside of memory.
func (l *revisitList) missing(ctx context.Context, dir string, index *scratch) (missing []*Original, revisits int64, err error) {
	if l.n == 0 {
		return nil, 0, nil
	}
	resolved := make([]byte, (l.n+7)/8) // bits, by the number of the revisit
	links := make(chan string, 256)
	sorter, sorted, failed := extsort.Strings(links, &extsort.Config{ChunkSize: 1 << 16, NumWorkers: 1, SortedChanBuffSize: 256, TempFilesDir: dir})
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var sendErr error
	var sender sync.WaitGroup
	sender.Go(func() { // ends when all links are sent, or with sending
		defer close(links)
		sendErr = l.sendLinks(sending, index, links)
	})
	sorter.Sort(ctx)
	stop()
	sender.Wait()
	present := ""
	for line := range sorted {
		link, number, _ := strings.Cut(line, " ")
		if number == "" {
			present = link
		} else if n, err := strconv.ParseInt(number, 36, 64); err == nil && link == present {
			resolved[n/8] |= 1 << (n % 8)
		}
	}
	if err := <-failed; err != nil {
		return nil, 0, fmt.Errorf("sort what revisits refer to: %w", err)
	}
	if sendErr != nil {
		return nil, 0, sendErr
	}
	return l.unresolved(resolved)
}

// sendLinks sends a link for each capture in the index, and for each revisit with
// its number after it, so that it comes behind that of the capture.
func (l *revisitList) sendLinks(ctx context.Context, index *scratch, to chan<- string) error {
	send := func(link string) error {
		select {
		case to <- link:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	in, err := index.rewind()
	if err != nil {
		return err
	}
	lines := newLines(in)
	for lines.Scan() {
		links, err := linksOfLine(lines.Bytes(), l.kinds)
		if err != nil {
			return err
		}
		for _, link := range links {
			if err := send(link); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return l.each(func(n int64, o *Original) error {
		for _, link := range o.links() {
			if err := send(link + " " + strconv.FormatInt(n, 36)); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls do for each revisit.
func (l *revisitList) each(do func(n int64, o *Original) error) error {
	in, err := l.rewind()
	if err != nil {
		return err
	}
	d := json.NewDecoder(in)
	for n := int64(0); ; n++ {
		var o Original
		if err := d.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(n, &o); err != nil {
			return err
		}
	}
}

// unresolved brings the revisits together that miss the same original.
func (l *revisitList) unresolved(resolved []byte) (missing []*Original, revisits int64, err error) {
	known, octets := make(map[string]*Original), 0
	err = l.each(func(n int64, o *Original) error {
		if resolved[n/8]&(1<<(n%8)) != 0 {
			return nil
		}
		revisits++
		key := linkOf(o.Date, o.URL, o.ID+"\n"+o.Digest)
		first := known[key]
		if first == nil && len(known) < maxMissing && octets < maxMissingOctets {
			octets += len(o.URL) + len(o.Date) + len(o.ID) + len(o.Digest) + len(o.File) + len(o.Revisit)
			first = o
			known[key] = o
			missing = append(missing, o)
		}
		if first != nil {
			first.Revisits++
		}
		return nil
	})
	return missing, revisits, err
}

// String says which capture it is.
func (o *Original) String() string {
	s := o.URL
	if date, err := warc.ParseDate(o.Date, warc.V1_1); err == nil {
		s += " of " + date.UTC().Format(time.RFC3339Nano)
	}
	if o.ID != "" {
		s += ", record <" + o.ID + ">"
	}
	if o.File != "" {
		s += ", in " + o.File
	}
	return s
}
