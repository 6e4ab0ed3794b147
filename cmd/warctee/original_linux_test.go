//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// An originalStory is an archive with the original of a payload, to which
// something happens before that payload comes again.
type originalStory struct {
	*testing.T
	dir, origin string
	args        []string
}

func (s *originalStory) get(client *http.Client, path string) {
	s.Helper()
	resp, err := client.Get(s.origin + path)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		s.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
	}
}

const (
	originalPayload = "/same?300000"
	originalAgain   = "/same/again?300000"
)

// record makes the captures of one run of the program.
func (s *originalStory) record(paths ...string) {
	s.Helper()
	p := startProgram(s, s.dir, s.args...)
	client := p.client(false)
	for i, path := range paths {
		s.get(client, path)
		p.waitForRecords(int64(i + 1))
	}
	p.stop()
}

func (s *originalStory) records() *check.Report {
	s.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.warc*"))
	if err != nil {
		s.Fatal(err)
	}
	report, err := check.Files(paths...)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

// original is the record of the payload, continuation one of its segments.
func (s *originalStory) original() *check.Record {
	s.Helper()
	return onlyRecord(s.T, s.records().Records, "response", s.origin+originalPayload)
}

func (s *originalStory) continuation() *check.Record {
	s.Helper()
	records := s.records().Records
	for i := range records {
		if records[i].Header.Get("WARC-Segment-Number") == "2" {
			return &records[i]
		}
	}
	s.Fatal("there is no continuation")
	return nil
}

// change changes an octet in the middle of a record.
func (s *originalStory) change(r *check.Record) {
	s.Helper()
	b, err := os.ReadFile(r.File)
	if err != nil {
		s.Fatal(err)
	}
	b[r.Offset+r.Length/2] ^= 0xff
	if err := os.WriteFile(r.File, b, 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *originalStory) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

var originalHarms = []struct {
	name string
	kept bool // the original may still be referred to
	do   func(s *originalStory)
}{
	{"nothing", true, func(s *originalStory) {}},
	{"another time", true, func(s *originalStory) {
		s.do(os.Chtimes(s.original().File, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}},
	{"copied", true, func(s *originalStory) {
		name := s.original().File
		b, err := os.ReadFile(name)
		s.do(err)
		s.do(os.Remove(name))
		s.do(os.WriteFile(name, b, 0o644))
	}},
	{"deleted", false, func(s *originalStory) { s.do(os.Remove(s.original().File)) }},
	{"renamed", false, func(s *originalStory) {
		name := s.original().File
		s.do(os.Rename(name, filepath.Join(filepath.Dir(name), "old-"+filepath.Base(name))))
	}},
	{"damaged", false, func(s *originalStory) { s.change(s.original()) }},
	{"repaired", false, func(s *originalStory) {
		r := s.original()
		s.change(r)
		repaired := filepath.Join(s.TempDir(), filepath.Base(r.File))
		out, err := programCommand(s, "repair", "--no-lost", "--out", repaired, r.File).CombinedOutput()
		if info, statErr := os.Stat(repaired); statErr != nil || info.Size() < r.Offset+r.Length {
			s.Fatalf("repair: %v, %v\n%s", err, statErr, out)
		}
		s.do(os.Rename(repaired, r.File))
	}},
	{"another file", false, func(s *originalStory) {
		other := *s
		other.dir = filepath.Join(s.TempDir(), "other")
		other.record("/other?900000")
		names, err := filepath.Glob(filepath.Join(other.dir, "*.warc*"))
		s.do(err)
		s.do(os.Rename(names[0], s.original().File))
	}},
	{"older", false, func(s *originalStory) { s.do(os.Truncate(s.original().File, s.original().Offset)) }},
	{"no index", false, func(s *originalStory) { s.do(os.Remove(filepath.Join(s.dir, "dedup.bolt"))) }},
}

var segmentHarms = []struct {
	name string
	kept bool
	do   func(s *originalStory)
}{
	{"nothing", true, func(s *originalStory) {}},
	{"deleted", false, func(s *originalStory) { s.do(os.Remove(s.continuation().File)) }},
	{"cut", false, func(s *originalStory) { s.do(os.Truncate(s.continuation().File, s.continuation().Length)) }},
	{"damaged", false, func(s *originalStory) { s.change(s.continuation()) }},
	{"first deleted", false, func(s *originalStory) { s.do(os.Remove(s.original().File)) }},
}

func trainedDictionary(t *testing.T) *warc.Dictionary {
	t.Helper()
	samples := make([][]byte, 500)
	for i := range samples {
		samples[i] = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Number: %d\r\n\r\n", i*7919)
	}
	d, err := warc.TrainDictionary(samples, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever has happened to the original of a payload: a revisit is written only
// of one that is there and whole.
func TestOriginalsThatAreGone(t *testing.T) {
	t.Parallel()
	dictionary := filepath.Join(t.TempDir(), "dictionary")
	if err := os.WriteFile(dictionary, trainedDictionary(t).Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	origin := noisyOrigin(t)
	for name, args := range map[string]string{
		"gzip":       "--compress gzip",
		"skip":       "--compress gzip --skip-lengths",
		"zstd":       "--compress zstd",
		"dictionary": "--compress zstd --zstd-dictionary " + dictionary,
		"plain":      "--compress none",
	} {
		run := func(harm string, kept bool, do func(*originalStory), args string) {
			t.Run(name+"/"+harm, func(t *testing.T) {
				t.Parallel()
				s := &originalStory{T: t, dir: filepath.Join(t.TempDir(), "warcs"), origin: origin, args: strings.Fields(args)}
				s.record("/before?20000", originalPayload, "/behind?700000")
				do(s)
				before := len(s.records().Findings)
				s.record(originalAgain)
				s.want(kept, before)
			})
		}
		for _, h := range originalHarms {
			run(h.name, h.kept, h.do, args)
		}
		for _, h := range segmentHarms {
			run("segments/"+h.name, h.kept, h.do, args+" --oversize segment --max-size 128KiB")
		}
	}
}

// want looks at the last capture, of which nothing more may be wrong than there
// was before.
func (s *originalStory) want(revisit bool, findings int) {
	s.Helper()
	kind := "response"
	if revisit {
		kind = "revisit"
	}
	report := s.records()
	again := onlyRecord(s.T, report.Records, kind, s.origin+originalAgain)
	if len(report.Findings) > findings {
		s.Errorf("check finds more than before: %v", report.Findings)
	}
	for _, f := range report.Findings {
		if again != nil && f.ID == again.ID {
			s.Error(f)
		}
	}
}

// The same while the program runs, which knows its originals without a look at
// the index.
func TestOriginalGoesWhileRecording(t *testing.T) {
	t.Parallel()
	origin := noisyOrigin(t)
	for name, test := range map[string]struct {
		kept bool
		args string
		do   func(s *originalStory)
	}{
		"nothing":           {true, "", func(*originalStory) {}},
		"deleted":           {false, "", func(s *originalStory) { s.do(os.Remove(s.original().File)) }},
		"damaged":           {false, "", func(s *originalStory) { s.change(s.original()) }},
		"segments, nothing": {true, "--oversize segment --max-size 128KiB", func(*originalStory) {}},
		"segments, deleted": {false, "--oversize segment --max-size 128KiB", func(s *originalStory) { s.do(os.Remove(s.continuation().File)) }},
	} {
		for _, dedup := range []string{"memory:", "bolt:"} {
			t.Run(name+"/"+dedup, func(t *testing.T) {
				t.Parallel()
				s := &originalStory{T: t, dir: filepath.Join(t.TempDir(), "warcs"), origin: origin, args: strings.Fields(test.args)}
				if dedup == "bolt:" {
					dedup += filepath.Join(t.TempDir(), "dedup.bolt")
				}
				p := startProgram(t, s.dir, append(s.args, "--dedup", dedup)...)
				client := p.client(false)
				s.get(client, "/before?20000")
				s.get(client, originalPayload)
				p.waitForRecords(2)
				p.signal(syscall.SIGHUP)
				p.waitForLog("a file was finished")
				test.do(s)
				before := len(s.records().Findings)
				s.get(client, originalAgain)
				p.waitForRecords(3)
				p.stop()
				s.want(test.kept, before)
			})
		}
	}
}
