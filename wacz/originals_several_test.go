package wacz

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/warc"
)

// severalOriginals writes a file with a warcinfo and n originals, of which damage may
// change the octets, and one with a revisit of each.
func severalOriginals(t *testing.T, n int, damage func(i int, record []byte) []byte) (originals, revisits string) {
	t.Helper()
	var file []byte
	add := func(kind, id, block string, fields ...warc.Field) []byte {
		var b bytes.Buffer
		h := append(warc.Header{
			{Name: "WARC-Type", Value: kind},
			{Name: "WARC-Record-ID", Value: "<urn:test:" + id + ">"},
			{Name: "WARC-Date", Value: "2026-11-20T10:15:00.678Z"},
			{Name: "Content-Type", Value: "application/http"},
		}, fields...)
		if err := warc.NewWriter(&b, warc.WriterOptions{}).WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	file = append(file, add("warcinfo", "info", "software: x\r\n")...)
	var visits []sample
	for i := range n {
		url, digest := fmt.Sprintf("http://example.org/%d", i), "sha1:"+strings.Repeat(string(rune('A'+i)), 32)
		var body strings.Builder
		for k := range 20_000 { // what does not compress to nothing
			fmt.Fprintf(&body, "%x ", k*k*(i+7)%9973)
		}
		record := add("response", fmt.Sprint("o", i), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"+body.String(),
			warc.Field{Name: "WARC-Target-URI", Value: url}, warc.Field{Name: "WARC-Payload-Digest", Value: digest}, warc.Field{Name: "WARC-Warcinfo-ID", Value: "<urn:test:info>"})
		file = append(file, damage(i, record)...)
		visits = append(visits, revisitOf(fmt.Sprint("v", i), "200 OK", warc.Field{Name: "WARC-Refers-To", Value: fmt.Sprintf("<urn:test:o%d>", i)},
			warc.Field{Name: "WARC-Refers-To-Target-URI", Value: url}, warc.Field{Name: "WARC-Payload-Digest", Value: digest}))
	}
	originals = filepath.Join(t.TempDir(), "o.warc.gz")
	if err := os.WriteFile(originals, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return originals, writeFile(t, "v.warc.gz", visits...)
}

// idsOf returns the ids of all records of a file of a package, each of which has to be
// whole.
func idsOf(t *testing.T, content string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.warc.gz")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ids []string
	if err := archive.Scan(f, func(p *archive.Place, _ *warc.Reader) error {
		ids = append(ids, p.Record.ID())
		return nil
	}); err != nil {
		t.Error(err)
	}
	return ids
}

// The warcinfo of a file is taken along once, and the file named once.
func TestOriginalsOfOneFile(t *testing.T) {
	originals, revisits := severalOriginals(t, 3, func(_ int, record []byte) []byte { return record })
	contents, s := packedWith(t, Options{Originals: []string{originals}}, revisits)
	if s.Added != 3 || s.Unresolved != 0 {
		t.Errorf("%d originals were added, %d revisits are not resolved", s.Added, s.Unresolved)
	}
	ids := idsOf(t, contents["archive/"+originalsName])
	if got := strings.Join(ids[1:], " "); got != "<urn:test:info> <urn:test:o0> <urn:test:o1> <urn:test:o2>" {
		t.Errorf("the file of originals has %s", got)
	}
	path := filepath.Join(t.TempDir(), "o.warc.gz")
	os.WriteFile(path, []byte(contents["archive/"+originalsName]), 0o644)
	f, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := archive.FindOffset(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	block, err := info.Open()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	text.ReadFrom(block)
	if !strings.Contains(text.String(), "copied from o.warc.gz\r\n") {
		t.Errorf("the description is %q", text.String())
	}
}

// An original whose block is damaged is not taken, and what follows it is.
func TestDamagedOriginal(t *testing.T) {
	originals, revisits := severalOriginals(t, 3, func(i int, record []byte) []byte {
		if i == 1 {
			record[len(record)*3/4] ^= 0xff
		}
		return record
	})
	contents, s := packedWith(t, Options{Originals: []string{originals}}, revisits)
	if got := strings.Join(idsOf(t, contents["archive/"+originalsName])[1:], " "); got != "<urn:test:info> <urn:test:o0> <urn:test:o2>" {
		t.Errorf("the file of originals has %s", got)
	}
	if s.Added != 2 || s.Unresolved != 1 || len(s.OriginalsDamaged) != 1 || len(s.Damaged) != 0 {
		t.Errorf("%d originals were added, %d revisits are not resolved; damage: %v, %v", s.Added, s.Unresolved, s.OriginalsDamaged, s.Damaged)
	}
	if len(s.Missing) == 1 && !strings.Contains(s.Missing[0].Reason, "damaged") {
		t.Errorf("the reason is %q", s.Missing[0].Reason)
	}
}

// An original that is damaged in one file is taken from the next.
func TestOriginalDamagedOnce(t *testing.T) {
	damaged, revisits := severalOriginals(t, 1, func(i int, record []byte) []byte { record[len(record)*3/4] ^= 0xff; return record })
	whole, _ := severalOriginals(t, 1, func(_ int, record []byte) []byte { return record })
	contents, s := packedWith(t, Options{Originals: []string{damaged, whole}}, revisits)
	if s.Added != 1 || s.Unresolved != 0 {
		t.Errorf("%d originals were added, %d revisits are not resolved", s.Added, s.Unresolved)
	}
	if got := strings.Join(idsOf(t, contents["archive/"+originalsName])[1:], " "); got != "<urn:test:info> <urn:test:o0>" {
		t.Errorf("the file of originals has %s", got)
	}
}
