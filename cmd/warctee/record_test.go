package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc/warctest"
)

// A stuckWriter takes the text that holds word only when it is let go.
type stuckWriter struct {
	word       string
	stuck, let chan struct{} // stuck is closed by the first such text

	once sync.Once
	mu   sync.Mutex
	b    bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.word) {
		w.once.Do(func() { close(w.stuck) })
		<-w.let
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *stuckWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// While SIGHUP has the current file finished, which may take as long as the disk
// likes, the program can be stopped.
func TestHangUpOnASlowDisk(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") }))
	defer origin.Close()
	f := &recordFlags{}
	f.register(pflag.NewFlagSet("", pflag.ContinueOnError))
	f.listen, f.dir, f.caDir = "127.0.0.1:0", t.TempDir(), filepath.Join(t.TempDir(), "ca")
	// The writer of the archive tells of the file, and there it hangs.
	stderr := &stuckWriter{word: "a file was finished", stuck: make(chan struct{}), let: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx, io.Discard, stderr) }() // ends with ctx, when stderr is let go
	until := func(what string, ok func() bool) {
		t.Helper()
		for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
			if time.Since(start) > patience {
				t.Fatalf("waited in vain: %s\n%s", what, stderr)
			}
		}
	}
	var addr string
	until("the proxy has started", func() bool {
		if m := regexp.MustCompile(`recording http://(\S+) `).FindStringSubmatch(stderr.String()); m != nil {
			addr = m[1]
		}
		return addr != ""
	})
	client := &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: addr}),
		DisableKeepAlives: true,
	}}
	resp, err := client.Get(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	until("there is a file", func() bool {
		files, err := filepath.Glob(filepath.Join(f.dir, "*.open"))
		return err == nil && len(files) > 0
	})

	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // of those that come meanwhile one counts
		if err := self.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-stderr.stuck:
	case <-time.After(patience):
		t.Fatal("SIGHUP has no effect")
	}
	stop() // as SIGTERM
	gone := false
	for deadline := time.Now().Add(patience); !gone && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if gone = err != nil; !gone {
			c.Close()
		}
	}
	if !gone {
		t.Error("while a file is being finished the program cannot be stopped")
	}
	close(stderr.let)
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, stderr)
	}
	if s := stderr.String(); strings.Contains(s, "level=ERROR") {
		t.Errorf("logged\n%s", s)
	}
	if records := warctest.Check(t, f.dir); len(records) < 3 {
		t.Errorf("%d records", len(records))
	}
}
