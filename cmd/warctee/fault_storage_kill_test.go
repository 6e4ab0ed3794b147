//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/warctee/warctee/warc/warctest"
)

// What clients were given while the archive could not be written to is lost
// with a kill. No more than that is, /status has told how much it would be, and
// the next start names it.
func TestKilledInAPause(t *testing.T) {
	t.Parallel()
	d := startOnDisk(t, 16<<20, "--min-free", "0")
	if d == nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("a disk of its own is needed")
		}
		t.Skip("a disk of its own is needed")
	}
	d.dir = strings.Replace(d.dir, "/self/", fmt.Sprintf("/%d/", os.Getpid()), 1) // for other processes too
	for round := range 3 {
		given, missing := d.killInAPause(round)
		d.wantTold(given, missing)
	}
}

// killInAPause returns the URLs that clients were given, and how many of them
// the archive lacks when the program is killed.
func (d *disk) killInAPause(round int) (given map[string]bool, missing int64) {
	d.t.Helper()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, noisyBody(r.URL.Path, "100000"))
	}))
	defer slow.Close()
	r := newRecording(d.t, d)
	r.must(5, 20_000)
	var begun, ended sync.WaitGroup
	var mu sync.Mutex
	for i := range 20 {
		begun.Add(1)
		ended.Go(func() { // ends when it is released
			u := fmt.Sprintf("%s/%d/%d", slow.URL, round, i)
			resp, err := r.client.Get(u)
			begun.Done()
			if err != nil {
				d.t.Error(err)
				return
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != 100_005 || err != nil {
				d.t.Errorf("%s: %d octets, %v", u, n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.given[u] = true
		})
	}
	begun.Wait()
	d.fill()
	r.untilRefused(30_000)
	waiting := d.p.status().Waiting
	close(release)
	ended.Wait()
	s := d.p.status()
	for ; s.Waiting < waiting+20; s = d.p.status() { // compressing takes a moment
	}
	if s.WaitingBytes < 20*100_000 || s.Lost != 0 || s.Recording {
		d.t.Errorf("/status says %+v", s)
	}
	d.p.cmd.Process.Kill()
	<-d.p.exited
	return r.given, s.Waiting
}

// wantTold starts the program again: first in vain, because there is no space
// yet.
func (d *disk) wantTold(given map[string]bool, missing int64) {
	d.t.Helper()
	if out, err := recordCommand(d.t, d.dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "no space left on device") {
		d.t.Errorf("with a full disk the program says %q, %v", out, err)
	}
	d.lift()
	d.p = startCommand(d.t, recordCommand(d.t, d.dir, "--min-free", "0"))
	d.p.dir = d.dir
	there := make(map[string]bool)
	for _, rec := range warctest.Check(d.t, d.dir) {
		if rec.Type == "response" || rec.Type == "revisit" {
			there[rec.TargetURI] = true
		}
	}
	log, lost := d.p.log(), int64(0)
	for u := range given {
		told := strings.Contains(log, "this was waiting when the program was killed\" url="+u+" ") || strings.Contains(log, fmt.Sprintf("url=%q", u))
		if !there[u] {
			lost++
		}
		if told == there[u] {
			d.t.Errorf("%s: in the archive %v, told %v", u, there[u], told)
		}
	}
	if lost != missing || !strings.Contains(log, fmt.Sprintf(`"responses that clients were given"=%d `, missing)) {
		d.t.Errorf("%d responses are missing, %d were waiting", lost, missing)
	}
}
