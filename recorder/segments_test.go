package recorder

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

// A record of any size is what it was, whatever its files are like.
func TestSegments(t *testing.T) {
	for _, o := range []Options{{}, {SkipLengths: true}, {Compression: warc.Plain}, {Compression: warc.Zstd}} {
		synctest.Test(t, func(t *testing.T) {
			o.MaxSize, o.Oversize, o.Dial, o.OpenIndex = smallFile, OversizeSegment, originHandler(t, sizedOrigin), opened(dedup.NewMemory())
			r := openForTest(t, o)
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

// What does not fit is divided before the writer gets it: that takes its time.
func TestSegmentsAreMadeAside(t *testing.T) {
	for _, compression := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		for _, kind := range []string{"noise", "text"} {
			r := openForTest(t, Options{MaxSize: smallFile, Oversize: OversizeSegment, Compression: compression})
			block := []byte(sizedBody("/" + kind + "/300000/x"))
			body := newSpool(r.space, r.options.Dir, -1)
			if _, err := body.Write(block); err != nil {
				t.Fatal(err)
			}
			c := &capture{x: &exchange{r: r, uri: "http://origin/", start: time.Now()}}
			c.x.startHeader(&c.response.header, warc.TypeResource, warc.NewRecordID(), warc.FormatDate(c.x.start, warc.V1_1))
			c.response.length = int64(len(block))
			c.response.pack(r, c.x.target(), nil, body)
			c.fitLarge()
			if n := len(c.response.segments); n < 3 {
				t.Errorf("%v, %s: there are %d segments", compression, kind, n)
			}
			body.release()
			c.release()
			closeForTest(t, r)
		}
	}
}

// A dictionary that comes when segments have been made makes their files start
// later, and is theirs too.
func TestDictionaryComesBehindSegments(t *testing.T) {
	const most = 200_000
	var samples [][]byte
	for n := range 100 {
		samples = append(samples, []byte(sizedBody(fmt.Sprintf("/text/%d", 4000+n))))
	}
	d, err := warc.TrainDictionary(samples, 0)
	if err != nil || len(d.Bytes()) < 4000 {
		t.Fatalf("no long dictionary: %v", err)
	}
	r := openForTest(t, Options{MaxSize: most, Oversize: OversizeSegment, Compression: warc.Zstd, TrainDictionary: true})
	blocks := make(map[string]string)
	for i, kind := range []string{"noise", "text"} {
		path := "/" + kind + "/2000000/x"
		block := sizedBody(path)
		blocks[path] = block
		sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(block)))
		body := newSpool(r.space, r.options.Dir, -1)
		if _, err := body.Write([]byte(block)); err != nil {
			t.Fatal(err)
		}
		x := &exchange{r: r, uri: "http://origin" + path, start: time.Now()}
		c := &capture{x: x, single: true}
		h := &c.response.header
		x.startHeader(h, warc.TypeResource, warc.NewRecordID(), warc.FormatDate(x.start, warc.V1_1))
		h.Add("WARC-Block-Digest", sum)
		h.Add("WARC-Payload-Digest", sum)
		h.Add("Content-Type", "image/png")
		c.response.length = int64(len(block))
		c.response.pack(r, x.target(), nil, body)
		body.release()
		c.fitLarge()
		if len(c.response.segments) < 2 {
			t.Fatalf("%s has %d segments", path, len(c.response.segments))
		}
		if i == 0 {
			r.training.result.Store(d)
		}
		if !r.trackLate(x) || !r.writer.submitSingle(c) {
			t.Fatal("it is not taken")
		}
	}
	closeForTest(t, r)
	records := logicalRecords(t, r.options.Dir, most)
	for path, block := range blocks {
		if got := oneOf(t, records, "resource", path); got.segments < 2 || got.block != block {
			t.Errorf("%s has %d segments and %d octets", path, got.segments, len(got.block))
		}
	}
	for _, path := range names(t, r.options.Dir, "*.warc.zst") {
		if _, got := inFile(t, path); got.ID() != d.ID() {
			t.Errorf("%s has dictionary %d", path, got.ID())
		}
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
		if _, err := fetch(r, "GET", fmt.Sprintf("http://origin/noise/200%d/b", i), strings.Repeat(sizedBody("/noise/9000"), 4)); err != nil {
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
