package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// clockEdges are moments at which clocks and dates have gone wrong before: leap
// days and seconds, the ends of 31 and 32 bits, the last years that
// nanoseconds in 64 bits can tell.
var clockEdges = []time.Time{
	time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	time.Date(2000, 2, 28, 23, 59, 59, 999_999_999, time.UTC),
	time.Date(2000, 2, 29, 0, 0, 0, 1, time.UTC),
	time.Date(2016, 12, 31, 23, 59, 59, 999_000_000, time.UTC),
	time.Date(2016, 12, 31, 23, 59, 60, 0, time.UTC),
	time.Unix(1<<31-1, 999_999_999),
	time.Unix(1<<31, 0),
	time.Unix(1<<32-1, 0),
	time.Unix(1<<32, 0),
	time.Date(2261, 12, 31, 23, 59, 59, 0, time.UTC),
}

// Whatever the clock says at a start, and when it is set back to where it was
// before: no name is given twice, dates are valid, and what refers to an
// original refers to it rightly, though that may lie in the future.
func TestClockJumps(t *testing.T) {
	for _, version := range []warc.Version{warc.V1_1, warc.V1_0} {
		dir := t.TempDir()
		for life := range 2 { // in the second the clock has been set back
			// The clock of a bubble begins in 2000 and is where one sets it.
			synctest.Test(t, func(t *testing.T) {
				for i, at := range clockEdges {
					time.Sleep(time.Until(at))
					recordAt(t, dir, version, fmt.Sprintf("/%d/%d", life, i))
				}
			})
		}
		wantClockEdges(t, dir, version)
	}
}

// recordAt is a process that records two exchanges and rotates in between.
func recordAt(t *testing.T, dir string, version warc.Version, path string) {
	t.Helper()
	r, err := recorder.Open(recorder.Options{
		Dir:       dir,
		Version:   version,
		Dial:      dialEcho,
		OpenIndex: func() (dedup.Index, error) { return dedup.OpenBolt(filepath.Join(dir, "dedup.bolt"), nil) },
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: r}
	for _, p := range []string{path, path + "/same"} {
		resp, err := client.Get("http://192.0.2.1" + p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		synctest.Wait()
		if err := r.Rotate(); err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// dialEcho is a connection to an origin for one exchange; what ends in /same
// is always the same.
func dialEcho(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { // ends with the exchange
		defer server.Close()
		request := make([]byte, 4096)
		n, err := server.Read(request)
		if err != nil {
			return
		}
		_, target, _ := strings.Cut(string(request[:n]), " ")
		target, _, _ = strings.Cut(target, " ")
		if strings.HasSuffix(target, "/same") {
			target = "the same"
		}
		fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(target), target)
	}()
	return client, nil
}

func wantClockEdges(t *testing.T, dir string, version warc.Version) {
	t.Helper()
	files, dates, revisits := make(map[string]bool), make(map[string]string), 0
	for _, r := range warctest.Check(t, dir) {
		files[r.File] = true
		if r.Type == "revisit" {
			revisits++
		}
		if r.Type == "response" || r.Type == "revisit" {
			dates[strings.TrimPrefix(r.TargetURI, "http://192.0.2.1")] = r.Date
		}
	}
	n := 2 * len(clockEdges)
	if len(files) != 2*n || revisits != n-1 {
		t.Errorf("there are %d files and %d revisits, want %d and %d", len(files), revisits, 2*n, n-1)
	}
	for life := range 2 {
		for i, at := range clockEdges {
			for _, path := range []string{fmt.Sprintf("/%d/%d", life, i), fmt.Sprintf("/%d/%d/same", life, i)} {
				if want := warc.FormatDate(at, version); dates[path] != want {
					t.Errorf("%s was recorded on %s, want %s", path, dates[path], want)
				}
			}
		}
	}
}

// wallClock are the ways to lose what [time.Now] knows of the monotonic clock,
// by which alone timeouts and ages can be told.
var wallClock = regexp.MustCompile(`\.(Unix|UnixMilli|UnixMicro|UnixNano|Round)\(0?\)`)

// Nothing measures time by the clock on the wall, which may be set.
func TestTimeIsMonotonic(t *testing.T) {
	read := 0
	for _, pattern := range []string{"../../*/*.go", "../../*/*/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			read++
			if found := wallClock.FindString(string(b)); found != "" {
				t.Errorf("%s uses %s: a clock that is set would be taken for time that has passed", name, found)
			}
		}
	}
	if read < 50 {
		t.Errorf("only %d files were read", read)
	}
}
