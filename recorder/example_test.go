package recorder_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/warc"
)

// A program records what it fetches: no proxy is needed. Both pages have the
// same payload, so that the one that is written second becomes a revisit record.
func Example() {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "Hello, archive!")
	}))
	defer origin.Close()
	dir, err := os.MkdirTemp("", "warcs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	rec, err := recorder.Open(recorder.Options{
		Dir:       dir,
		OpenIndex: func() (dedup.Index, error) { return dedup.NewMemory(), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: rec}
	for _, path := range []string{"/a", "/b"} {
		resp, err := client.Get(origin.URL + path)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		// What a client has got is on its way to the file; Rotate and Close
		// finish it.
	}
	if err := rec.Close(context.Background()); err != nil {
		log.Fatal(err)
	}

	files, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			log.Fatal(err)
		}
		records := warc.NewReader(f)
		for {
			record, err := records.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(record.Type())
		}
		f.Close()
	}
	// Output:
	// warcinfo
	// request
	// response
	// request
	// revisit
}
