package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/cdx"
)

// A cdxLine is a line of CDXJ.
type cdxLine struct {
	Key, Timestamp            string `json:"-"`
	URL, MIME, Status, Digest string
	Length, Offset, Filename  string
	Method, RequestBody       string
}

// parseCDXJ returns lines by file and offset.
func parseCDXJ(t *testing.T, index []byte) map[string]cdxLine {
	t.Helper()
	lines := make(map[string]cdxLine)
	for line := range strings.Lines(string(index)) {
		var l cdxLine
		var object string
		l.Key, object, _ = strings.Cut(line, " ")
		l.Timestamp, object, _ = strings.Cut(object, " ")
		if err := json.Unmarshal([]byte(object), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		place := l.Filename + " " + l.Offset
		if _, twice := lines[place]; twice {
			t.Errorf("two lines for %s", place)
		}
		lines[place] = l
	}
	return lines
}

// indexOrigin answers with what an index tells apart.
func indexOrigin(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/moved":
		http.Redirect(w, r, "/", http.StatusFound)
	case "/typeless":
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, "typeless")
	case "/missing":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "this is %s for %s", r.URL.Path, r.Method)
	}
}

// warcio's index of what warctee has recorded is ours, but for what docs/cdx.md
// names.
func TestIndexOfOthers(t *testing.T) {
	program := filepath.Join(filepath.Dir(foreignScript(t)), "node_modules", "warcio", "dist", "cli.js")
	origin := httptest.NewServer(http.HandlerFunc(indexOrigin))
	defer origin.Close()
	for _, args := range [][]string{nil, {"--compress", "none", "--digest", "sha1"}, {"--warc-version", "1.0", "--max-size", "2kB"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			p := startProgram(t, filepath.Join(t.TempDir(), "warcs"), args...)
			client := p.client(false)
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			for _, request := range []struct{ method, path, kind, body string }{
				{"GET", "/", "", ""}, {"GET", "/", "", ""}, {"GET", "/A/B?z=1&a=2", "", ""}, {"GET", "/moved", "", ""}, {"GET", "/moved", "", ""},
				{"GET", "/typeless", "", ""}, {"GET", "/missing", "", ""}, {"HEAD", "/", "", ""},
				{"POST", "/form", "application/x-www-form-urlencoded", "a=b&c=d"}, {"POST", "/form", "application/x-www-form-urlencoded", "a=c"},
				{"PUT", "/json?x", "application/json", `{"id": 1, "in": {"flag": true}}`}, {"POST", "/binary", "image/png", "\x00\x01\xff"},
			} {
				r, err := http.NewRequest(request.method, origin.URL+request.path, strings.NewReader(request.body))
				if err != nil {
					t.Fatal(err)
				}
				if request.kind != "" {
					r.Header.Set("Content-Type", request.kind)
				}
				answer, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
			}
			p.stop()
			files, _, err := archiveFiles([]string{p.dir})
			if err != nil {
				t.Fatal(err)
			}
			var index bytes.Buffer
			if summary, err := cdx.Index(t.Context(), &index, files, cdx.Options{}); err != nil || summary.Damaged != nil {
				t.Fatal(summary, err)
			}
			foreign, err := exec.Command("node", append([]string{program, "cdx-index", "--format", "cdxj"}, files...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := parseCDXJ(t, index.Bytes()), parseCDXJ(t, foreign)
			if len(ours) < 12 || len(ours) != len(theirs) {
				t.Errorf("%d lines of ours, %d of theirs", len(ours), len(theirs))
			}
			methods := make(map[string]int)
			for place, got := range ours {
				methods[got.Method]++
				if want := theirs[place]; likeWarcio(got) != want {
					t.Errorf("%s: we have\n%+v\nwarcio has\n%+v", place, got, want)
				}
			}
			for _, method := range []string{"", "HEAD", "POST", "PUT"} {
				if methods[method] == 0 {
					t.Errorf("there is nothing of %q to compare", method)
				}
			}
		})
	}
}

// likeWarcio makes of our line what warcio writes.
func likeWarcio(l cdxLine) cdxLine {
	if _, sum, found := strings.Cut(l.Digest, ":"); found {
		l.Digest = sum // it leaves out the algorithm
	}
	if l.MIME == "unk" {
		l.MIME = "" // and what is not known
	}
	if l.Method != "" && l.RequestBody == "" {
		l.RequestBody = "__wb_post_data=" // and encodes a body that is not there
		l.Key += "&" + l.RequestBody
	}
	return l
}
