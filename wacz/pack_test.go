package wacz

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
)

// A sample is a record to be written.
type sample struct {
	kind, id, url, concurrent string
	block                     string
	fields                    warc.Header
}

func get(id, url, concurrent, fields string) sample {
	path := "/" + strings.SplitN(url, "/", 4)[3]
	return sample{kind: "request", id: id, url: url, concurrent: concurrent, block: "GET " + path + " HTTP/1.1\r\nHost: example.org\r\n" + fields + "\r\n"}
}

func htmlPage(id, url, concurrent, body string) sample {
	return sample{kind: "response", id: id, url: url, concurrent: concurrent, block: "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body}
}

// writeFile writes a WARC file, compressed if its name says so.
func writeFile(t testing.TB, name string, samples ...sample) string {
	t.Helper()
	var b bytes.Buffer
	w := warc.NewWriter(&b, warc.WriterOptions{})
	if !strings.HasSuffix(name, ".gz") {
		t.Fatal("only gzip is written here")
	}
	for i, s := range samples {
		h := warc.Header{
			{Name: "WARC-Type", Value: s.kind},
			{Name: "WARC-Record-ID", Value: "<urn:test:" + s.id + ">"},
			{Name: "WARC-Date", Value: fmt.Sprintf("2026-11-21T10:15:%02d.500Z", i)},
			{Name: "WARC-Target-URI", Value: s.url},
		}
		if s.concurrent != "" {
			h.Add("WARC-Concurrent-To", "<urn:test:"+s.concurrent+">")
		}
		if s.kind == "resource" {
			h.Add("Content-Type", "text/html")
		} else {
			h.Add("Content-Type", "application/http")
		}
		h = append(h, s.fields...)
		if err := w.WriteRecord(h, strings.NewReader(s.block), int64(len(s.block))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// pack packs files and returns the package and the files in it.
func pack(t testing.TB, opts Options, files ...string) ([]byte, map[string]string) {
	t.Helper()
	var b bytes.Buffer
	if _, err := Pack(context.Background(), &b, files, opts); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	contents := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[f.Name] = string(content)
		if f.Method != zip.Store || !f.Modified.Truncate(time.Minute).Equal(time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)) {
			t.Errorf("%s has method %d and time %v", f.Name, f.Method, f.Modified)
		}
	}
	return b.Bytes(), contents
}

// pagesOf are the lines of the list of pages but for the first.
func pagesOf(t *testing.T, contents map[string]string) (pages []page) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(contents[pagesName], "\n"), "\n")
	for _, line := range lines[1:] {
		var p page
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		pages = append(pages, p)
	}
	return pages
}

func TestPack(t *testing.T) {
	path := writeFile(t, "Ünusual NAME.warc.gz", htmlPage("1", "http://example.org/", "", "<title>A &amp; B</title>text"))
	log := filepath.Join(t.TempDir(), "failures.jsonl")
	if err := os.WriteFile(log, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	opts := Options{Title: "<T>", Description: "D", Software: "S", MainPage: "http://example.org/", Logs: []string{log}}
	octets := int64(0)
	opts.Progress = func(n int64) { octets += n }
	packed, contents := pack(t, opts, path)
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if octets != Passes*int64(len(original)) {
		t.Errorf("the progress is %d octets, want %d times %d", octets, Passes, len(original))
	}
	for name, want := range map[string]string{
		"archive/Ünusual NAME.warc.gz": string(original),
		"logs/failures.jsonl":          "{}\n",
		"pages/pages.jsonl": `{"format":"json-pages-1.0","id":"pages","title":"Pages","hasText":true}
{"id":"` + pagesOf(t, contents)[0].ID + `","url":"http://example.org/","ts":"2026-11-21T10:15:00.5Z","title":"A & B","text":"text"}
`,
		"datapackage-digest.json": fmt.Sprintf("{\n  \"path\": \"datapackage.json\",\n  \"hash\": \"sha256:%x\"\n}\n", sha256.Sum256([]byte(contents[packageName]))),
	} {
		if contents[name] != want {
			t.Errorf("%s is\n%s, want\n%s", name, contents[name], want)
		}
	}
	if index := contents[indexName]; !strings.HasPrefix(index, "org,example)/ 20261121101500500 {") || !strings.Contains(index, `"\u00dcnusual NAME.warc.gz"`) {
		t.Errorf("the index is %s", index)
	}
	var pkg dataPackage
	if err := json.Unmarshal([]byte(contents[packageName]), &pkg); err != nil {
		t.Fatal(err)
	}
	resources := pkg.Resources
	pkg.Resources = nil
	want := dataPackage{
		Profile: "data-package", Version: "1.1.1", Title: "<T>", Description: "D", Software: "S",
		Created: "2026-11-21T10:15:00Z", Modified: "2026-11-21T10:15:00Z",
		MainPageURL: "http://example.org/", MainPageDate: "2026-11-21T10:15:00.5Z",
	}
	if fmt.Sprint(pkg) != fmt.Sprint(want) {
		t.Errorf("datapackage.json is %+v, want %+v", pkg, want)
	}
	if len(resources) != 4 || len(contents) != 6 {
		t.Errorf("%d resources and %d files", len(resources), len(contents))
	}
	for _, r := range resources {
		content := contents[r.Path]
		if r.Bytes != int64(len(content)) || r.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) || notInResourceName.MatchString(r.Name) || r.Name == "" {
			t.Errorf("resource %+v", r)
		}
	}
	opts.Progress = nil
	if again, _ := pack(t, opts, path); !bytes.Equal(again, packed) {
		t.Error("packed again it is another package")
	}
}

func TestPackRefuses(t *testing.T) {
	good := writeFile(t, "good.warc.gz", htmlPage("1", "http://example.org/", "", "x"))
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer // one gzip member for all records
	gz := gzip.NewWriter(&whole)
	gz.Write(plain)
	gz.Write(plain)
	gz.Close()
	for name, c := range map[string]struct {
		files []string
		opts  Options
		says  string
	}{
		"none":        {nil, Options{}, "no files"},
		"missing":     {[]string{filepath.Join(dir, "missing")}, Options{}, "no such file"},
		"empty":       {[]string{in("empty.warc", nil)}, Options{}, "empty"},
		"no WARC":     {[]string{in("text.warc", []byte("text"))}, Options{}, "text.warc"},
		"zstd":        {[]string{in("z.warc.zst", []byte("\x28\xb5\x2f\xfd...."))}, Options{}, "convert"},
		"dictionary":  {[]string{in("d.warc.zst", []byte("\x5d\x2a\x4d\x18...."))}, Options{}, "convert"},
		"gzip name":   {[]string{in("x.warc", content)}, Options{}, ".warc.gz"},
		"plain name":  {[]string{in("y.warc.gz", plain)}, Options{}, ".warc;"},
		"one member":  {[]string{in("one.warc.gz", whole.Bytes())}, Options{}, "convert"},
		"same name":   {[]string{good, in("good.warc.gz", content)}, Options{}, "same name"},
		"bad name":    {[]string{in("a\nb.warc.gz", content)}, Options{}, "rename"},
		"same log":    {[]string{good}, Options{Logs: []string{good, filepath.Join(dir, "good.warc.gz")}}, "another file of this name"},
		"no page":     {[]string{good}, Options{MainPage: "http://example.org/other"}, "not in the list"},
		"pages":       {[]string{good}, Options{Pages: in("p", []byte("{"))}, "line 1 is no JSON"},
		"pages, url":  {[]string{good}, Options{Pages: in("q", []byte("{\"format\":\"json-pages-1.0\"}\n{\"ts\":\"2026-01-01T00:00:00Z\"}\n"))}, "line 2 has no url"},
		"pages, time": {[]string{good}, Options{Pages: in("r", []byte("\n{\"url\":\"http://a\",\"ts\":\"2026\"}\n"))}, "line 2: ts"},
	} {
		t.Run(name, func(t *testing.T) {
			var scratches = t.TempDir()
			c.opts.TempDir = scratches
			_, err := Pack(context.Background(), io.Discard, c.files, c.opts)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if left, _ := os.ReadDir(scratches); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Pack(ctx, io.Discard, []string{good}, Options{}); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}

// A file that is damaged behind its start is packed, and the damage told. What is
// whole behind the damage is found.
func TestPackDamaged(t *testing.T) {
	one, two, three := htmlPage("1", "http://example.org/", "", "x"), htmlPage("2", "http://example.org/2", "", "y"), htmlPage("3", "http://example.org/3", "", "z")
	middle := writeFile(t, "middle.warc.gz", one, two, three)
	content, err := os.ReadFile(middle)
	if err != nil {
		t.Fatal(err)
	}
	from := int(fileSize(t, writeFile(t, "a.warc.gz", one)))
	clear(content[from+4 : from+60])
	if err := os.WriteFile(middle, content, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Pack(context.Background(), io.Discard, []string{middle}, Options{})
	if err != nil || len(found.Damaged) != 1 || found.Captures != 2 || found.Pages != 2 {
		t.Errorf("damaged in its middle: %+v, %v", found, err)
	}
	path := writeFile(t, "cut.warc.gz", htmlPage("1", "http://example.org/", "", "x"), htmlPage("2", "http://example.org/2", "", "y"))
	if err := os.Truncate(path, fileSize(t, path)-20); err != nil {
		t.Fatal(err)
	}
	summary, err := Pack(context.Background(), io.Discard, []string{path}, Options{})
	if err != nil || len(summary.Damaged) != 1 || !strings.Contains(summary.Damaged[0].Error(), path) {
		t.Errorf("got %+v, %v", summary, err)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A file that changes while it is packed is not what the index tells of.
func TestPackChanging(t *testing.T) {
	for name, change := range map[string]func(path string, was os.FileInfo) error{
		"longer, of the same time": func(path string, was os.FileInfo) error {
			return errors.Join(os.Truncate(path, was.Size()+1), os.Chtimes(path, time.Time{}, was.ModTime()))
		},
		"as long, of another time": func(path string, was os.FileInfo) error {
			return os.Chtimes(path, time.Time{}, was.ModTime().Add(time.Second))
		},
	} {
		path := writeFile(t, "x.warc.gz", htmlPage("1", "http://example.org/", "", "x"))
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		passed := int64(0)
		opts := Options{Progress: func(n int64) {
			if passed += n; passed == Passes*was.Size() {
				if err := change(path, was); err != nil {
					t.Error(err)
				}
			}
		}}
		if _, err := Pack(context.Background(), io.Discard, []string{path}, opts); err == nil || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Names of resources are unique, whatever the directories.
func TestResourceNames(t *testing.T) {
	path := writeFile(t, "X.warc.gz", htmlPage("1", "http://example.org/", "", "x"))
	_, contents := pack(t, Options{Logs: []string{path}}, path)
	for _, name := range []string{`"name": "x.warc.gz"`, `"name": "2-x.warc.gz"`} {
		if !strings.Contains(contents[packageName], name) {
			t.Errorf("no resource %s in %s", name, contents[packageName])
		}
	}
}

// A long index comes in blocks that can be read one by one.
func TestIndexInBlocks(t *testing.T) {
	var samples []sample
	const n = 2*blockLines + 1
	for i := range n {
		samples = append(samples, sample{kind: "response", id: fmt.Sprint(i), url: fmt.Sprintf("http://example.org/%05d", i),
			block: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"})
	}
	path := writeBare(t, samples)
	opts := Options{Created: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)}
	_, contents := pack(t, opts, path)
	if contents[indexName] != "" {
		t.Error("there is a plain index too")
	}
	lines := strings.Split(strings.TrimSpace(contents[lookupName]), "\n")
	if len(lines) != 4 || lines[0] != `!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}` {
		t.Fatalf("the lookup is\n%s", contents[lookupName])
	}
	blocks := contents[blocksName]
	total, end := 0, 0
	for _, line := range lines[1:] {
		key, object, _ := strings.Cut(line, " {")
		var block struct {
			Offset, Length   int
			Digest, Filename string
		}
		if err := json.Unmarshal([]byte("{"+object), &block); err != nil {
			t.Fatal(err)
		}
		raw := blocks[block.Offset : block.Offset+block.Length]
		gz, err := gzip.NewReader(strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(gz)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), key+" {") || block.Offset != end || block.Filename != "index.cdx.gz" || block.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(raw))) {
			t.Errorf("line %s", line)
		}
		end = block.Offset + block.Length
		total += strings.Count(string(text), "\n")
	}
	if total != n || end != len(blocks) {
		t.Errorf("the blocks have %d lines in %d octets of %d", total, end, len(blocks))
	}
}

// writeBare writes samples of one date.
func writeBare(t *testing.T, samples []sample) string {
	t.Helper()
	var b bytes.Buffer
	w := warc.NewWriter(&b, warc.WriterOptions{})
	for _, s := range samples {
		h := warc.Header{
			{Name: "WARC-Type", Value: s.kind},
			{Name: "WARC-Record-ID", Value: "<urn:test:" + s.id + ">"},
			{Name: "WARC-Date", Value: "2026-11-21T10:15:00Z"},
			{Name: "WARC-Target-URI", Value: s.url},
			{Name: "Content-Type", Value: "application/http"},
		}
		if s.concurrent != "" {
			h.Add("WARC-Concurrent-To", "<urn:test:"+s.concurrent+">")
		}
		if err := w.WriteRecord(h, strings.NewReader(s.block), int64(len(s.block))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "bare.warc.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestZipTime(t *testing.T) {
	for in, want := range map[string]string{
		"1815-12-10T00:00:00Z":           "1980-01-01T00:00:00Z",
		"9999-01-01T00:00:00Z":           "2107-12-31T23:59:58Z",
		"2026-11-21T12:15:01.5+02:00":    "2026-11-21T10:15:00Z",
		"2026-11-21T10:15:02.999999999Z": "2026-11-21T10:15:02Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := zipTime(at).Format(time.RFC3339Nano); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
