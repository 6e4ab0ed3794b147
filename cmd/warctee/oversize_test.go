package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/warctee/warctee/warc/check"
)

// The program divides or cuts what does not fit a file, and its own check calls
// that good.
func TestOversize(t *testing.T) {
	t.Parallel()
	const most = 128 << 10
	body := make([]byte, 500_000)
	rand.NewChaCha8([32]byte{}).Read(body)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			io.WriteString(w, "this is small")
			return
		}
		w.Write(body)
	}))
	t.Cleanup(origin.Close)
	for _, test := range []struct {
		how, compression string
		files            int
	}{
		{"whole", "gzip", 1},
		{"segment", "gzip", 5},
		{"segment", "zstd", 5},
		{"segment", "none", 5},
		{"truncate", "gzip", 1},
	} {
		t.Run(test.how+" "+test.compression, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "warcs")
			p := startProgram(t, dir, "--oversize", test.how, "--max-size", "128KiB", "--compress", test.compression)
			client := p.client(false)
			for _, path := range []string{"/small", "/large"} {
				resp, err := client.Get(origin.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || path == "/large" && string(got) != string(body) {
					t.Errorf("%s: %d octets, error %v", path, len(got), err)
				}
			}
			if test.how == "truncate" {
				p.stopIncomplete("1 response was recorded in part")
			} else {
				p.stop()
			}
			paths, err := filepath.Glob(filepath.Join(dir, "*.warc*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if (info.Size() > most) && test.how != "whole" {
					t.Errorf("%s has %d bytes", path, info.Size())
				}
			}
			if len(paths) != test.files {
				t.Errorf("there are %d files, want %d: %v", len(paths), test.files, paths)
			}
			report, err := check.Files(paths...)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				t.Error(f)
			}
		})
	}
}
