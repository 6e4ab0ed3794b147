//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/warctee/warctee/dedup"
)

// A stage is a size of what grows around warctee.
type stage struct {
	size  int
	dir   string   // of the archive; what is in it before a run stays
	flags []string // of warctee
	idle  int      // connections that do nothing
}

// growth measures warctee alone, over https with 16 clients that get the page,
// while one thing grows:
//
//   - finished files in the directory of the archive;
//   - payloads in the dedup index, none of which comes again;
//   - tunnels of clients that have made a request and now do nothing.
func growth(args []string) error {
	s := &selection{mixes: []string{"page"}, big: 1}
	flags := flag.NewFlagSet("bench growth", flag.ExitOnError)
	flags.IntVar(&s.rounds, "rounds", 3, "how often each stage is measured")
	flags.StringVar(&s.dir, "dir", "", "where the archives are written (default: the system's for temporary files)")
	index := flags.Int("index", 1_000_000, "payloads in the largest index; 10000000 takes 6 GB and some minutes")
	flags.BoolVar(&s.quick, "quick", false, "one round, a tenth of the requests, at most 1000 of each: only to see that all works")
	flags.Parse(args)
	most := math.MaxInt
	if s.quick {
		s.rounds, most = 1, 1000
	}
	if flags.NArg() > 0 || s.rounds < 1 || *index < 0 {
		return errors.New("not understood; try bench growth -help")
	}
	b, err := newBench(s)
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Printf("%s; %s\n", circumstances(s.rounds), load{mix: b.mixes["page"], scheme: "https", clients: 16})
	for _, g := range []struct {
		what  string
		sizes []int
		stage func(size int) (stage, error)
	}{
		{"finished files", []int{10, 1000, 10_000}, b.files},
		{"payloads in the index", powers(10_000, *index), b.index},
		{"idle connections", []int{1, 100, 1000, 10_000}, b.connections},
	} {
		var stages []stage
		for _, size := range g.sizes {
			if size > most && len(stages) > 0 {
				break
			}
			st, err := g.stage(min(size, most))
			if err != nil {
				return fmt.Errorf("%d %s: %w", size, g.what, err)
			}
			stages = append(stages, st)
		}
		if err := b.grow(g.what, stages, s.rounds); err != nil {
			return fmt.Errorf("%s: %w", g.what, err)
		}
	}
	return nil
}

// powers are those of ten from least on that are not above most.
func powers(least, most int) (p []int) {
	for n := least; n <= most; n *= 10 {
		p = append(p, n)
	}
	return p
}

// A stageResult is a result, and the seconds until warctee listened.
type stageResult struct {
	result
	start float64
}

// grow measures the stages in turn and prints a table.
func (b *bench) grow(what string, stages []stage, rounds int) error {
	results := make([][]stageResult, len(stages))
	for round := range rounds {
		for i, s := range stages {
			r, err := b.stage(s)
			if err != nil {
				return fmt.Errorf("round %d, %d: %w", round+1, s.size, err)
			}
			log.Printf("round %d, %d %s: %.0f req/s", round+1, s.size, what, r.perSecond())
			results[i] = append(results[i], r)
		}
	}
	var out strings.Builder
	var rows [][]string
	for i, s := range stages {
		var plain []result
		var starts, ratios []float64
		for round, r := range results[i] {
			plain, starts = append(plain, r.result), append(starts, r.start)
			ratios = append(ratios, r.perSecond()/results[0][round].perSecond())
		}
		rows = append(rows, []string{
			fmt.Sprint(s.size),
			spread("%.0f", each(plain, result.perSecond)),
			spread("%.2f", ratios),
			spread("%.0f", each(plain, func(r result) float64 { return float64(r.requests) / r.delivered })),
			fmt.Sprintf("%.1f", median(each(plain, func(r result) float64 { return r.p99 }))),
			fmt.Sprintf("%.2f", median(each(plain, func(r result) float64 { return r.cpu * 1000 / float64(r.requests) }))),
			fmt.Sprintf("%.0f", median(each(plain, func(r result) float64 { return r.rss }))),
			fmt.Sprintf("%.2f", median(starts)),
		})
	}
	writeTable(&out, []string{what, "req/s", "÷ the first", "req/s until delivered", "p99 ms", "CPU s/1000", "RSS MB", "s to start"}, rows)
	fmt.Print(out.String())
	return nil
}

// stage makes one run.
func (b *bench) stage(s stage) (r stageResult, err error) {
	dir := filepath.Join(b.tmp, "warcs")
	if s.dir != "" {
		dir = s.dir
	}
	defer clearArchive(dir)
	start := time.Now()
	p, err := startProcess(b.env(), b.warctee, append(b.record(dir), s.flags...)...)
	if err != nil {
		return r, err
	}
	defer p.kill()
	r.start = time.Since(start).Seconds()
	l := load{mix: b.mixes["page"], scheme: "https", clients: 16}
	idle, seen, err := b.idlers(p, l, s.idle)
	defer closeAll(idle)
	if err != nil {
		return r, err
	}
	if r.result, seen, err = b.run(p, true, l, seen); err != nil {
		return r, err
	}
	return r, checkArchive(dir, seen)
}

// clearArchive removes what a run has left in a directory.
func clearArchive(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		if !strings.Contains(name, fillerHost) {
			os.Remove(name)
		}
	}
}

// idlers are connections over each of which one file was got.
func (b *bench) idlers(p *process, l load, n int) (idle []*client, seen traffic, err error) {
	number := len(l.mix.files) / 4 // a small one
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() { // ends with its share
			for k := worker; k < n; k += 16 {
				c, err := dial(l.scheme, b.origin.host(l.scheme), p.host, b.roots)
				if err == nil {
					_, _, err = c.get(l.mix, b.visit(l.mix, 1), number)
					c.body = nil
				}
				mu.Lock()
				if c != nil {
					idle = append(idle, c)
				}
				if err != nil {
					errs = append(errs, err)
				}
				stop := len(errs) > 0
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	for k := 0; k < len(idle) && len(errs) == 0; k += 100 { // none has been closed
		if _, _, err := idle[k].get(l.mix, b.visit(l.mix, 1), number); err != nil {
			errs = append(errs, err)
		}
		n++
	}
	return idle, traffic{responses: n, octets: int64(n) * l.mix.files[number].size}, errors.Join(errs...)
}

// connections lets so many do nothing. All come from one address, which could
// not have 10,000 of them by default where a process may open 20,000 files.
func (b *bench) connections(n int) (stage, error) {
	most := fmt.Sprint(n + 1000)
	return stage{size: n, idle: n, flags: []string{"--max-connections", most, "--max-connections-per-client", most}}, nil
}

// fillerHost is where the names of the files that fill a directory tell them
// from those of a run.
const fillerHost = "-filler."

// files makes a directory with so many finished files.
func (b *bench) files(n int) (stage, error) {
	dir := filepath.Join(b.tmp, fmt.Sprintf("files-%d", n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return stage{}, err
	}
	for i := range n {
		name := fmt.Sprintf("warctee-20260101%09d-%05d%swarc.gz", i, i, fillerHost)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nobody reads this"), 0o644); err != nil {
			return stage{}, err
		}
	}
	return stage{size: n, dir: dir}, nil
}

// index makes an index of so many payloads.
func (b *bench) index(n int) (stage, error) {
	path := filepath.Join(b.tmp, fmt.Sprintf("index-%d.bolt", n))
	x, err := dedup.OpenBolt(path, slog.Default())
	if err != nil {
		return stage{}, err
	}
	entries := make([]dedup.Entry, 0, 20_000)
	for i := range n {
		entries = append(entries, indexEntry(i, n))
		if len(entries) == cap(entries) || i == n-1 {
			if err := x.Commit(entries); err != nil {
				return stage{}, errors.Join(err, x.Close())
			}
			entries = entries[:0]
		}
	}
	return stage{size: n, flags: []string{"--dedup", "bolt:" + path}}, x.Close()
}

// indexEntry is the i-th of n, in the order of digests, which are spread as
// real ones are: in another order, to fill a large index takes hours.
func indexEntry(i, n int) dedup.Entry {
	digest := sha256.Sum256(fmt.Append(nil, i))
	binary.BigEndian.PutUint64(digest[:], uint64(i)*(math.MaxUint64/uint64(n)))
	return dedup.Entry{
		Digest: fmt.Sprintf("sha256:%x", digest),
		Capture: dedup.Capture{
			RecordID:  fmt.Sprintf("<urn:uuid:00000000-0000-4000-8000-%012d>", i),
			TargetURI: fmt.Sprintf("https://www.example.org/some/path/of/usual/length/%d", i),
			Date:      "2026-01-01T00:00:00.000Z",
			File:      "warctee-20260101000000000-00000-example.warc.gz",
			Offset:    int64(i) * 1000,
			Length:    1000,
		},
	}
}
