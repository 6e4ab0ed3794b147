package recorder

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	files "github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/coding"
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
