package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// A foreignRecord is a record as testdata/node/records.mjs has read it, by
// means of warcio.
type foreignRecord struct {
	File          string
	Version       string
	Type          string
	ID            string
	URI           string
	Date          string
	ContentLength int64
	Block         foreignBytes
	Start         string // first line of the HTTP message
	Payload       foreignBytes
}

type foreignBytes struct {
	Length int64
	SHA256 string
}

func bytesForComparison(b []byte) foreignBytes {
	sum := sha256.Sum256(b)
	return foreignBytes{int64(len(b)), hex.EncodeToString(sum[:])}
}

// An independent reader agrees with ours on all records.
//
// What warcio makes of the digests is not looked at: its check hashes the
// chunk framing with the payload, and so complains of correct records.
func TestIndependentReader(t *testing.T) {
	script := foreignScript(t)
	plain := httptest.NewServer(loadOrigin(t))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(loadOrigin(t))
	defer encrypted.Close()
	for _, args := range [][]string{
		nil,
		{"--compress", "none", "--digest", "sha1"},
		{"--warc-version", "1.0", "--max-size", "100kB"},
		{"--warc-version", "1.0", "--compress", "none"},
		{"--skip-lengths"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			p := startProgram(t, filepath.Join(t.TempDir(), "warcs"), args...)
			clients := []*http.Client{p.client(false), p.client(true)}
			methods := make(map[string]string) // by URL
			for n := range 40 {
				c := newLoadCase(n + 20_000)
				if c.aborted {
					continue // broken chunks are read in many ways
				}
				origin := []string{plain.URL, encrypted.URL}[n/2%2]
				if err := c.perform(clients[n%2], origin); err != nil {
					t.Errorf("%+v: %v", c, err)
				}
				methods[origin+c.path()] = c.method
			}
			p.stop()
			records := warctest.Check(t, p.dir)
			theirs := readForeign(t, script, records)
			if len(theirs) != len(records) {
				t.Fatalf("warcio finds %d records, we find %d", len(theirs), len(records))
			}
			kinds := make(map[string]int)
			for i := range records {
				r := &records[i]
				kinds[r.Type]++
				if got, want := theirs[i], foreignView(t, r, methods[r.TargetURI]); got != want {
					t.Errorf("warcio reads\n%+v\nwe read\n%+v", got, want)
				}
			}
			for _, kind := range []string{"warcinfo", "request", "response", "revisit"} {
				if kinds[kind] == 0 {
					t.Errorf("there is no %s to compare", kind)
				}
			}
		})
	}
}

// foreignScript finds the script and what it needs. Where the tests count,
// nothing may be missing.
func foreignScript(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "node")
	_, err := os.Stat(filepath.Join(dir, "node_modules", "warcio"))
	if _, noNode := exec.LookPath("node"); err != nil || noNode != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("Node.js and warcio are needed, testdata/tools.sh installs them: %v", errors.Join(err, noNode))
		}
		t.Skipf("testdata/tools.sh has not been run: %v", errors.Join(err, noNode))
	}
	return filepath.Join(dir, "records.mjs")
}

// readForeign reads the files of the records, in the same order.
func readForeign(t *testing.T, script string, records []check.Record) (theirs []foreignRecord) {
	t.Helper()
	args := []string{script}
	for i := range records {
		if i == 0 || records[i].File != records[i-1].File {
			args = append(args, records[i].File)
		}
	}
	cmd := exec.Command("node", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("node: %v, %s", err, complaints.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var r foreignRecord
		if err := d.Decode(&r); err == io.EOF {
			return theirs
		} else if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, r)
	}
}

// foreignView is what warcio should find.
func foreignView(t *testing.T, r *check.Record, method string) foreignRecord {
	t.Helper()
	block, err := r.Block()
	if err != nil {
		t.Fatal(err)
	}
	v := foreignRecord{
		File:          filepath.Base(r.File),
		Version:       "WARC/" + string(r.Version),
		Type:          r.Type,
		ID:            r.ID,
		URI:           r.TargetURI,
		Date:          r.Date,
		ContentLength: r.BlockSize,
		Block:         bytesForComparison(block),
		Payload:       bytesForComparison(block),
	}
	if r.Type == "warcinfo" {
		return v
	}
	_, payload, err := splitMessage(block, method, r.Type == "request")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(block, []byte("\r\n"))
	v.Start, v.Payload = string(line), bytesForComparison(payload)
	return v
}
