package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// A loadCase is one of many exchanges. All about it follows from its number,
// which is in its URL and, unless it is a repeat, in its payload.
type loadCase struct {
	n       int
	method  string
	https   bool
	http2   bool   // towards the proxy
	framing string // length, chunked, close; of the response
	gzip    bool   // content-coding
	aborted bool   // by the origin, in the middle of the body
	repeat  bool   // the payload is one of a few
	size    int    // octets, before content-coding
	chunked bool   // the request body
}

func newLoadCase(n int) loadCase {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	c := loadCase{
		n:       n,
		method:  []string{"GET", "GET", "GET", "POST", "HEAD"}[rng.IntN(5)],
		https:   rng.IntN(2) == 0,
		http2:   rng.IntN(2) == 0,
		framing: []string{"length", "chunked", "close"}[rng.IntN(3)],
		gzip:    rng.IntN(4) == 0,
		aborted: rng.IntN(20) == 0,
		repeat:  rng.IntN(4) == 0,
		chunked: rng.IntN(2) == 0,
	}
	switch rng.IntN(50) {
	case 0:
		c.size = rng.IntN(1<<20 + 1)
	case 1, 2, 3:
		c.size = rng.IntN(1 << 16)
	case 4, 5:
		c.size = 0
	default:
		c.size = rng.IntN(1 << 12)
	}
	if c.repeat {
		c.size = 1000 + n%3*1000
	}
	if c.aborted {
		c.method, c.framing, c.size = "GET", []string{"length", "chunked"}[n%2], max(c.size, 5000)
	}
	return c
}

func (c *loadCase) path() string { return fmt.Sprintf("/exchange/%d", c.n) }

// entity is the payload of the response: what the origin makes, and what has to
// be found in the archive.
func (c *loadCase) entity() []byte {
	if c.size == 0 {
		return nil
	}
	who := c.n
	if c.repeat {
		who = -c.size
	}
	b := loadBytes(fmt.Sprintf("response %d ", who), c.size)
	if c.gzip {
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, gzip.HuffmanOnly) // a level that there is
		w.Write(b)
		w.Close()
		b = z.Bytes()
	}
	return b
}

// loadNoise compresses a little.
var loadNoise = sync.OnceValue(func() []byte {
	noise := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for at := 0; at < len(noise); at += 128 {
		copy(noise[at:], "half of this does not look like noise, so it gets much shorter")
	}
	return noise
})

// loadBytes are size octets that begin with the label, where there is room, and
// go on in a way that depends on it.
func loadBytes(label string, size int) []byte {
	sum := sha256.Sum256([]byte(label))
	at := int(binary.BigEndian.Uint32(sum[:])) % (1 << 20)
	b := make([]byte, size)
	n := copy(b, label)
	copy(b[n:], loadNoise()[at:])
	return b
}

// upload is the body of the request.
func (c *loadCase) upload() []byte {
	if c.method != "POST" {
		return nil
	}
	return loadBytes(fmt.Sprintf("request %d ", c.n), 10+c.n*977%20000)
}

// loadOrigin answers the cases.
func loadOrigin(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/exchange/"))
		if err != nil {
			t.Errorf("the origin is asked for %s", r.URL)
			return
		}
		c := newLoadCase(n)
		got, err := io.ReadAll(r.Body)
		if err != nil || r.Method != c.method || !bytes.Equal(got, c.upload()) {
			t.Errorf("%d: the origin gets a %s with %d octets, %v", n, r.Method, len(got), err)
		}
		entity := c.entity()
		w.Header().Set("X-Exchange", strconv.Itoa(n))
		if c.gzip {
			w.Header().Set("Content-Encoding", "gzip")
		}
		if c.framing == "close" && c.method != "HEAD" {
			answerUntilClose(t, w, entity)
			return
		}
		if c.framing == "length" {
			w.Header().Set("Content-Length", strconv.Itoa(len(entity)))
		}
		if c.framing == "chunked" {
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush()
		}
		if c.aborted {
			w.Write(entity[:len(entity)/2])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Write(entity)
	}
}

func answerUntilClose(t *testing.T, w http.ResponseWriter, entity []byte) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	w.Header().Write(c)
	io.WriteString(c, "\r\n")
	c.Write(entity)
}

// perform does the exchange and checks what the client gets.
func (c *loadCase) perform(client *http.Client, origin string) error {
	var body io.Reader
	if c.method == "POST" {
		body = bytes.NewReader(c.upload())
		if c.chunked {
			body = io.MultiReader(body) // of unknown length
		}
	}
	req, err := http.NewRequest(c.method, origin+c.path(), body)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Exchange"); resp.StatusCode != http.StatusOK || got != strconv.Itoa(c.n) {
		return fmt.Errorf("the response is %s, of exchange %q", resp.Status, got)
	}
	got, err := io.ReadAll(resp.Body)
	want := c.entity()
	switch {
	case c.method == "HEAD":
		want = nil
	case c.aborted && err == nil:
		return fmt.Errorf("the client takes %d of %d octets for the whole", len(got), len(want))
	case c.aborted && bytes.HasPrefix(want, got):
		return nil
	}
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("the client gets %d octets, %v; want %d", len(got), err, len(want))
	}
	return nil
}

// Two thousand exchanges of all kinds, many at a time: none is lost, none is
// mixed up with another.
func TestManyExchanges(t *testing.T) {
	const exchanges, atOnce = 2000, 48
	plain := httptest.NewServer(loadOrigin(t))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(loadOrigin(t))
	defer encrypted.Close()
	p := startProgram(t, filepath.Join(t.TempDir(), "warcs"), "--max-size", "10MB", "--log-level", "error")
	http1Client, http2Client, closing := p.client(false), p.client(true), p.client(false)
	// A client would ask again where the connection was cut.
	closing.Transport.(*http.Transport).DisableKeepAlives = true

	origins := make(map[int]string)
	queue := make(chan loadCase)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() { // ends with the queue
			for c := range queue {
				client, origin := http1Client, plain.URL
				if c.https {
					origin = encrypted.URL
				}
				if c.http2 {
					client = http2Client
				}
				if c.aborted {
					client = closing
				}
				if err := c.perform(client, origin); err != nil {
					t.Errorf("%+v: %v", c, err)
				}
			}
		})
	}
	for n := range exchanges {
		c := newLoadCase(n)
		origins[n] = plain.URL
		if c.https {
			origins[n] = encrypted.URL
		}
		queue <- c
	}
	close(queue)
	workers.Wait()
	p.stop()
	checkLoad(t, warctest.Check(t, p.dir), origins)
}

// checkLoad compares the archive with what the origins made.
func checkLoad(t *testing.T, records []check.Record, origins map[int]string) {
	byURI := make(map[string][]*check.Record)
	byID := make(map[string]*check.Record)
	blocks := readBlocks(t, records)
	revisits := 0
	for i := range records {
		r := &records[i]
		byID[r.ID] = r
		if r.Type != warc.TypeWarcinfo {
			byURI[r.TargetURI] = append(byURI[r.TargetURI], r)
		}
		if r.Type == warc.TypeRevisit {
			revisits++
		}
	}
	if revisits < 100 {
		t.Errorf("there are only %d revisits", revisits)
	}
	for n, origin := range origins {
		c := newLoadCase(n)
		if got := byURI[origin+c.path()]; len(got) != 2 || got[0].Type != warc.TypeRequest {
			t.Errorf("%d has %d records", n, len(got))
		} else if err := c.checkRecords(got[0], got[1], byID, blocks); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		delete(byURI, origin+c.path())
	}
	for uri := range byURI {
		t.Errorf("%s is in the archive, nobody asked for it", uri)
	}
}

// readBlocks reads the blocks of all records, by id.
func readBlocks(t *testing.T, records []check.Record) map[string][]byte {
	t.Helper()
	blocks := make(map[string][]byte)
	files := make(map[string]bool)
	for _, r := range records {
		files[r.File] = true
	}
	for name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z := warc.NewReader(f)
		for {
			r, err := z.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			block, id := make([]byte, r.Length), r.ID()
			if _, err := io.ReadFull(z, block); err != nil {
				t.Fatal(err)
			}
			blocks[id] = block
		}
	}
	return blocks
}

func (c *loadCase) checkRecords(request, answer *check.Record, byID map[string]*check.Record, blocks map[string][]byte) error {
	_, payload, err := splitMessage(blocks[request.ID], c.method, true)
	if err != nil || request.Method != c.method || !bytes.Equal(payload, c.upload()) {
		return fmt.Errorf("the request in the archive is a %s with a payload of %d octets, %v", request.Method, len(payload), err)
	}
	head, payload, err := splitMessage(blocks[answer.ID], c.method, false)
	if err != nil {
		return err
	}
	if got, _ := head.Get("X-Exchange"); got != strconv.Itoa(c.n) {
		return fmt.Errorf("the response in the archive is that of %s", got)
	}
	want := c.entity()
	switch {
	case c.method == "HEAD":
		want = nil
	case c.aborted:
		want = want[:len(want)/2]
	case answer.Type == warc.TypeRevisit:
		original := byID[answer.Header.Get("WARC-Refers-To")]
		if original == nil || original.Type != warc.TypeResponse || len(payload) != 0 {
			return fmt.Errorf("the revisit refers to %+v and has %d octets itself", original, len(payload))
		}
		if _, payload, err = splitMessage(blocks[original.ID], "GET", false); err != nil {
			return err
		}
	}
	if got := answer.Header.Get("WARC-Truncated"); c.aborted != (got == "disconnect") {
		return fmt.Errorf("WARC-Truncated is %q", got)
	}
	if !bytes.Equal(payload, want) {
		return fmt.Errorf("the payload in the archive has %d octets, that of the origin %d", len(payload), len(want))
	}
	return nil
}

// splitMessage takes the transfer-coding off the body of a message, as far as
// there is a body.
func splitMessage(block []byte, method string, request bool) (head *http1.Head, payload []byte, err error) {
	n := http1.HeadLen(block, 0)
	if n == 0 {
		return nil, nil, fmt.Errorf("there is no head in %.80q", block)
	}
	var framing http1.Framing
	if request {
		m, err := http1.ParseRequest(block[:n])
		if err != nil {
			return nil, nil, err
		}
		head, framing = &m.Head, m.Framing
	} else {
		m, err := http1.ParseResponse(block[:n], method)
		if err != nil {
			return nil, nil, err
		}
		head, framing = &m.Head, m.Framing
	}
	rest, body := block[n:], http1.NewBody(framing, false)
	for len(rest) > 0 && !body.Done() {
		used, data, err := body.Next(rest)
		if err != nil {
			return nil, nil, err
		}
		rest, payload = rest[used:], append(payload, data...)
	}
	if len(rest) > 0 {
		return nil, nil, fmt.Errorf("there are %d octets behind the body", len(rest))
	}
	return head, payload, nil
}
