package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// A trickle is an origin whose responses take their time: a piece every 100 ms,
// until there are 30 or, under /endless, for ever.
func trickle(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < 30 || r.URL.Path == "/endless"; i++ {
		fmt.Fprintf(w, "piece %d of %s\n", i, r.URL.Path)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func trickled(path string) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "piece %d of %s\n", i, path)
	}
	return b.String()
}

// onlyRecord returns the only record of a type and URI.
func onlyRecord(t *testing.T, records []check.Record, kind, uri string) *check.Record {
	t.Helper()
	var found []*check.Record
	for i := range records {
		if r := &records[i]; r.Type == kind && r.TargetURI == uri {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d %s records of %s, want 1", len(found), kind, uri)
	}
	return found[0]
}

// A download that is under way when the program is told to stop is delivered
// and recorded whole.
func TestGracefulStopInMidDownload(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(trickle))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(trickle))
	defer encrypted.Close()
	p := startProgram(t, filepath.Join(t.TempDir(), "warcs"))
	downloads := []struct {
		url    string
		client *http.Client
		resp   *http.Response
	}{
		{url: plain.URL + "/http", client: p.client(false)},
		{url: encrypted.URL + "/https", client: p.client(false)},
		{url: encrypted.URL + "/http2", client: p.client(true)},
	}
	for i := range downloads {
		d := &downloads[i]
		var err error
		if d.resp, err = d.client.Get(d.url); err != nil {
			t.Fatal(err)
		}
		defer d.resp.Body.Close()
	}
	p.signal(syscall.SIGTERM)
	p.waitForLog("warctee: stopping: 3 exchanges")
	for _, d := range downloads {
		body, err := io.ReadAll(d.resp.Body)
		if path := d.url[strings.LastIndexByte(d.url, '/'):]; err != nil || string(body) != trickled(path) {
			t.Errorf("%s: %v, %d octets", d.url, err, len(body))
		}
	}
	p.wait(exitOK)
	records := warctest.Check(t, p.dir)
	for _, d := range downloads {
		r := onlyRecord(t, records, "response", d.url)
		path := d.url[strings.LastIndexByte(d.url, '/'):]
		if got := r.Header.Get("WARC-Truncated"); got != "" || r.PayloadSize != int64(len(trickled(path))) {
			t.Errorf("%s: %d octets are recorded, truncated %q", d.url, r.PayloadSize, got)
		}
	}
}

// What does not end in time is cut, marked, and told by the exit status.
func TestGraceExceeded(t *testing.T) {
	for _, test := range []struct {
		name, grace string
		signals     []syscall.Signal
	}{
		{"after the grace time", "500ms", []syscall.Signal{syscall.SIGTERM}},
		{"second SIGTERM", "10m", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"second SIGINT", "10m", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
	} {
		t.Run(test.name, func(t *testing.T) {
			origin := httptest.NewTLSServer(http.HandlerFunc(trickle))
			defer origin.Close()
			p := startProgram(t, filepath.Join(t.TempDir(), "warcs"), "--grace", test.grace)
			resp, err := p.client(false).Get(origin.URL + "/endless")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			if line, err := in.ReadString('\n'); line != "piece 0 of /endless\n" {
				t.Fatalf("the client gets %q, %v", line, err)
			}
			for _, s := range test.signals {
				p.signal(s)
				p.waitForLog("warctee: stopping: 1 exchange has")
			}
			rest, err := io.ReadAll(in)
			if err == nil {
				t.Error("the client takes its part of the response for the whole")
			}
			p.wait(exitIncomplete)
			if !strings.Contains(p.log(), "the archive is incomplete") {
				t.Error("the log does not say that the archive is incomplete")
			}
			r := onlyRecord(t, warctest.Check(t, p.dir), "response", origin.URL+"/endless")
			if got := r.Header.Get("WARC-Truncated"); got != "unspecified" {
				t.Errorf("WARC-Truncated is %q, want unspecified", got)
			}
			if got := int64(len("piece 0 of /endless\n") + len(rest)); r.PayloadSize < got {
				t.Errorf("%d octets are recorded, the client has got %d", r.PayloadSize, got)
			}
		})
	}
}

// killOrigin makes bodies that can be told from each other, and some that are
// all the same.
func killOrigin(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, killBody(r.URL.Path))
}

func killBody(path string) string {
	if strings.Contains(path, "/same/") {
		return strings.Repeat("the same for all of them. ", 2000)
	}
	var seed [32]byte
	copy(seed[:], path)
	noise := make([]byte, len(path)*997%40000)
	rand.NewChaCha8(seed).Read(noise)
	return "this is " + path + "\n" + string(noise)
}

// Killed in the middle of traffic, the program comes back: what was in the
// archive is still there, all is readable, nothing refers to what is not there.
func TestKilledInMidTraffic(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(killOrigin))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(killOrigin))
	defer encrypted.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	durable := make(map[string]bool) // by URL
	for round := range 5 {
		p := startProgram(t, dir)
		wantAll(t, dir, durable)
		clients := map[string]*http.Client{plain.URL: p.client(false), encrypted.URL: p.client(round%2 == 0)}

		// Some exchanges that are in the archive for certain …
		n := int64(0)
		for i := range 10 {
			for origin, client := range clients {
				u := fmt.Sprintf("%s/%d/durable/%d", origin, round, i)
				if i%3 == 0 {
					u = fmt.Sprintf("%s/%d/same/%d", origin, round, i)
				}
				if err := killGet(client, u); err != nil {
					t.Fatal(err)
				}
				durable[u] = true
				n++
			}
		}
		p.waitForRecords(n)

		// … then the kill, while many more are on their way.
		var (
			done   atomic.Int64
			enough = make(chan struct{})
			all    sync.WaitGroup
		)
		ctx, cancel := context.WithCancel(t.Context())
		for worker := range 8 {
			for origin, client := range clients {
				all.Go(func() { // ends with the process
					for i := 0; ctx.Err() == nil; i++ {
						kind := []string{"same", "lost"}[i%2]
						if killGet(client, fmt.Sprintf("%s/%d/%s/%d-%d", origin, round, kind, worker, i)) != nil {
							return
						}
						if done.Add(1) == int64(20+30*round) {
							close(enough)
						}
					}
				})
			}
		}
		<-enough
		p.cmd.Process.Kill()
		<-p.exited
		cancel()
		all.Wait()
		if round%2 == 1 {
			tearOpenFile(t, dir)
		}
		for u := range wholeCaptures(t, dir) {
			durable[u] = true // it was in the file
		}
	}
	p := startProgram(t, dir)
	wantAll(t, dir, durable)
	p.stop()
	wantAll(t, dir, durable)
}

func killGet(client *http.Client, u string) error {
	resp, err := client.Get(u)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if parsed, _ := url.Parse(u); err == nil && string(body) != killBody(parsed.Path) {
		return fmt.Errorf("%s has the wrong body", u)
	}
	return err
}

// wantAll checks the files and that they hold these captures, once each.
func wantAll(t *testing.T, dir string, urls map[string]bool) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return
	}
	captures := make(map[string]int)
	for _, r := range warctest.Check(t, dir) {
		if r.Type == "response" || r.Type == "revisit" {
			captures[r.TargetURI]++
		}
	}
	for u := range urls {
		if captures[u] != 1 {
			t.Errorf("%s is in the archive %d times, want once", u, captures[u])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// tearOpenFile makes the kill hit in the middle of a write, which it seldom
// does.
func tearOpenFile(t *testing.T, dir string) {
	t.Helper()
	name := openFileIn(t, dir)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-7); err != nil {
		t.Fatal(err)
	}
}

func openFileIn(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.open"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the unfinished files are %v, %v; want one", names, err)
	}
	return names[0]
}

// wholeCaptures returns the URLs of which there is a whole response or revisit
// in an unfinished file.
func wholeCaptures(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	b, err := os.ReadFile(openFileIn(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	z := warc.NewReader(bytes.NewReader(b))
	z.Strict = true
	for {
		r, err := z.Next()
		if err != nil {
			return found // the end, or where the kill hit
		}
		kind, uri := r.Type(), r.TargetURI()
		if _, err := io.Copy(io.Discard, z); err != nil {
			return found
		}
		if kind == "response" || kind == "revisit" {
			found[uri] = true
		}
	}
}
