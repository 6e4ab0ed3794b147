//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/certs"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

const (
	pageStyles, pageScripts, pageImages = 5, 8, 61
	pageFiles                           = 1 + pageStyles + pageScripts + pageImages

	visitPatience = 4 * time.Minute
)

// A page is a site of one page: the files that make it up, by path, and what
// browsers have said when they had all of it.
type page struct {
	files   map[string][]byte
	reports chan pageReport
}

// A pageReport is sent by the page itself, once it is loaded.
type pageReport struct {
	Styles    int               // stylesheets that have had their effect
	Scripts   int               // scripts that have run
	Images    int               // images that could be decoded
	Protocols map[string]string // by path: over which protocol the browser got it
}

// pageReporter is the script of the page. The icon is there so that the browser
// does not ask for one.
const pageReporter = `<script>
addEventListener("load", () => {
	const style = getComputedStyle(document.body), report = {Styles: 0, Scripts: window.ran || 0, Images: 0, Protocols: {}};
	for (let i = 0; i < %d; i++)
		if (style.getPropertyValue("--style-" + i).trim() === "loaded") report.Styles++;
	for (const image of document.images)
		if (image.complete && image.naturalWidth > 0) report.Images++;
	for (const kind of ["navigation", "resource"])
		for (const e of performance.getEntriesByType(kind))
			report.Protocols[new URL(e.name).pathname] = e.nextHopProtocol;
	fetch("/report", {method: "POST", body: JSON.stringify(report)});
});
</script>
<link rel="icon" href="data:,">
`

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{files: make(map[string][]byte), reports: make(chan pageReport, 1)}
	var html bytes.Buffer
	fmt.Fprintf(&html, "<!DOCTYPE html>\n<title>75 files</title>\n"+pageReporter, pageStyles)
	for i := range pageStyles {
		name := fmt.Sprintf("/style/%d.css", i)
		p.files[name] = fmt.Appendf(nil, "body { --style-%d: loaded }\n%s", i, strings.Repeat(fmt.Sprintf(".of-%d { margin: 0 }\n", i), 500))
		fmt.Fprintf(&html, "<link rel=\"stylesheet\" href=%q>\n", name)
	}
	for i := range pageScripts {
		name := fmt.Sprintf("/script/%d.js", i)
		p.files[name] = fmt.Appendf(nil, "window.ran = (window.ran || 0) + 1;\n%s", strings.Repeat(fmt.Sprintf("// Number %d says this often.\n", i), 1000))
		fmt.Fprintf(&html, "<script src=%q></script>\n", name)
	}
	noise := rand.NewChaCha8([32]byte{})
	for i := range pageImages {
		name := fmt.Sprintf("/image/%d.png", i)
		picture := image.NewGray(image.Rect(0, 0, 16+3*i, 16+3*i)) // up to 38 kB
		noise.Read(picture.Pix)
		var b bytes.Buffer
		if err := png.Encode(&b, picture); err != nil {
			t.Fatal(err)
		}
		p.files[name] = b.Bytes()
		fmt.Fprintf(&html, "<img src=%q>\n", name)
	}
	p.files["/"] = html.Bytes()
	if len(p.files) != pageFiles {
		t.Fatalf("the page has %d files", len(p.files))
	}
	return p
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/report" {
		var report pageReport
		if json.NewDecoder(r.Body).Decode(&report) == nil {
			p.reports <- report
		}
		return
	}
	body, ok := p.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	types := map[string]string{"": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".png": "image/png"}
	w.Header().Set("Content-Type", types[path.Ext(r.URL.Path)])
	w.Write(body)
}

// newSite serves a handler with a certificate of the origins' authority.
func newSite(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	leaf, err := originCA.Leaf("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(h)
	site.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	site.StartTLS()
	t.Cleanup(site.Close)
	return site
}

// findBrowser finds Chromium.
func findBrowser(t *testing.T) string {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("Chromium is needed, testdata/tools.sh installs it: %v", err)
		}
		t.Skipf("testdata/tools.sh has not been run: %v", err)
	}
	return browser
}

// A real browser gets a page of 75 files, and so does the archive. A second
// browser that knows nothing of the first gets them again: those are revisits.
func TestBrowser(t *testing.T) {
	browser := findBrowser(t)
	page := newPage(t)
	site := newSite(t, page)
	caDir := filepath.Join(t.TempDir(), "ca")
	dir := filepath.Join(t.TempDir(), "warcs")
	cmd := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", caDir)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+originCA.CertPath())
	p := startCommand(t, cmd)
	authority, err := certs.Read(caDir)
	if err != nil {
		t.Fatal(err)
	}
	for visit := range 2 {
		report := page.visit(t, browser, append(chromiumFlags(p.proxy.String(), authority), site.URL+"/"))
		if report.Styles != pageStyles || report.Scripts != pageScripts || report.Images != pageImages {
			t.Errorf("visit %d: the browser has %d styles, %d scripts, %d images", visit, report.Styles, report.Scripts, report.Images)
		}
		if got, want := slices.Sorted(maps.Keys(report.Protocols)), slices.Sorted(maps.Keys(page.files)); !slices.Equal(got, want) {
			t.Errorf("visit %d: the browser has loaded %q, want %q", visit, got, want)
		}
		for name, protocol := range report.Protocols {
			if protocol != "h2" {
				t.Errorf("visit %d: the browser got %s over %q, want h2", visit, name, protocol)
			}
		}
	}
	p.stop()
	page.wantVisits(t, warctest.Check(t, dir), site.URL)
}

// visit lets a browser with a fresh profile open the page, until that says that
// it is loaded.
func (p *page) visit(t *testing.T, browser string, args []string) pageReport {
	t.Helper()
	return browse(t, browser, args, p.reports)
}

// browse runs a browser with a fresh profile until the page that it opens has
// reported.
func browse[T any](t *testing.T, browser string, args []string, reports <-chan T) T {
	t.Helper()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
		"--user-data-dir=" + filepath.Join(t.TempDir(), "profile"),
	}, args...)
	cmd := exec.Command(browser, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var said syncBuffer // its end comes when all of the browser's processes have ended
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = visitPatience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { // ends with the browser
		cmd.Wait() // killed
		close(exited)
	}()
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	}()
	var report T
	select {
	case report = <-reports:
	case <-exited:
		t.Fatalf("the browser has ended without loading the page:\n%s", said.String())
	case <-time.After(visitPatience):
		t.Fatalf("the page is not loaded after %v; the browser says:\n%s", visitPatience, said.String())
	}
	return report
}

// wantVisits checks that the archive holds two visits, the second as revisits
// of the first. What the browser asks of other sites is its own affair.
func (p *page) wantVisits(t *testing.T, records []check.Record, site string) {
	t.Helper()
	captures := make(map[string][]*check.Record) // by path
	for i := range records {
		r := &records[i]
		name, ours := strings.CutPrefix(r.TargetURI, site)
		if ours && (r.Type == warc.TypeResponse || r.Type == warc.TypeRevisit) && name != "/report" {
			captures[name] = append(captures[name], r)
		}
	}
	blocks := readBlocks(t, records)
	for name, want := range p.files {
		got := captures[name]
		if len(got) != 2 {
			t.Errorf("%s is in the archive %d times, want twice", name, len(got))
			continue
		}
		first, second := got[0], got[1]
		if first.Type != warc.TypeResponse || second.Type != warc.TypeRevisit || second.Header.Get("WARC-Refers-To") != first.ID {
			t.Errorf("%s: a %s %s, then a %s of %s", name, first.Type, first.ID, second.Type, second.Header.Get("WARC-Refers-To"))
			continue
		}
		_, payload, err := splitMessage(blocks[first.ID], http.MethodGet, false)
		if err != nil || !bytes.Equal(payload, want) {
			t.Errorf("%s: the archive has %d octets, %v; want %d", name, len(payload), err, len(want))
		}
	}
	for name := range captures {
		if _, ok := p.files[name]; !ok {
			t.Errorf("%s is in the archive, but not on the page", name)
		}
	}
}
