package manifest

import (
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newBag makes a bag of files with odd names.
func newBag(t *testing.T) string {
	t.Helper()
	dir := plant(t, append(oddNames, "sub/file")...)
	bag := filepath.Join(t.TempDir(), "bag")
	opts := BagOptions{
		Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Software: "warctee",
		Fields: []Field{{"Source-Organization", "Example"}},
	}
	if err := MakeBag(context.Background(), bag, []string{dir}, opts); err != nil {
		t.Fatal(err)
	}
	return bag
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // it may be a link
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A bag in the directory that it is made of does not hold itself.
func TestBagWithin(t *testing.T) {
	dir := plant(t, "a", "c")
	bag := filepath.Join(dir, "b")
	if err := MakeBag(context.Background(), bag, []string{dir}, BagOptions{}); err != nil {
		t.Fatal(err)
	}
	if report := wantFaults(t, bag); report.Files != 2+3 {
		t.Errorf("%d files, want 5:\n%s", report.Files, read(t, filepath.Join(bag, payloadList)))
	}
}

func TestBag(t *testing.T) {
	bag := newBag(t)
	report := wantFaults(t, bag)
	if want := len(oddNames) + 1 + 3; report.Files != want {
		t.Errorf("%d files are verified, want %d", report.Files, want)
	}
	octets := len(strings.Join(oddNames, "") + "sub/file")
	for name, want := range map[string]string{
		"bagit.txt":    "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
		"bag-info.txt": fmt.Sprintf("Source-Organization: Example\nBagging-Date: 2026-11-21\nPayload-Oxum: %d.%d\nBag-Software-Agent: warctee\n", octets, len(oddNames)+1),
	} {
		if got := read(t, filepath.Join(bag, name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	list := read(t, filepath.Join(bag, "manifest-sha256.txt"))
	for _, name := range []string{"  data/two%0Alines\n", "  data/re%0Dturn\n", "  data/100%25\n", "  data/%250A\n", "  data/back\\slash\n"} {
		if !strings.Contains(list, name) {
			t.Errorf("no %q in the manifest:\n%s", name, list)
		}
	}
	sha256sum(t, bag, "--check", "--strict", "tagmanifest-sha256.txt")
}

// The files of a bag are those that were named, not copies; the originals stay.
func TestBagLinks(t *testing.T) {
	dir := plant(t, "a/same", "b/same", "file")
	bag := filepath.Join(dir, "bag")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := MakeBag(context.Background(), bag, []string{in("a"), in("file")}, BagOptions{}); err != nil {
		t.Fatal(err)
	}
	for original, kept := range map[string]string{"a/same": "bag/data/same", "file": "bag/data/file"} {
		one, err := os.Stat(in(original))
		if err != nil {
			t.Fatal(err)
		}
		if other, err := os.Stat(in(kept)); err != nil || !os.SameFile(one, other) {
			t.Errorf("%s is not %s: %v", kept, original, err)
		}
	}
	for _, c := range []struct {
		bag   string
		paths []string
		says  string
	}{
		{"bag", []string{"a"}, "exists"},
		{"other", []string{"a", "b"}, "another file has this name"},
		{"other", []string{"missing"}, "no such file"},
	} {
		for i := range c.paths {
			c.paths[i] = in(c.paths[i])
		}
		if err := MakeBag(context.Background(), in(c.bag), c.paths, BagOptions{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a bag %s of %q: %v, want %q", c.bag, c.paths, err, c.says)
		}
	}
	if left, _ := filepath.Glob(in("other*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestCopyFile(t *testing.T) {
	dir := plant(t, "file")
	to := filepath.Join(dir, "copy")
	if err := copyFile(context.Background(), filepath.Join(dir, "file"), to); err != nil || read(t, to) != "file" {
		t.Errorf("the copy is %q, %v", read(t, to), err)
	}
}

// What can go wrong with a bag, and how it is named.
func TestBagFaults(t *testing.T) {
	md5Line := func(name, content string) string { return fmt.Sprintf("%x %s\n", md5.Sum([]byte(content)), name) }
	for name, c := range map[string]struct {
		change func(in func(string) string)
		want   []string
	}{
		"payload changed": {func(in func(string) string) { write(t, in("data/ünï"), "ÜNÏ") }, []string{"digest data/ünï"}},
		"payload missing": {func(in func(string) string) { os.Remove(in("data/-n")) }, []string{"missing data/-n", "size bag-info.txt"}},
		"payload added":   {func(in func(string) string) { write(t, in("data/new"), "") }, []string{"unexpected data/new", "size bag-info.txt"}},
		"tag changed":     {func(in func(string) string) { write(t, in("bag-info.txt"), "A: b\n") }, []string{"digest bag-info.txt"}},
		"no payload":      {func(in func(string) string) { os.RemoveAll(in("data")) }, append([]string{"malformed data", "size bag-info.txt", "missing data/sub/file"}, prefixed("missing data/", oddNames)...)},
		"no manifest": {func(in func(string) string) { os.Remove(in("manifest-sha256.txt")) },
			append([]string{"missing manifest-sha256.txt", "malformed manifest-sha256.txt", "unexpected data/sub/file"}, prefixed("unexpected data/", oddNames)...)},
		"unknown digests": {func(in func(string) string) { write(t, in("manifest-blake9.txt"), "00  data/-n\n") }, []string{"unreadable manifest-blake9.txt"}},
		"second manifest": {func(in func(string) string) {
			write(t, in("manifest-md5.txt"), md5Line("data/-n", "-n")+md5Line("data/100%25", "another")+md5Line("data/../bagit.txt", ""))
		}, append([]string{"digest data/100%", "malformed manifest-md5.txt", "unexpected data/sub/file"}, prefixed("unexpected data/", without(oddNames, "-n", "100%"))...)},
		"leads out":      {func(in func(string) string) { write(t, in("tagmanifest-md5.txt"), md5Line("../x", "")) }, []string{"malformed tagmanifest-md5.txt"}},
		"wrong manifest": {func(in func(string) string) { write(t, in("tagmanifest-md5.txt"), md5Line("data/-n", "")) }, []string{"malformed tagmanifest-md5.txt"}},
		"no declaration": {func(in func(string) string) { write(t, in("bagit.txt"), "BagIt\n") }, []string{"malformed bagit.txt", "digest bagit.txt"}},
		"other version": {func(in func(string) string) {
			write(t, in("bagit.txt"), "BagIt-Version: 2.0\nTag-File-Character-Encoding: UTF-16\n")
		}, []string{"malformed bagit.txt", "malformed bagit.txt", "digest bagit.txt"}},
		"bad oxum": {func(in func(string) string) { write(t, in("bag-info.txt"), "Payload-Oxum: many\n") }, []string{"malformed bag-info.txt", "digest bag-info.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			bag := newBag(t)
			c.change(func(name string) string { return filepath.Join(bag, name) })
			wantFaults(t, bag, c.want...)
		})
	}
}

func prefixed(prefix string, names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}

func without(names []string, less ...string) []string {
	var rest []string
	for _, name := range names {
		if !strings.Contains(strings.Join(less, "\x00"), name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// A bag of an older version, with two manifests, white space of other kinds, and
// a file that is to be fetched.
func TestForeignBag(t *testing.T) {
	bag := t.TempDir()
	in := func(name string) string { return filepath.Join(bag, name) }
	if err := os.Mkdir(in("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"bagit.txt":        "BagIt-Version: 0.97\r\nTag-File-Character-Encoding: utf-8\r\n",
		"data/50%25":       "half",
		"data/50%":         "other half",
		"data/a b":         "",
		"manifest-md5.txt": fmt.Sprintf("%X\tdata/50%%25\n", md5.Sum([]byte("half"))) + fmt.Sprintf("%x data/50%%\n", md5.Sum([]byte("other half"))) + fmt.Sprintf("%x *./data/a b\n", md5.Sum(nil)) + fmt.Sprintf("%x  data/away\n", md5.Sum(nil)),
		"fetch.txt":        "http://example.org/away - data/away\n",
	} {
		write(t, in(name), content)
	}
	report := wantFaults(t, bag, "missing data/away")
	if len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Detail, "fetch.txt") {
		t.Errorf("%q does not tell of fetch.txt", report.Faults)
	}
	// Writers of 1.0 that do not encode %.
	write(t, in("bagit.txt"), declaration)
	wantFaults(t, bag, "digest data/50%", "missing data/away", "unexpected data/50%25")
	if err := os.Remove(in("data/50%")); err != nil {
		t.Fatal(err)
	}
	wantFaults(t, bag, "missing data/50%", "missing data/away")
	if _, err := Verify(context.Background(), in("data"), Options{}); err == nil || !strings.Contains(err.Error(), "no bag") {
		t.Errorf("a directory that is no bag: %v", err)
	}
}

// Whatever stands in the files of a bag, it is verified to an end.
func FuzzBag(f *testing.F) {
	f.Add(declaration, "00  data/x\n", "Payload-Oxum: 1.1\n", "http://a 1 data/y\n")
	f.Add("BagIt-Version: 0.96\nTag-File-Character-Encoding: UTF-8", "\t%0a%25\n", "", "")
	dir := f.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bagit, list, info, fetch string) {
		for name, content := range map[string]string{"bagit.txt": bagit, "manifest-md5.txt": list, "manifest-sha256.txt": list, "bag-info.txt": info, "fetch.txt": fetch, "data/x": "x"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		report, err := Verify(context.Background(), dir, Options{Jobs: 1})
		if err == nil && len(report.Faults) == 0 {
			t.Errorf("no fault in a bag that has not the digests of its file")
		}
	})
}
