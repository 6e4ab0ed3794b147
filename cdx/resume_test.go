package cdx

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

func TestIndexDamaged(t *testing.T) {
	// What stands in the middle of a line is no record.
	const embedded = "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x>\r\nWARC-Date: 2026-11-21T10:15:00Z\r\nWARC-Target-URI: urn:embedded\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
	var records []testRecord
	for n := range 20 {
		records = append(records, testRecord{"response", fmt.Sprintf("http://example.org/%02d", n), isResponse, page + embedded})
	}
	for _, name := range []string{"a.warc", "a.warc.gz", "a.warc.zst"} {
		whole, err := os.ReadFile(write(t, name, records))
		if err != nil {
			t.Fatal(err)
		}
		for _, damage := range []struct {
			name string
			do   func(file []byte, tenth, eleventh int) []byte
			lost string
		}{
			{"cut", func(file []byte, _, _ int) []byte { return file[:len(file)-30] }, "19"},
			{"garbage behind", func(file []byte, _, _ int) []byte { return append(file, "garbage"...) }, ""},
			{"garbage between", func(file []byte, tenth, _ int) []byte {
				return slices.Concat(file[:tenth], []byte("\x00\x00 garbage\r\n"), file[tenth:])
			}, "-"},
			{"overwritten", func(file []byte, tenth, eleventh int) []byte {
				clear(file[tenth+2 : eleventh-2])
				return file
			}, "10"},
			{"start overwritten", func(file []byte, tenth, _ int) []byte {
				clear(file[tenth : tenth+3])
				return file
			}, "10"},
			{"overwritten and cut", func(file []byte, tenth, eleventh int) []byte {
				clear(file[tenth+2 : eleventh-2])
				return file[:len(file)-30]
			}, "10 19"},
			{"piece missing", func(file []byte, tenth, eleventh int) []byte {
				return slices.Delete(file, eleventh-20, eleventh-11)
			}, "10"},
		} {
			if name == "a.warc" && damage.name == "piece missing" {
				damage.lost = "11" // there is no checksum, and its start is taken for the end of the tenth
			}
			_, lines := index(t, Options{}, write(t, name, records))
			_, tenth, _ := placeOf(t, lines[10])
			_, eleventh, _ := placeOf(t, lines[11])
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, damage.do(slices.Clone(whole), int(tenth), int(eleventh)), 0o600); err != nil {
				t.Fatal(err)
			}
			summary, lines := index(t, Options{}, path)
			if len(summary.Damaged) == 0 {
				t.Errorf("%s, %s: nothing is told", name, damage.name)
			}
			for _, d := range summary.Damaged {
				if broken := (*warc.Error)(nil); !errors.As(d, &broken) || broken.Offset > int64(len(whole)) || !strings.HasPrefix(d.Error(), path+": ") {
					t.Errorf("%s, %s: %v", name, damage.name, d)
				}
			}
			if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "urn:embedded") }) {
				t.Errorf("%s, %s: a record within a record is indexed", name, damage.name)
			}
			for n := range 20 {
				number := fmt.Sprintf("%02d", n)
				found := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "org,example)/"+number) })
				if found == strings.Contains(damage.lost, number) {
					t.Errorf("%s, %s: record %d: found %v; %v", name, damage.name, n, found, summary.Damaged)
				}
			}
		}
	}
}

// The next record is found wherever it starts in what is read at a time, which is
// 64 KiB.
func TestIndexDamagedFar(t *testing.T) {
	path := write(t, "a.warc", []testRecord{
		{"response", "http://example.org/lost", isResponse, page + strings.Repeat("x", 66_000)},
		{"response", "http://example.org/found", isResponse, page},
	})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, lines := index(t, Options{}, path)
	_, next, _ := placeOf(t, lines[0])
	clear(file[:next-1])
	for before := 64<<10 - 12; before < 64<<10+12; before++ {
		if err := os.WriteFile(path, file[int(next)-before:], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, lines := index(t, Options{}, path); len(lines) != 1 || !strings.HasPrefix(lines[0], "org,example)/found") {
			t.Fatalf("%d octets before it: %v", before, lines)
		}
	}
}

// A file that is one gzip member: an index cannot say where its records are.
func TestIndexSharedMember(t *testing.T) {
	path := write(t, "a.warc", kinds)
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "a.warc.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(plain)
	w.Close()
	if err := os.WriteFile(packed, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	summary, lines := index(t, Options{All: true}, packed)
	if len(lines) != 0 || len(summary.Damaged) != 1 || !strings.Contains(summary.Damaged[0].Error(), "more than one record") {
		t.Errorf("%v, %v", lines, summary)
	}
}
