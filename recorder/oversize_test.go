package recorder

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	files "github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/coding"
	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

const smallFile = 20_000

// A logicalRecord is one as it is when its segments are joined.
type logicalRecord struct {
	file     string // base name, of the first segment
	index    int    // in the file
	header   warc.Header
	kind     string
	id       string
	block    string
	cut      string // WARC-Truncated
	segments int    // 1: it is whole
	last     string // base name of the file of the last segment
}

// logicalRecords reads an archive in which no file may be larger than max, and
// checks what holds for all records and segments.
func logicalRecords(t *testing.T, dir string, max int64) []logicalRecord {
	t.Helper()
	var opened []*files.File
	var paths []string
	for _, name := range names(t, dir, "*.warc*") {
		if strings.Contains(name, ".tail") {
			continue
		}
		f, err := files.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		paths = append(paths, name)
		if opened = append(opened, f); f.Size > max {
			t.Errorf("%s has %d bytes, more than %d", name, f.Size, max)
		}
	}
	report, err := check.Files(paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Rule != check.RuleConcurrentPlace { // two records that fit a file, but not together
			t.Error(f)
		}
	}
	joined, err := files.Join(opened)
	if err != nil {
		t.Fatal(err)
	}
	var list []logicalRecord
	joinedSegments, continuations := 0, 0
	for _, f := range opened {
		z := f.Records(0)
		z.Strict = true
		for i := 0; ; i++ {
			rec, err := z.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			block, err := io.ReadAll(z)
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			digest := fmt.Sprintf("sha256:%x", sha256.Sum256(block))
			if got := rec.Header.Get("WARC-Block-Digest"); got != digest {
				t.Errorf("%s: the block digest of record %d is %s, not %s", f.Path, i, got, digest)
			}
			kind := rec.Type()
			if (i == 0) != (kind == warc.TypeWarcinfo) {
				t.Errorf("%s: record %d is a %s", f.Path, i, kind)
			}
			if kind == warc.TypeContinuation {
				continuations++
				wantContinuation(t, rec)
				continue
			}
			if files.IsFirst(rec) && i != 1 {
				t.Errorf("%s: a first segment is record %d", f.Path, i)
			}
			j, err := joined.Block(rec, bytes.NewReader(block))
			if err != nil {
				t.Error(err)
				continue
			}
			whole, err := io.ReadAll(j)
			if err != nil {
				t.Error(err)
			}
			r := logicalRecord{file: filepath.Base(f.Path), index: i, header: rec.Header, kind: kind, id: rec.ID(), block: string(whole), cut: j.Truncated, segments: 1 + len(j.Segments)}
			if n := len(j.Segments); n > 0 {
				joinedSegments += n
				r.last = filepath.Base(j.Segments[n-1].File.Path)
				wantFull(t, f, j, max)
			}
			wantPayload(t, &r)
			list = append(list, r)
		}
	}
	if joinedSegments != continuations {
		t.Errorf("there are %d continuation records, of which %d continue something", continuations, joinedSegments)
	}
	return list
}

// wantContinuation checks that a segment has what it must, and nothing else but
// what is in docs/records.md (WARC 1.1 §7).
func wantContinuation(t *testing.T, rec *warc.Record) {
	t.Helper()
	fields := "WARC-Type WARC-Record-ID WARC-Date WARC-Target-URI WARC-Block-Digest WARC-Segment-Number WARC-Segment-Origin-ID"
	got := ""
	for _, f := range rec.Header {
		switch f.Name {
		case "WARC-Segment-Total-Length", "WARC-Truncated", "WARC-Warcinfo-ID", "Content-Length":
		default:
			got += " " + f.Name
		}
	}
	if got[1:] != fields {
		t.Errorf("a continuation has the fields%s", got)
	}
}

// wantFull checks that no more would have fitted into the files of all segments
// but the last.
func wantFull(t *testing.T, f *files.File, j *files.Joined, max int64) {
	t.Helper()
	all := []*files.File{f}
	for _, s := range j.Segments {
		all = append(all, s.File)
	}
	for _, f := range all[:len(all)-1] {
		least := max - 2600
		if strings.HasSuffix(f.Path, ".zst") {
			least = max / 3 // nobody can tell before what zstd makes of a text
		}
		if f.Size < least {
			t.Errorf("%s has only %d bytes, and the record goes on elsewhere", f.Path, f.Size)
		}
	}
}

// wantPayload checks that the payload digest is that of the logical record.
func wantPayload(t *testing.T, r *logicalRecord) {
	t.Helper()
	want := r.header.Get("WARC-Payload-Digest")
	if want == "" || r.kind == "revisit" {
		return
	}
	payload := r.block
	if r.kind != "resource" {
		payload = entity(t, r)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(payload))); got != want {
		t.Errorf("%s: the payload digest is %s, not %s", r.header.Get("WARC-Target-URI"), want, got)
	}
}

// entity is the payload of an HTTP message.
func entity(t *testing.T, r *logicalRecord) string {
	t.Helper()
	n := http1.HeadLen([]byte(r.block), 0)
	if n <= 0 {
		return "" // cut in its head
	}
	head, framing := []byte(r.block[:n]), http1.Framing{}
	if r.kind == "request" {
		m, err := http1.Limits{Target: 1 << 20, Fields: 1 << 20, FieldCount: 1000}.ParseRequest(head)
		if err != nil {
			t.Fatal(err)
		}
		framing = m.Framing
	} else {
		m, err := http1.ParseResponse(head, "GET")
		if err != nil {
			t.Fatal(err)
		}
		framing = m.Framing
	}
	b, err := io.ReadAll(coding.NewBodyReader(bufio.NewReader(strings.NewReader(r.block[n:])), framing))
	if err != nil && (r.cut == "" || err != io.ErrUnexpectedEOF) {
		t.Errorf("%s: %v", r.header.Get("WARC-Target-URI"), err)
	}
	return string(b)
}

// oneOf returns the only record of a type and path.
func oneOf(t *testing.T, records []logicalRecord, kind, path string) *logicalRecord {
	t.Helper()
	var found *logicalRecord
	n := 0
	for i := range records {
		if r := &records[i]; r.kind == kind && r.header.Get("WARC-Target-URI") == "http://origin"+path {
			found = r
			n++
		}
	}
	if n != 1 {
		t.Fatalf("there are %d %s records of %s, want 1", n, kind, path)
	}
	return found
}

// sizedBody is what the origin answers to /KIND/SIZE/…
func sizedBody(path string) string {
	part := strings.Split(path, "/")
	n, _ := strconv.Atoi(part[2])
	b := make([]byte, n)
	rng := rand.NewChaCha8(sha256.Sum256([]byte(part[1] + part[2])))
	rng.Read(b)
	if strings.HasPrefix(part[1], "text") {
		words := strings.Fields("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were")
		text := b[:0:0]
		for i := range b {
			text = append(append(text, words[int(b[i])%len(words)]...), ' ')
		}
		return string(text[:n])
	}
	return string(b)
}

// sizedOrigin sends chunks where the path has "chunked".
func sizedOrigin(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	body := sizedBody(r.URL.Path)
	if strings.Contains(r.URL.Path, "/chunked") {
		for ; len(body) > 5000; body = body[5000:] {
			io.WriteString(w, body[:5000])
			http.NewResponseController(w).Flush()
		}
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	io.WriteString(w, body)
}

// A record of any size is what it was, whatever its files are like.
func TestSegments(t *testing.T) {
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		synctest.Test(t, func(t *testing.T) {
			r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Compression: compression, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(dedup.NewMemory())})
			var paths []string
			for _, size := range []int{10, 5000, 15_000, 18_000, 19_000, 20_000, 21_000, 40_000, 100_000, 190_000, 300_000} {
				for _, kind := range []string{"noise", "text", "noise/chunked", "text/chunked"} {
					kind, rest, _ := strings.Cut(kind, "/")
					paths = append(paths, fmt.Sprintf("/%s/%d/%s", kind, size, rest))
				}
			}
			for _, path := range paths {
				if got := mustFetch(t, r, "http://origin"+path); got != sizedBody(path) {
					t.Fatalf("%s: the client gets something else", path)
				}
				synctest.Wait()
			}
			closeForTest(t, r)
			records := logicalRecords(t, r.options.Dir, smallFile)
			most := 0
			for i, path := range paths {
				kind := "response"
				if i%4 > 1 {
					kind = "revisit" // of the payload without chunks
				}
				got := oneOf(t, records, kind, path)
				if kind == "response" && !strings.HasSuffix(got.block, sizedBody(path)) {
					t.Errorf("%s: something else is recorded", path)
				}
				most = max(most, got.segments)
				size, _ := strconv.Atoi(strings.Split(path, "/")[2])
				if got.segments > 1 && size < 18_000 {
					t.Errorf("%s has %d segments", path, got.segments)
				}
				oneOf(t, records, "request", path)
			}
			if most < 10 {
				t.Errorf("the most segments are %d, there should be 10", most)
			}
		})
	}
}

// With sizes around what fits there are no segments where a new file does, and
// never a file that is too large.
func TestSegmentsOnlyWhereNeeded(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Compression: compression, Dial: originHandler(t, sizedOrigin)})
		divided, whole := 0, 0
		for i := range 60 {
			mustFetch(t, r, fmt.Sprintf("http://origin/noise/%d/%d", 17_500+rng.IntN(2500), i))
		}
		closeForTest(t, r)
		// A file with one record and its warcinfo only tells how much fits.
		fits := 0
		records := logicalRecords(t, r.options.Dir, smallFile)
		for _, rec := range records {
			if rec.kind == "response" && rec.segments == 1 {
				fits = max(fits, len(rec.block))
				whole++
			}
		}
		for _, rec := range records {
			if rec.kind == "response" && rec.segments > 1 {
				divided++
				if len(rec.block) < fits {
					t.Errorf("%v: %d octets are divided, and %d fit", compression, len(rec.block), fits)
				}
			}
		}
		if divided == 0 || whole == 0 {
			t.Errorf("%v: %d records are divided, %d whole", compression, divided, whole)
		}
	}
}

// Where no file may be too large they are filled all the same.
func TestBoundedFilesAreFilled(t *testing.T) {
	for _, how := range []Oversize{OversizeSegment, OversizeTruncate} {
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: how, Dial: originHandler(t, sizedOrigin)})
		for i := range 40 {
			mustFetch(t, r, fmt.Sprintf("http://origin/noise/3000/%d", i))
		}
		closeForTest(t, r)
		for _, rec := range logicalRecords(t, r.options.Dir, smallFile) {
			if rec.segments > 1 || rec.cut != "" {
				t.Errorf("a small %s has %d segments, truncated %q", rec.kind, rec.segments, rec.cut)
			}
		}
		if n := len(names(t, r.options.Dir, "*.warc.gz")); n < 8 || n > 11 {
			t.Errorf("there are %d files", n)
		}
	}
}

// Segments that were reckoned too long, as can be with zstd, are made again.
func TestSegmentsTooLong(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Compression: warc.Zstd})
	block := []byte(sizedBody("/noise/90000/x"))
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(block))
	x := &exchange{r: r, uri: "http://origin/noise/90000/x", start: time.Now()}
	c := &capture{x: x, single: true}
	p := &c.response
	x.startHeader(&p.header, warc.TypeResource, warc.NewRecordID(), warc.FormatDate(x.start, warc.V1_1))
	p.header.Add("WARC-Block-Digest", sum)
	p.header.Add("WARC-Payload-Digest", sum)
	p.header.Add("Content-Type", "image/png")
	p.length = int64(len(block))
	p.pack(r, x.target(), block, nil)
	preamble := r.preamble.Load()
	r.preamble.Store(preamble - 5000)
	if err := p.divide(r); err != nil {
		t.Fatal(err)
	}
	r.preamble.Store(preamble)
	if !r.trackLate(x) || !r.writer.submitSingle(c) {
		t.Fatal("it is not taken")
	}
	closeForTest(t, r)
	got := oneOf(t, logicalRecords(t, r.options.Dir, smallFile), "resource", "/noise/90000/x")
	if got.segments < 5 || got.block != string(block) {
		t.Errorf("it has %d segments and %d octets", got.segments, len(got.block))
	}
}

// Uploads are divided too, chunked or not, and both records of an exchange.
func TestSegmentsOfRequests(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin)})
	for i, reply := range []int{10, 15_000, 70_000} {
		for _, size := range []int{100, 12_000, 30_000, 100_000} {
			upload := sizedBody(fmt.Sprintf("/noise/%d", size))
			path := fmt.Sprintf("/noise/%d/%d-%d", reply, i, size)
			req, err := http.NewRequest("POST", "http://origin"+path, strings.NewReader(upload))
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				req.ContentLength = -1
				req.Body = io.NopCloser(strings.NewReader(upload))
			}
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	closeForTest(t, r)
	records := logicalRecords(t, r.options.Dir, smallFile)
	for i, reply := range []int{10, 15_000, 70_000} {
		for _, size := range []int{100, 12_000, 30_000, 100_000} {
			path := fmt.Sprintf("/noise/%d/%d-%d", reply, i, size)
			request, response := oneOf(t, records, "request", path), oneOf(t, records, "response", path)
			if want := sizedBody(fmt.Sprintf("/noise/%d", size)); entity(t, request) != want || (request.segments > 1) != (size > smallFile) {
				t.Errorf("%s: the request has %d segments", path, request.segments)
			}
			if entity(t, response) != sizedBody(path) || (response.segments > 1) != (reply > smallFile) {
				t.Errorf("%s: the response has %d segments", path, response.segments)
			}
			if reply > smallFile && size < 10_000 && request.file != response.last {
				t.Errorf("%s: the request is in %s, the last segment in %s", path, request.file, response.last)
			}
		}
	}
}

// A payload that is repeated becomes a revisit of the first segment, also when
// another recorder has written that.
func TestSegmentsAndRevisits(t *testing.T) { synctest.Test(t, testSegmentsAndRevisits) }

func testSegmentsAndRevisits(t *testing.T) {
	dir, index := t.TempDir(), dedup.NewMemory()
	for i := range 2 {
		r := openForTest(t, Options{Dir: dir, MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index)})
		for n := range 2 {
			recordAll(t, r, fmt.Sprintf("/noise/90000/%d-%d", i, n))
		}
		// A revisit whose request does not fit, of what is not durable yet.
		recordAll(t, r, fmt.Sprintf("/noise/200%d/a", i))
		if _, err := fetch(r, "POST", fmt.Sprintf("http://origin/noise/200%d/b", i), strings.Repeat(sizedBody("/noise/9000"), 4)); err != nil {
			t.Fatal(err)
		}
		closeForTest(t, r)
	}
	records := logicalRecords(t, dir, smallFile)
	original := oneOf(t, records, "response", "/noise/90000/0-0")
	if original.segments < 5 {
		t.Errorf("the original has %d segments", original.segments)
	}
	for _, path := range []string{"0-1", "1-0", "1-1"} {
		if got := oneOf(t, records, "revisit", "/noise/90000/"+path).header.Get("WARC-Refers-To"); got != original.id {
			t.Errorf("%s refers to %s, not %s", path, got, original.id)
		}
	}
	for _, n := range []string{"2000", "2001"} {
		small := oneOf(t, records, "response", "/noise/"+n+"/a")
		if got := oneOf(t, records, "revisit", "/noise/"+n+"/b").header.Get("WARC-Refers-To"); got != small.id {
			t.Errorf("it refers to %s, not %s", got, small.id)
		}
		if got := oneOf(t, records, "request", "/noise/"+n+"/b").segments; got < 2 {
			t.Errorf("the request has %d segments", got)
		}
	}
}

// Many at once, and several series: each record is whole, and each small exchange
// in one file.
func TestSegmentsAtOnce(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin)})
	var all sync.WaitGroup
	path := func(i int) string { return fmt.Sprintf("/noise%d/%d/x", i, []int{100, 4000, 25_000, 60_000}[i%4]) }
	for i := range 60 {
		all.Go(func() { // ends with the exchange
			if got, err := fetch(r, "GET", "http://origin"+path(i), ""); err != nil || got != sizedBody(path(i)) {
				t.Errorf("%s: error %v", path(i), err)
			}
		})
	}
	all.Wait()
	closeForTest(t, r)
	records := logicalRecords(t, r.options.Dir, smallFile)
	for i := range 60 {
		request, response := oneOf(t, records, "request", path(i)), oneOf(t, records, "response", path(i))
		if entity(t, response) != sizedBody(path(i)) || (response.segments > 1) != (i%4 > 1) {
			t.Errorf("%s has %d segments", path(i), response.segments)
		}
		if i%4 < 2 && (request.file != response.file || request.index+1 != response.index) {
			t.Errorf("%s: the request is in %s, the response in %s", path(i), request.file, response.file)
		}
	}
}

// WARC-Truncated is on the last segment.
func TestSegmentsOfTruncated(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, MaxBody: 70_000, Dial: originHandler(t, sizedOrigin)})
	mustFetch(t, r, "http://origin/noise/90000/x")
	closeForTest(t, r)
	got := oneOf(t, logicalRecords(t, r.options.Dir, smallFile), "response", "/noise/90000/x")
	if got.segments < 3 || got.cut != "length" || got.header.Get("WARC-Truncated") != "" {
		t.Errorf("%d segments, truncated %q, on the first %v", got.segments, got.cut, got.header)
	}
}

// What does not fit is cut where it is asked for, the client gets all.
func TestOversizeTruncate(t *testing.T) {
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeTruncate, Compression: compression, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(dedup.NewMemory())})
		sizes := []int{100, 15_000, 19_300, 19_600, 19_900, 21_000, 200_000}
		path := func(kind string, size int, how string) string { return fmt.Sprintf("/%s/%d/%s", kind, size, how) }
		for _, size := range sizes {
			for _, kind := range []string{"noise", "text"} {
				for _, how := range []string{"x", "chunked"} {
					p := path(kind+how, size, how)
					if got := mustFetch(t, r, "http://origin"+p); got != sizedBody(p) {
						t.Errorf("%s: the client gets something else", p)
					}
				}
			}
		}
		upload := sizedBody("/noise/50000")
		if _, err := fetch(r, "POST", "http://origin/noise/10/upload", upload); err != nil {
			t.Fatal(err)
		}
		mustFetch(t, r, "http://origin"+path("noisex", 200_000, "again")) // is no revisit
		closeForTest(t, r)
		status := r.Status()
		records := logicalRecords(t, r.options.Dir, smallFile)
		cut := 0
		for _, rec := range records {
			if rec.segments > 1 || rec.kind == "revisit" {
				t.Errorf("a %s has %d segments", rec.kind, rec.segments)
			}
			if rec.cut != "" && rec.kind == "response" {
				cut++
			}
		}
		if status.Truncated != int64(cut) || status.Incomplete != int64(cut)+1 || cut < 7 {
			t.Errorf("%d responses are cut, the status says %+v", cut, status)
		}
		for _, size := range sizes {
			for _, how := range []string{"x", "chunked"} {
				p := path("noise"+how, size, how)
				rec := oneOf(t, records, "response", p)
				if got := entity(t, rec); !strings.HasPrefix(sizedBody(p), got) || (rec.cut == "length") != (len(got) < size) || size < 18_000 && rec.cut != "" || size > smallFile && rec.cut == "" || len(got) < min(size, smallFile-3000) {
					t.Errorf("%s: %d octets are recorded, truncated %q", p, len(got), rec.cut)
				}
				if request := oneOf(t, records, "request", p); size > smallFile && request.file != rec.file {
					t.Errorf("%s: the request is elsewhere", p)
				}
			}
		}
		request := oneOf(t, records, "request", "/noise/10/upload")
		if got := entity(t, request); request.cut != "length" || !strings.HasPrefix(upload, got) || len(got) < 15_000 {
			t.Errorf("%d octets of the upload are recorded, truncated %q", len(got), request.cut)
		}
	}
}

// A header that leaves little of a file is no reason to make thousands of
// segments, or none at all.
func TestOversizeHeader(t *testing.T) {
	for _, how := range []Oversize{OversizeSegment, OversizeTruncate} {
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: how, Dial: originHandler(t, sizedOrigin)})
		path := "/noise/40000/" + strings.Repeat("a", 12_000)
		mustFetch(t, r, "http://origin"+path)
		mustFetch(t, r, "http://origin/noise/100/x")
		closeForTest(t, r)
		records := logicalRecords(t, r.options.Dir, 80_000)
		if got := oneOf(t, records, "response", path); got.segments != 1 || entity(t, got) != sizedBody(path) {
			t.Errorf("it has %d segments and %d octets", got.segments, len(got.block))
		}
		oneOf(t, records, "response", "/noise/100/x")
	}
}

// Where there is no room for compressed segments they are compressed again when
// they are appended.
func TestSegmentsWithoutRoom(t *testing.T) {
	r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), SpoolMemory: 600 << 10, SpoolDisk: 1 << 10})
	mustFetch(t, r, "http://origin/text/220000/x")
	closeForTest(t, r)
	got := oneOf(t, logicalRecords(t, r.options.Dir, smallFile), "response", "/text/220000/x")
	if got.segments < 4 || entity(t, got) != sizedBody("/text/220000/x") {
		t.Errorf("it has %d segments and %d octets", got.segments, len(got.block))
	}
}

// A disk that is full in the middle of a chain is waited for; then all is there,
// once, and no part is left.
func TestSegmentsOnFullDisk(t *testing.T) {
	for room := 100; room < 100_000; room += 6_000 {
		synctest.Test(t, func(t *testing.T) {
			fsys := newFaultyFS(nil)
			index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
			r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
			mustFetch(t, r, "http://origin/noise/100/x")
			time.Sleep(time.Second)
			fsys.fill(room)
			recordAll(t, r, "/noise/70000/x")
			if r.Err() == nil {
				recordAll(t, r, "/noise/70000/y")
			}
			time.Sleep(10500 * time.Millisecond) // not at the moment of an attempt
			full := r.Err() != nil
			if full != (room < 75_000) {
				t.Errorf("room for %d: %v", room, r.Err())
			}
			if n := len(names(t, r.options.Dir, "*.part")); full && n > 0 {
				t.Errorf("room for %d: %d parts take it", room, n)
			}
			fsys.lift()
			time.Sleep(2 * time.Second)
			if full {
				recordAll(t, r, "/noise/70000/y")
			}
			closeForTest(t, r)
			wantAllOnce(t, r, "response /noise/100/x", "response /noise/70000/x", "revisit /noise/70000/y")
		})
	}
}

// wantAllOnce checks that these captures are in the archive, once, and nothing is
// left over.
func wantAllOnce(t *testing.T, r *Recorder, captures ...string) {
	t.Helper()
	records := logicalRecords(t, r.options.Dir, smallFile)
	for _, c := range captures {
		kind, path, _ := strings.Cut(c, " ")
		got := oneOf(t, records, kind, path)
		if kind == "response" && entity(t, got) != sizedBody(path) {
			t.Errorf("%s has %d octets", c, len(got.block))
		}
		oneOf(t, records, "request", path)
	}
	if count := len(records) - len(names(t, r.options.Dir, "*.warc*")); count != 2*len(captures) {
		t.Errorf("there are %d records, want %d", count, 2*len(captures))
	}
	if left := append(names(t, r.options.Dir, "*.part"), names(t, r.options.Dir, "*.open")...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Whatever operation on a chain fails once, done or not, all is in the archive,
// once, and no part is left.
func TestSegmentsSurviveFaults(t *testing.T) {
	for _, op := range []string{"create", "open", "write", "sync", "syncdir", "close", "stat", "rename", "truncate"} {
		for skip, failed := 0, true; failed && skip < 40; skip++ {
			for _, bad := range []fault{{err: syscall.EIO}, {err: syscall.EIO, persisted: true}} {
				if bad.persisted && op == "create" {
					continue // it is not known that the file is there
				}
				synctest.Test(t, func(t *testing.T) {
					fsys := newFaultyFS(nil)
					index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
					r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
					mustFetch(t, r, "http://origin/noise/100/x")
					time.Sleep(time.Second)
					fsys.mu.Lock()
					fsys.fail = once(op, skip, bad)
					fsys.mu.Unlock()
					recordAll(t, r, "/noise/70000/x", "/noise/70000/y")
					time.Sleep(5 * time.Second)
					if err := r.Err(); err != nil {
						t.Errorf("it has not gone on: %v", err)
					}
					fsys.mu.Lock()
					failed = len(fsys.failed) > 0
					fsys.mu.Unlock()
					fsys.lift()
					closeForTest(t, r)
					wantAllOnce(t, r, "response /noise/100/x", "response /noise/70000/x", "revisit /noise/70000/y")
				})
				if t.Failed() {
					t.Fatalf("%s %d, persisted %v", op, skip, bad.persisted)
				}
			}
		}
	}
}

// The same when several operations in a row fail, such as those that take a chain
// back.
func TestSegmentsSurviveOutages(t *testing.T) {
	for _, many := range []int{2, 5, 20} {
		for skip, failed := 0, true; failed; skip++ {
			synctest.Test(t, func(t *testing.T) {
				fsys := newFaultyFS(nil)
				index := &watchedIndex{Index: dedup.NewMemory(), t: t, fs: fsys}
				r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(index), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
				mustFetch(t, r, "http://origin/noise/100/x")
				time.Sleep(time.Second)
				fsys.mu.Lock()
				first := fsys.ops + skip
				fsys.fail = func(n int, op, _ string) *fault {
					if n < first || n >= first+many {
						return nil
					}
					return &fault{err: syscall.EIO, nothing: op == "write" && n%2 == 0}
				}
				fsys.mu.Unlock()
				recordAll(t, r, "/noise/45000/x")
				time.Sleep(time.Duration(many+3) * time.Second)
				fsys.mu.Lock()
				failed = len(fsys.failed) == many
				fsys.mu.Unlock()
				fsys.lift()
				time.Sleep(2 * time.Second)
				recordAll(t, r, "/noise/45000/y")
				closeForTest(t, r)
				wantAllOnce(t, r, "response /noise/100/x", "response /noise/45000/x", "revisit /noise/45000/y")
			})
			if t.Failed() {
				t.Fatalf("operations from %d on", skip)
			}
		}
	}
}

// A revisit beside a request that does not fit refers to what is durable, though
// its original is in the current file, and the revisit in another one.
func TestRevisitInChainIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newFaultyFS(nil)
		named := false
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), OpenIndex: opened(dedup.NewMemory()), fs: fsys})
		recordAll(t, r, "/noise/2000/a")
		fsys.mu.Lock()
		fsys.fail = func(_ int, op, name string) *fault {
			if op != "rename" || !strings.HasSuffix(name, ".part") || named {
				return nil
			}
			named = true
			for _, path := range names(t, r.options.Dir, "*.open") {
				info, err := os.Stat(path)
				if err != nil || fsys.synced[finalName(path)] != info.Size() {
					t.Errorf("a revisit is durable before its original: %d octets are, error %v", fsys.synced[finalName(path)], err)
				}
			}
			return nil
		}
		fsys.mu.Unlock()
		if _, err := fetch(r, "POST", "http://origin/noise/2000/b", strings.Repeat(sizedBody("/noise/9000"), 4)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fsys.lift()
		closeForTest(t, r)
		records := logicalRecords(t, r.options.Dir, smallFile)
		if got := oneOf(t, records, "revisit", "/noise/2000/b").header.Get("WARC-Refers-To"); got != oneOf(t, records, "response", "/noise/2000/a").id || !named {
			t.Errorf("it refers to %s", got)
		}
	})
}

// Somebody who takes a part away when the first one has its name does damage, and
// is told of.
func TestPartIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, renamed := newFaultyFS(nil), 0
		r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Dial: originHandler(t, sizedOrigin), fs: fsys, Logger: slog.New(slog.DiscardHandler)})
		fsys.fail = func(_ int, op, name string) *fault {
			if op == "rename" {
				if renamed++; renamed == 2 {
					os.Remove(filepath.Join(r.options.Dir, name))
				}
			}
			return nil
		}
		recordAll(t, r, "/noise/70000/x", "/noise/100/x")
		status := r.Status()
		err := r.Close(t.Context())
		if err == nil || status.Damaged != 1 || status.Lost != 1 || r.Err() != nil {
			t.Errorf("Close: %v; status %+v", err, status)
		}
		if left := names(t, r.options.Dir, "*.part"); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	})
}
