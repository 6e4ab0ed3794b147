package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// segment is the text of a record. A number of 1 makes it the first one.
func segment(origin string, number int, block, total string) string {
	kind, fields := "continuation", "WARC-Segment-Origin-ID: <urn:"+origin+">\r\n"
	id := fmt.Sprintf("%s:%d", origin, number)
	if number == 1 {
		kind, fields, id = "response", "Content-Type: text/plain\r\n", origin
	}
	if total != "" {
		fields += "WARC-Segment-Total-Length: " + total + "\r\n"
	}
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:%s>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.org/\r\nWARC-Segment-Number: %d\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n",
		kind, id, number, fields, len(block), block)
}

// openFiles writes files, of which those of several records with an odd number
// are gzip, and opens them.
func openFiles(t *testing.T, files ...[]string) []*File {
	t.Helper()
	var list []*File
	for i, records := range files {
		var b bytes.Buffer
		for _, r := range records {
			if i%2 == 0 {
				b.WriteString(r)
				continue
			}
			z := gzip.NewWriter(&b)
			io.WriteString(z, r)
			z.Close()
		}
		path := filepath.Join(t.TempDir(), "f"+strconv.Itoa(i)+".warc")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		list = append(list, f)
	}
	return list
}

// logical joins the record that starts the first file.
func logical(t *testing.T, files []*File) (string, *Joined, error) {
	t.Helper()
	s, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	z := files[0].Records(0)
	rec, err := z.Next()
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Block(rec, z)
	if err != nil {
		return "", nil, err
	}
	b, err := io.ReadAll(j)
	return string(b), j, err
}

var (
	one   = segment("a", 1, "The quick ", "")
	two   = segment("a", 2, "brown fox ", "")
	three = segment("a", 3, "jumps", "25")
	other = segment("b", 2, "not this", "8")
)

func TestSegmentsAreJoined(t *testing.T) {
	for name, files := range map[string][][]string{
		"in order":              {{one}, {two}, {three}},
		"in any order":          {{one}, {other, three, other}, {other, two}},
		"all in one file":       {{one, two, three}},
		"continuations in gzip": {{one}, {three, other, two}},
		"backwards":             {{one, other, three, two, other}},
		"two of a member":       {{one}, {two + other + three}},
	} {
		t.Run(name, func(t *testing.T) {
			got, j, err := logical(t, openFiles(t, files...))
			if err != nil || got != "The quick brown fox jumps" || j.Length != 25 || len(j.Segments) != 2 {
				t.Errorf("got %q (%+v), error %v", got, j, err)
			}
		})
	}
}

// An error names what is missing, there twice, or wrong.
func TestSegmentsThatCannotBeJoined(t *testing.T) {
	for _, test := range []struct {
		files [][]string
		want  string
	}{
		{[][]string{{one}}, "segment 2 of <urn:a> is in none of the files"},
		{[][]string{{one, other}}, "segment 2 of <urn:a> is in none of the files"},
		{[][]string{{one, three}}, "segment 2 of <urn:a> is in none of the files"},
		{[][]string{{one}, {two}}, "segment 3 of <urn:a> is in none of the files"},
		{[][]string{{one, two}, {three, two}}, "segment 2 of <urn:a> is there twice: "},
		{[][]string{{one, two, three}, {three}}, "segment 3 of <urn:a> is there twice: "},
		{[][]string{{one, two, three}, {segment("a", 4, "", "25")}}, "segment 4 of <urn:a> stands behind the last one, "},
		{[][]string{{one, two, segment("a", 3, "jump", "25")}}, "have 24 octets together, and the last one says 25"},
		{[][]string{{one, two, segment("a", 3, "jumps", "-25")}}, `the WARC-Segment-Total-Length "-25" is no length`},
		{[][]string{{one, two, three, strings.ReplaceAll(two, "Number: 2", "Number: 1")}}, "a continuation of <urn:a> has the number 1"},
	} {
		_, _, err := logical(t, openFiles(t, test.files...))
		if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got the error %v, want %q", err, test.want)
		}
	}
}

// WARC-Truncated is that of the last segment (WARC 1.1 §7).
func TestSegmentsThatAreTruncated(t *testing.T) {
	last := strings.Replace(three, "Content-Length", "WARC-Truncated: time\r\nContent-Length", 1)
	_, j, err := logical(t, openFiles(t, []string{one, two, last}))
	if err != nil || j.Truncated != "time" {
		t.Errorf("got %+v, error %v", j, err)
	}
}

// A record that is not segmented is what it is.
func TestRecordWithoutSegments(t *testing.T) {
	whole := strings.Replace(segment("a", 1, "all of it", ""), "WARC-Segment-Number: 1\r\n", "", 1)
	got, j, err := logical(t, openFiles(t, []string{whole, two}))
	if err != nil || got != "all of it" || j.Length != 9 || j.Segments != nil {
		t.Errorf("got %q (%+v), error %v", got, j, err)
	}
}

// A file that is damaged is named, and what stands in front of the damage counts.
func TestSegmentsOfDamagedFile(t *testing.T) {
	files := openFiles(t, []string{one, two, three, "garbage"})
	s, err := Join(files)
	broken := (*warc.Error)(nil)
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), files[0].Path) {
		t.Errorf("got the error %v", err)
	}
	if found, err := s.Of("<urn:a>"); err != nil || len(found) != 2 {
		t.Errorf("got %v, error %v", found, err)
	}
}

// Somebody who changes a file meanwhile does not go unnoticed.
func TestSegmentsOfChangedFile(t *testing.T) {
	files := openFiles(t, []string{one}, []string{other}, []string{two, three})
	s, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	z := files[0].Records(0)
	rec, err := z.Next()
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Block(rec, z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[2].Path, []byte(three+two), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(j); err == nil {
		t.Errorf("got %q and no error", got)
	}
}

// Whatever is in a file, joining its records ends, and without a panic.
func FuzzSegments(f *testing.F) {
	f.Add([]byte(one + two + three))
	f.Add([]byte(one + three + three + other))
	path := filepath.Join(f.TempDir(), "f.warc")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		s, err := Join([]*File{file})
		if s == nil {
			t.Fatal(err)
		}
		for z := file.Records(0); ; {
			rec, err := z.Next()
			if err != nil {
				return
			}
			j, err := s.Block(rec, z)
			if err != nil {
				continue
			}
			if n, err := io.Copy(io.Discard, j); err == nil && n != j.Length {
				t.Errorf("%d octets, not %d", n, j.Length)
			}
		}
	})
}

// inOneMember opens a file with all records in one gzip member.
func inOneMember(t *testing.T, records ...string) []*File {
	t.Helper()
	return openFiles(t, nil, []string{strings.Join(records, "")})[1:]
}

// Segments in one gzip member are joined in one go over it, and one to find them:
// nothing is read once for each of them.
func TestSegmentsInOneMember(t *testing.T) {
	const n = 3000
	records, want := []string{segment("a", 1, "0,", "")}, "0,"
	for i := range n {
		total := ""
		text := fmt.Sprintf("%d,", i+1)
		if want += text; i == n-1 {
			total = strconv.Itoa(len(want))
		}
		records = append(records, segment("a", i+2, text, total), segment("b", i+2, text, ""))
	}
	files := inOneMember(t, records...)
	s, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	z := files[0].Records(0)
	first, err := z.Next()
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Block(first, z)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(j); err != nil || string(got) != want {
		t.Errorf("the block has %d octets, want %d: %v", len(got), len(want), err)
	}
	if skipped, size := maxSkipped-s.left.Load(), len(strings.Join(records, "")); skipped > 2*int64(size) {
		t.Errorf("%d octets were skipped, and the member has %d", skipped, size)
	}
}

// Segments that stand in one gzip member in the wrong order are joined too, but
// not at any price.
func TestSegmentsInDisorder(t *testing.T) {
	const n = 50
	records, want := []string{segment("a", 1, "x", "")}, "x"
	for i := n; i > 0; i-- {
		total := ""
		if i == n {
			total = strconv.Itoa(n + 1)
		}
		records, want = append(records, segment("a", i+1, "x", total)), want+"x"
	}
	files := inOneMember(t, records...)
	if got, _, err := logical(t, files); err != nil || got != want {
		t.Errorf("the block is %q, %v", got, err)
	}
	s, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	s.left.Store(int64(len(strings.Join(records, ""))))
	z := files[0].Records(0)
	first, err := z.Next()
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Block(first, z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadAll(j); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "repair") {
		t.Errorf("reading more than is allowed gives %v", err)
	}
}
