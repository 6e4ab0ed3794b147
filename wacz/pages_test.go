package wacz

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

const browserFields = "User-Agent: Mozilla/5.0\r\n"

// Which captures are pages.
func TestFindPages(t *testing.T) {
	const url = "https://example.org/"
	page := htmlPage("a", url, "r", "x")
	status := func(head string) sample {
		s := page
		s.block = head + "\r\n\r\nx"
		return s
	}
	for name, c := range map[string]struct {
		want    bool
		samples []sample
	}{
		"alone":                     {true, []sample{page}},
		"document":                  {true, []sample{get("r", url, "a", browserFields+"Sec-Fetch-Dest: document\r\n"), page}},
		"document, response first":  {true, []sample{page, get("r", url, "a", browserFields+"Sec-Fetch-Dest: document\r\n")}},
		"frame":                     {false, []sample{get("r", url, "a", browserFields+"Sec-Fetch-Dest: iframe\r\n"), page}},
		"frame, response first":     {false, []sample{page, get("r", url, "a", browserFields+"Sec-Fetch-Dest: iframe\r\n")}},
		"frame, one link":           {false, []sample{get("r", url, "", "Sec-Fetch-Dest: iframe\r\n"), page}},
		"frame, the other link":     {false, []sample{get("r", url, "a", "Sec-Fetch-Dest: iframe\r\n"), htmlPage("a", url, "", "x")}},
		"frame of another":          {true, []sample{get("q", url, "b", "Sec-Fetch-Dest: iframe\r\n"), page}},
		"data":                      {false, []sample{get("r", url, "a", "Sec-Fetch-Dest: empty\r\nAccept: text/html\r\n"), page}},
		"script's data, no TLS":     {false, []sample{get("r", url, "a", browserFields+"X-Requested-With: XMLHttpRequest\r\nAccept: text/html\r\n"), page}},
		"fetch, no TLS":             {false, []sample{get("r", url, "a", browserFields+"Accept: */*\r\n"), page}},
		"navigation, no TLS":        {true, []sample{get("r", url, "a", browserFields+"Accept: text/html,*/*;q=0.8\r\n"), page}},
		"curl":                      {true, []sample{get("r", url, "a", "User-Agent: curl/8\r\nAccept: */*\r\n"), page}},
		"post":                      {false, []sample{{kind: "request", id: "r", url: url, concurrent: "a", block: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"}, page}},
		"request not understood":    {true, []sample{{kind: "request", id: "r", url: url, concurrent: "a", block: "\x00\r\n\r\n"}, page}},
		"not found":                 {false, []sample{status("HTTP/1.1 404 Not Found\r\nContent-Type: text/html")}},
		"redirect":                  {false, []sample{status("HTTP/1.1 301 Moved\r\nContent-Type: text/html")}},
		"no type":                   {false, []sample{status("HTTP/1.1 200 OK")}},
		"xhtml":                     {true, []sample{status("HTTP/1.1 200 OK\r\nContent-Type: Application/XHTML+xml;charset=x")}},
		"image":                     {false, []sample{status("HTTP/1.1 200 OK\r\nContent-Type: image/png")}},
		"no HTTP":                   {false, []sample{status("junk")}},
		"unknown coding":            {true, []sample{status("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: x-odd")}},
		"resource":                  {true, []sample{{kind: "resource", id: "a", url: url, block: "<p>x"}}},
		"no web address":            {false, []sample{{kind: "resource", id: "a", url: "urn:x:y", block: "<p>x"}}},
		"metadata":                  {false, []sample{{kind: "metadata", id: "a", url: url, block: "x"}}},
		"revisit without its first": {true, []sample{{kind: "revisit", id: "a", url: url, block: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, contents := pack(t, Options{}, writeFile(t, "x.warc.gz", c.samples...))
			pages := pagesOf(t, contents)
			if found := len(pages) == 1 && pages[0].URL == url; found != c.want || len(pages) > 1 {
				t.Errorf("the pages are %+v; want one: %v", pages, c.want)
			}
		})
	}
}

// The main page is one whatever it is.
func TestMainPage(t *testing.T) {
	s := sample{kind: "response", id: "a", url: "http://example.org/doc", block: "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF"}
	path := writeFile(t, "x.warc.gz", s)
	if _, contents := pack(t, Options{}, path); len(pagesOf(t, contents)) != 0 {
		t.Errorf("a PDF is a page:\n%s", contents[pagesName])
	}
	_, contents := pack(t, Options{MainPage: s.url}, path)
	if pages := pagesOf(t, contents); len(pages) != 1 || pages[0].Text != "" {
		t.Errorf("the pages are %+v", pages)
	}
	frame := get("r", s.url, "a", browserFields+"Sec-Fetch-Dest: iframe\r\n")
	head := sample{kind: "request", id: "q", url: s.url, concurrent: "b", block: "HEAD /doc HTTP/1.1\r\nHost: example.org\r\n\r\n"}
	answer := sample{kind: "response", id: "b", url: s.url, block: "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n"}
	for _, samples := range [][]sample{{frame, s, head, answer}, {s, frame, answer, head}} {
		_, contents = pack(t, Options{MainPage: s.url}, writeFile(t, "y.warc.gz", samples...))
		if pages := pagesOf(t, contents); len(pages) != 1 {
			t.Errorf("with what a HEAD got the pages are %+v", pages)
		}
	}
}

// Requests that come late find their page, until too many others have come.
func TestPagesWait(t *testing.T) {
	var samples []sample
	const n = visitsKept + 2
	for i := range n {
		samples = append(samples, htmlPage(fmt.Sprintf("p%d", i), fmt.Sprintf("https://example.org/%d", i), "", "x"))
	}
	for i := range n {
		samples = append(samples, get(fmt.Sprintf("r%d", i), fmt.Sprintf("https://example.org/%d", i), fmt.Sprintf("p%d", i), "Sec-Fetch-Dest: iframe\r\n"))
	}
	_, contents := pack(t, Options{}, writeFile(t, "x.warc.gz", samples...))
	if pages := pagesOf(t, contents); len(pages) != n-visitsKept {
		t.Errorf("%d pages, want %d", len(pages), n-visitsKept)
	}
	samples = nil
	for i := range requestsKept + 1 {
		samples = append(samples, get(fmt.Sprintf("r%d", i), fmt.Sprintf("https://example.org/%d", i), fmt.Sprintf("p%d", i), "Sec-Fetch-Dest: iframe\r\n"))
	}
	for _, i := range []int{0, 1, requestsKept} {
		samples = append(samples, htmlPage(fmt.Sprintf("p%d", i), fmt.Sprintf("https://example.org/%d", i), "", "x"))
	}
	_, contents = pack(t, Options{}, writeBare(t, samples))
	if pages := pagesOf(t, contents); len(pages) != 1 || pages[0].URL != "https://example.org/0" {
		t.Errorf("the pages are %+v, want the first alone", pages)
	}
}

// A revisit of a page is a page, with the title that it had.
func TestRevisitedPage(t *testing.T) {
	digest := warc.Header{{Name: "WARC-Payload-Digest", Value: "sha1:AAAA"}}
	first := htmlPage("a", "http://example.org/", "", "<title>Its title</title>text")
	first.fields = digest
	again := sample{kind: "revisit", id: "b", url: "http://example.org/", fields: digest, block: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"}
	document := browserFields + "Sec-Fetch-Dest: document\r\n"
	_, contents := pack(t, Options{}, writeFile(t, "x.warc.gz", get("q", first.url, "a", document), first, get("r", first.url, "b", document), again))
	pages := pagesOf(t, contents)
	if len(pages) != 2 || pages[1].Title != "Its title" || pages[1].Text != "" || pages[0].Text != "text" || pages[0].ID == pages[1].ID {
		t.Errorf("the pages are %+v", pages)
	}
	_, contents = pack(t, Options{NoText: true}, writeFile(t, "x.warc.gz", first, again))
	if list := contents[pagesName]; strings.Contains(list, "text") || strings.Contains(list, "hasText") || !strings.Contains(list, "Its title") {
		t.Errorf("without text the list is\n%s", list)
	}

	// The title comes from where the original is.
	_, contents = pack(t, Options{}, writeFile(t, "y.warc.gz", get("r", first.url, "b", document), again), writeFile(t, "x.warc.gz", first))
	if pages := pagesOf(t, contents); len(pages) != 1 || pages[0].Title != "Its title" || strings.Contains(contents[pagesName], "digest") {
		t.Errorf("with the original in a later file the pages are\n%s", contents[pagesName])
	}
}

// What many requests of programs got does not make a list that nobody can read: a
// page is listed once, and those come first that somebody went to.
func TestManyPages(t *testing.T) {
	digest := func(s string) warc.Header { return warc.Header{{Name: "WARC-Payload-Digest", Value: "sha1:" + s}} }
	var samples []sample
	add := func(url, payload, fields string) {
		n := len(samples)
		page := htmlPage(fmt.Sprint("p", n), url, "", "<p>"+payload)
		page.fields = digest(payload)
		samples = append(samples, get(fmt.Sprint("r", n), url, page.id, fields), page)
	}
	browser := browserFields + "Accept: text/html\r\n"
	alone := htmlPage("alone", "http://example.org/alone", "", "<p>no request")
	samples = append(samples, alone)
	add("http://example.org/linked", "A", browser+"Referer: http://example.org/\r\n")
	for range 5 {
		add("http://example.org/again", "B", "") // of a program
	}
	add("http://example.org/again", "C", "") // it has changed
	for range 2 {
		add("http://example.org/visited", "D", browser+"Referer: http://example.org/\r\nSec-Fetch-Dest: document\r\n")
	}
	path := writeFile(t, "x.warc.gz", samples...)
	all := []string{"visited", "visited", "again", "again", "linked", "alone"}
	for most := 1; most <= len(all)+1; most++ {
		var b bytes.Buffer
		summary, err := Pack(t.Context(), &b, []string{path}, Options{MaxPages: most})
		if err != nil {
			t.Fatal(err)
		}
		_, contents := pack(t, Options{MaxPages: most}, path)
		var urls []string
		for _, p := range pagesOf(t, contents) {
			urls = append(urls, strings.TrimPrefix(p.URL, "http://example.org/"))
		}
		n := min(most, len(all))
		if !slices.Equal(urls, all[:n]) || summary.Pages != n || summary.Unlisted != int64(len(all)-n) {
			t.Errorf("with room for %d: %q, %d and %d more", most, urls, summary.Pages, summary.Unlisted)
		}
	}
}

// However long their texts and URLs are, the list is bounded.
func TestLongPages(t *testing.T) {
	found, err := newFoundPages(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer found.close()
	s, err := newScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list := &pageList{scratch: s}
	defer list.close()
	add := func(n int, text, url string) {
		for i := range n {
			p := foundPage{page: page{URL: fmt.Sprintf("http://example.org/%s%d", url, i), Text: text}}
			if err := found.add(p, entered, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := strings.Repeat("words ", 100_000)
	add(100, text, "")
	add(5000, "", strings.Repeat("u", 20_000))
	add(1, "", strings.Repeat("u", maxPageURL))
	pages, err := found.pour(list)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := list.copyTo(&b); err != nil {
		t.Fatal(err)
	}
	withText := strings.Count(b.String(), text)
	if b.Len() > maxListOctets+1000 || withText != MaxPageText/(len(text)+80) || int64(withText) != 100-found.textless || pages != 5101-int(found.unlisted) || pages < 700 {
		t.Errorf("a list of %d octets has %d pages, %d of them with text; %d are not in it, %d have lost their text", b.Len(), pages, withText, found.unlisted, found.textless)
	}
}

func TestCompressedPage(t *testing.T) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	fmt.Fprint(gz, "<title>zipped</title>")
	gz.Close()
	s := htmlPage("a", "http://example.org/", "", "")
	s.block = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", b.Len(), b.String())
	_, contents := pack(t, Options{}, writeFile(t, "x.warc.gz", s))
	if pages := pagesOf(t, contents); len(pages) != 1 || pages[0].Title != "zipped" {
		t.Errorf("the pages are %+v", pages)
	}
}

func TestGivenPages(t *testing.T) {
	list := filepath.Join(t.TempDir(), "pages.jsonl")
	given := `{"format":"json-pages-1.0","id":"mine","title":"My <pages>"}

{"url":"http://example.org/a","ts":"2026-01-01T00:00:00Z","id":"1","more":12345678901234567890}
{"url":"http://example.org/b","ts":"2026-01-02T00:00:00+01:00","title":"B","text":"words"}
`
	if err := os.WriteFile(list, []byte(given), 0o644); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "x.warc.gz", htmlPage("a", "http://example.org/", "", "x"))
	_, contents := pack(t, Options{Pages: list, MainPage: "http://example.org/b"}, path)
	lines := strings.Split(contents[pagesName], "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], `"id":"mine","title":"My \u003cpages\u003e","hasText":true`) ||
		!strings.Contains(lines[1], `"more":12345678901234567890`) || !strings.Contains(lines[2], `"id":"`) {
		t.Errorf("the list is\n%s", contents[pagesName])
	}
	if !strings.Contains(contents[packageName], `"mainPageDate": "2026-01-02T00:00:00+01:00"`) {
		t.Errorf("the package is\n%s", contents[packageName])
	}
	if err := os.WriteFile(list, []byte(strings.Split(given, "\n")[2]), 0o644); err != nil {
		t.Fatal(err)
	}
	_, contents = pack(t, Options{Pages: list}, path)
	if !strings.HasPrefix(contents[pagesName], `{"format":"json-pages-1.0","id":"pages","title":"Pages"}`+"\n"+`{"id":"1",`) {
		t.Errorf("a list without a header becomes\n%s", contents[pagesName])
	}
}

func TestReadHTML(t *testing.T) {
	for in, want := range map[string][2]string{
		"":                            {"", ""},
		"plain  text\n\there":         {"", "plain text here"},
		"<title> a\n b </title>c":     {"a b", "c"},
		"<p>one<p>two<br>three":       {"", "one two three"},
		"w<b>or</b>d <i>i</i>nline":   {"", "word inline"},
		"a<script>b</script>c":        {"", "a c"},
		"a<style>b</style><!-- c -->": {"", "a"},
		"a<noscript><p>b</noscript>c<iframe>d</iframe>e<textarea>f</textarea>": {"", "a c e"},
		"<svg><title>not</title><text>nor this</text></svg><title>yes</title>": {"yes", ""},
		"<title>first</title><title>second</title>x":                           {"first", "x"},
		"&lt;b&gt; &amp; &#xe4;&nbsp;x":                                        {"", "<b> & ä x"},
		"a\x00b\x1b[2Jc":                                                       {"", "a b [2Jc"},
		"<title>" + strings.Repeat("é ", maxTitle) + "</title>":                {strings.TrimSuffix(strings.Repeat("é ", 340), " "), ""},
		"\xef\xbb\xbf<title>BOM</title>":                                       {"BOM", ""},
	} {
		if title, text := readHTML(strings.NewReader(in), "text/html; charset=utf-8"); title != want[0] || text != want[1] {
			t.Errorf("%.80q has title %q (%d) and text %q, want %q", in, title, len(title), text, want)
		}
	}
	for contentType, in := range map[string]string{
		"text/html; charset=iso-8859-1": "<title>gr\xfc\xdfe</title>",
		"text/html":                     "<meta charset=windows-1252><title>gr\xfc\xdfe</title>",
		"text/html; charset=shift_jis":  "<title>gr\x81\x8b</title>",
	} {
		title, _ := readHTML(strings.NewReader(in), contentType)
		if want := map[bool]string{true: "gr°", false: "grüße"}[strings.HasSuffix(contentType, "jis")]; title != want {
			t.Errorf("%s: %q", contentType, title)
		}
	}
	long := "<p>" + strings.Repeat("many words ", maxHTML)
	if _, text := readHTML(strings.NewReader(long), "text/html; charset=utf-8"); len(text) > maxHTML || len(text) < maxHTML/2 {
		t.Errorf("a long page has a text of %d octets", len(text))
	}
}

func FuzzHTML(f *testing.F) {
	f.Add("<title>a</title><p>b&amp;", "text/html")
	f.Add("<svg><title>\xff<script>", "text/html; charset=utf-16")
	f.Fuzz(func(t *testing.T, in, contentType string) {
		title, text := readHTML(strings.NewReader(in), contentType)
		for _, s := range []string{title, text} {
			if strings.Join(strings.Fields(s), " ") != s {
				t.Errorf("white space is left in %q", s)
			}
		}
		if len(title) > maxTitle || len(text) > maxHTML {
			t.Errorf("%d octets of title, %d of text", len(title), len(text))
		}
	})
}
