//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// With too few file descriptors for its clients the program turns some of them
// away, but what others are given is in the archive, though the writer has to
// open one file after the other meanwhile.
func TestFewDescriptors(t *testing.T) {
	const clients, rounds, files = 60, 3, 64
	body := func(path string) string { return path + strings.Repeat(" and so on", 1000) }
	var (
		mu      sync.Mutex // guards waiting
		waiting []chan struct{}
	)
	// The origin answers nobody before it is asked by some, so that they hold
	// their descriptors.
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := make(chan struct{})
		mu.Lock()
		if waiting = append(waiting, turn); len(waiting) == 5 || strings.HasPrefix(r.URL.Path, "/last") {
			for _, c := range waiting {
				close(c)
			}
			waiting = nil
		}
		mu.Unlock()
		select {
		case <-turn:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, body(r.URL.Path))
	}))
	defer origin.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	command := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca"),
		"--max-connections", fmt.Sprint(files-reservedFiles(files)), "--max-connections-per-client", "1000", "--max-size", "20kB", "--timeout", "2s", "--compress", "none")
	command.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)}, command.Args...)
	command.Path = "/bin/sh"
	p := startCommand(t, command)
	p.dir = dir

	var (
		all  sync.WaitGroup
		told = make(map[int]int) // by status, guarded by mu; 0: the connection ended
	)
	get := func(client *http.Client, path string) {
		for start := time.Now(); time.Since(start) < programPatience; time.Sleep(10 * time.Millisecond) {
			status, text, err := fetch(client, origin.URL+path)
			if err != nil {
				status = 0
			}
			mu.Lock()
			told[status]++
			mu.Unlock()
			if status != http.StatusOK {
				continue // it comes again
			}
			if text != body(path) {
				t.Errorf("%s: got %.100q", path, text)
			}
			return
		}
		t.Errorf("%s is never answered", path)
	}
	for i := range clients {
		client := p.client(false)
		client.Transport.(*http.Transport).DisableKeepAlives = true // it gives way to others
		all.Go(func() {                                             // ends with its requests
			for round := range rounds {
				get(client, fmt.Sprintf("/%d/%d", i, round))
			}
		})
	}
	all.Wait()
	t.Logf("answers by status: %v", told)
	if told[http.StatusOK] == 0 || len(told) == 1 {
		t.Error("there should be some that were turned away, and some that were not")
	}
	if !strings.Contains(p.log(), "too many open files (raise ulimit -n, or lower --max-connections)") {
		t.Error("there were enough descriptors")
	}
	if n := told[http.StatusBadGateway]; n > 0 {
		t.Errorf("%d answers blame the origin", n)
	}
	get(p.client(false), "/last")
	if lost := p.status().Lost; lost > 0 {
		t.Errorf("%d responses are lost", lost)
	}
	if p.status().Unstorable > 0 { // there was none for the archive either
		p.stopIncomplete("because of the disk")
	} else {
		p.stop()
	}
	captured := make(map[string]bool)
	for _, r := range warctest.Check(t, dir) {
		if r.Type == "response" || r.Type == "revisit" {
			captured[r.TargetURI] = true
		}
	}
	if len(captured) != clients*rounds+1 {
		t.Errorf("%d of %d pages are in the archive", len(captured), clients*rounds+1)
	}
}
