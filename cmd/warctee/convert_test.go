package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/convert"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

func TestSplitWords(t *testing.T) {
	for in, want := range map[string][]string{
		"cat":                {"cat"},
		"  a  b\tc\n":        {"a", "b", "c"},
		`sh -c 'a "b" c'`:    {"sh", "-c", `a "b" c`},
		`a "b 'c'"d '' ""`:   {"a", "b 'c'd", "", ""},
		`x a\ b $HOME * | y`: {"x", `a\`, "b", "$HOME", "*", "|", "y"},
		"":                   nil,
		" ":                  nil,
		"''":                 nil,
		"a 'b":               nil,
	} {
		got, err := splitWords(in)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q is split into %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestOutputNames(t *testing.T) {
	for in, want := range map[string]string{
		"a.arc": "a.warc.gz", "d.arc/a.arc.gz": "d.arc/a.warc.gz", "a.ARC.GZ": "a.warc.gz", "a.warc": "a.warc.gz", "a.warc.zst": "a.warc.gz", "a.warc.gz": "a.warc.gz",
		"a.gz": "a.gz.warc.gz", "a": "a.warc.gz", ".arc": ".arc.warc.gz", "a.arc.warc": "a.arc.warc.gz",
	} {
		if got := outputName(in, warc.Gzip); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
	if got := outputName("a.arc", warc.Plain); got != "a.warc" {
		t.Errorf("a.arc becomes %s", got)
	}
}

// TestUnprovedOutput: a file that does not hold what was read gets no name, and
// nothing of it is left; nor of one whose input is damaged.
func TestUnprovedOutput(t *testing.T) {
	dir := t.TempDir()
	record := "WARC/1.1\r\nContent-Length: 1\r\n\r\nx\r\n\r\n"
	result, err := convert.WARC(context.Background(), io.Discard, strings.NewReader(record), convert.Options{Compression: warc.Plain})
	if err != nil {
		t.Fatal(err)
	}
	for written, want := range map[string]int{strings.Replace(record, "x", "y", 1): 0, record: 1} {
		out, err := createOutput(filepath.Join(dir, "a.warc"), false)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(out, written)
		err = prove(out, result.Sum)
		out.discard()
		if left, _ := os.ReadDir(dir); len(left) != want || (err == nil) != (want == 1) {
			t.Errorf("%q: %v, and %d files", written, err, len(left))
		}
		os.Remove(out.path)
	}
	in := filepath.Join(t.TempDir(), "cut.warc")
	if err := os.WriteFile(in, []byte(record+record[:len(record)-5]), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(context.Background(), []string{"convert", "--compress", "gzip", "--out", dir, in}, io.Discard, io.Discard); code != exitFound {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An independent reader finds in a converted file what was in the ARC file.
func TestConvertedIsReadByOthers(t *testing.T) {
	script := foreignScript(t)
	dir := t.TempDir()
	page := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n0\r\n\r\n"
	dns := "20010203040507\na.example. 60 IN A 192.0.2.1\n"
	file := "filedesc://old.arc 0.0.0.0 20010203040506 text/plain 68\n1 0 Example\nURL IP-address Archive-date Content-type Archive-length\n\n" +
		fmt.Sprintf("http://a.example/b c 192.0.2.1 20010203040507 text/html %d\n%s\n", len(page), page) +
		fmt.Sprintf("dns:a.example 192.0.2.53 20010203040507 text/dns %d\n%s\n", len(dns), dns)
	in := filepath.Join(dir, "old.arc")
	if err := os.WriteFile(in, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.0", "1.1"} {
		out := filepath.Join(dir, version)
		if code := run(context.Background(), []string{"convert", "--warc-version", version, "--out", out, in}, io.Discard, io.Discard); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
		theirs := readForeign(t, script, []check.Record{{File: filepath.Join(out, "old.warc.gz")}})
		if len(theirs) != 5 {
			t.Fatalf("others read %d records", len(theirs))
		}
		var types []string
		for _, r := range theirs {
			types = append(types, r.Type)
			if r.Version != "WARC/"+version || r.ID == "" || r.ContentLength != r.Block.Length {
				t.Errorf("others read %+v", r)
			}
		}
		if got := strings.Join(types, " "); got != "warcinfo metadata response metadata resource" {
			t.Errorf("others read %s", got)
		}
		if r := theirs[2]; r.URI != "http://a.example/b%20c" || r.Date != "2001-02-03T04:05:07Z" || r.Block != bytesForComparison([]byte(page)) || r.Payload != bytesForComparison([]byte("<p>")) {
			t.Errorf("others read %+v", r)
		}
		if r := theirs[4]; r.URI != "dns:a.example" || r.Block != bytesForComparison([]byte(dns)) {
			t.Errorf("others read %+v", r)
		}
	}
}
