package cdx

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeARC makes an ARC file of records, each a line without its length, and a
// block.
func writeARC(t testing.TB, name string, records ...[2]string) string {
	t.Helper()
	var file bytes.Buffer
	version := "1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
	for _, r := range append([][2]string{{"filedesc://" + name + " 0.0.0.0 20140216050221 text/plain", version}}, records...) {
		record := fmt.Sprintf("%s %d\n%s\n", r[0], len(r[1]), r[1])
		if strings.HasSuffix(name, ".gz") {
			w := gzip.NewWriter(&file)
			w.Write([]byte(record))
			w.Close()
		} else {
			file.WriteString(record)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestIndexARC(t *testing.T) {
	for _, name := range []string{"old.arc", "old.arc.gz"} {
		path := writeARC(t, name,
			[2]string{"http://www.example.org/b 192.0.2.1 20140216050222 text/html", page},
			[2]string{"dns:example.org 192.0.2.1 20140216050223 text/dns", "20140216050223\n"},
			[2]string{"http://example.org/0.9 192.0.2.1 20140216050224 text/plain", "hello"},
		)
		summary, lines := index(t, Options{}, path)
		if len(lines) != 3 || summary.Records != 4 || summary.Damaged != nil {
			t.Fatalf("%s: %v\n%s", name, summary, strings.Join(lines, ""))
		}
		for i, want := range []string{
			`dns:example.org 20140216050223 {"url": "dns:example.org", "mime": "text/dns", "digest": "`,
			`org,example)/0.9 20140216050224 {"url": "http://example.org/0.9", "mime": "text/plain", "length": `,
			`org,example)/b 20140216050222 {"url": "http://www.example.org/b", "mime": "Text/HTML", "status": "200", "digest": "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", "length": `,
		} {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: %s\nwant %s", name, lines[i], want)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, offset, length := placeOf(t, lines[2])
		_, next, _ := placeOf(t, lines[0])
		if name == "old.arc" {
			length++ // the line feed behind the record
		}
		if offset+length != next {
			t.Errorf("%s: a record from %d to %d, the next one at %d", name, offset, offset+length, next)
		}
		// The last record is cut: without compression its length may be wrong only.
		if err := os.WriteFile(path, file[:len(file)-4], 0o600); err != nil {
			t.Fatal(err)
		}
		summary, lines = index(t, Options{}, path)
		left := map[string]int{"old.arc": 3, "old.arc.gz": 2}[name]
		if len(lines) != left || len(summary.Damaged) != 1 {
			t.Errorf("%s, cut: %v\n%s", name, summary, strings.Join(lines, ""))
		}
	}
}

// TestARCLengths: captures whose length is wrong have their line, and it is reported.
func TestARCLengths(t *testing.T) {
	head := "filedesc://x.arc 0.0.0.0 20260101000000 text/plain 5\n1 0 x\n"
	capture := func(path, length string) string {
		return "http://example.com/" + path + " 192.0.2.1 20260102030405 text/html " + length + "\nHTTP/1.1 200 OK\r\n\r\nx\n"
	}
	for name, c := range map[string]struct{ in, damage string }{
		"into the next line":   {head + capture("a", "30") + capture("b", "20") + capture("c", "20"), "record at offset 59: its line says that the block has 30 octets, but it has 20: indexed so"},
		"over the next record": {head + capture("a", "110") + capture("b", "20") + capture("c", "20"), "record at offset 59: its line says that the block has 110 octets, but it has 20: indexed so"},
		"too short":            {head + capture("a", "18") + capture("b", "20") + capture("c", "20"), "record at offset 59: its line says that the block has 18 octets, but it has 20: indexed so"},
		"no length":            {head + capture("a", "-1") + capture("b", "20") + capture("c", "20"), `record at offset 59: the length "-1" is not a length: its block of 20 octets ends where the next record starts: indexed so`},
		"filedesc":             {strings.Replace(head, " 5\n", " -1\n", 1) + capture("a", "20") + capture("b", "20") + capture("c", "20"), `record at offset 0: the length "-1" is not a length: its block of 5 octets ends where the next record starts: indexed so`},
	} {
		path := filepath.Join(t.TempDir(), "x.arc")
		if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		summary, err := Index(t.Context(), &out, []string{path}, Options{})
		if err != nil || summary.Entries != 3 || len(summary.Damaged) != 1 || !strings.HasSuffix(summary.Damaged[0].Error(), c.damage) {
			t.Errorf("%s: %d lines, %v, %v", name, summary.Entries, summary.Damaged, err)
		}
		for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			if !strings.Contains(line, `"status": "200"`) || !strings.Contains(line, `"mime": "unk"`) && !strings.Contains(line, `"mime": "text/html"`) {
				t.Errorf("%s: %s", name, line)
			}
			var length int
			if _, rest, ok := strings.Cut(line, `"length": "`); !ok {
				t.Errorf("%s: no length: %s", name, line)
			} else if fmt.Sscanf(rest, "%d", &length); length < 79 || length > 80 {
				t.Errorf("%s: the length is %d: %s", name, length, line)
			}
		}
	}
}
