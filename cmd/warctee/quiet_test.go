//go:build linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// quietPage reports when Chromium would have asked for all that it asks for at a
// start: the last of it, hints for pages, after 10 s.
const quietPage = `<!DOCTYPE html><title>quiet</title><link rel="icon" href="data:,">
<script>setTimeout(() => fetch("/done"), 15000)</script>`

// Chromium, started with the flags that run gives, asks for nothing but the page:
// with our profile, and with one of another program, as Playwright makes it.
func TestChromiumIsQuiet(t *testing.T) {
	browser := findBrowser(t)
	for name, flags := range map[string]string{
		"our profile":     "$WARCTEE_CHROMIUM_FLAGS",
		"another profile": `--user-data-dir="$HOME/profile" $WARCTEE_CHROMIUM_FLAGS_NO_PROFILE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{}, 1)
			_, site := origins(t, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/done" {
					done <- struct{}{}
					return
				}
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, quietPage)
			}))
			r := startRun(t, "--failure-log", "failures.jsonl", "--", "sh", "-c",
				`"$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage `+flags+` "$1" & until test -e done; do sleep 0.1; done; kill $!; wait; true`, browser, site+"/")
			select {
			case <-done:
			case <-r.exited:
			case <-time.After(visitPatience):
				t.Error("the page has not reported")
			}
			if err := os.WriteFile(filepath.Join(r.work, "done"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			r.wait(0)
			r.recorded(site+"/", site+"/done")
			host := strings.TrimPrefix(site, "https://")
			for _, rec := range warctest.Check(t, filepath.Join(r.work, "warcs")) {
				if rec.TargetURI != "" && !strings.HasPrefix(rec.TargetURI, site) {
					t.Errorf("Chromium asked for %s", rec.TargetURI)
				}
			}
			for _, line := range readFailures(t, filepath.Join(r.work, "failures.jsonl")) {
				if line.Address != host && !strings.HasPrefix(line.URL, site) {
					t.Errorf("Chromium asked for %q (%q)", line.URL, line.Address)
				}
			}
		})
	}
}
