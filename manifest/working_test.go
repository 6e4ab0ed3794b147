package manifest

import (
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files makes files with these contents in a new directory.
func files(t *testing.T, contents map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range contents {
		change(t, filepath.Join(dir, name), content)
	}
	return dir
}

func change(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// database is the start of a file of bbolt.
func database() string {
	return string(binary.NativeEndian.AppendUint32(make([]byte, 16), 0xed0cdaed))
}

const failure = `{"time":"2026-11-21T10:15:00.123Z","url":"http://origin.example/","phase":"connect","class":"refused","bytes":0}` + "\n"

// What the recorder keeps for itself is left out; what can hold records is not,
// nor is what only looks like a working file.
func TestOmitted(t *testing.T) {
	contents := map[string]string{
		"a-00000-x-host.warc.gz":              "",
		"a.warc":                              "",
		"a.warc.zst":                          database(),
		"a.arc.gz":                            "",
		"a.warc.gz.tail":                      failure,
		"a.warc.gz.bad-20261121101500":        "",
		"a.repaired.warc.gz.lost":             "",
		"notes.txt":                           "time, phase and class",
		"page.jsonl":                          `{"time":"2026","url":"x"}`,
		"open":                                "",
		"door.open":                           "",
		"x.part":                              "",
		".hidden":                             "",
		"a.warc.gz.open":                      string(Unfinished),
		"below/a.warc.open":                   string(Unfinished),
		"a.warc.zst.k3v7q2xa-12.part":         string(Unfinished),
		".lock":                               string(Working),
		".spool-123":                          string(Working),
		".spool-probe":                        string(Working),
		"dedup.bolt":                          string(Working),
		"dedup.bolt.corrupt-20261121101500-1": string(Working),
		"failures.jsonl":                      string(Working),
		".waiting":                            string(Working),
		"below/failures.jsonl":                string(Working),
		"index.cdxj.tmp-ABCDEFG2":             string(Working),
	}
	dir := files(t, contents)
	change(t, filepath.Join(dir, "seen.db"), database())
	change(t, filepath.Join(dir, "missed"), failure)
	change(t, filepath.Join(dir, "bag.tmp-ABCDEFG2/data/a.warc.gz"), "")
	want := map[string]Reason{"seen.db": Working, "missed": Working, "bag.tmp-ABCDEFG2": Working}
	for name, content := range contents {
		if why := Reason(content); why == Working || why == Unfinished {
			want[name] = why
		}
	}
	got := make(map[string]Reason)
	opts := Options{LeftOut: func(name string, why Reason) { got[name] = why }}
	l, err := Make(context.Background(), dir, []string{dir}, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range want {
		if got[name] != why {
			t.Errorf("%s is left out as %q, want %q", name, got[name], why)
		}
	}
	if len(got) != len(want) || len(l.Entries) != len(contents)+3-len(want) {
		t.Errorf("%d are left out, want %d; %d are listed", len(got), len(want), len(l.Entries))
	}
	bagged := make(map[string]Reason)
	opts.LeftOut = func(name string, why Reason) { bagged[strings.TrimPrefix(name, dir+"/")] = why }
	bag := filepath.Join(t.TempDir(), "bag")
	if err := MakeBag(context.Background(), bag, []string{dir}, BagOptions{Options: opts}); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if bagged[name] != want[name] {
			t.Errorf("%s is left out of the bag as %q, want %q", name, bagged[name], want[name])
		}
	}
	wantFaults(t, bag)
}

// Working files that are named are listed, and copied into a bag, with the
// permissions that they have. A file being written is refused.
func TestNamedWorkingFiles(t *testing.T) {
	dir := files(t, map[string]string{"a.warc.gz": "a", ".lock": "1", "failures.jsonl": failure, "b.warc.gz.open": "b"})
	log := filepath.Join(dir, "failures.jsonl")
	l, err := Make(context.Background(), dir, []string{dir, log}, nil, Options{})
	if err != nil || len(l.Entries) != 2 {
		t.Fatalf("%v, %v", l, err)
	}
	bag := filepath.Join(t.TempDir(), "bag")
	if err := MakeBag(context.Background(), bag, []string{dir, log}, BagOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(bag, "data/failures.jsonl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	change(t, log, failure+failure)
	wantFaults(t, bag)
	for _, named := range [][]string{{filepath.Join(dir, "b.warc.gz.open")}, {dir, filepath.Join(dir, "b.warc.gz.open")}} {
		if _, err := Make(context.Background(), dir, named, nil, Options{}); err == nil || !strings.Contains(err.Error(), "being written") {
			t.Errorf("list of %q: %v", named, err)
		}
		if err := MakeBag(context.Background(), bag+"2", named, BagOptions{}); err == nil || !strings.Contains(err.Error(), "being written") {
			t.Errorf("bag of %q: %v", named, err)
		}
	}
	if err := MakeBag(context.Background(), bag+"3", []string{log, log}, BagOptions{}); err == nil || !strings.Contains(err.Error(), "another file has this name") {
		t.Error(err)
	}
}

// A list that an earlier version made, which took working files along, shows
// faults of the others only.
func TestListOfEarlierVersion(t *testing.T) {
	dir := files(t, map[string]string{"w/a.warc.gz": "a", "w/.lock": "1", "w/dedup.bolt": "seen", "w/seen.db": database(), "w/b.warc.gz.open": "b", "w/c.warc.gz.open": "c", "list": ""})
	l, err := Make(context.Background(), dir, []string{filepath.Join(dir, "w")}, nil, Options{everything: true})
	if err != nil || len(l.Entries) != 6 {
		t.Fatal(l, err)
	}
	l.WithWorking = true
	var b strings.Builder
	l.WriteTo(&b)
	if !strings.Contains(b.String(), "# all files of directory: w\n") {
		t.Fatal(b.String())
	}
	list := filepath.Join(dir, "list")
	change(t, list, b.String())
	wantFaults(t, list)
	change(t, filepath.Join(dir, "w/.lock"), "2")
	change(t, filepath.Join(dir, "w/seen.db"), database()+"more")
	change(t, filepath.Join(dir, "w/failures.jsonl"), "")
	change(t, filepath.Join(dir, "w/b.warc.gz"), "bb")
	for _, gone := range []string{"w/dedup.bolt", "w/b.warc.gz.open", "w/c.warc.gz.open"} {
		if err := os.Remove(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	report := wantFaults(t, list, "missing w/c.warc.gz.open") // what was in it is nowhere
	notes := strings.Join(report.Notes, "\n")
	for _, said := range []string{"1 file of a recording was added since the list was made: w/b.warc.gz;", "w/.lock", "w/dedup.bolt", "w/seen.db", "w/b.warc.gz.open", "not counted as faults"} {
		if !strings.Contains(notes, said) {
			t.Errorf("%q does not say %q", notes, said)
		}
	}
	change(t, filepath.Join(dir, "w/a.warc.gz"), "A")
	change(t, filepath.Join(dir, "w/odd"), "A")
	wantFaults(t, list, "missing w/c.warc.gz.open", "digest w/a.warc.gz", "unexpected w/odd")
}

// Files are added where recordings are made, and nowhere else.
func TestAddedFiles(t *testing.T) {
	dir := files(t, map[string]string{"one/.lock": "1", "one/a.warc.gz": "a", "two/a.warc.gz": "a"})
	l, err := Make(context.Background(), dir, []string{dir}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	l.WriteTo(&b)
	list := filepath.Join(dir, "list")
	change(t, list, b.String())
	for _, added := range []string{"one/b.warc.gz", "one/b.warc.gz.tail", "one/c.warc.zst", "one/d.warc", "one/e.warc.gz.bad-20260101000000", "one/f.warc", "one/note", "two/b.warc.gz"} {
		change(t, filepath.Join(dir, added), "")
	}
	report := wantFaults(t, list, "unexpected one/note", "unexpected two/b.warc.gz")
	if want := "6 files of recordings were added since the list was made: one/b.warc.gz, one/b.warc.gz.tail, one/c.warc.zst, one/d.warc, one/e.warc.gz.bad-20260101000000 and 1 more; list them too"; len(report.Notes) != 1 || report.Notes[0] != want {
		t.Errorf("%q, want %q", report.Notes, want)
	}
	change(t, filepath.Join(dir, "one/a.warc.gz"), "changed")
	wantFaults(t, list, "size one/a.warc.gz", "unexpected one/note", "unexpected two/b.warc.gz")
}

// A bag that an earlier version made is no longer valid when a working file in it
// has changed, as RFC 8493 has it; the reason is said.
func TestBagOfEarlierVersion(t *testing.T) {
	dir := files(t, map[string]string{"w/a.warc.gz": "a", "w/.lock": "1"})
	bag := filepath.Join(dir, "bag")
	if err := MakeBag(context.Background(), bag, []string{filepath.Join(dir, "w"), filepath.Join(dir, "w/.lock")}, BagOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFaults(t, bag)
	change(t, filepath.Join(bag, "data/.lock"), "2")
	report := wantFaults(t, bag, "digest data/.lock")
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "data/.lock is a working file") {
		t.Errorf("%q", report.Notes)
	}
}

// A pipe is not opened to see what it is.
func TestOmittedLooksAtFilesOnly(t *testing.T) {
	dir := files(t, map[string]string{"file": failure})
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(dir, "link"))
	if err != nil {
		t.Fatal(err)
	}
	if why := omitted(os.DirFS(dir), "link", fs.FileInfoToDirEntry(info)); why != "" {
		t.Error(why)
	}
}
