package cdx

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The keys are those of the tools that look captures up: testdata/surt.txt says
// where each comes from.
func TestSURT(t *testing.T) {
	n := 0
	for url, key := range surtTable(t) {
		if got := SURT(url); got != key {
			t.Errorf("%q has the key\n     %q, want\n     %q", url, got, key)
		}
		n++
	}
	if n < 180 {
		t.Errorf("the table has %d lines", n)
	}
}

func surtTable(t testing.TB) map[string]string {
	f, err := os.Open("testdata/surt.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		url, key, found := strings.Cut(lines.Text(), "\t")
		if !found {
			continue
		}
		var pair [2]string
		if err := json.Unmarshal([]byte("["+url+","+key+"]"), &pair); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		table[pair[0]] = pair[1]
	}
	return table
}

// These are one thing for a reader, and one key.
func TestSURTEqual(t *testing.T) {
	want := SURT("http://example.org/a/b?x=1&y=%C3%BC")
	for _, url := range []string{
		"https://www.Example.ORG:443/A/./c/../b/?y=ü&x=1#top",
		"http://user@example.org:80//a//b?y=%25C3%25BC&X=1",
		"HTTP://WWW12.example.org./a/b/?x=1&y=%c3%bc",
		"http://http://example.org/a/b?x=1&y=%C3%BC",
	} {
		if got := SURT(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// A hostile URL takes no more time than its length: repeated decoding of it would
// take the square.
func TestSURTLong(t *testing.T) {
	const n = 1 << 15
	for url, want := range map[string]string{
		"http://a/%" + strings.Repeat("25", n) + "41":              "a)/a",
		"http://a/" + strings.Repeat("../", n):                     "",
		"http://a/?" + strings.Repeat("sid=0&", n):                 "",
		"http://" + strings.Repeat("a.", n):                        "",
		"http://a/?" + strings.Repeat("%63fid=1&cftoken=", n/10):   "",
		"http://a/" + strings.Repeat("(4hqa0555fwsecu455/", n/10):  "",
		"http://" + strings.Repeat("ü.", n/10):                     "",
		"http://" + strings.Repeat("1", n) + "/":                   "",
		strings.Repeat("http://", n):                               "",
		"http://a/" + strings.Repeat("/", n) + "%2541%2542.%2e/.a": "",
	} {
		if got := SURT(url); want != "" && got != want {
			t.Errorf("%.40s: %.40s", url, got)
		}
	}
}

func FuzzSURT(f *testing.F) {
	for url := range surtTable(f) {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		key := SURT(url)
		if key == "" {
			t.Error("an empty key")
		}
		for _, c := range []byte(key) {
			if c <= ' ' || c >= 0x7f {
				t.Errorf("the key %q holds %q", key, c)
			}
		}
		if !strings.Contains(url, "#") && strings.Trim(url, " \t\r\n\v\f") == url && url != "" && !strings.HasPrefix(url, "filedesc") && SURT("http://example.org/"+url) != SURT("http://example.org/"+url+"#") {
			t.Errorf("the fragment of %q counts", url)
		}
	})
}
