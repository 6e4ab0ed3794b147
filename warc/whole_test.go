package warc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// linked is a record of that id which names others.
func linked(id, block string, others ...string) string {
	more := []string{"WARC-Record-ID: <" + id + ">"}
	for _, o := range others {
		more = append(more, "WARC-Concurrent-To: <"+o+">")
	}
	return rec("1.1", "any", block, more...)
}

// TestWholeAtEveryByte cuts a file at every byte: what is kept is the longest
// row of whole groups.
func TestWholeAtEveryByte(t *testing.T) {
	groups := [][]string{
		{linked("info", "x")},
		{linked("q1", "request", "r1"), linked("r1", strings.Repeat("response", 100), "q1")},
		{linked("q2", "", "r2"), linked("r2", "", "q2"), linked("m2", "m", "r2")},
		{linked("q3", "a", "r3", "m3"), linked("r3", "", "q3"), linked("m3", "m", "r3")},
		{linked("late", "names one of an earlier group", "r1")},
	}
	for name, encode := range map[string]func(string) string{"plain": func(s string) string { return s }, "gzip": func(s string) string { return gz(s) }} {
		in, bounds := "", []int64{0}
		for i, g := range groups {
			for j, r := range g {
				in += encode(r)
				if j == len(g)-1 || i == 2 && j == 1 { // m2 is named by none
					bounds = append(bounds, int64(len(in)))
				}
			}
		}
		for n := range len(in) + 1 {
			last, _ := slices.BinarySearch(bounds, int64(n)+1)
			want := bounds[last-1]
			if good, err := Whole(strings.NewReader(in[:n])); err != nil || good != want {
				t.Fatalf("%s, %d of %d bytes: %d, %v, want %d", name, n, len(in), good, err, want)
			}
			for _, junk := range []string{"\x00\x00\x00\x00\x00\x00", "junk"} {
				if n%4 != 0 || strings.HasPrefix(in[n:], junk[:1]) {
					continue // to save time, or not junk
				}
				if good, err := Whole(strings.NewReader(in[:n] + junk)); err != nil || good != want {
					t.Fatalf("%s, %d of %d bytes and %q: %d, %v, want %d", name, n, len(in), junk, good, err, want)
				}
			}
		}
	}
}

// TestWholeDamage changes each byte of a gzip file: what is kept is as it was.
func TestWholeDamage(t *testing.T) {
	in := gz(linked("a", strings.Repeat("a", 50)), linked("b", string(noise(50))), linked("c", ""))
	want, err := readAll(strings.NewReader(in), true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(in) {
		damaged := []byte(in)
		damaged[n] ^= 0x10
		good, err := Whole(bytes.NewReader(damaged))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := readAll(bytes.NewReader(damaged[:good]), true)
		if err != nil || !slices.EqualFunc(kept, want[:len(kept)], func(a, b got) bool { return a.block == b.block && slices.Equal(a.Header, b.Header) }) {
			t.Errorf("byte %d: %d records, %v", n, len(kept), err)
		}
		if len(kept) < len(want) && int64(n) >= want[len(kept)].end {
			t.Errorf("byte %d: only %d records kept", n, len(kept))
		}
	}
}

func TestWholeDanglingGroup(t *testing.T) {
	in := linked("a", "x") + linked("q", "x", "never") + linked("b", "x")
	if good, err := Whole(strings.NewReader(in)); err != nil || good != int64(len(linked("a", "x"))) {
		t.Error(good, err)
	}
}

// TestWholePlainDigest is about pages of a plain file that never reached the disk.
func TestWholePlainDigest(t *testing.T) {
	block := strings.Repeat("block ", 2000)
	digest := fmt.Sprintf("WARC-Block-Digest: sha256:%x", sha256.Sum256([]byte(block)))
	a := rec("1.1", "resource", block, digest)
	in := a + a + rec("1.1", "resource", block, "WARC-Block-Digest: new:0")
	if good, err := Whole(strings.NewReader(in)); err != nil || good != int64(len(in)) {
		t.Error(good, err)
	}
	torn := []byte(in)
	clear(torn[len(a)+4096 : len(a)+8192])
	if good, err := Whole(bytes.NewReader(torn)); err != nil || good != int64(len(a)) {
		t.Error(good, err)
	}
}

func TestWholeInputError(t *testing.T) {
	a := linked("a", "x")
	for _, in := range []string{a + linked("b", "y"), gz(a, linked("b", "y"))} {
		for _, boom := range []error{errors.New("boom"), io.ErrUnexpectedEOF} {
			for n := range len(in) + 1 {
				if _, err := Whole(io.MultiReader(strings.NewReader(in[:n]), iotest.ErrReader(boom))); !errors.Is(err, boom) {
					t.Fatalf("after %d bytes: %v", n, err)
				}
			}
		}
	}
}

// TestWholeMemory gives Whole what could fill memory: a big block, long lines,
// groups that never end.
func TestWholeMemory(t *testing.T) {
	const n = 1 << 28
	big := fmt.Sprintf("WARC/1.1\r\nContent-Length: %d\r\n\r\n", n)
	var many []io.Reader
	for i := range 5000 {
		many = append(many, strings.NewReader(linked(fmt.Sprint("id", i), "", fmt.Sprint("other", i))))
	}
	for name, in := range map[string]io.Reader{
		"big block": io.MultiReader(strings.NewReader(big), zeros(n), strings.NewReader(recordEnd)),
		"long line": io.MultiReader(strings.NewReader("WARC/1.1\r\nX: "), zeros(n)),
		"groups":    io.MultiReader(many...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Whole(in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if d := after.TotalAlloc - before.TotalAlloc; d > 16<<20 {
			t.Errorf("%s: allocated %d bytes", name, d)
		}
	}
}

// TestWholeWindow names more records than a group can have.
func TestWholeWindow(t *testing.T) {
	for n, want := range map[int]bool{groupWindow: true, groupWindow + 1: false} {
		var others []string
		rest := ""
		for i := range n {
			id := fmt.Sprint("id", i)
			others = append(others, id)
			rest += linked(id, "")
		}
		in := linked("first", "", others...) + rest
		if good, err := Whole(strings.NewReader(in)); err != nil || (good == int64(len(in))) != want {
			t.Errorf("%d: whole up to %d of %d, %v", n, good, len(in), err)
		}
	}
}
