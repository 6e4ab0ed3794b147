package recorder

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
)

var trained = sync.OnceValues(func() (*warc.Dictionary, error) {
	var samples [][]byte
	for n := range 100 {
		samples = append(samples, fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: %s\r\nContent-Length: %d\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npage %d", warc.NewRecordID(), n, n))
	}
	return warc.TrainDictionary(samples, 4<<10)
})

func testDictionary(t testing.TB) *warc.Dictionary {
	t.Helper()
	d, err := trained()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// text answers with text that compresses, of the length in the path, or with
// noise where the query says so.
func text(w http.ResponseWriter, req *http.Request) {
	n := 0
	fmt.Sscanf(req.URL.Path, "/%d", &n)
	if req.URL.RawQuery == "noise" {
		w.Write(noise(n))
		return
	}
	fmt.Fprint(w, req.URL, strings.Repeat(" some text of "+req.URL.Path, n/20))
}

// inFile are the heads of the records of a file, as a strict reader sees them,
// and its dictionary.
func inFile(t *testing.T, path string) (heads []warc.Record, dictionary *warc.Dictionary) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if dictionary, err = warc.ReadDictionary(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	z := warc.NewReader(bytes.NewReader(b))
	z.Strict = true
	for {
		rec, err := z.Next()
		if err == io.EOF {
			return heads, dictionary
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		heads = append(heads, *rec)
	}
}

// TestZstd records bodies of all sizes in small files, so that many records are
// made for a file that is full when they come to it.
func TestZstd(t *testing.T) {
	for name, o := range map[string]Options{
		"no dictionary": {Compression: warc.Zstd},
		"a dictionary":  {Compression: warc.Zstd, Dictionary: testDictionary(t)},
		"skip lengths":  {SkipLengths: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dial, o.MaxSize, o.OpenIndex = originHandler(t, text), 20_000, opened(dedup.NewMemory())
			r := openForTest(t, o)
			var clients sync.WaitGroup
			for client := range 8 {
				clients.Go(func() {
					for i, n := range []int{0, 100, 5000, 100_000, 300_000, 2_000_000} {
						for _, query := range []string{fmt.Sprint(client), "same", "noise"} {
							if b, err := fetch(r, "GET", fmt.Sprintf("http://origin/%d?%s", n, query), ""); err != nil || query == "noise" && b != string(noise(n)) {
								t.Errorf("client %d, %d: %d octets, %v", client, i, len(b), err)
							}
						}
					}
				})
			}
			clients.Wait()
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			records := archive(t, r)
			if n := count(records, "response") + count(records, "revisit"); n != 8*6*3 || count(records, "revisit") < 70 {
				t.Errorf("%d responses, %d of them revisits", n, count(records, "revisit"))
			}
			files := names(t, r.options.Dir, "*.warc"+o.Compression.Suffix())
			if len(files) < 5 {
				t.Errorf("only %d files", len(files))
			}
			for _, path := range files {
				heads, d := inFile(t, path)
				if d.ID() != o.Dictionary.ID() {
					t.Errorf("%s has dictionary %d", path, d.ID())
				}
				for _, h := range heads[1:] {
					if h.Header.Get("WARC-Warcinfo-ID") != heads[0].ID() {
						t.Errorf("%s: a record of another file: %q", path, h.Header)
					}
				}
			}
		})
	}
}

func TestDictionaryWithoutZstd(t *testing.T) {
	for _, o := range []Options{{Dictionary: testDictionary(t)}, {TrainDictionary: true, Compression: warc.Plain}} {
		o.Dir = t.TempDir()
		if r, err := Open(o); err == nil {
			closeForTest(t, r)
			t.Errorf("opened with compression %s", o.Compression)
		}
	}
}

// TestZstdForAnotherFile appends what was compressed for another file.
func TestZstdForAnotherFile(t *testing.T) {
	for _, before := range []*warc.Dictionary{nil, testDictionary(t)} {
		for _, after := range []*warc.Dictionary{nil, testDictionary(t)} {
			r := openForTest(t, Options{Compression: warc.Zstd})
			x := &exchange{r: r, uri: "urn:x"}
			block := []byte(strings.Repeat("a block ", 50_000))
			var p part
			x.startHeader(&p.header, warc.TypeResource, warc.NewRecordID(), "2026-11-21T10:15:00Z")
			p.length = int64(len(block))
			p.pack(r, target{"<urn:uuid:1>", before}, block, nil)
			for _, id := range []string{"<urn:uuid:1>", "<urn:uuid:2>"} {
				rec, _, err := p.encode(&r.options, target{id, after}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if made := rec.late == nil; made != (id == "<urn:uuid:1>" && before == after) {
					t.Errorf("%s, %d for %d: made before: %v", id, before.ID(), after.ID(), made)
				}
				z := warc.NewReader(rec)
				z.Dictionary, z.Strict = after, true
				head, err := z.Next()
				if err != nil || head.Header.Get("WARC-Warcinfo-ID") != id {
					t.Fatal(head, err)
				}
				if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, block) {
					t.Errorf("%d octets, %v", len(got), err)
				}
				if _, err := z.Next(); err != io.EOF {
					t.Error(err)
				}
				rec.close()
			}
			p.release()
		}
	}
}

// TestTraining: the first records make a dictionary, for the next file.
func TestTraining(t *testing.T) {
	r := openForTest(t, Options{Dial: originHandler(t, text), Compression: warc.Zstd, TrainDictionary: true})
	for i := range trainRecords/2 + 10 { // two records each
		mustFetch(t, r, fmt.Sprintf("http://origin/300?%d", i))
	}
	r.training.wait()
	if err := r.Rotate(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		mustFetch(t, r, fmt.Sprintf("http://origin/300?new%d", i))
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if records := archive(t, r); count(records, "response") < trainRecords/2+210 {
		t.Errorf("%d responses", count(records, "response"))
	}
	files := names(t, r.options.Dir, "*.warc.zst")
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	var mean [2]int64
	for i, path := range files {
		heads, d := inFile(t, path)
		if (d != nil) != (i == 1) {
			t.Errorf("%s has dictionary %d", path, d.ID())
		}
		mean[i] = (heads[len(heads)-1].Offset - heads[1].Offset) / int64(len(heads)-2)
	}
	if mean[1] > mean[0]*3/4 {
		t.Errorf("%d octets per record without a dictionary, %d with it", mean[0], mean[1])
	}
}
