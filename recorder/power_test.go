package recorder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// powerBody is what the origin answers: what follows /same/ tells the payload,
// up to the next slash, else all of the path.
func powerBody(path string) string {
	if _, rest, ok := strings.Cut(path, "/same/"); ok {
		path, _, _ = strings.Cut(rest, "/")
	}
	seed := sha256.Sum256([]byte(path))
	b := make([]byte, int(seed[0])<<uint(seed[1]%6))
	if strings.Contains(path, "big") {
		b = make([]byte, 10_000+len(b)) // for several files
	}
	rand.NewChaCha8(seed).Read(b)
	return "this is " + path + string(b)
}

func powerOrigin(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/broken/") {
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, powerBody(r.URL.Path))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, powerBody(r.URL.Path))
}

// A powered archive lives through the failures of its power.
type powered struct {
	*testing.T
	disk    *powerDisk
	options Options
	lives   int
	asked   map[string]bool // paths
	must    map[string]bool // paths that are in the archive for certain

	acknowledged, revisits, old, tails, divided int // for powerCounts
}

func newPowered(t *testing.T, rng *rand.Rand, o Options) *powered {
	p := &powered{T: t, disk: newPowerDisk(t, rng), options: o, asked: make(map[string]bool), must: make(map[string]bool)}
	p.options.Dir, p.options.fs, p.options.OpenIndex = p.disk.dir, p.disk, opened(powerIndex{p.disk})
	return p
}

// A life is the time between two failures of the power.
type life struct {
	*powered
	r    *Recorder
	mu   sync.Mutex
	done map[string]time.Time // when the client had it all
}

// live starts the recorder, lets script use it until the power fails at call
// cutAt, or the script ends, and starts the machine again. The clock begins at
// the same time in every life, as where there is no battery.
func (p *powered) live(cutAt int, script func(l *life)) {
	p.Helper()
	p.disk.cutAt = cutAt
	p.lives++
	outer := p.T
	defer func() { p.T, p.disk.t = outer, outer }()
	synctest.Test(outer, func(t *testing.T) {
		p.T, p.disk.t = t, t
		l := &life{powered: p, done: make(map[string]time.Time)}
		o := p.options
		o.Dial, o.Logger = originHandler(t, powerOrigin), testLogger(t)
		var err error
		if l.r, err = Open(o); err != nil {
			if p.disk.off.IsZero() {
				p.Fatal(err)
			}
			return // the power failed while it recovered
		}
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() { cancel(); l.r.Close(ctx) }) // of a test that has given up
		if p.disk.off.IsZero() {
			p.wantRecovered()
		}
		script(l)
		p.disk.endOfFaults() // what Close tells after an error is another matter
		if !p.disk.off.IsZero() {
			cancel()
		}
		err = l.r.Close(ctx)
		l.settle(err == nil)
	})
	p.disk.reboot()
}

// settle notes what has to survive: what had the time to become durable before
// the power failed; all, when the recorder was closed without an error.
func (l *life) settle(closed bool) {
	l.Helper()
	d, s := l.disk, l.r.Status()
	if d.off.IsZero() && (!closed || s.Lost > 0) {
		l.Errorf("the power did not fail, but: status %+v, closed %v", s, closed)
	}
	for path, done := range l.done {
		if d.off.IsZero() || l.durableAt(done).Before(d.off) {
			l.must[path] = true
			l.acknowledged++
		}
	}
}

// durableAt is when an exchange has to be durable at the latest: SyncInterval
// after the client had it, or, if the disk failed meanwhile, after the recorder
// had tried again.
func (l *life) durableAt(done time.Time) time.Time {
	at := done.Add(l.r.options.SyncInterval)
	for _, failed := range l.disk.failed {
		if !failed.Before(done) && !failed.After(at) {
			at = failed.Add(retryEvery + l.r.options.SyncInterval)
		}
	}
	return at
}

// get asks for paths, all at once.
func (l *life) get(paths ...string) {
	var all sync.WaitGroup
	for _, path := range paths {
		path = fmt.Sprintf("/%d%s", l.lives, path)
		l.asked[path] = true
		all.Go(func() { // ends with the exchange
			body, err := fetch(l.r, "GET", "http://origin"+path, "")
			if err != nil {
				return // broken off, or the power failed
			}
			if body != powerBody(path) {
				l.Errorf("%s: the client gets something else", path)
			}
			l.mu.Lock()
			l.done[path] = time.Now()
			l.mu.Unlock()
		})
	}
	all.Wait()
	synctest.Wait()
}

// wantRecovered checks the archive before anything new is written.
func (p *powered) wantRecovered() {
	p.Helper()
	records := p.records()
	p.tails = len(names(p.T, p.disk.dir, "*.tail*"))
	if left := names(p.T, p.disk.dir, ".spool-*"); len(left) > 0 {
		p.Errorf("left over: %v", left)
	}
	captures, file := make(map[string]int), make(map[string]string)
	p.revisits, p.old = 0, 0
	for _, r := range records {
		file[r.ID] = r.File
		if r.Type != "response" && r.Type != "revisit" {
			continue
		}
		path := strings.TrimPrefix(r.TargetURI, "http://origin")
		captures[path]++
		want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(powerBody(path))))
		if got := r.Header.Get("WARC-Payload-Digest"); !p.asked[path] || got != want {
			p.Errorf("%s, which nobody asked for or has got so: %s", r.TargetURI, got)
		}
		if r.Type == "revisit" {
			p.revisits++
			if file[r.Header.Get("WARC-Refers-To")] != r.File {
				p.old++
			}
		}
	}
	for path := range p.must {
		if captures[path] == 0 {
			p.Errorf("%s was acknowledged and is lost", path)
		}
	}
	for path, n := range captures {
		if n != 1 {
			p.Errorf("%s is in the archive %d times", path, n)
		}
		p.must[path] = true // recovery has made it durable
	}
	if p.Failed() {
		p.FailNow()
	}
}

// records checks the archive and returns its records; what is in segments is one.
func (p *powered) records() []check.Record {
	p.Helper()
	if p.options.Oversize == OversizeWhole {
		return warctest.Check(p.T, p.disk.dir)
	}
	var list []check.Record
	p.divided = 0
	for _, r := range logicalRecords(p.T, p.disk.dir, p.options.MaxSize) {
		list = append(list, check.Record{File: r.file, Type: r.kind, ID: r.id, TargetURI: r.header.Get("WARC-Target-URI"), Header: r.header})
		if r.segments > 1 {
			p.divided++
		}
	}
	if left := names(p.T, p.disk.dir, "*.part"); len(left) > 0 {
		p.Errorf("left over: %v", left)
	}
	return list
}

// powerScript has every kind of step that touches the disk.
func powerScript(l *life) {
	l.get("/1", "/same/a/1", "/same/a/2")
	time.Sleep(time.Second) // a sync
	l.get("/same/a/3")
	l.get("/broken/1", "/same/b/1") // the file is full now
	l.get("/same/b/2", "/same/a/4")
	l.r.Rotate()
	l.get("/same/b/3", "/2")
	time.Sleep(time.Second)
	l.get("/same/c/1", "/same/c/2")
}

// bigScript has segments too, alone and beside what is small.
func bigScript(l *life) {
	l.get("/0", "/same/a/0")
	l.get("/big/1")
	l.get("/same/big/1", "/3", "/same/big/2", "/same/a/5")
	time.Sleep(time.Second)
	l.get("/same/big/3", "/big/3", "/same/a/6")
	l.r.Rotate()
	l.get("/same/a/7", "/big/4")
}

// Wherever the power fails, what was acknowledged is there, what refers to
// something refers to what is there, also after the machine has gone on with
// the same index, and files are whole. The same when an error came before.
func TestPowerFailsAtAnyCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		compression warc.Compression
		fault       outage
		max         int64 // of a file, with segments; 0: 12,000, without
	}{
		{"gzip", warc.Gzip, outage{}, 0},
		{"zstd", warc.Zstd, outage{}, 0},
		{"plain", warc.Plain, outage{}, 0},
		{"plain, behind a sync that failed", warc.Plain, outage{"sync", 1, 1}, 0},
		{"gzip, behind a write that failed", warc.Gzip, outage{"write", 5, 1}, 0},
		{"gzip, with segments", warc.Gzip, outage{}, 5000},
		{"plain, with segments, behind a sync that failed", warc.Plain, outage{"sync", 3, 1}, 6000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var total powerCounts
			for cutAt, reached := 1, true; reached; cutAt++ {
				p := newPowered(t, rand.New(rand.NewPCG(1, uint64(cutAt))), Options{Compression: test.compression, MaxSize: 12_000})
				script := powerScript
				if test.max > 0 {
					p.options.MaxSize, p.options.Oversize, script = test.max, OversizeSegment, bigScript
				}
				p.live(cutAt, func(l *life) {
					l.disk.setOutage(test.fault)
					script(l)
					reached = !l.disk.off.IsZero()
				})
				p.live(0, script)
				p.wantRecovered()
				if t.Failed() {
					t.Fatalf("call %d", cutAt)
				}
				total.add(p)
			}
			total.want(t)
			if test.max > 0 && total.divided == 0 {
				t.Error("there are no segments")
			}
		})
	}
}

// wander does the same in any order, on a disk that fails now and then.
func (l *life) wander(rng *rand.Rand, steps int) {
	for i := range steps {
		var paths []string
		for n := range 1 + rng.IntN(4) {
			paths = append(paths, fmt.Sprintf("/%d-%d", i, n))
			if rng.IntN(2) == 0 {
				paths[n] = fmt.Sprintf("/same/%d/%d-%d", rng.IntN(12), i, n)
			}
			if l.options.Oversize == OversizeSegment && rng.IntN(6) == 0 {
				paths[n] = []string{"/big", "/same/big"}[rng.IntN(2)] + paths[n]
			}
		}
		switch rng.IntN(12) {
		case 0:
			paths[0] = fmt.Sprintf("/broken/%d", i)
		case 1:
			l.r.Rotate()
		case 2:
			kind := []string{"open", "write", "sync", "rename", "syncdir", "commit"}[rng.IntN(6)]
			l.disk.setOutage(outage{kind, rng.IntN(4), []int{1, 1, 2, 5, 1000}[rng.IntN(5)]})
		case 3:
			l.disk.setOutage(outage{}) // it is over
			time.Sleep(3 * time.Second)
		case 4, 5, 6:
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		}
		l.get(paths...)
	}
}

// The same at random moments, again and again on the same archive, also while
// it recovers. POWER_ARCHIVES says of how many; the default takes some seconds.
func TestPowerFailsAgainAndAgain(t *testing.T) {
	t.Parallel()
	archives, err := strconv.ParseUint(cmp.Or(os.Getenv("POWER_ARCHIVES"), "8"), 10, 64)
	if err != nil {
		t.Fatalf("POWER_ARCHIVES: %v", err)
	}
	var total powerCounts
	for seed := range archives {
		rng := rand.New(rand.NewPCG(2, seed))
		p := newPowered(t, rand.New(rand.NewPCG(3, seed)), Options{Compression: warc.Compression(rng.IntN(3)), MaxSize: 5000 + rng.Int64N(40_000), SyncBytes: 1000 + rng.Int64N(30_000)})
		if seed%2 == 1 {
			p.options.MaxSize, p.options.Oversize = 5000+rng.Int64N(4000), OversizeSegment
		}
		for range 6 {
			if rng.IntN(4) == 0 {
				p.live(1+rng.IntN(12), func(*life) {})
			}
			p.live(10+rng.IntN(150), func(l *life) { l.wander(rng, 5+rng.IntN(20)) })
		}
		p.live(0, powerScript)
		p.wantRecovered()
		if t.Failed() {
			t.Fatalf("archive %d", seed)
		}
		total.add(p)
	}
	total.want(t)
}

// powerCounts tell that what should be tested was.
type powerCounts struct{ cuts, acknowledged, revisits, old, torn, tails, divided int }

func (c *powerCounts) add(p *powered) {
	c.cuts += p.disk.cuts
	c.acknowledged += p.acknowledged
	c.revisits += p.revisits
	c.old += p.old
	c.torn += p.disk.torn
	c.tails += p.tails
	c.divided += p.divided
}

func (c *powerCounts) want(t *testing.T) {
	t.Helper()
	t.Logf("the power failed %d times; %d exchanges were acknowledged, 0 lost; %d revisits, %d of them of another file, 0 dangling; of %d files a part survived, %d ends were cut off; %d records are in segments, 0 incomplete",
		c.cuts, c.acknowledged, c.revisits, c.old, c.torn, c.tails, c.divided)
	if min(c.cuts, c.acknowledged, c.revisits, c.old, c.torn) == 0 {
		t.Error("something that should be tested was not")
	}
}
