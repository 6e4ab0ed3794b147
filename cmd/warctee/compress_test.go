package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// TestZstdDictionary records with a dictionary of our own, and once more with
// that of the first file. The program zstd reads all of it.
func TestZstdDictionary(t *testing.T) {
	t.Parallel()
	zstd, err := exec.LookPath("zstd")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("zstd is needed, testdata/tools.sh installs it: %v", err)
	} else if err != nil {
		t.Skip(err)
	}
	var samples [][]byte
	for i := range 100 {
		samples = append(samples, fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: %s\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npage %d", warc.NewRecordID(), i))
	}
	d, err := warc.TrainDictionary(samples, 4096)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "dictionary")
	if err := os.WriteFile(name, d.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, "page ", req.URL.Path) }))
	defer origin.Close()
	from := name
	for _, archive := range []string{"first", "second"} {
		p := startProgram(t, filepath.Join(dir, archive), "--compress", "zstd", "--zstd-dictionary", from)
		for i := range 20 {
			resp, err := p.client(false).Get(fmt.Sprint(origin.URL, "/", i))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		p.stop()
		if records := warctest.Check(t, p.dir); len(records) != 1+20*2 {
			t.Errorf("%d records", len(records))
		}
		files, err := filepath.Glob(filepath.Join(p.dir, "*.warc.zst"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		from = files[0]
		got, err := openDictionary(from)
		if err != nil || !bytes.Equal(got.Bytes(), d.Bytes()) {
			t.Errorf("the file has dictionary %d, %v", got.ID(), err)
		}
		out, err := exec.Command(zstd, "-d", "-c", "-D", name, from).Output()
		if err != nil || len(out) == 0 {
			t.Fatal(err)
		}
		z := warc.NewReader(bytes.NewReader(out))
		z.Strict = true
		n := 0
		for ; err == nil; n++ {
			_, err = z.Next()
		}
		if err != io.EOF || n != 1+1+20*2 {
			t.Errorf("zstd gives %d records, %v", n-1, err)
		}
	}
}
