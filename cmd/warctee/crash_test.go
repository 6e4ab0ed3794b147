package main

import (
	"bytes"
	"errors"
	"io"
	"log"
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

	"github.com/warctee/warctee/warc"
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
// In every other round what does not fit a file is divided, and a client asks for
// nothing else, so that many kills hit a chain of files.
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
	rounds  int
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
	flags := []string{"--max-size", "100kB", "--log-level", "error", "--max-in-flight", strconv.Itoa(slots), "--compress", compression}
	divided := x.rounds%2 == 0
	if x.rounds++; divided {
		flags = append(flags, "--max-size", "128KiB", "--oversize", "segment")
	}
	p := startProgram(x, x.dir, flags...)
	x.wantRecovered()
	first := int(x.next.Load())
	written, got := x.killInTraffic(p, divided)
	if parts, _ := filepath.Glob(filepath.Join(x.dir, "*.part")); len(parts) > 0 {
		x.kills["chain"]++
	}

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
func (x *crashed) killInTraffic(p *program, large bool) (written int64, got []int) {
	x.Helper()
	clients := x.startTraffic(p, large)
	<-time.After(time.Duration(x.rng.Int64N(int64(time.Second)))) // the random moment
	s := p.status()
	if large {
		x.awaitChain()
	}
	clients.ending.Store(true)
	p.cmd.Process.Kill()
	<-p.exited
	x.kills["traffic"]++
	return s.Responses + s.Revisits, slices.Collect(maps.Keys(clients.wait()))
}

// awaitChain waits until a chain of files is most likely being written, or
// committed. There is one sooner or later: a client asks for nothing else.
func (x *crashed) awaitChain() {
	for start := time.Now(); time.Since(start) < programPatience && !x.Failed(); {
		if parts, _ := filepath.Glob(filepath.Join(x.dir, "*.part")); len(parts) > 0 {
			break
		}
		<-time.After(100 * time.Microsecond)
	}
	<-time.After(time.Duration(x.rng.Int64N(int64(10 * time.Millisecond))))
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

// startTraffic starts clients, of which the first one asks only for what is large
// if that is wanted.
func (x *crashed) startTraffic(p *program, large bool) *traffic {
	x.Helper()
	t := &traffic{got: make(map[int]time.Time)}
	http2Client, closing := p.client(true), p.client(false)
	closing.Transport.(*http.Transport).DisableKeepAlives = true
	for i := range 8 {
		http1Client := p.client(false)
		t.clients.Go(func() { // ends with the process
			for {
				c := newLoadCase(int(x.next.Add(1) - 1))
				for large && i == 0 && c.size < 300<<10 {
					c = newLoadCase(int(x.next.Add(1) - 1))
				}
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
	segments := 0
	x.readFiles(func(_ string, r *warc.Record, _ int64) {
		switch r.Type() {
		case warc.TypeRevisit:
			revisits++
		case warc.TypeContinuation:
			segments++
		}
	})
	files, _ := filepath.Glob(filepath.Join(x.dir, "*.warc.*"))
	x.Logf("%d exchanges in %d files, %d revisits, %d continuation records, %d entries in the index; kills: %v", len(x.must), len(files), revisits, segments, entries, x.kills)
	if entries == 0 || revisits == 0 {
		x.Error("nothing of the index has been tested")
	}
	if x.rounds > 2 && segments == 0 && x.kills["chain"] == 0 {
		x.Error("no record was divided")
	}
	return revisits
}
