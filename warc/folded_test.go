package warc

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// What folded lines cost grows with their number, not with its square: it would
// take a gigabyte for each of these headers.
func TestFoldedLinesTakeLinearWork(t *testing.T) {
	const perByte = 100
	for name, line := range map[string]string{
		"folded":               " x\r\n",
		"with other lines":     " x\r\nno colon\r\n",
		"fields":               "A: b\r\n x\r\n",
		"nothing but blanks":   " \r\n",
		"after a long value":   "A: " + strings.Repeat("v", 10_000) + "\r\n x\r\n",
		"one long folded line": strings.Repeat(" x", 10_000) + "\r\n",
	} {
		lines := strings.Repeat(line, min(100_000/len(line), MaxHeaderLines*9/10/strings.Count(line, "\n")))
		in := "WARC/1.0\r\nContent-Length: 0\r\nX: y\r\n" + lines + "\r\n\r\n\r\n"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rec, err := NewReader(strings.NewReader(in)).Next()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > perByte*uint64(len(in))+1<<20 {
			t.Errorf("%s: a header of %d bytes takes %d bytes", name, len(in), n)
		}
		if name == "with other lines" {
			if want := "y" + strings.Repeat(" x", strings.Count(lines, " x")); rec.Header.Get("X") != want {
				t.Errorf("the folded value is %.60q", rec.Header.Get("X"))
			}
		}
	}
}

// Each folded line goes to the field in front of it, in a second record too.
func TestFoldedValues(t *testing.T) {
	const header = "WARC/1.0\r\n lost\r\nA: a\r\n b\r\n \r\n\tc \r\nB:\r\n d\r\njunk\r\n e\r\nContent-Length:\r\n 0\r\n\r\n\r\n\r\n"
	z := NewReader(strings.NewReader(header + header))
	for range 2 {
		rec, err := z.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a, b, n := rec.Header.Get("A"), rec.Header.Get("B"), len(rec.Header); a != "a b c" || b != "d e" || n != 3 {
			t.Errorf("A is %q, B is %q, there are %d fields", a, b, n)
		}
	}
	if _, err := z.Next(); err != io.EOF {
		t.Error(err)
	}
}
