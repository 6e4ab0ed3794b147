package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// captures reads what a dead process has left: the exchanges that are whole. In
// files that have their final name all is.
func (x *crashed) captures() map[int]bool {
	x.Helper()
	found := make(map[int]bool)
	x.readFiles(func(file string, r *warc.Record, _ int64) {
		if kind := r.Type(); kind == warc.TypeResponse || kind == warc.TypeRevisit {
			n := x.number(r.TargetURI())
			if found[n] {
				x.Errorf("%s: exchange %d is in the archive twice", file, n)
			}
			found[n] = true
		}
	})
	return found
}

// readFiles calls f for each whole record, with its length in the file.
func (x *crashed) readFiles(f func(file string, r *warc.Record, length int64)) {
	x.Helper()
	for _, pattern := range []string{"*.warc.gz", "*.warc.zst", "*.open", "*.part"} {
		names, err := filepath.Glob(filepath.Join(x.dir, pattern))
		if err != nil {
			x.Fatal(err)
		}
		for _, name := range names {
			if !x.isCommitted(name) {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				x.Fatal(err)
			}
			if err := readWhole(b, func(r *warc.Record, length int64) { f(name, r, length) }); err != nil && !strings.HasSuffix(name, ".open") {
				x.Errorf("%s has its final name, or should have, and is damaged: %v", name, err)
			}
		}
	}
}

// isCommitted tells of a part of a chain whether it is in the archive: then the
// first one, NAME.KEY-1.part, has got its final name.
func (x *crashed) isCommitted(name string) bool {
	rest, ok := strings.CutSuffix(name, ".part")
	if !ok {
		return true
	}
	key, _, _ := strings.Cut(filepath.Ext(rest), "-")
	first, err := filepath.Glob(filepath.Join(x.dir, "*"+key+"-1.part"))
	if err != nil {
		x.Fatal(err)
	}
	return len(first) == 0
}

// readWhole calls f for each record that is whole, up to the first that is not.
func readWhole(b []byte, f func(r *warc.Record, length int64)) error {
	z := warc.NewReader(bytes.NewReader(b))
	z.Strict = true
	for {
		r, err := z.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, z)
		}
		if err != nil {
			return err
		}
		f(r, z.InputOffset()-r.Offset)
	}
}

func (x *crashed) number(uri string) int {
	x.Helper()
	_, text, _ := strings.Cut(uri, "/exchange/")
	n, err := strconv.Atoi(text)
	if c := newLoadCase(n); err != nil || uri != x.origin(&c)+c.path() {
		x.Errorf("%s is in the archive, nobody asked for it", uri)
	}
	return n
}

// wantRecovered checks an archive in which nothing is being written: it holds
// exactly the exchanges that it must.
func (x *crashed) wantRecovered() {
	x.Helper()
	if _, err := os.Stat(x.dir); errors.Is(err, os.ErrNotExist) {
		return
	}
	records := warctest.Check(x, x.dir)
	blocks := readBlocks(x.T, records)
	records = joinSegments(records, blocks)
	byID, byURI := make(map[string]*check.Record), make(map[string][]*check.Record)
	for i := range records {
		r := &records[i]
		byID[r.ID] = r
		byURI[r.TargetURI] = append(byURI[r.TargetURI], r)
	}
	for n := range x.must {
		c := newLoadCase(n)
		uri := x.origin(&c) + c.path()
		got := byURI[uri]
		if len(got) == 2 && got[0].Header.Get("WARC-Segment-Number") != "" {
			slices.Reverse(got) // the request is behind the last segment
		}
		if len(got) != 2 || got[0].Type != warc.TypeRequest {
			x.Errorf("exchange %d has %d records", n, len(got))
		} else if err := c.checkRecords(got[0], got[1], byID, blocks); err != nil {
			x.Errorf("%+v: %v", c, err)
		}
		delete(byURI, uri)
	}
	for uri, r := range byURI {
		if r[0].Type != warc.TypeWarcinfo {
			x.Errorf("%s is in the archive, but was not before the start", uri)
		}
	}
	for _, pattern := range []string{".spool-*", "*.part"} {
		if left, _ := filepath.Glob(filepath.Join(x.dir, pattern)); len(left) > 0 {
			x.Errorf("left over: %q", left)
		}
	}
	if x.Failed() {
		x.FailNow()
	}
}

// joinSegments adds the blocks of continuation records, which the check has found
// complete, to those of their first segments, and WARC-Truncated, which is on the
// last one. It returns the other records.
func joinSegments(records []check.Record, blocks map[string][]byte) (logical []check.Record) {
	var further []check.Record
	truncated := make(map[string]string)
	number := func(r check.Record) int {
		n, _ := strconv.Atoi(r.Header.Get("WARC-Segment-Number"))
		return n
	}
	for _, r := range records {
		if r.Type == warc.TypeContinuation {
			further = append(further, r)
		} else {
			logical = append(logical, r)
		}
	}
	slices.SortFunc(further, func(a, b check.Record) int { return number(a) - number(b) })
	for _, r := range further {
		first := r.Header.Get("WARC-Segment-Origin-ID")
		blocks[first] = append(blocks[first], blocks[r.ID]...)
		truncated[first] = r.Header.Get("WARC-Truncated")
	}
	for i := range logical {
		if reason := truncated[logical[i].ID]; reason != "" {
			logical[i].Header.Add("WARC-Truncated", reason)
		}
	}
	return logical
}

// wantIndexNotAhead checks the index of a dead process: each entry names a
// whole response to a GET that is where it says. It returns the number of entries.
func (x *crashed) wantIndexNotAhead() int {
	x.Helper()
	b, err := os.ReadFile(filepath.Join(x.dir, "dedup.bolt"))
	if err != nil {
		x.Fatal(err)
	}
	// A copy: the next start has to cope with what is there.
	name := filepath.Join(x.TempDir(), "dedup.bolt")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		x.Fatal(err)
	}
	entries := readIndex(x.T, name)
	type place struct {
		file           string
		offset, length int64
	}
	found := make(map[place]dedup.Entry)
	x.readFiles(func(file string, r *warc.Record, length int64) {
		if h := r.Header; r.Type() == warc.TypeResponse {
			e := dedup.Entry{Digest: h.Get("WARC-Payload-Digest")}
			c := newLoadCase(x.number(r.TargetURI()))
			e.Capture = dedup.Capture{RecordID: r.ID(), TargetURI: r.TargetURI(), Date: h.Get("WARC-Date"), Method: c.method,
				File: strings.TrimSuffix(filepath.Base(file), ".open"), Offset: r.Offset, Length: length}
			found[place{e.Capture.File, r.Offset, length}] = e
		}
	})
	for _, e := range entries {
		if got := found[place{e.Capture.File, e.Capture.Offset, e.Capture.Length}]; got != e || got.Capture.Method != http.MethodGet {
			x.Errorf("the index names\n%+v\nin the archive there is\n%+v", e, got)
		}
	}
	return len(entries)
}

// readIndex returns all entries of an index.
func readIndex(t *testing.T, name string) (entries []dedup.Entry) {
	t.Helper()
	db, err := bolt.Open(name, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(digest, _ []byte) error {
				digests = append(digests, string(digest))
				return nil
			})
		})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	index, err := dedup.OpenBolt(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for _, digest := range digests {
		c, ok, err := index.Lookup(digest)
		if err != nil || !ok {
			t.Errorf("the index has %s, and does not find it: %v", digest, err)
		}
		entries = append(entries, dedup.Entry{Digest: digest, Capture: c})
	}
	return entries
}
