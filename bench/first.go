//go:build unix

package main

import (
	"fmt"
	"os"
	"time"
)

// firstBytes measures how long the first byte of an answer takes, with all
// subjects running and one client for each, request by request in turn: what
// slows the machine down for a while then slows all of them down. It appends
// to samples.
func (b *bench) firstBytes(subjects []subject, l load, requests int, samples map[string][]time.Duration) error {
	clients := make([]*client, len(subjects))
	processes := make([]*process, len(subjects))
	seen := make([]traffic, len(subjects))
	for i, s := range subjects {
		if s.start != nil {
			dir := b.archive(s)
			defer os.RemoveAll(dir)
			p, err := s.start(b, dir)
			if err != nil {
				return err
			}
			defer p.kill()
			processes[i] = p
		}
		if l.mix.same {
			t, err := b.warmUp(processes[i], s.records, l)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			seen[i] = t
		}
		one, err := b.connect(processes[i], l, 1)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer closeAll(one)
		clients[i] = one[0]
	}
	files := len(l.mix.files)
	for n := range requests + files { // the first of each are not counted
		for k := range subjects {
			i := (n + k) % len(subjects)
			number := n % files
			first, _, err := clients[i].get(l.mix, b.visit(l.mix, 1), number)
			if err != nil {
				return fmt.Errorf("%s: %w", subjects[i].name, err)
			}
			t := traffic{responses: 1, octets: l.mix.files[number].size}
			if l.mix.same {
				t.revisits = 1
			}
			seen[i].add(t)
			if n >= files {
				samples[subjects[i].name] = append(samples[subjects[i].name], first)
			}
		}
	}
	closeAll(clients)
	for i, s := range subjects {
		if s.start == nil {
			continue
		}
		if _, err := processes[i].stop(); err != nil {
			return err
		}
		if s.records {
			if err := checkArchive(b.archive(s), seen[i]); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}
