package wacz

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

const (
	originalURL = "http://example.org/original"
	lastRevisit = "http://example.org/again"
)

// originalsFile writes a file with an original and what belongs to it, in some form.
func originalsFile(t *testing.T, name string, o warc.WriterOptions, change func(h warc.Header) warc.Header, request string) string {
	t.Helper()
	var b bytes.Buffer
	w := warc.NewWriter(&b, o)
	write := func(kind, id, contentType, block string, fields ...warc.Field) {
		h := append(warc.Header{
			{Name: "WARC-Type", Value: kind},
			{Name: "WARC-Record-ID", Value: "<urn:test:" + id + ">"},
			{Name: "WARC-Date", Value: "2026-11-20T10:15:00.678Z"},
			{Name: "Content-Type", Value: contentType},
		}, fields...)
		if id == "o" && change != nil {
			h = change(h)
		}
		if err := w.WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
	}
	target := warc.Field{Name: "WARC-Target-URI", Value: originalURL}
	write("warcinfo", "info", "application/warc-fields", "software: x\r\n")
	write("response", "other", "application/http", "HTTP/1.1 200 OK\r\n\r\nother", warc.Field{Name: "WARC-Target-URI", Value: "http://example.org/other"})
	if request != "" {
		write("request", "q", "application/http", request, target, warc.Field{Name: "WARC-Concurrent-To", Value: "<urn:test:o>"})
	}
	write("response", "o", "application/http", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>Its title</title>text", target,
		warc.Field{Name: "WARC-Payload-Digest", Value: "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, warc.Field{Name: "WARC-Warcinfo-ID", Value: "<urn:test:info>"})
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// revisitOf is a revisit with such fields in place of, or beside, the usual ones.
func revisitOf(id, status string, fields ...warc.Field) sample {
	h := warc.Header{
		{Name: "WARC-Refers-To", Value: "<urn:test:o>"},
		{Name: "WARC-Refers-To-Target-URI", Value: originalURL},
		{Name: "WARC-Refers-To-Date", Value: "2026-11-20T10:15:00.678Z"},
		{Name: "WARC-Payload-Digest", Value: "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
	}
	for _, f := range fields {
		for i := range h {
			if h[i].Name == f.Name {
				h = append(h[:i:i], h[i+1:]...)
				break
			}
		}
		if f.Value != "" {
			h = append(h, f)
		}
	}
	return sample{kind: "revisit", id: id, url: lastRevisit, fields: h, block: "HTTP/1.1 " + status + "\r\nContent-Type: text/html\r\n\r\n"}
}

// packedWith packs files, and returns the package's files and the summary.
func packedWith(t *testing.T, opts Options, files ...string) (map[string]string, Summary) {
	t.Helper()
	var b bytes.Buffer
	summary, err := Pack(t.Context(), &b, files, opts)
	if err != nil {
		t.Fatal(err)
	}
	again, contents := pack(t, opts, files...)
	if !bytes.Equal(again, b.Bytes()) {
		t.Errorf("the same files make another package")
	}
	return contents, summary
}

// Which revisits have no original in a package.
func TestMissingOriginals(t *testing.T) {
	for name, c := range map[string]struct {
		revisit sample
		missing bool // even with the original there
		needs   bool // it is missing without the original
	}{
		"usual":                 {revisitOf("v", "200 OK"), false, true},
		"redirect":              {revisitOf("v", "301 Moved"), false, false}, // replay programs need no payload
		"empty":                 {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Payload-Digest", Value: "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"}), false, false},
		"no id":                 {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To"}), false, true},
		"date in seconds":       {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To-Date", Value: "2026-11-20T10:15:00Z"}), false, true},
		"no date":               {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To-Date"}), false, true},
		"no digest":             {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Payload-Digest"}), false, true},
		"another algorithm":     {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Payload-Digest", Value: "sha256:" + strings.Repeat("0", 64)}), false, true},
		"another payload":       {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Payload-Digest", Value: "sha1:" + strings.Repeat("B", 32)}), true, true},
		"another URL":           {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To-Target-URI", Value: "http://example.org/x"}), true, true},
		"no URL":                {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To-Target-URI"}), true, true},
		"URL in angle brackets": {revisitOf("v", "200 OK", warc.Field{Name: "WARC-Refers-To-Target-URI", Value: "<" + originalURL + ">"}), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "x.warc.gz", c.revisit)
			original := originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, s := packedWith(t, Options{}, file); (s.Unresolved == 1) != c.needs || len(s.Missing) != int(s.Unresolved) {
				t.Errorf("without the original %d revisits are not resolved, %v is missing", s.Unresolved, s.Missing)
			}
			if _, s := packedWith(t, Options{}, original, file); (s.Unresolved == 1) != c.missing {
				t.Errorf("with the original %d revisits are not resolved, %v is missing", s.Unresolved, s.Missing)
			}
		})
	}
}

// An original that answers a POST is there, and no replay program finds it.
func TestOriginalOfPost(t *testing.T) {
	original := originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if _, s := packedWith(t, Options{}, original, writeFile(t, "x.warc.gz", revisitOf("v", "200 OK"))); s.Unresolved != 1 {
		t.Errorf("%d revisits are not resolved, %v is missing", s.Unresolved, s.Missing)
	}
}

// Originals are taken from files of any form, with their requests.
func TestAddOriginals(t *testing.T) {
	const request = "GET /original HTTP/1.1\r\nHost: example.org\r\n\r\n"
	file := writeFile(t, "x.warc.gz", get("q1", lastRevisit, "v1", ""), revisitOf("v1", "200 OK"), revisitOf("v2", "404 Not Found"),
		revisitOf("v3", "200 OK", warc.Field{Name: "WARC-Refers-To", Value: "<urn:test:lost>"}, warc.Field{Name: "WARC-Refers-To-Target-URI", Value: "http://example.org/lost"}))
	for name, c := range map[string]struct {
		file    string
		records string // types in the file of originals
		reason  string
	}{
		"gzip":       {originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, request), "warcinfo warcinfo request response", ""},
		"plain":      {originalsFile(t, "o.warc", warc.WriterOptions{Compression: warc.Plain}, nil, request), "warcinfo warcinfo request response", ""},
		"zstd":       {originalsFile(t, "o.warc.zst", warc.WriterOptions{Compression: warc.Zstd}, nil, request), "warcinfo warcinfo request response", ""},
		"1.0":        {originalsFile(t, "o.warc.gz", warc.WriterOptions{Version: warc.V1_0}, nil, request), "warcinfo warcinfo request response", ""},
		"no request": {originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, ""), "warcinfo warcinfo response", ""},
		"another id": {originalsFile(t, "o.warc.gz", warc.WriterOptions{}, func(h warc.Header) warc.Header { h[1].Value = "<urn:test:o2>"; return h }, ""), "warcinfo warcinfo response", ""},
		"a POST":     {originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "", `answers a "POST"`},
		"in segments": {originalsFile(t, "o.warc.gz", warc.WriterOptions{}, func(h warc.Header) warc.Header {
			return append(h, warc.Field{Name: "WARC-Segment-Number", Value: "1"})
		}, request), "", "in segments"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Originals: []string{writeFile(t, "unrelated.warc.gz", htmlPage("u", originalURL, "", "x")), c.file}, TempDir: t.TempDir()}
			contents, s := packedWith(t, opts, file)
			taken := int64(1)
			if c.reason != "" {
				taken = 0
			}
			if s.Added != taken || s.Unresolved != 3-2*taken || len(s.Missing) != int(2-taken) || !strings.Contains(s.Missing[0].Reason, c.reason) {
				t.Errorf("%d taken, %d not resolved, missing %+v", s.Added, s.Unresolved, s.Missing)
			}
			if left, _ := os.ReadDir(opts.TempDir); len(left) > 0 {
				t.Errorf("it has left %v", left)
			}
			packed, ok := contents["archive/originals.warc.gz"]
			if ok != (taken == 1) {
				t.Fatalf("is there a file of originals? %v", ok)
			}
			if taken == 0 {
				return
			}
			wantRecords(t, packed, c.records)
			if n := strings.Count(contents[indexName], "\n"); n != 4 || strings.Count(contents[indexName], `"originals.warc.gz"`) != 1 || !strings.Contains(contents[packageName], "archive/originals.warc.gz") {
				t.Errorf("the index is\n%s", contents[indexName])
			}
			if pages := pagesOf(t, contents); len(pages) != 1 || pages[0].URL != lastRevisit || pages[0].Title != "Its title" {
				t.Errorf("the pages are %+v", pages)
			}
		})
	}
}

// wantRecords compares the types of the records of a file, of which each is a member
// of its own.
func wantRecords(t *testing.T, content, want string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "packed.warc.gz")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var types []string
	err = archive.Scan(f, func(p *archive.Place, _ *warc.Reader) error {
		if p.Nth > 0 {
			t.Errorf("%v is not a member of its own", p)
		}
		types = append(types, p.Record.Type())
		return nil
	})
	if got := strings.Join(types, " "); err != nil || got != want {
		t.Errorf("the file of originals has %q, %v, want %q", got, err, want)
	}
}

// What is packed already is not taken once more, and names do not collide.
func TestAddOriginalsFromPackedFile(t *testing.T) {
	original := originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, "")
	file := writeFile(t, "originals.warc.gz", revisitOf("v", "200 OK"))
	contents, s := packedWith(t, Options{Originals: []string{original, file}}, file)
	if _, ok := contents["archive/2-originals.warc.gz"]; !ok || s.Added != 1 || s.Unresolved != 0 {
		t.Errorf("%d taken, %d not resolved", s.Added, s.Unresolved)
	}
	contents, s = packedWith(t, Options{Originals: []string{original, file}}, file, original)
	if _, ok := contents["archive/2-originals.warc.gz"]; ok || s.Added != 0 || s.Unresolved != 0 {
		t.Errorf("with the original among the files: %d taken, %d not resolved", s.Added, s.Unresolved)
	}
}

// A damaged file gives what it has.
func TestAddOriginalsFromDamagedFile(t *testing.T) {
	original := originalsFile(t, "o.warc.gz", warc.WriterOptions{}, nil, "")
	f, err := os.OpenFile(original, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("\x1f\x8b\x08junk")
	f.Close()
	if _, s := packedWith(t, Options{Originals: []string{original}}, writeFile(t, "x.warc.gz", revisitOf("v", "200 OK"), revisitOf("w", "200 OK", warc.Field{Name: "WARC-Refers-To-Target-URI", Value: "http://example.org/lost"}, warc.Field{Name: "WARC-Refers-To"}))); s.Added != 1 || s.Unresolved != 1 || len(s.OriginalsDamaged) != 1 {
		t.Errorf("%d taken, %d not resolved, damage: %v", s.Added, s.Unresolved, s.OriginalsDamaged)
	}
}

// Two originals of one file have its warcinfo once, and the note that one of them
// names: nothing in the file of originals refers to what is not there.
func TestAddTwoOriginals(t *testing.T) {
	info := warc.Field{Name: "WARC-Warcinfo-ID", Value: "<urn:test:info>"}
	capture := func(n string, more ...warc.Field) []sample {
		url := "http://example.org/" + n
		response := htmlPage("o"+n, url, "q"+n, n)
		response.fields = warc.Header{info}
		request := get("q"+n, url, "o"+n, "")
		request.fields = more
		return []sample{request, response}
	}
	note := sample{kind: "metadata", id: "note", url: "http://example.org/1", concurrent: "o1", block: "note: x\r\n"}
	other := sample{kind: "metadata", id: "other", url: "http://example.org/1", block: "note: y\r\n"}
	records := []sample{{kind: "warcinfo", id: "info", block: "software: x\r\n"}}
	records = append(records, capture("1", warc.Field{Name: "WARC-Concurrent-To", Value: "<urn:test:note>"})...)
	records = append(append(records, note, other), capture("2")...)
	originals := writeFile(t, "o.warc.gz", records...)

	revisit := func(n, date string) sample {
		return revisitOf("v"+n, "200 OK", warc.Field{Name: "WARC-Refers-To", Value: "<urn:test:o" + n + ">"},
			warc.Field{Name: "WARC-Refers-To-Target-URI", Value: "http://example.org/" + n},
			warc.Field{Name: "WARC-Refers-To-Date", Value: date}, warc.Field{Name: "WARC-Payload-Digest"})
	}
	file := writeFile(t, "x.warc.gz", revisit("1", "2026-11-21T10:15:02.500Z"), revisit("2", "2026-11-21T10:15:06.500Z"))
	contents, s := packedWith(t, Options{Originals: []string{originals}}, file)
	if s.Added != 2 || s.Unresolved != 0 {
		t.Errorf("%d taken, %d not resolved, missing %+v", s.Added, s.Unresolved, s.Missing)
	}
	wantRecords(t, contents["archive/originals.warc.gz"], "warcinfo warcinfo request response metadata request response")
}
