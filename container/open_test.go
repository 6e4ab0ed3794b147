package container

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writePackage writes a zip of files, of which those with a name that ends in a star are
// deflated.
func writePackage(t *testing.T, name string, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, file := range files {
		plain, packed := strings.CutSuffix(file, "*")
		method := zip.Store
		if packed {
			method = zip.Deflate
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: plain, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "WARC/1.1\r\ncontent of "+plain)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMembers(t *testing.T) {
	path := writePackage(t, "s.wacz", "datapackage.json", "archive/b.warc", "archive/a.warc*", "archive/notes.txt", "pages/c.warc")
	names, err := Members(path)
	if err != nil || len(names) != 2 || names[0] != path+"!archive/a.warc" || names[1] != path+"!archive/b.warc" {
		t.Fatalf("got %q, %v", names, err)
	}
	if _, err := Open(names[0]); err == nil || !strings.Contains(err.Error(), "compressed or encrypted by the zip") {
		t.Errorf("a member that is deflated: %v", err)
	}
	f, err := Open(names[1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	if err != nil || string(content) != "WARC/1.1\r\ncontent of archive/b.warc" {
		t.Errorf("got %q, %v", content, err)
	}
	if n, err := f.ReadAt(make([]byte, 1), f.Size); n != 0 || err != io.EOF {
		t.Errorf("behind the end of a member there is %d, %v", n, err)
	}
	if form, err := FormOf(f, f.Size); err != nil || form != WARC {
		t.Errorf("its form is %q, %v", form, err)
	}
	for _, name := range []string{path + "!archive/c.warc", path + "!archive/../archive/b.warc", path + "!", path + "!datapackage.json"} {
		if _, err := Open(name); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
}

func TestBadPackages(t *testing.T) {
	for want, path := range map[string]string{
		"its name does not end in .wacz":     writePackage(t, "s.zip", "archive/a.warc"),
		"this is a zip file, and no WACZ":    writePackage(t, "t.zip", "a.txt"),
		"there are no WARC files":            writePackage(t, "t.wacz", "a.txt"),
		`two files named "archive/a.warc" i`: writePackage(t, "u.wacz", "archive/a.warc", "archive/a.warc"),
	} {
		if names, err := Members(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %q", path, names, err, want)
		}
	}
	// The second entry of the directory is made to point at the first file.
	path := writePackage(t, "o.wacz", "archive/a.warc", "archive/b.warc")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.LastIndex(b, []byte("PK\x01\x02"))
	copy(b[second+42:], "\x00\x00\x00\x00")
	if _, err := NewZip(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), "in common") {
		t.Errorf("files that overlap: %v", err)
	}
}

// A name with the separator in it that is one of a file is that file.
func TestFileWithSeparator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.wacz!b.warc")
	if err := os.WriteFile(path, []byte("WARC/1.1\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Size != 10 {
		t.Errorf("it has %d octets", f.Size)
	}
}

func TestForms(t *testing.T) {
	for start, want := range map[string]Form{
		"WARC/1.1\r\n": WARC, "\x28\xb5\x2f\xfd": WARC, "PK\x03\x04": Zip, "\x04\x22\x4d\x18": LZ4, "\xfd7zXZ\x00": XZ, "BZh9": Bzip2, "": Unknown, "garbage": Unknown,
		"filedesc:x\n": ARC, "http://a/ 1.2.3.4 20260101000000 text/html 5\nabcde\n": ARC, "\x1f\x8b": Unknown,
	} {
		if got, err := FormOf(strings.NewReader(start), int64(len(start))); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", start, got, err, want)
		}
	}
}

func TestPackageOnStandardInput(t *testing.T) {
	if _, err := Members(Stdin); err == nil || !strings.Contains(err.Error(), "from a file of its own") {
		t.Errorf("got %v", err)
	}
}
