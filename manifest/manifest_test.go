package manifest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// oddNames are names that break lists which are not written with care.
var oddNames = []string{"a.warc.gz", "with space", " leading", "back\\slash", "two\nlines", "re\rturn", "100%", "%0A", "ünï", "#hash", "*star", "-n"}

// plant makes files whose content is their name, and returns their directory.
func plant(t *testing.T, names ...string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names")
	}
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// listFile makes a list of everything in dir, in a file in it.
func listFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "files.sha256")
	if err := os.WriteFile(path, nil, 0o644); err != nil { // it is no part of itself
		t.Fatal(err)
	}
	list, err := Make(context.Background(), dir, []string{dir}, []string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := list.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantFaults verifies, and compares what is found.
func wantFaults(t *testing.T, path string, want ...string) Report {
	t.Helper()
	report, err := Verify(context.Background(), path, Options{Jobs: 3})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range report.Faults {
		got = append(got, fmt.Sprintf("%s %s", f.Kind, f.Name))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("faults of %s:\n%q, want\n%q", path, report.Faults, want)
	}
	return report
}

// sha256sum runs the program of that name in dir.
func sha256sum(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("sha256sum", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		if _, missing := exec.LookPath("sha256sum"); missing != nil {
			t.Skip(missing)
		}
		t.Fatalf("sha256sum %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestSha256sumReadsOurs(t *testing.T) {
	dir := plant(t, append(oddNames, "below/deep/file", "below/"+oddNames[4])...)
	path := listFile(t, dir)
	said := sha256sum(t, dir, "--check", "--strict", filepath.Base(path))
	if n := strings.Count(said, ": OK\n"); n != len(oddNames)+2 {
		t.Errorf("sha256sum finds %d files, want %d:\n%s", n, len(oddNames)+2, said)
	}
	if report := wantFaults(t, path); report.Files != len(oddNames)+2 {
		t.Errorf("%d files are verified", report.Files)
	}
}

func TestWeReadSha256sum(t *testing.T) {
	for _, mode := range []string{"--text", "--binary"} {
		dir := plant(t, oddNames...)
		out := sha256sum(t, dir, append([]string{mode, "--"}, oddNames...)...)
		path := filepath.Join(dir, "list")
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		if report := wantFaults(t, path); report.Files != len(oddNames) || report.Octets == 0 {
			t.Errorf("%s: %d files, %d octets are verified", mode, report.Files, report.Octets)
		}
		if err := os.WriteFile(filepath.Join(dir, oddNames[3]), []byte("changed"), 0o644); err != nil {
			t.Fatal(err)
		}
		wantFaults(t, path, "digest "+oddNames[3])
	}
}

// What happens to files over the years.
func TestChanges(t *testing.T) {
	dir := plant(t, "kept", "gone", "grown", "flipped", "sub/kept", "linked")
	path := listFile(t, dir)
	wantFaults(t, path)
	for name, content := range map[string]string{"grown": "longer than it was", "flipped": "FLIPPED", "new": "", "sub/new": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gone", "linked"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("kept", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	report := wantFaults(t, path, "missing gone", "size grown", "digest flipped", "unexpected new", "unexpected sub/new", "unreadable linked")
	for _, f := range report.Faults {
		if f.Kind == Size && f.Detail != "18 octets, not 5" {
			t.Errorf("the fault of the size says %q", f.Detail)
		}
	}
}

// A list may come from a stranger: nothing outside of its directory is read, and
// nothing is waited for.
func TestNamesThatLeadOut(t *testing.T) {
	dir := plant(t, "secret", "box/inside")
	box := filepath.Join(dir, "box")
	for _, name := range []string{"link", "inside-link"} {
		if err := os.Symlink("../secret", filepath.Join(box, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..", filepath.Join(box, "up")); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", filepath.Join(box, "pipe")).Run(); err != nil {
		t.Skip(err)
	}
	sum := strings.Fields(sha256sum(t, dir, "secret"))[0]
	var list strings.Builder
	for _, name := range []string{"../secret", "/etc/passwd", "a/../../secret", "link", "up/secret", "pipe", "", "..", "nul\x00"} {
		fmt.Fprintf(&list, "%s  %s\n", sum, name)
	}
	fmt.Fprintf(&list, "%s  inside\nnonsense\nabc  inside\n# octets: many\n# all files of directory: ../\n", strings.Fields(sha256sum(t, box, "inside"))[0])
	path := filepath.Join(box, "list")
	if err := os.WriteFile(path, []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	report := wantFaults(t, path,
		"malformed line 1", "malformed line 2", "malformed line 3", "malformed line 7", "malformed line 8", "malformed line 9",
		"unreadable link", "unreadable up/secret", "unreadable pipe",
		"malformed line 11", "malformed line 12", "malformed line 13", "malformed line 14")
	if report.Octets != int64(len("box/inside")) {
		t.Errorf("%d octets were read", report.Octets)
	}
}

func TestMakeRefuses(t *testing.T) {
	dir := plant(t, "file", "sub/file")
	if err := os.Symlink("file", filepath.Join(dir, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ base, path, says string }{
		{"sub", "file", "is not in "},
		{".", "sub", "symbolic link"},
		{".", "missing", "no such file"},
		{".", "empty", "no file"},
	} {
		list, err := Make(context.Background(), filepath.Join(dir, c.base), []string{filepath.Join(dir, c.path)}, nil, Options{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a list of %s in %s: %v, %v; want %q", c.path, c.base, list, err, c.says)
		}
	}
}

func TestProgress(t *testing.T) {
	dir := plant(t, "one", "three", "more/files")
	var started, done atomic.Int64
	opts := Options{Started: func(n int64) { started.Add(n) }, Progress: func(n int64) { done.Add(n) }}
	list, err := Make(context.Background(), dir, []string{dir, filepath.Join(dir, "one")}, nil, opts)
	if err != nil || len(list.Entries) != 3 {
		t.Fatal(list, err)
	}
	if want := int64(len("one" + "three" + "more/files")); started.Load() != want || done.Load() != want {
		t.Errorf("%d octets are announced and %d done, want %d", started.Load(), done.Load(), want)
	}
}

func TestMakeOfChanging(t *testing.T) {
	dir := plant(t, "file")
	grow := func(int64) {
		if err := os.Truncate(filepath.Join(dir, "file"), 100); err != nil {
			t.Error(err)
		}
	}
	if _, err := Make(context.Background(), dir, []string{dir}, nil, Options{Started: grow}); err == nil || !strings.Contains(err.Error(), "file has changed") {
		t.Errorf("got %v", err)
	}
}

func TestEnds(t *testing.T) {
	dir := plant(t, "file")
	path := listFile(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, path, Options{}); err != context.Canceled {
		t.Errorf("an interrupted verification: %v", err)
	}
	if err := os.WriteFile(path, []byte("# nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(context.Background(), path, Options{}); err == nil {
		t.Error("an empty list is verified")
	}
}

// What can be read of a list comes back when it is written.
func FuzzList(f *testing.F) {
	sum := strings.Repeat("0f", 32)
	f.Add("# octets: 12\n" + sum + "  name\n")
	f.Add("\\" + sum + " *a\\\\b\\nc\r\n# all files of directory: .\n" + sum + "  ../x\n")
	f.Add(strings.Repeat("ab", 16) + "  md5\n\ufeff")
	f.Fuzz(func(t *testing.T, text string) {
		list, _, err := ReadList(strings.NewReader(text))
		if err != nil {
			return
		}
		list.Entries = slices.DeleteFunc(list.Entries, func(e Entry) bool { return e.Sums[0].Algorithm != "sha256" || e.Size < 0 })
		for _, e := range list.Entries {
			if !filepath.IsLocal(filepath.FromSlash(e.Name)) {
				t.Fatalf("%q leads out", e.Name)
			}
		}
		var b bytes.Buffer
		list.WriteTo(&b)
		again, faults, err := ReadList(&b)
		if err != nil || len(faults) > 0 || fmt.Sprint(again) != fmt.Sprint(list) {
			t.Fatalf("%q\n%v, written and read again is\n%v, %v, %v", text, list, again, faults, err)
		}
	})
}
