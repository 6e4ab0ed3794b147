package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// TestOrder moves things to where they must not be.
func TestOrder(t *testing.T) {
	strict := func(name string, ar *archive, at, rules, also string) {
		t.Helper()
		findings, _ := run(t, check.Options{Profile: check.Warctee}, ar.write(t)...)
		expect(t, name, findings, id(at), rules, also)
	}
	ar := good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
	ar.a[1], ar.a[2], ar.a[9], ar.a[10] = ar.a[9], ar.a[10], ar.a[1], ar.a[2]
	strict("revisit before its original", ar, "52", "refers-to", "")

	ar = good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
	ar.a = append(ar.a[1:], ar.a[0])
	strict("warcinfo at the end", ar, "11", "warcinfo warcinfo-place", "*")

	ar = good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
	ar.a, ar.b = slices.Concat(ar.a[:10], ar.a[11:]), append(ar.b, ar.a[10])
	strict("records of an exchange in two files", ar, "52", "concurrent-place warcinfo-place", "concurrent-place")

	ar = good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
	ar.c, ar.d = append(ar.c[:1:1], ar.a[10]), slices.Insert(ar.d[:1:1], 1, ar.c[1])
	ar.get("52").h.Set("WARC-Warcinfo-ID", id("02"))
	ar.a = slices.Delete(ar.a, 10, 11)
	strict("a large record begins a file", ar, "52", "", "*")

	ar = good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256)
	ar.c = slices.Insert(ar.c, 1, ar.d[0])
	ar.d = ar.d[1:]
	strict("a first segment not in a fresh file", ar, "b1", "segment-place", "warcinfo warcinfo-place warcinfo-place")
}

func TestFileRules(t *testing.T) {
	rename := func(name string) []check.Finding {
		paths := good(warc.WriterOptions{}, warc.SHA256).write(t)
		to := filepath.Join(filepath.Dir(paths[0]), name)
		if err := os.Rename(paths[0], to); err != nil {
			t.Fatal(err)
		}
		paths[0] = to
		findings, _ := run(t, check.Options{Profile: check.Warctee}, paths...)
		return findings
	}
	expect(t, "open", rename("a.warc.gz.open"), "", "open-file", "")
	expect(t, "gzip without .gz", rename("a.warc"), "", "compression", "filename")
	expect(t, "gzip as zstd", rename("a.warc.zst"), "", "compression", "filename")
	expect(t, "other name", rename("c2.warc.gz"), "", "", "filename")
	empty := filepath.Join(t.TempDir(), "empty.warc")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	findings, _ := run(t, check.Options{}, empty)
	expect(t, "empty", findings, "", "empty", "")
	if _, err := check.Files(filepath.Join(t.TempDir(), "none.warc")); err == nil {
		t.Error("no error about a file that is not there")
	}
	if _, err := check.Files(t.TempDir()); err == nil {
		t.Error("no error about a directory")
	}
}
