//go:build unix

package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warctee/warctee/certs"
)

// A bench has what all runs share.
type bench struct {
	tmp     string
	profile string // to be written by warctee, or ""
	caDir   string // of the one authority that all use
	roots   *x509.CertPool
	warctee string // the program
	mixes   map[string]*mix
	origin  *origin
	visits  atomic.Int64 // so far
}

// newBench builds warctee and starts the origin.
func newBench(s *selection) (b *bench, err error) {
	b = &bench{mixes: s.newMixes(), roots: x509.NewCertPool(), profile: s.profile}
	if b.tmp, err = os.MkdirTemp(s.dir, "warctee-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(b.tmp)
		}
	}()
	b.caDir, b.warctee = filepath.Join(b.tmp, "ca"), filepath.Join(b.tmp, "warctee")
	authority, err := certs.Open(b.caDir)
	if err != nil {
		return nil, err
	}
	b.roots.AddCert(authority.Certificate())
	leaf, err := authority.Leaf("127.0.0.1")
	if err != nil {
		return nil, err
	}
	here, err := moduleDir(".")
	if err != nil {
		return nil, err
	}
	if err := build(here, here, b.warctee); err != nil {
		return nil, err
	}
	if s.before != "" {
		there, err := moduleDir(s.before)
		if err != nil {
			return nil, err
		}
		if err := build(there, here, b.before()); err != nil {
			return nil, err
		}
	}
	b.origin, err = startOrigin(b.mixes, leaf)
	return b, err
}

// moduleDir returns the directory of the module that dir belongs to.
func moduleDir(dir string) (string, error) {
	out, err := exec.Command("go", "-C", dir, "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("%s is not in the source of warctee: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build makes the program out of a module, with our probe in it.
func build(module, ours, program string) error {
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(module, "cmd", "warctee", "probe.go"): filepath.Join(ours, "bench", "probe.go"),
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+".overlay", overlay, 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "-C", module, "build", "-overlay", program+".overlay", "-o", program, "./cmd/warctee")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build in %s: %w", module, err)
	}
	return nil
}

func (b *bench) close() {
	b.origin.close()
	os.RemoveAll(b.tmp)
}

// archive is the directory into which a subject records. It lasts as long as a
// run.
func (b *bench) archive(s subject) string { return filepath.Join(b.tmp, "warcs-"+s.name) }

// visit returns the first of n visits.
func (b *bench) visit(m *mix, n int) int64 {
	if m.same {
		return 0
	}
	return b.visits.Add(int64(n)) - int64(n)
}

// before is the program of another version.
func (b *bench) before() string { return b.warctee + "-before" }

// A traffic is what the clients have got.
type traffic struct {
	responses int
	revisits  int   // of those: what was got before
	octets    int64 // of content
}

func (t *traffic) add(other traffic) {
	t.responses += other.responses
	t.revisits += other.revisits
	t.octets += other.octets
}

// A load is what a run asks for.
type load struct {
	mix     *mix
	scheme  string
	clients int
}

func (l load) String() string {
	s := "s"
	if l.clients == 1 {
		s = ""
	}
	return fmt.Sprintf("%s, %s, %d client%s", l.mix.name, l.scheme, l.clients, s)
}

// A result is what one run of a subject took. Times are in seconds, from the
// first request to …
type result struct {
	requests  int
	octets    int64
	delivered float64 // … the last octet that a client got
	written   float64 // … when all is in the archive's files, maybe not on the disk itself
	durable   float64 // … the end of the process, when all is
	p50, p99  float64 // of the exchanges, in ms
	cpu       float64 // of the proxy, in seconds; directly, of clients and origin
	rss       float64 // of the proxy, at its highest, in MB
	allocated float64 // by the proxy, in octets
}

func (r result) perSecond() float64 { return float64(r.requests) / r.durable }

// measure lets a load go through a subject.
func (b *bench) measure(s subject, l load) (r result, err error) {
	dir := b.archive(s)
	defer os.RemoveAll(dir)
	var p *process
	if s.start != nil {
		if p, err = s.start(b, dir); err != nil {
			return r, err
		}
		defer p.kill()
	}
	r, all, err := b.run(p, s.records, l, traffic{})
	if err != nil || !s.records {
		return r, err
	}
	return r, checkArchive(dir, all)
}

// run measures a load on a proxy (nil: directly), which it ends. The proxy has
// seen some traffic before, and all of it in the end.
func (b *bench) run(p *process, records bool, l load, seen traffic) (r result, all traffic, err error) {
	all = seen
	if l.mix.same {
		t, err := b.warmUp(p, records, l)
		if err != nil {
			return r, all, err
		}
		all.add(t)
	}
	clients, err := b.connect(p, l, l.clients)
	defer closeAll(clients)
	if err != nil {
		return r, all, err
	}
	cpu, allocated := ownCPU(), 0.0
	if p != nil {
		cpu = p.cpu()
		if allocated, err = p.probe(); err != nil {
			return r, all, err
		}
	}
	start := time.Now()
	t, times, err := b.traffic(clients, l.mix)
	if err != nil {
		return r, all, err
	}
	all.add(t)
	r = result{requests: t.responses, octets: t.octets, delivered: time.Since(start).Seconds()}
	closeAll(clients)
	if records {
		if err := p.awaitRecorded(all.responses); err != nil {
			return r, all, err
		}
	}
	r.written = time.Since(start).Seconds()
	r.cpu = ownCPU() - cpu
	if p != nil {
		if r.allocated, err = p.probe(); err != nil {
			return r, all, err
		}
		if r.rss, err = p.stop(); err != nil {
			return r, all, err
		}
		r.cpu, r.allocated = p.cpu()-cpu, r.allocated-allocated
	}
	r.durable = time.Since(start).Seconds()
	slices.Sort(times)
	r.p50, r.p99 = times[len(times)/2].Seconds()*1e3, times[len(times)*99/100].Seconds()*1e3
	return r, all, nil
}

// indexed is how long it takes at most until what was got is in the index: the
// interval of the syncs, and a commit.
const indexed = 500 * time.Millisecond

// warmUp makes the visit that the others repeat.
func (b *bench) warmUp(p *process, records bool, l load) (t traffic, err error) {
	clients, err := b.connect(p, l, 1)
	defer closeAll(clients)
	if err != nil {
		return t, err
	}
	for i := range l.mix.files {
		if _, _, err := clients[0].get(l.mix, 0, i); err != nil {
			return t, err
		}
		t.add(traffic{responses: 1, octets: l.mix.files[i].size})
	}
	if records {
		if err := p.awaitRecorded(t.responses); err != nil {
			return t, err
		}
		time.Sleep(indexed)
	}
	return t, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.close()
	}
}

// connect makes n clients, some at a time.
func (b *bench) connect(p *process, l load, n int) ([]*client, error) {
	proxy := ""
	if p != nil {
		proxy = p.host
	}
	var mu sync.Mutex
	var clients []*client
	var errs []error
	var all sync.WaitGroup
	left := atomic.Int64{}
	left.Store(int64(n))
	for range min(n, 16) {
		all.Go(func() { // ends when there are n
			for left.Add(-1) >= 0 {
				c, err := dial(l.scheme, b.origin.host(l.scheme), proxy, b.roots)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					clients = append(clients, c)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return clients, errors.Join(errs...)
}

// traffic lets clients get the files of a mix, each the next one that nobody
// has asked for, until they have got all. It returns how long each took.
func (b *bench) traffic(clients []*client, m *mix) (t traffic, times []time.Duration, err error) {
	first, served := b.visit(m, m.requests/len(m.files)+1), b.origin.served.Load()
	times = make([]time.Duration, m.requests)
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		all.Go(func() { // ends with the last request
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= m.requests {
					return
				}
				visit := first
				if !m.same {
					visit += int64(n / len(m.files))
				}
				_, times[n], errs[i] = c.get(m, visit, n%len(m.files))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return t, nil, err
	}
	if got := int(b.origin.served.Load() - served); got != m.requests {
		return t, nil, fmt.Errorf("the clients have got %d answers, the origin has given %d", m.requests, got)
	}
	for n := range m.requests {
		t.octets += m.files[n%len(m.files)].size
	}
	t.responses = m.requests
	if m.same {
		t.revisits = m.requests
	}
	return t, times, nil
}
