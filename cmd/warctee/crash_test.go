package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// crashRoundsPerArchive bounds an archive: all of it is read in each round.
const crashRoundsPerArchive = 20

// TestCrashes kills the program at random moments, in the middle of mixed
// traffic or while it recovers from the last time, and starts it again on the
// same directory. How it knows what has to be there afterwards, without waiting:
//
//   - What is whole in the files when the process is dead stays there, once,
//     with the right content.
//   - What /status has counted as written before the kill is among it.
//   - An exchange holds its slot until it is written. So of those that clients
//     have got completely, no more may be missing than there are slots. (None
//     lasts so long that it would give its slot back before.)
//
// CRASH_ROUNDS and CRASH_SEED choose how often and when.
func TestCrashes(t *testing.T) {
	rounds, seed := crashNumber(t, "CRASH_ROUNDS", 8), crashNumber(t, "CRASH_SEED", uint64(time.Now().UnixNano()))
	t.Logf("CRASH_SEED=%d CRASH_ROUNDS=%d", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	for first := uint64(0); first < rounds; first += crashRoundsPerArchive {
		x := newCrashed(t, rng)
		for range min(rounds-first, crashRoundsPerArchive) {
			x.round()
		}
		x.finish()
	}
}

func crashNumber(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A crashed archive belongs to a program that is killed again and again.
type crashed struct {
	*testing.T
	rng     *rand.Rand
	dir     string
	origins [2]string // http and https
	next    atomic.Int64
	must    map[int]bool   // exchanges that are in the archive
	kills   map[string]int // how often, in the middle of what
}

func newCrashed(t *testing.T, rng *rand.Rand) *crashed {
	t.Helper()
	x := &crashed{T: t, rng: rng, dir: filepath.Join(t.TempDir(), "warcs"), must: make(map[int]bool), kills: make(map[string]int)}
	// Uploads that the kill cuts are no mistake.
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		loadOrigin(t)(w, r)
	})
	for i := range x.origins {
		s := httptest.NewUnstartedServer(origin)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the kill cuts
		t.Cleanup(s.Close)
		if i == 0 {
			s.Start()
		} else {
			s.StartTLS()
		}
		x.origins[i] = s.URL
	}
	return x
}

func (x *crashed) origin(c *loadCase) string {
	if c.https {
		return x.origins[1]
	}
	return x.origins[0]
}

// round starts the program, checks what it has recovered, and kills it.
func (x *crashed) round() {
	x.Helper()
	if x.rng.IntN(4) == 0 {
		x.killWhileStarting()
	}
	slots := []int{1, 4, 16}[x.rng.IntN(3)]
	compression := []string{"gzip", "zstd"}[x.rng.IntN(2)]
	p := startProgram(x, x.dir, "--max-size", "100kB", "--log-level", "error", "--max-in-flight", strconv.Itoa(slots), "--compress", compression)
	x.wantRecovered()
	first := int(x.next.Load())
	written, got := x.killInTraffic(p)

	x.must = x.captures()
	ours, missing := int64(0), 0
	for n := range x.must {
		if n >= first {
			ours++
		}
	}
	for _, n := range got {
		if !x.must[n] {
			missing++
		}
	}
	x.Logf("%d exchanges, %d complete at the clients, /status tells of %d, written are %d; %d slots", int(x.next.Load())-first, len(got), written, ours, slots)
	if ours < written {
		x.Errorf("/status told of %d captures before the kill, %d are in the files", written, ours)
	}
	if missing > slots {
		x.Errorf("%d exchanges are missing that clients have got, but there are only %d slots", missing, slots)
	}
	x.wantIndexNotAhead()
	if x.rng.IntN(2) == 0 {
		x.tear()
	}
	if x.Failed() {
		x.FailNow()
	}
}

// killWhileStarting kills a program that recovers, or is about to.
func (x *crashed) killWhileStarting() {
	x.Helper()
	cmd := x.startBlindly()
	// Recovery comes about 50 ms after the start; much more with the race
	// detector.
	time.AfterFunc(time.Duration(x.rng.Int64N(int64(150*time.Millisecond))), func() { cmd.Process.Kill() })
	cmd.Wait() // killed
	x.kills["starting"]++
}

// startBlindly starts the program and does not wait until it listens.
func (x *crashed) startBlindly() *exec.Cmd {
	x.Helper()
	cmd := programCommand(x, "record", "--listen", "127.0.0.1:0", "--dir", x.dir, "--ca-dir", filepath.Join(x.TempDir(), "ca"))
	if err := cmd.Start(); err != nil {
		x.Fatal(err)
	}
	return cmd
}

// killInTraffic kills p at a random moment in the middle of traffic. It returns
// how many captures /status told of just before, and which exchanges clients
// have got completely.
func (x *crashed) killInTraffic(p *program) (written int64, got []int) {
	x.Helper()
	clients := x.startTraffic(p)
	<-time.After(time.Duration(x.rng.Int64N(int64(time.Second)))) // the random moment
	s := p.status()
	clients.ending.Store(true)
	p.cmd.Process.Kill()
	<-p.exited
	x.kills["traffic"]++
	return s.Responses + s.Revisits, slices.Collect(maps.Keys(clients.wait()))
}

// Traffic comes from clients that go on until the program ends.
type traffic struct {
	ending  atomic.Bool // what fails from now on is no mistake
	clients sync.WaitGroup

	mu  sync.Mutex
	got map[int]time.Time // when an exchange was complete
}

// wait returns the exchanges that clients have got completely.
func (t *traffic) wait() map[int]time.Time {
	t.clients.Wait()
	return t.got
}

func (x *crashed) startTraffic(p *program) *traffic {
	x.Helper()
	t := &traffic{got: make(map[int]time.Time)}
	http2Client, closing := p.client(true), p.client(false)
	closing.Transport.(*http.Transport).DisableKeepAlives = true
	for range 8 {
		http1Client := p.client(false)
		t.clients.Go(func() { // ends with the process
			for {
				c := newLoadCase(int(x.next.Add(1) - 1))
				client := http1Client
				if c.http2 {
					client = http2Client
				}
				if c.aborted { // a client would ask again where the connection was cut
					client = closing
				}
				if err := c.perform(client, x.origin(&c)); err != nil {
					if !t.ending.Load() {
						x.Errorf("%+v: %v", c, err)
					}
					return
				}
				t.mu.Lock()
				t.got[c.n] = time.Now()
				t.mu.Unlock()
			}
		})
	}
	return t
}

// captures reads what a dead process has left: the exchanges that are whole. In
// files that have their final name all is.
func (x *crashed) captures() map[int]bool {
	x.Helper()
	found := make(map[int]bool)
	x.readFiles(func(file string, r *warc.Record, _ int64) {
		if kind := r.Type(); kind == warc.TypeResponse || kind == warc.TypeRevisit {
			n := x.number(r.TargetURI())
			if found[n] {
				x.Errorf("%s: exchange %d is in the archive twice", file, n)
			}
			found[n] = true
		}
	})
	return found
}

// readFiles calls f for each whole record, with its length in the file.
func (x *crashed) readFiles(f func(file string, r *warc.Record, length int64)) {
	x.Helper()
	for _, pattern := range []string{"*.warc.gz", "*.warc.zst", "*.open"} {
		names, err := filepath.Glob(filepath.Join(x.dir, pattern))
		if err != nil {
			x.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				x.Fatal(err)
			}
			if err := readWhole(b, func(r *warc.Record, length int64) { f(name, r, length) }); err != nil && !strings.HasSuffix(name, ".open") {
				x.Errorf("%s has its final name, and is damaged: %v", name, err)
			}
		}
	}
}

// readWhole calls f for each record that is whole, up to the first that is not.
func readWhole(b []byte, f func(r *warc.Record, length int64)) error {
	z := warc.NewReader(bytes.NewReader(b))
	z.Strict = true
	for {
		r, err := z.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, z)
		}
		if err != nil {
			return err
		}
		f(r, z.InputOffset()-r.Offset)
	}
}

func (x *crashed) number(uri string) int {
	x.Helper()
	_, text, _ := strings.Cut(uri, "/exchange/")
	n, err := strconv.Atoi(text)
	if c := newLoadCase(n); err != nil || uri != x.origin(&c)+c.path() {
		x.Errorf("%s is in the archive, nobody asked for it", uri)
	}
	return n
}

// wantRecovered checks an archive in which nothing is being written: it holds
// exactly the exchanges that it must.
func (x *crashed) wantRecovered() {
	x.Helper()
	if _, err := os.Stat(x.dir); errors.Is(err, os.ErrNotExist) {
		return
	}
	records := warctest.Check(x, x.dir)
	byID, byURI := make(map[string]*check.Record), make(map[string][]*check.Record)
	for i := range records {
		r := &records[i]
		byID[r.ID] = r
		byURI[r.TargetURI] = append(byURI[r.TargetURI], r)
	}
	blocks := readBlocks(x.T, records)
	for n := range x.must {
		c := newLoadCase(n)
		uri := x.origin(&c) + c.path()
		if got := byURI[uri]; len(got) != 2 || got[0].Type != warc.TypeRequest {
			x.Errorf("exchange %d has %d records", n, len(got))
		} else if err := c.checkRecords(got[0], got[1], byID, blocks); err != nil {
			x.Errorf("%+v: %v", c, err)
		}
		delete(byURI, uri)
	}
	for uri, r := range byURI {
		if r[0].Type != warc.TypeWarcinfo {
			x.Errorf("%s is in the archive, but was not before the start", uri)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(x.dir, ".spool-*")); len(left) > 0 {
		x.Errorf("left over: %q", left)
	}
	if x.Failed() {
		x.FailNow()
	}
}

// wantIndexNotAhead checks the index of a dead process: each entry names a
// whole response that is where it says. It returns the number of entries.
func (x *crashed) wantIndexNotAhead() int {
	x.Helper()
	b, err := os.ReadFile(filepath.Join(x.dir, "dedup.bolt"))
	if err != nil {
		x.Fatal(err)
	}
	// A copy: the next start has to cope with what is there.
	name := filepath.Join(x.TempDir(), "dedup.bolt")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		x.Fatal(err)
	}
	entries := readIndex(x.T, name)
	type place struct {
		file           string
		offset, length int64
	}
	found := make(map[place]dedup.Entry)
	x.readFiles(func(file string, r *warc.Record, length int64) {
		if h := r.Header; r.Type() == warc.TypeResponse {
			e := dedup.Entry{Digest: h.Get("WARC-Payload-Digest")}
			e.Capture = dedup.Capture{RecordID: r.ID(), TargetURI: h.Get("WARC-Target-URI"), Date: h.Get("WARC-Date"),
				File: strings.TrimSuffix(filepath.Base(file), ".open"), Offset: r.Offset, Length: length}
			found[place{e.Capture.File, r.Offset, length}] = e
		}
	})
	for _, e := range entries {
		if got := found[place{e.Capture.File, e.Capture.Offset, e.Capture.Length}]; got != e {
			x.Errorf("the index names\n%+v\nin the archive there is\n%+v", e, got)
		}
	}
	return len(entries)
}

// readIndex returns all entries of an index.
func readIndex(t *testing.T, name string) (entries []dedup.Entry) {
	t.Helper()
	db, err := bolt.Open(name, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(digest, _ []byte) error {
				digests = append(digests, string(digest))
				return nil
			})
		})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	index, err := dedup.OpenBolt(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for _, digest := range digests {
		c, ok, err := index.Lookup(digest)
		if err != nil || !ok {
			t.Errorf("the index has %s, and does not find it: %v", digest, err)
		}
		entries = append(entries, dedup.Entry{Digest: digest, Capture: c})
	}
	return entries
}

// tear does what a kill in the middle of a write does, which seldom happens: it
// leaves a part of an exchange behind the last whole one.
func (x *crashed) tear() {
	x.Helper()
	names, err := filepath.Glob(filepath.Join(x.dir, "*.open"))
	if err != nil {
		x.Fatal(err)
	}
	if len(names) == 0 {
		return // killed between two files
	}
	torn := tornExchange(x.T, x.rng)
	f, err := os.OpenFile(names[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		x.Fatal(err)
	}
	_, err = f.Write(torn)
	if err := errors.Join(err, f.Close()); err != nil {
		x.Fatal(err)
	}
	x.kills["torn"]++
}

// tornExchange is the start of an exchange's records.
func tornExchange(t *testing.T, rng *rand.Rand) []byte {
	t.Helper()
	var b bytes.Buffer
	w := warc.NewWriter(&b, warc.WriterOptions{})
	ids := []string{warc.NewRecordID(), warc.NewRecordID()}
	for i, kind := range []string{warc.TypeRequest, warc.TypeResponse} {
		block := "GET /torn HTTP/1.1\r\nHost: example.org\r\n\r\n"
		if kind == warc.TypeResponse {
			block = "HTTP/1.1 200 OK\r\n\r\n" + string(loadBytes("torn", 5000))
		}
		h := warc.Header{{Name: "WARC-Type", Value: kind}, {Name: "WARC-Record-ID", Value: ids[i]}, {Name: "WARC-Concurrent-To", Value: ids[1-i]}}
		h.Add("WARC-Date", warc.FormatDate(time.Now(), warc.V1_1))
		h.Add("WARC-Target-URI", "http://example.org/torn")
		h.Add("Content-Type", "application/http; msgtype="+kind)
		if err := w.WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()[:1+rng.IntN(b.Len()-1)]
}

// finish ends the last program as a person does. It returns how many revisits
// there are.
func (x *crashed) finish() (revisits int) {
	x.Helper()
	p := startProgram(x, x.dir)
	x.wantRecovered()
	c := newLoadCase(int(x.next.Add(1) - 1))
	for c.aborted {
		c = newLoadCase(int(x.next.Add(1) - 1))
	}
	if err := c.perform(p.client(c.http2), x.origin(&c)); err != nil {
		x.Error(err)
	}
	x.must[c.n] = true
	p.stop()
	x.wantRecovered()
	entries := x.wantIndexNotAhead()
	x.readFiles(func(_ string, r *warc.Record, _ int64) {
		if r.Type() == warc.TypeRevisit {
			revisits++
		}
	})
	files, _ := filepath.Glob(filepath.Join(x.dir, "*.warc.*"))
	x.Logf("%d exchanges in %d files, %d revisits, %d entries in the index; kills: %v", len(x.must), len(files), revisits, entries, x.kills)
	if entries == 0 || revisits == 0 {
		x.Error("nothing of the index has been tested")
	}
	return revisits
}
