package cdx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/warctee/warctee/warc"
)

// A testRecord is one that the tests write: fields are Name: value lines.
type testRecord struct {
	kind, target, fields, block string
}

const (
	isRequest  = "Content-Type: application/http; msgtype=request\n"
	isResponse = "Content-Type: application/http; msgtype=response\n"
)

// header returns the fields of the nth record.
func (r testRecord) header(n int) warc.Header {
	h := warc.Header{
		{Name: "WARC-Type", Value: r.kind},
		{Name: "WARC-Record-ID", Value: recordID(n)},
		{Name: "WARC-Date", Value: fmt.Sprintf("2026-11-21T10:15:%02dZ", n%60)},
	}
	if r.target != "" {
		h.Set("WARC-Target-URI", r.target)
	}
	for line := range strings.Lines(r.fields) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		h.Add(name, value)
	}
	return h
}

func recordID(n int) string { return fmt.Sprintf("<urn:uuid:00000000-0000-4000-8000-%012d>", n) }

// write makes a file of records, and returns its path.
func write(t testing.TB, name string, records []testRecord) string {
	t.Helper()
	opts := warc.WriterOptions{Compression: warc.Gzip}
	switch filepath.Ext(name) {
	case ".warc":
		opts.Compression = warc.Plain
	case ".zst":
		opts.Compression = warc.Zstd
	}
	var b bytes.Buffer
	w := warc.NewWriter(&b, opts)
	for n, r := range records {
		if err := w.WriteRecord(r.header(n), strings.NewReader(r.block), int64(len(r.block))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// index returns the lines.
func index(t testing.TB, opts Options, files ...string) (Summary, []string) {
	t.Helper()
	var b strings.Builder
	summary, err := Index(context.Background(), &b, files, opts)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(b.String()))
	header := 0
	if opts.Format == CDX11 {
		header = 1
	}
	if summary.Entries != int64(len(lines)-header) {
		t.Errorf("%d lines, and %d in the summary", len(lines), summary.Entries)
	}
	return summary, lines
}

var page = "HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=utf-8\r\nContent-Length: 5\r\n\r\nhello"

// The record types, and what of each gets into a line.
var kinds = []testRecord{
	{"warcinfo", "", "Content-Type: application/warc-fields\n", "software: x\r\n"},
	{"response", "http://www.example.org/b?y&x", isResponse + "WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\n", page},
	{"request", "http://www.example.org/b?y&x", isRequest + "WARC-Concurrent-To: " + recordID(1) + "\n", "GET /b?y&x HTTP/1.1\r\nHost: www.example.org\r\n\r\n"},
	{"metadata", "http://www.example.org/b?y&x", "Content-Type: application/warc-fields\n", "via: x\r\n"},
	{"metadata", "metadata://example.org/log", "Content-Type: application/json; x=y\n", "{}"},
	{"revisit", "http://example.org/b?x&y", isResponse + "WARC-Payload-Digest: sha256:2CF24DBA5FB0A30E26E83B2AC5B9E29E1B161E5C1FA7425E73043362938B9824\n", "HTTP/1.1 404 Nothing\r\n\r\n"},
	{"resource", "dns:example.org", "Content-Type: text/dns\n", "20261121101500\n"},
	{"resource", "file:///a b/ü😀\"\\.txt", "WARC-Payload-Digest: md4:00ff\n", ""},
	{"conversion", "http://example.org/b?x&y", "Content-Type: image/png\n", "png"},
	{"response", "http://example.org/none", isResponse, "HTTP/1.1 301 Moved\r\nLocation: /\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	{"response", "http://example.org/bad", isResponse + "WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\n", "hello"},
	{"continuation", "http://example.org/b?x&y", "WARC-Segment-Number: 2\n", "more"},
	{"x-other", "http://example.org/other", "", "?"},
	{"metadata", "http://example.org/", "Content-Type: text/anvl\n", "via: x\n"},
	{"revisit", "http://example.org/unknown", "", ""},
}

func TestIndexKinds(t *testing.T) {
	summary, lines := index(t, Options{}, write(t, "kinds.warc", kinds))
	if summary.Damaged != nil || summary.Records != int64(len(kinds)) {
		t.Errorf("%+v", summary)
	}
	want := []string{
		`dns:example.org 20261121101506 {"url": "dns:example.org", "mime": "text/dns", "digest": "X67VWI3NM67OLEZJIHJEZ3BVQSBL4JP7", `,
		`file:/a%20b/%c3%bc%f0%9f%98%80"\.txt 20261121101507 {"url": "file:///a b/\u00fc\ud83d\ude00\"\\.txt", "mime": "unk", "digest": "md4:00ff", `,
		`org,example)/b?x&y 20261121101501 {"url": "http://www.example.org/b?y&x", "mime": "Text/HTML", "status": "200", "digest": "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", `,
		`org,example)/b?x&y 20261121101505 {"url": "http://example.org/b?x&y", "mime": "warc/revisit", "status": "404", "digest": "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", `,
		`org,example)/b?x&y 20261121101508 {"url": "http://example.org/b?x&y", "mime": "image/png", "digest": "SBAKPVWN66QNNSVRQI4DDRWOW7IBV6L7", `,
		`org,example)/bad 20261121101510 {"url": "http://example.org/bad", "mime": "unk", "digest": "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", `,
		`org,example)/log 20261121101504 {"url": "metadata://example.org/log", "mime": "application/json", "digest": "X4Q2T2H3YWRYI35QLNH2BBM6BEL3EIBP", `,
		`org,example)/none 20261121101509 {"url": "http://example.org/none", "mime": "unk", "status": "301", "digest": "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", `,
		`org,example)/unknown 20261121101514 {"url": "http://example.org/unknown", "mime": "warc/revisit", `,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, ""))
	}
	for i, line := range lines {
		start, rest, _ := strings.Cut(line, `"length": `)
		if start != want[i] || !strings.HasSuffix(rest, `, "filename": "kinds.warc"}`+"\n") {
			t.Errorf("%s\nwant %s…", line, want[i])
		}
	}
}

func TestIndexAll(t *testing.T) {
	_, lines := index(t, Options{All: true}, write(t, "kinds.warc", kinds))
	if len(lines) != len(kinds)-1 {
		t.Errorf("%d lines, want all but for the warcinfo:\n%s", len(lines), strings.Join(lines, ""))
	}
}

func TestIndexCDX11(t *testing.T) {
	_, lines := index(t, Options{Format: CDX11}, write(t, "kinds.warc.gz", kinds))
	if lines[0] != " CDX N b a m s k r M S V g\n" {
		t.Errorf("it starts with %q", lines[0])
	}
	for i, want := range []string{
		`dns:example.org 20261121101506 dns:example.org text/dns - X67VWI3NM67OLEZJIHJEZ3BVQSBL4JP7 - - `,
		`file:/a%20b/%c3%bc%f0%9f%98%80"\.txt 20261121101507 file:///a%20b/%C3%BC%F0%9F%98%80"\.txt unk - 00ff - - `,
		`org,example)/b?x&y 20261121101501 http://www.example.org/b?y&x Text/HTML 200 VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N - - `,
		`org,example)/b?x&y 20261121101505 http://example.org/b?x&y warc/revisit 404 FTZE3OS7WCRQ4JXIHMVMLOPCTYNRMHS4D6TUEXTTAQZWFE4LTASA - - `,
	} {
		if fields := strings.Fields(lines[i+1]); !strings.HasPrefix(lines[i+1], want) || len(fields) != 11 || fields[10] != "kinds.warc.gz" {
			t.Errorf("%s\nwant %s…", lines[i+1], want)
		}
	}
}

// place is where a line says that its record is.
type place struct {
	URL, Offset, Length, Filename string
}

func placeOf(t testing.TB, line string) (p place, offset, length int64) {
	t.Helper()
	if err := json.Unmarshal([]byte(line[strings.Index(line, " {"):]), &p); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if _, err := fmt.Sscan(p.Offset+" "+p.Length, &offset, &length); err != nil {
		t.Fatal(err)
	}
	return p, offset, length
}

// Offset and length of each line are those of one whole record.
func TestIndexPlaces(t *testing.T) {
	for _, name := range []string{"a.warc", "a.warc.gz", "a.warc.zst"} {
		path := write(t, name, kinds)
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, lines := index(t, Options{All: true}, path)
		for _, line := range lines {
			p, offset, length := placeOf(t, line)
			part := file[offset : offset+length]
			if name == "a.warc" {
				if !bytes.HasPrefix(file[offset+length:], []byte("\r\n\r\n")) {
					t.Errorf("%s: the record at %d does not end at %d", name, offset, offset+length)
				}
				part = append(slices.Clone(part), "\r\n\r\n"...) // it is not counted, as in pywb
			}
			r := warc.NewReader(bytes.NewReader(part))
			r.Strict = true
			rec, err := r.Next()
			if err != nil || rec.TargetURI() != p.URL {
				t.Fatalf("%s: %s: %v, %v", name, line, rec, err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("%s: %s: after the record: %v", name, line, err)
			}
		}
	}
}

// post is an exchange whose records have the numbers n and n+1.
func post(n int, requestFirst, requestNames bool, body string) []testRecord {
	request := testRecord{"request", "http://example.org/form", isRequest, fmt.Sprintf("POST /form HTTP/1.1\r\nHost: example.org\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)}
	response := testRecord{"response", "http://example.org/form", isResponse, page}
	records := []testRecord{request, response}
	if !requestFirst {
		records[0], records[1] = response, request
	}
	names := 0
	if requestFirst != requestNames {
		names = 1
	}
	records[names].fields += "WARC-Concurrent-To: <urn:uuid:0>\nWARC-Concurrent-To: " + recordID(n+1-names) + "\n"
	return records
}

func TestIndexRequests(t *testing.T) {
	var records []testRecord
	n := 0
	for _, first := range []bool{true, false} {
		for _, names := range []bool{true, false} {
			records = append(records, post(len(records), first, names, fmt.Sprintf("n=%d", n))...)
			n++
		}
	}
	// Not next to each other, and without a link.
	apart := post(len(records), true, true, "n=4")
	filler := testRecord{"metadata", "http://example.org/form", "Content-Type: text/plain\n", "x"}
	apart[0].fields = isRequest + "WARC-Concurrent-To: " + recordID(len(records)+11) + "\n"
	records = append(records, apart[0])
	records = append(records, slices.Repeat([]testRecord{filler}, 10)...)
	records = append(records, apart[1])
	strangers := post(len(records), true, true, "n=5")
	strangers[0].fields, strangers[1].fields = isRequest, isResponse
	records = append(records, strangers...)
	strangers = post(len(records), true, true, "n=6")
	strangers[0].target = "http://example.org/other"
	records = append(records, strangers...)
	_, lines := index(t, Options{}, write(t, "post.warc.gz", records))
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "text/plain") })
	if len(lines) != 7 || strings.Contains(lines[0]+lines[1], "method") {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, ""))
	}
	for i, line := range lines[2:] {
		key := fmt.Sprintf("org,example)/form?__wb_method=post&n=%d ", i)
		end := fmt.Sprintf(`"filename": "post.warc.gz", "requestBody": "n=%d", "method": "POST"}`+"\n", i)
		if !strings.HasPrefix(line, key) || !strings.HasSuffix(line, end) {
			t.Errorf("%s\nwant %s… %s", line, key, end)
		}
	}
}

// A capture does not wait for its request forever.
func TestIndexWindow(t *testing.T) {
	for _, apart := range []int{windowRecords - 1, windowRecords + 1} {
		records := []testRecord{post(0, false, true, "n=0")[0]}
		for n := range apart {
			records = append(records, testRecord{"response", fmt.Sprintf("http://example.org/%d", n), isResponse, page})
		}
		request := post(0, false, true, "n=0")[1]
		request.fields = isRequest + "WARC-Concurrent-To: " + recordID(0) + "\n"
		_, lines := index(t, Options{}, write(t, "window.warc.gz", append(records, request)))
		found := slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "__wb_method=post") })
		if len(lines) != apart+1 || found != (apart < windowRecords) {
			t.Errorf("%d records apart: %d lines, found: %v", apart, len(lines), found)
		}
	}
}

func TestIndexUnnamed(t *testing.T) {
	records := []testRecord{
		{"response", "", isResponse, page},
		{"response", "http://example.org/" + strings.Repeat("x", MaxLine), isResponse, page},
		{"response", "http://example.org/", isResponse, page},
	}
	summary, lines := index(t, Options{}, write(t, "a.warc", records))
	if len(lines) != 1 || len(summary.Damaged) != 2 {
		t.Errorf("%v, %v", lines, summary)
	}
}

// The index is made of the files alone (it can be thrown away): the order and the
// number of those at work do not count.
func TestIndexRebuilt(t *testing.T) {
	var files []string
	for f := range 5 {
		var records []testRecord
		for n := range 1000 {
			records = append(records, testRecord{"response", fmt.Sprintf("http://example.org/%d", n*7919%(f+700)), isResponse + "WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\n", page})
		}
		files = append(files, write(t, fmt.Sprintf("%d.warc", f), records))
	}
	temp := t.TempDir()
	_, want := index(t, Options{Jobs: 1, TempDir: temp}, files...)
	if len(want) != 5000 || !slices.IsSorted(want) {
		t.Errorf("%d lines, sorted: %v", len(want), slices.IsSorted(want))
	}
	slices.Reverse(files)
	_, got := index(t, Options{Jobs: 4, TempDir: temp}, files...)
	if !slices.Equal(got, want) {
		t.Error("another order makes another index")
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestIndexRoot(t *testing.T) {
	path := write(t, "a.warc", kinds)
	_, lines := index(t, Options{Root: filepath.Dir(filepath.Dir(path))}, path)
	if p, _, _ := placeOf(t, lines[0]); p.Filename != filepath.Base(filepath.Dir(path))+"/a.warc" {
		t.Errorf("the name is %s", p.Filename)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestIndexErrors(t *testing.T) {
	var records []testRecord
	for n := range 5000 {
		records = append(records, testRecord{"response", fmt.Sprintf("http://example.org/%d", n), isResponse + "WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\n", page})
	}
	path := write(t, "a.warc", records)
	synctest.Test(t, func(t *testing.T) { // waits for all goroutines
		full := errors.New("disk full")
		if _, err := Index(t.Context(), failingWriter{full}, []string{path}, Options{}); !errors.Is(err, full) {
			t.Errorf("a failing output: %v", err)
		}
		if _, err := Index(t.Context(), io.Discard, []string{path, path + "x"}, Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a missing file: %v", err)
		}
		if _, err := Index(t.Context(), io.Discard, []string{path}, Options{TempDir: path + "x"}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a missing folder: %v", err)
		}
		if _, err := Index(t.Context(), io.Discard, []string{path}, Options{TempDir: path}); err == nil {
			t.Error("a folder that is none: no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		opts := Options{Progress: func(int64) { cancel() }}
		if _, err := Index(ctx, io.Discard, []string{path}, opts); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// Progress adds up to the size of the files.
func TestIndexProgress(t *testing.T) {
	for _, name := range []string{"a.warc", "a.warc.gz", "a.warc.zst"} {
		var sum int64
		summary, _ := index(t, Options{Jobs: 1, Progress: func(n int64) { sum += n }}, write(t, name, kinds))
		if sum != summary.Octets {
			t.Errorf("%s: %d of %d", name, sum, summary.Octets)
		}
	}
}

func FuzzIndex(f *testing.F) {
	for _, name := range []string{"a.warc", "a.warc.gz", "a.warc.zst"} {
		file, err := os.ReadFile(write(f, name, append(post(0, true, true, "a=b"), kinds...)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(file[:len(file)*2/3])
	}
	for _, name := range []string{"a.arc", "a.arc.gz"} {
		file, err := os.ReadFile(writeARC(f, name, [2]string{"http://example.org/ 192.0.2.1 20140216050222 text/html", page}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(dir, "fuzz")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		_, lines := index(t, Options{All: true}, path)
		for _, line := range lines {
			if _, offset, length := placeOf(t, line); offset < 0 || length < 1 || offset+length > int64(len(file)) {
				t.Errorf("%d octets hold %s", len(file), line)
			}
		}
		_, lines = index(t, Options{Format: CDX11}, path)
		for _, line := range lines[1:] {
			if len(strings.Split(line, " ")) != 11 {
				t.Errorf("not 11 fields: %q", line)
			}
		}
	})
}
