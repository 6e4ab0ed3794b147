package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// A kept is a record as it was read.
type kept struct {
	version warc.Version
	header  warc.Header
	raw     string
	block   string
}

func (k kept) get(name string) string { return k.header.Get(name) }

func readAll(t testing.TB, b []byte) (all []kept) {
	t.Helper()
	z := warc.NewReader(bytes.NewReader(b))
	for {
		rec, err := z.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		k := kept{version: rec.Version, header: rec.Header, raw: string(rec.Raw)}
		block, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		k.block = string(block)
		all = append(all, k)
	}
}

// to converts a file that is in memory, and verifies the result.
func to(t testing.TB, in []byte, o Options) ([]byte, Result) {
	t.Helper()
	form, err := FormOf(bytes.NewReader(in), "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o.TempDir = t.TempDir()
	result, err := File(context.Background(), form, &out, bytes.NewReader(in), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(bytes.NewReader(out.Bytes()), result.Sum); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.TempDir); err != nil || len(left) > 0 {
		t.Fatalf("temporary files are left: %v, %v", left, err)
	}
	return out.Bytes(), result
}

// record returns a record that has these lines in its header, ends them as they
// are, and its length.
func record(block string, lines ...string) string {
	return strings.Join(lines, "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
}

// randomFile returns a file of records with fields of all kinds.
func randomFile(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	word := func() string { return fmt.Sprintf("%x", r.Uint64()) }
	var b strings.Builder
	for range 1 + r.IntN(8) {
		lines := []string{[]string{"WARC/1.0", "WARC/1.1", "WARC/0.18", "WARC/0.17"}[r.IntN(4)], "WARC-Type: resource", "warc-record-id:<urn:" + word() + ">", "WARC-Date: 2020-02-03T04:05:06Z"}
		for range r.IntN(6) {
			lines = append(lines, []string{"X-" + word() + ":  \t" + word() + " ", "folded: a\r\n\t b ", "a line without", "X: é", "X:", "WARC-Concurrent-To : <a:" + word() + ">"}[r.IntN(6)])
		}
		block := make([]byte, r.IntN(3)*r.IntN(20000))
		for i := range block {
			block[i] = byte(r.IntN(1 + r.IntN(256)))
		}
		text := record(string(block), lines...)
		if r.IntN(4) == 0 {
			head, rest, _ := strings.Cut(text, "\r\n\r\n")
			text = strings.ReplaceAll(head, "\r\n", "\n") + "\n\n" + rest
		}
		b.WriteString(text)
	}
	return b.String()
}

func sumOf(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
