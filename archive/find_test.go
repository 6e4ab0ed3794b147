package archive

import (
	"bytes"
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

// archiveOf writes a file of records, each given as type, id, URL, date, block
// and then names and values of fields.
func archiveOf(t *testing.T, opts warc.WriterOptions, records ...[]string) *File {
	t.Helper()
	var b bytes.Buffer
	w := warc.NewWriter(&b, opts)
	for _, r := range records {
		h := warc.Header{{Name: "WARC-Type", Value: r[0]}, {Name: "WARC-Record-ID", Value: r[1]}, {Name: "WARC-Target-URI", Value: r[2]}, {Name: "WARC-Date", Value: r[3]}}
		for i := 5; i < len(r); i += 2 {
			h.Add(r[i], r[i+1])
		}
		if err := w.WriteRecord(h, strings.NewReader(r[4]), int64(len(r[4]))); err != nil {
			t.Fatal(err)
		}
	}
	return fileOf(t, b.Bytes())
}

func fileOf(t *testing.T, content []byte) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.warc")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// found tells which record was found.
func found(p *Place, err error) string {
	switch {
	case errors.Is(err, ErrNotFound):
		return "not found"
	case err != nil:
		return err.Error()
	}
	return p.Record.ID()
}

func TestFindURL(t *testing.T) {
	const u = "http://origin.example/"
	a := archiveOf(t, warc.WriterOptions{},
		[]string{"request", "<q>", u, "2026-01-01T00:00:00Z", ""},
		[]string{"response", "<a>", u, "2026-01-01T00:00:00Z", ""},
		[]string{"response", "<other>", u + "x", "2026-01-02T00:00:00Z", ""},
		[]string{"metadata", "<meta>", u, "2026-01-03T00:00:00Z", ""})
	b := archiveOf(t, warc.WriterOptions{},
		[]string{"revisit", "<c>", "<" + u + ">", "2026-01-05T00:00:00Z", ""},
		[]string{"response", "<b>", u, "2026-01-03T00:00:00Z", ""},
		[]string{"response", "<undated>", u, "once", ""})
	for at, want := range map[string]string{"": "<c>", "2026-01-01": "<a>", "2026-01-02": "<a>", "20260104": "<b>", "2030": "<c>", "1900": "<a>"} {
		var when time.Time
		if at != "" {
			when, _, _ = ParsePeriod(at)
		}
		if got := found(FindURL([]*File{a, b}, "HTTP://origin.example:80", when, nil)); got != want {
			t.Errorf("at %q: %s, want %s", at, got, want)
		}
	}
	if got := found(FindURL([]*File{a, b}, u, time.Time{}, []string{"request"})); got != "<q>" {
		t.Errorf("request: %s", got)
	}
	if got := found(FindURL([]*File{a, b}, u+"y", time.Time{}, nil)); got != "not found" {
		t.Errorf("another URL: %s", got)
	}
}

func TestOriginal(t *testing.T) {
	const u, digest, profile = "http://origin.example/", "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	originals := archiveOf(t, warc.WriterOptions{},
		[]string{"request", "<q>", u, "2026-01-01T00:00:00Z", ""},
		[]string{"response", "<a>", u, "2026-01-01T00:00:00.5Z", "", "WARC-Payload-Digest", digest},
		[]string{"response", "<changed>", u + "b", "2026-01-02T00:00:00.1Z", "", "WARC-Payload-Digest", "sha1:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"},
		[]string{"response", "<b>", u + "b", "2026-01-02T00:00:00.3Z", "", "WARC-Payload-Digest", digest},
		[]string{"revisit", "<r>", u, "2026-01-03T00:00:00Z", "", "WARC-Profile", profile, "WARC-Refers-To", "<a>"},
		[]string{"revisit", "<loop>", u, "2026-01-04T00:00:00Z", "", "WARC-Profile", profile, "WARC-Refers-To", "<pool>"},
		[]string{"revisit", "<pool>", u, "2026-01-05T00:00:00Z", "", "WARC-Profile", profile, "WARC-Refers-To", "<loop>"})
	for _, test := range []struct {
		name, want string
		fields     []string
	}{
		{"by id", "<b>", []string{"WARC-Refers-To", "<b>", "WARC-Refers-To-Date", "2026-01-01T00:00:00Z", "WARC-Payload-Digest", digest}},
		{"by URL and date", "<b>", []string{"WARC-Refers-To-Target-URI", u + "b", "WARC-Refers-To-Date", "2026-01-02T00:00:00Z", "WARC-Payload-Digest", digest}},
		{"by its own URL and a date", "<a>", []string{"WARC-Refers-To", "<elsewhere>", "WARC-Refers-To-Date", "2026-01-01T00:00:00Z"}},
		{"by digest", "<a>", []string{"WARC-Payload-Digest", strings.ToLower(digest)}},
		{"of a revisit", "<a>", []string{"WARC-Refers-To", "<r>"}},
		{"without an end", "without an end", []string{"WARC-Refers-To", "<loop>"}},
		{"elsewhere", "not found", []string{"WARC-Refers-To", "<elsewhere>"}},
		{"of nothing", "not found", nil},
	} {
		f := archiveOf(t, warc.WriterOptions{}, append([]string{"revisit", "<x>", u, "2026-02-01T00:00:00Z", "", "WARC-Profile", profile}, test.fields...))
		p, err := FindID([]*File{f}, "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := found(Original([]*File{f, originals}, p)); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Records are found and read where a gzip member holds several, and in a zstd
// file.
func TestPlaces(t *testing.T) {
	records := [][]string{{"resource", "<a>", "x:a", "2026", "block a"}, {"resource", "<b>", "x:b", "2026", "block b"}, {"resource", "<c>", "x:c", "2026", "block c"}}
	plain := archiveOf(t, warc.WriterOptions{Compression: warc.Plain}, records...)
	text, err := io.ReadAll(io.NewSectionReader(plain, 0, plain.Size))
	if err != nil {
		t.Fatal(err)
	}
	var samples [][]byte
	for i := range 200 {
		samples = append(samples, fmt.Appendf(nil, "%s and some %d words %x", text, i*i, i*7919))
	}
	dictionary, err := warc.TrainDictionary(samples, 4096)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*File{
		"dictionary": archiveOf(t, warc.WriterOptions{Compression: warc.Zstd, Dictionary: dictionary}, records...),
		"plain":      plain,
		"gzip":       archiveOf(t, warc.WriterOptions{}, records...),
		"zstd":       archiveOf(t, warc.WriterOptions{Compression: warc.Zstd}, records...),
		"one member": fileOf(t, []byte(gz(string(text)))),
	} {
		for _, id := range []string{"a", "b", "c"} {
			p, err := FindID([]*File{f}, id)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			m, err := Follow([]*File{f}, p)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := io.ReadAll(m.Payload()); string(got) != "block "+id || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if q, err := FindOffset(f, p.Offset); err != nil || p.Nth == 0 && q.Record.ID() != p.Record.ID() {
				t.Errorf("%s: %v, %v", name, q, err)
			}
		}
	}
}

// Errors tell the offset in the file, wherever reading started.
func TestPlaceOfDamage(t *testing.T) {
	good := archiveOf(t, warc.WriterOptions{}, []string{"resource", "<a>", "x:a", "2026", "block a"}, []string{"resource", "<b>", "x:b", "2026", "block b"})
	b, err := FindID([]*File{good}, "b")
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(io.NewSectionReader(good, 0, good.Size))
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-6] ^= 1
	p := &Place{File: fileOf(t, content), Offset: b.Offset, Record: b.Record}
	block, err := p.Open()
	if err == nil {
		_, err = io.ReadAll(block)
	}
	var broken *warc.Error
	if !errors.As(err, &broken) || broken.Offset != b.Offset || !strings.Contains(err.Error(), fmt.Sprintf("offset %d:", b.Offset)) {
		t.Errorf("%v", err)
	}
	if _, err := FindOffset(p.File, b.Offset+3); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("offset %d:", b.Offset+3)) {
		t.Errorf("%v", err)
	}
}

func TestRelated(t *testing.T) {
	f := archiveOf(t, warc.WriterOptions{},
		[]string{"request", "<q>", "x:", "2026", "", "WARC-Concurrent-To", "<p>"},
		[]string{"response", "<p>", "x:", "2026", ""},
		[]string{"metadata", "<m>", "x:", "2026", "", "WARC-Refers-To", "<p>"},
		[]string{"response", "<z>", "x:", "2026", ""})
	for id, want := range map[string]string{"q": "<p>", "p": "<q>", "m": "<p>", "z": ""} {
		p, err := FindID([]*File{f}, id)
		if err != nil {
			t.Fatal(err)
		}
		related, err := Related([]*File{f}, p)
		var got []string
		for _, r := range related {
			got = append(got, r.Record.ID())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}

// A damaged record does not keep those behind it from being found, in their
// places, and a reader of each has its header as it is in the file.
func TestScanDamaged(t *testing.T) {
	const u = "http://origin.example/"
	for _, form := range []warc.Compression{warc.Plain, warc.Gzip, warc.Zstd} {
		var records [][]string
		for n := range 4 {
			records = append(records, []string{"resource", fmt.Sprintf("<x:%d>", n), u, "2026-01-01T00:00:00Z", strings.Repeat("body ", 50)})
		}
		whole := archiveOf(t, warc.WriterOptions{Compression: form}, records...)
		var offsets []int64
		Scan(whole, func(p *Place, _ *warc.Reader) error { offsets = append(offsets, p.Offset); return nil })
		content, err := os.ReadFile(whole.Path)
		if err != nil || len(offsets) != 4 {
			t.Fatal(offsets, err)
		}
		clear(content[offsets[1]+2 : offsets[2]-2])
		f := fileOf(t, content)
		var got []int64
		var raw string
		err = Scan(f, func(p *Place, z *warc.Reader) error {
			got = append(got, p.Offset)
			block, err := p.Open()
			if err != nil {
				return err
			}
			raw += string(p.Record.Raw)
			_, err = io.Copy(io.Discard, block)
			return err
		})
		if want := fmt.Sprint([]int64{offsets[0], offsets[2], offsets[3]}); fmt.Sprint(got) != want || strings.Count(raw, "WARC/1.1\r\n") != 3 || !strings.Contains(raw, "<x:3>") {
			t.Errorf("%v: records at %v, want %v; %q", form, got, want, raw)
		}
		broken := (*warc.Error)(nil)
		if !errors.As(err, &broken) || broken.Offset != offsets[1] || err.Error() != fmt.Sprintf("%s: %v: left out up to offset %d", f.Path, broken, offsets[2]) {
			t.Errorf("%v: %v", form, err)
		}
		if got := found(FindID([]*File{f}, "<x:3>")); got != "<x:3>" {
			t.Errorf("%v: behind damage: %s", form, got)
		}
	}
	junk := fileOf(t, []byte("junk"))
	if err := Scan(junk, nil); err == nil || !strings.HasSuffix(err.Error(), "left out from there on") {
		t.Errorf("junk: %v", err)
	}
}

// When segments are missing, that tells which, and which file they may be in.
func TestFollowIncomplete(t *testing.T) {
	a := archiveOf(t, warc.WriterOptions{}, []string{"resource", "<a>", "x:a", "2026", "one", "WARC-Segment-Number", "1"})
	b := fileOf(t, []byte("damaged"))
	p, err := FindID([]*File{a}, "a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Follow([]*File{a, b}, p)
	if !errors.Is(err, ErrIncomplete) || !strings.HasPrefix(err.Error(), p.String()+": ") || !strings.Contains(err.Error(), "name all files") || !strings.Contains(err.Error(), b.Path) {
		t.Errorf("%v", err)
	}
}

// A file that is made of what looks like records is given up soon.
func TestScanFalseStarts(t *testing.T) {
	f := fileOf(t, []byte("junk\n"+strings.Repeat("WARC/1.1\r\nx: y\r\n", 8_000)))
	r := Resumption{File: f}
	if next, more := r.Next(0); more || r.starts > maxStarts || r.starts == 0 || r.looked > maxLooked+2*f.Size {
		t.Errorf("%d, %v, %d starts, %d octets", next, more, r.starts, r.looked)
	}
}
