//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warctee/warctee/certs"
	"github.com/warctee/warctee/wacz"
	"github.com/warctee/warctee/warc"
)

// keptPage is the page that is recorded, packed and replayed. It reports when it
// is loaded, with its frame and what its script fetches. Its charset is told by HTTP alone.
const keptPage = `<!DOCTYPE html>
<title>A page  to be kept</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script src="/script.js" defer></script>
<style>#no { text: none }</style>
<h1>Grüße from the past</h1>
<p id="styled">The style makes <b>this</b> narrow.</p>
<p id="scripted"></p>
<img src="/1.png"><img src="/2.png"><img src="/3.png">
<iframe src="/frame.html"></iframe>
<script>addEventListener("load", () => Promise.all(parts).then(() => fetch("/report", {method: "POST", body: "loaded"})))</script>
`

// keptScript fetches by several methods: from the site of the page, and from the
// site OTHER. The body of the POST is longer than the 512 characters at which
// replayweb.page cuts the keys of revisits.
const keptScript = `document.getElementById("scripted").textContent = "A script wrote this.";
const fetched = document.body.dataset;
const query = JSON.stringify({query: "word ".repeat(200)}), json = {"Content-Type": "application/json"};
const parts = [
	fetch("/data.json").then(r => r.json()).then(data => { fetched.fetched = data.word; }),
	fetch("/changing.json").then(r => r.json()).then(data => { fetched.changing = data.word; }),
	fetch("/query", {method: "POST", headers: json, body: query}).then(r => r.json()).then(data => { fetched.posted = data.word; }),
	fetch("/form", {method: "POST", body: new URLSearchParams("a=b")}).then(r => r.text()).then(text => { fetched.form = text; }),
	fetch("OTHER/item", {method: "PUT", headers: json, body: query}).then(r => r.text()).then(text => { fetched.put = text; }),
];
`

// A keptSite serves keptPage and what belongs to it.
type keptSite struct {
	reports chan string
	other   string       // URL of another site, for the script
	visits  atomic.Int64 // that have ended: what changes is another at every second one
}

func (s *keptSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	contents := map[string]struct{ mediaType, body string }{
		"/":           {"text/html; charset=utf-8", keptPage},
		"/style.css":  {"text/css", "#styled { width: 123px; }"},
		"/script.js":  {"text/javascript", strings.ReplaceAll(keptScript, "OTHER", s.other)},
		"/data.json":  {"application/json", `{"word": "fetched"}`},
		"/query":      {"application/json", `{"word": "fetched"}`}, // as /data.json
		"/form":       {"text/plain", "The form was sent."},
		"/frame.html": {"text/html", "<!DOCTYPE html><title>Not a page</title><p>In a frame."},
	}
	var side int
	_, err := fmt.Sscanf(r.URL.Path, "/%d.png", &side)
	c, ok := contents[r.URL.Path]
	switch {
	case r.URL.Path == "/report":
		s.visits.Add(1)
		s.reports <- r.URL.Path
	case r.URL.Path == "/changing.json":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"word": "changed %d"}`, (s.visits.Load()+1)%2)
	case err == nil:
		w.Header().Set("Content-Type", "image/png")
		png.Encode(w, image.NewGray(image.Rect(0, 0, 10*side, 7)))
	case ok:
		w.Header().Set("Content-Type", c.mediaType)
		fmt.Fprint(w, c.body)
	default:
		http.NotFound(w, r)
	}
}

// otherSite lets pages of other origins PUT something.
func otherSite(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Methods", "PUT")
	w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
	if r.Method == http.MethodPut {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `"put"`)
	}
}

// A replayed is what is seen of the page in replayweb.page.
type replayed struct {
	Title, Text, Width, Frame            string
	Fetched, Changing, Posted, Form, Put string // by the script
	Images                               []int  // their natural widths
	Pages                                int    // in its list
	Signed                               bool   // the signature is valid
}

var wantReplayed = replayed{
	Title: "A page to be kept",
	Text:  "Grüße from the past The style makes this narrow. A script wrote this.",
	Width: "123px",
	Frame: "In a frame.",

	Fetched:  "fetched",
	Changing: "changed 1",
	Posted:   "fetched",
	Form:     "The form was sent.",
	Put:      `"put"`,

	Images: []int{10, 20, 30},
	Pages:  3,
	Signed: true,
}

// replayPage embeds replayweb.page, whose service worker has an API too, and reports what it shows once that is whole
// and as it should be, or else after 100 seconds. The page is in a frame of a
// frame, in shadow trees.
const replayPage = `<!DOCTYPE html>
<link rel="icon" href="data:,">
<script src="/ui.js"></script>
<replay-web-page source="/site.wacz" url="%s" embed="replayonly" style="height: 500px"></replay-web-page>
<script>
let reported = false;
function find(root) {
	for (const e of root.querySelectorAll("*")) {
		const inside = e.localName === "iframe" ? e.contentDocument : e.shadowRoot;
		if (e.localName === "iframe" && e.contentWindow.location.pathname.includes("mp_/http")) return e;
		const found = inside && find(inside);
		if (found) return found;
	}
}
function look() {
	const seen = {};
	try {
		const shown = find(document);
		if (!shown) return {};
		const doc = shown.contentDocument;
		const frame = [...doc.querySelectorAll("iframe")].find(f => f.src.includes("frame.html"));
		seen.Title = doc.title;
		seen.Text = doc.body.innerText.replace(/\s+/g, " ").trim();
		seen.Width = doc.defaultView.getComputedStyle(doc.getElementById("styled")).width;
		for (const name of ["Fetched", "Changing", "Posted", "Form", "Put"]) seen[name] = doc.body.dataset[name.toLowerCase()] || "";
		seen.Images = [...doc.images].map(i => i.naturalWidth);
		seen.Frame = frame.contentDocument.body.innerText.trim();
	} catch (e) {}
	return seen;
}
async function ask(seen) {
	const shown = find(document);
	if (!shown) return;
	const id = shown.contentWindow.location.pathname.split("/")[3];
	const known = await (await shown.ownerDocument.defaultView.fetch("/replay/w/api/c/" + id + "?all=1")).json();
	seen.Pages = known.pages.length;
	seen.Signed = await signed(%s);
}
const octets = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
async function signed(data) {
	const key = await crypto.subtle.importKey("spki", octets(data.publicKey), {name: "ECDSA", namedCurve: "P-384"}, true, ["verify"]);
	return crypto.subtle.verify({name: "ECDSA", hash: "SHA-256"}, key, octets(data.signature), new TextEncoder().encode(data.hash));
}
// On a busy machine replayweb.page sometimes starts before its service worker does,
// and waits for ever. It is loaded anew then.
const loaded = Date.now(), start = Number(sessionStorage.start ||= loaded);
const want = %s, timer = setInterval(async () => {
	if (!find(document) && Date.now() - loaded > 15000 && Date.now() - start < 80000) return location.reload();
	const seen = look();
	try { await ask(seen); } catch (e) { seen.Text += String(e); }
	if (Date.now() - start < 100000 && !Object.keys(want).every(k => String(seen[k]) === String(want[k]))) return;
	clearInterval(timer);
	if (!reported) fetch("/report", {method: "POST", body: JSON.stringify(seen)});
	reported = true;
}, 200);
</script>
`

// A browser visits a page through the proxy, three times; the WARC files are packed;
// the site is gone; and a browser shows the page all the same, by the code of
// replayweb.page.
func TestPackedPageReplays(t *testing.T) {
	browser := findBrowser(t)
	program := replayProgram(t)
	other := newSite(t, http.HandlerFunc(otherSite))
	handler := &keptSite{reports: make(chan string, 1), other: other.URL}
	site := newSite(t, handler)
	dir := filepath.Join(t.TempDir(), "warcs")
	recordVisits(t, browser, handler, site.URL, dir)
	gone, otherGone := goneSite(t, site), goneSite(t, other)

	check := func(t *testing.T, packed string, pages int) {
		t.Helper()
		want := wantReplayed
		want.Pages = pages
		if seen := replay(t, browser, program, packed, site.URL+"/", want); !reflect.DeepEqual(seen, want) {
			t.Errorf("the replay shows\n%+v, want\n%+v", seen, want)
		}
	}
	for name, more := range map[string]int{"short index": 0, "index in blocks": 3000} {
		t.Run(name, func(t *testing.T) {
			files := []string{dir}
			if more > 0 {
				files = append(files, writeCaptures(t, more))
			}
			packed, args, signer := packSigned(t, site.URL)
			runOnce(t, append(args, files...)...)
			wantPackage(t, packed, site.URL, signer, 3)
			check(t, packed, 3)
		})
	}
	// The file of the last visit alone refers to the file of the others.
	t.Run("originals elsewhere", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
		if err != nil || len(files) != 2 {
			t.Fatalf("there are the files %q, %v, want two", files, err)
		}
		packed, args, signer := packSigned(t, site.URL)
		cmd := programCommand(t, append(args, files[1])...)
		out, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != 3 || !strings.Contains(string(out), site.URL+"/style.css of 20") || !strings.Contains(string(out), "--add-originals DIR") {
			t.Errorf("without the originals: exit status %d\n%s", status, out)
		}
		runOnce(t, append(args, "--force", files[1], "--add-originals", dir)...)
		wantPackage(t, packed, site.URL, signer, 1)
		check(t, packed, 1)
	})
	if n := gone.Load() + otherGone.Load(); n > 0 {
		t.Errorf("the replay has connected to the sites %d times", n)
	}
}

// packSigned returns the name of a package, what makes it but for the files, and who
// signs it.
func packSigned(t *testing.T, site string) (packed string, args []string, signer string) {
	t.Helper()
	packed = filepath.Join(t.TempDir(), "site.wacz")
	key := filepath.Join(t.TempDir(), "key.pem")
	signer = runOnce(t, "pack", "--new-key", key)
	return packed, []string{"pack", "--out", packed, "--sign", key, "--url", site + "/"}, signer
}

// replayProgram is the directory of replayweb.page.
func replayProgram(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "node", "node_modules", "replaywebpage")
	if _, err := os.Stat(filepath.Join(dir, "sw.js")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("replayweb.page is needed, testdata/tools.sh installs it: %v", err)
		}
		t.Skipf("testdata/tools.sh has not been run: %v", err)
	}
	return dir
}

// recordVisits lets a browser visit the site three times through warctee. The later
// visits make revisit records. The gzip members have an extra field, which the
// replay has to pass over.
func recordVisits(t *testing.T, browser string, site *keptSite, url, dir string) {
	t.Helper()
	caDir := filepath.Join(t.TempDir(), "ca")
	for _, visits := range []int{2, 1} { // a file for each recording
		cmd := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", caDir, "--skip-lengths")
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+originCA.CertPath())
		p := startCommand(t, cmd)
		authority, err := certs.Read(caDir)
		if err != nil {
			t.Fatal(err)
		}
		for range visits {
			browse(t, browser, append(chromiumFlags(p.proxy.String(), authority), url+"/"), site.reports)
		}
		p.stop()
	}
}

// goneSite ends a site, and counts who still wants to reach it.
func goneSite(t *testing.T, site *httptest.Server) *atomic.Int64 {
	t.Helper()
	address := site.Listener.Addr().String()
	site.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var callers atomic.Int64
	go func() { // ends when the listener is closed
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			callers.Add(1)
			conn.Close()
		}
	}()
	return &callers
}

// writeCaptures writes a WARC file of many small captures.
func writeCaptures(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "more.warc.gz")
	var b bytes.Buffer
	w := warc.NewWriter(&b, warc.WriterOptions{})
	for i := range n {
		block := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsmall"
		h := warc.Header{
			{Name: "WARC-Type", Value: "response"},
			{Name: "WARC-Record-ID", Value: warc.NewRecordID()},
			{Name: "WARC-Date", Value: "2020-01-01T00:00:00Z"},
			{Name: "WARC-Target-URI", Value: fmt.Sprintf("http://%d.example/%d", i%7, i)},
			{Name: "Content-Type", Value: "application/http; msgtype=response"},
		}
		if err := w.WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// runOnce runs warctee to its end and returns the last word that it says.
func runOnce(t *testing.T, args ...string) (last string) {
	t.Helper()
	out, err := programCommand(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("warctee %q: %v\n%s", args, err, out)
	}
	words := strings.Fields(string(out))
	return words[len(words)-1]
}

// wantPackage verifies a package and looks at its list of pages: the visits of
// the page, and nothing else.
func wantPackage(t *testing.T, path, site, signer string, visits int) {
	t.Helper()
	runOnce(t, "pack", "--verify", "--signer", signer, path)
	files := readZip(t, path)
	lines := strings.Split(strings.TrimSpace(files["pages/pages.jsonl"]), "\n")
	if len(lines) != 1+visits {
		t.Fatalf("the list has %d lines:\n%s", len(lines), files["pages/pages.jsonl"])
	}
	for i, line := range lines[1:] {
		var page struct{ ID, URL, TS, Title, Text string }
		if err := json.Unmarshal([]byte(line), &page); err != nil {
			t.Fatal(err)
		}
		text := ""
		if i == 0 && visits > 1 { // else it is a revisit
			text = "Grüße from the past The style makes this narrow."
		}
		if _, err := time.Parse(time.RFC3339, page.TS); err != nil || page.ID == "" || page.URL != site+"/" || page.Title != wantReplayed.Title || page.Text != text {
			t.Errorf("page %d of the list: %+v, %v", i, page, err)
		}
	}
	var pkg struct {
		Version     string `json:"wacz_version"`
		MainPageURL string `json:"mainPageUrl"`
	}
	if err := json.Unmarshal([]byte(files["datapackage.json"]), &pkg); err != nil || pkg.Version != wacz.Version || pkg.MainPageURL != site+"/" {
		t.Errorf("datapackage.json is\n%s", files["datapackage.json"])
	}
}

// replay opens a page of a package in a browser that can reach nothing but the
// server with replayweb.page and the package.
func replay(t *testing.T, browser, program, packed, page string, wanted replayed) replayed {
	t.Helper()
	reports := make(chan replayed, 1)
	var worker atomic.Bool // the service worker was asked for
	mux := http.NewServeMux()
	var digest struct{ SignedData json.RawMessage }
	if err := json.Unmarshal([]byte(readZip(t, packed)["datapackage-digest.json"]), &digest); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, replayPage, page, digest.SignedData, want)
	})
	mux.HandleFunc("/ui.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(program, "ui.js")) })
	mux.HandleFunc("/replay/sw.js", func(w http.ResponseWriter, r *http.Request) {
		worker.Store(true)
		http.ServeFile(w, r, filepath.Join(program, "sw.js"))
	})
	mux.HandleFunc("/replay/ui.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(program, "ui.js")) })
	mux.HandleFunc("/site.wacz", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, packed) })
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var seen replayed
		if json.NewDecoder(r.Body).Decode(&seen) == nil {
			reports <- seen
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	seen := browse(t, browser, []string{"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE " + u.Hostname(), server.URL + "/"}, reports)
	if !worker.Load() {
		t.Errorf("the service worker was not loaded")
	}
	return seen
}

// readZip reads all files of a zip file.
func readZip(t *testing.T, path string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}
