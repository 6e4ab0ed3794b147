//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc/warctest"
)

// The tests in this file run the program on disks that are full, read-only or
// gone. A disk of its own is a small tmpfs in a mount namespace; the tests see
// it through /proc. Where that is not permitted a limit on the size of files
// (ulimit -f) has to do: below it nothing can be written either.

// A disk that gets full pauses the recording, loudly. With space it goes on by
// itself, and nothing is missing.
func TestDiskGetsFull(t *testing.T) {
	t.Parallel()
	overDisks(t, 8<<20, []string{"--min-free", "0"}, func(t *testing.T, d *disk) {
		r := newRecording(t, d)
		r.must(5, 20_000)
		for round := range 2 {
			d.fill()
			reason := r.untilRefused(30_000)
			if !strings.Contains(reason, "recording is paused") || !strings.Contains(reason, "no space left on device") && !strings.Contains(reason, "file too large") {
				t.Errorf("the refusal says %q", reason)
			}
			s := r.untilRecording(false)
			if s.Error == "" || s.Waiting == 0 || s.Lost != 0 || s.Pauses != int64(round+1) {
				t.Errorf("/status says %+v", s)
			}
			d.lift()
			r.untilRecording(true)
			r.must(5, 20_000)
		}
		d.p.stopIncomplete("2 requests were refused because of the disk")
		r.check()
		for _, text := range []string{"RECORDING IS PAUSED", "RECORDING GOES ON"} {
			if n := strings.Count(d.p.log(), text); n != 2 {
				t.Errorf("the log says %q %d times, want 2", text, n)
			}
		}
		if !strings.Contains(d.p.log(), "; 2 pauses because of the disk") {
			t.Error("the summary does not tell of the pauses")
		}
	})
}

// With --on-failure stop it stays so, and what could not be recorded is lost,
// which the exit status says.
func TestDiskGetsFullForGood(t *testing.T) {
	t.Parallel()
	overDisks(t, 8<<20, []string{"--min-free", "0", "--on-failure", "stop"}, func(t *testing.T, d *disk) {
		r := newRecording(t, d)
		r.must(3, 20_000)
		d.p.waitForRecords(3)
		time.Sleep(300 * time.Millisecond) // they are durable
		before := len(r.given)
		d.fill()
		for {
			if refused, reason := r.get(30_000); refused != nil {
				if !strings.Contains(reason, "recording has stopped") || refused.Header.Get("Retry-After") != "" {
					t.Errorf("%q, Retry-After %q", reason, refused.Header.Get("Retry-After"))
				}
				break
			}
		}
		d.lift()
		time.Sleep(2 * time.Second)
		if s := d.p.status(); s.Recording || s.Lost == 0 || int(s.Lost) != len(r.given)-before {
			t.Errorf("/status says %+v, want %d lost", s, len(r.given)-before)
		}
		d.p.signal(syscall.SIGTERM)
		d.p.wait(exitIncomplete)
		if n := len(warctest.Check(t, d.dir)); n == 0 {
			t.Error("nothing is in the archive")
		}
		if !strings.Contains(d.p.log(), "RESPONSE") || !strings.Contains(d.p.log(), "LOST") {
			t.Error("the log does not tell what is lost")
		}
	})
}

// A disk that is still full at the end: what waits is lost, and that is told.
func TestDiskFullAtTheEnd(t *testing.T) {
	t.Parallel()
	overDisks(t, 8<<20, []string{"--min-free", "0"}, func(t *testing.T, d *disk) {
		r := newRecording(t, d)
		r.must(3, 20_000)
		d.p.waitForRecords(3)
		d.fill()
		r.untilRefused(30_000)
		waiting := d.p.status().Waiting
		d.p.signal(syscall.SIGTERM)
		d.p.wait(exitIncomplete)
		if n := strings.Count(d.p.log(), "A RESPONSE IS LOST"); int64(n) != waiting {
			t.Errorf("%d responses are lost by the log, %d waited", n, waiting)
		}
		captures := 0
		for _, rec := range warctest.Check(t, d.dir) {
			if rec.Type == "response" || rec.Type == "revisit" {
				captures++
			}
		}
		if want := len(r.given) - int(waiting); captures != want {
			t.Errorf("%d captures are in the archive, want %d", captures, want)
		}
	})
}

// --min-free pauses before the disk is full; what was finished can be taken away
// then, and the recording goes on.
func TestMinFreeOnASmallDisk(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	d := startOnDisk(t, size, "--min-free", "50%", "--max-size", "1MB")
	if d == nil {
		return // TestMinFreeAtTheStart has to do
	}
	r := newRecording(t, d)
	reason := r.untilRefused(300_000)
	if !strings.Contains(reason, "nearly full") || !strings.Contains(reason, "--min-free") || strings.Contains(reason, d.p.dir) {
		t.Errorf("the refusal says %q", reason)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		t.Fatal(err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < size/4 {
		t.Errorf("only %d bytes of %d are free", free, size)
	}
	s := r.untilRecording(false)
	if s.Waiting != 0 || s.DiskFree < size/4 || s.DiskFree > size*3/4 { // spools have been given back since it paused
		t.Errorf("/status says %+v", s)
	}

	// An operator moves finished files away.
	away := t.TempDir()
	names, err := filepath.Glob(filepath.Join(d.dir, "*.warc.gz"))
	if err != nil || len(names) < 3 {
		t.Fatalf("there are %d finished files, %v", len(names), err)
	}
	for _, name := range names {
		moveAway(t, name, filepath.Join(away, filepath.Base(name)))
	}
	r.untilRecording(true)
	r.must(5, 20_000)
	d.p.stopIncomplete("refused because of the disk")
	names, _ = filepath.Glob(filepath.Join(d.dir, "*.warc.gz"))
	for _, name := range names {
		moveAway(t, name, filepath.Join(away, filepath.Base(name)))
	}
	d.dir = away
	r.check()
}

func moveAway(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err = errors.Join(err, os.Remove(from)); err != nil {
		t.Fatal(err)
	}
}

// A start with too little space: the program runs, says so, and answers.
func TestMinFreeAtTheStart(t *testing.T) {
	t.Parallel()
	d := startLimited(t, "--min-free", "99.99%")
	r := newRecording(t, d)
	refused, reason := r.get(10)
	if refused == nil || !strings.Contains(reason, "--min-free") {
		t.Errorf("the refusal says %q", reason)
	}
	if s := d.p.status(); s.Recording || s.Pauses != 1 {
		t.Errorf("/status says %+v", s)
	}
	d.p.waitForLog("RECORDING IS PAUSED")
	d.p.stopIncomplete("1 request was refused because of the disk; recording was paused at the end: the disk is nearly full")
	if !strings.Contains(d.p.log(), "; 1 pause because of the disk; 1 REQUEST REFUSED BECAUSE OF THE DISK") {
		t.Error("the summary does not tell of the refusal")
	}
	r.check()
}

// unprivileged runs a command without root's power to write everywhere.
func unprivileged(cmd *exec.Cmd) *exec.Cmd {
	if os.Getuid() == 0 {
		cmd.Env = append(cmd.Env, asStage+"=unprivileged")
	}
	return cmd
}

// Directories that cannot be written to, or be made, at the start.
func TestDirectoryIsBadAtTheStart(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	locked := filepath.Join(base, "locked") // somebody has recorded here
	for _, dir := range []string{"readonly", "locked"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(locked, ".lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"readonly", "locked"} {
		if err := os.Chmod(filepath.Join(base, dir), 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Join(base, dir), 0o755) }) // to be removed
	}
	for _, dir := range []string{"readonly", "readonly/below", "locked"} {
		path := filepath.Join(base, dir)
		out, err := unprivileged(recordCommand(t, path)).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitError {
			t.Errorf("%s: %v", dir, err)
		}
		for _, text := range []string{"warctee: cannot record into " + path + " (--dir): ", "permission denied"} {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: it does not say %q: %s", dir, text, out)
			}
		}
	}
}

// A directory that becomes read-only, or is away for a while.
func TestDirectoryIsBadForAWhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(dir string) (undo func() error, err error){
		"read-only": func(dir string) (func() error, error) {
			return func() error { return os.Chmod(dir, 0o755) }, os.Chmod(dir, 0o555)
		},
		"away": func(dir string) (func() error, error) {
			return func() error { return os.Rename(dir+" away", dir) }, os.Rename(dir, dir+" away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "warcs")
			p := startCommand(t, unprivileged(recordCommand(t, dir, "--max-size", "100KB", "--file-mode", "0600")))
			p.dir = dir
			r := newRecording(t, &disk{t: t, p: p, dir: dir})
			r.must(5, 30_000)
			undo, err := change(dir)
			if err != nil {
				t.Fatal(err)
			}
			reason := r.untilRefused(30_000)
			if !strings.Contains(reason, "recording is paused") || strings.Contains(reason, dir) {
				t.Errorf("the refusal says %q", reason)
			}
			// To try again helps nothing, and harms nothing, however often.
			for n := range 5 {
				p.signal(syscall.SIGHUP)
				for start := time.Now(); strings.Count(p.log(), "cannot finish the current file") <= n; time.Sleep(10 * time.Millisecond) {
					if time.Since(start) > programPatience {
						t.Fatal("SIGHUP has no effect")
					}
				}
			}
			r.untilRecording(false)
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			r.untilRecording(true)
			r.must(5, 30_000)
			p.stopIncomplete("refused because of the disk")
			r.check()
			names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
			for _, name := range names {
				if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info.Mode(), err)
				}
			}
		})
	}
}

// A directory that is removed with all that is in it, and made again: what was
// durable is gone, and the program ends with an error; what comes later is
// recorded, next to a new failure log.
func TestDirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "warcs")
	d := &disk{t: t, p: startProgram(t, dir), dir: dir}
	r := newRecording(t, d)
	r.must(5, 30_000)
	d.p.waitForRecords(5)
	time.Sleep(300 * time.Millisecond)
	r.given = make(map[string]bool) // they are durable, and about to be removed
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if reason := r.untilRefused(30_000); !strings.Contains(reason, "the archive's directory is gone") {
		t.Errorf("the refusal says %q", reason)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.untilRecording(true)
	r.must(5, 30_000)
	if s := d.p.status(); s.Damaged != 1 || s.Lost != 0 {
		t.Errorf("/status says %+v", s)
	}
	d.p.client(false).Get("http://127.0.0.1:1/") // fails, and is told
	d.p.signal(syscall.SIGTERM)
	d.p.wait(exitError)
	r.check()
	log, err := os.ReadFile(filepath.Join(dir, "failures.jsonl"))
	if err != nil || !strings.Contains(string(log), "127.0.0.1:1") {
		t.Errorf("the failure log says %q, %v", log, err)
	}
}

// What is refused while the disk is full does not fill it, and no line of the
// failure log is cut in two.
func TestFailureLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	overDisks(t, 8<<20, []string{"--min-free", "0"}, func(t *testing.T, d *disk) {
		r := newRecording(t, d)
		r.must(1, 100)
		d.client(t).Get("http://127.0.0.1:1/") // the file is there
		d.fill()
		r.untilRefused(30_000)
		for range 200 {
			r.get(10)
		}
		d.lift()
		r.untilRecording(true)
		d.client(t).Get("http://127.0.0.1:1/after")
		d.p.stopIncomplete("requests were refused because of the disk")
		r.check()
		log, err := os.ReadFile(filepath.Join(d.dir, "failures.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("this is no JSON: %q", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "/after") || len(lines) > 30 {
			t.Errorf("%d lines, the last is %q", len(lines), last)
		}
		if n := strings.Count(d.p.log(), "cannot write the failure log"); n > 5 {
			t.Errorf("the log says %d times that the failure log cannot be written", n)
		}
	})
}

// Requests that are refused do not take of the disk what has to stay free, however
// long their URLs are.
func TestRefusalsOnANearlyFullDisk(t *testing.T) {
	t.Parallel()
	d := startOnDisk(t, 8<<20, "--min-free", "7MB")
	if d == nil {
		t.Skip("no disk of its own can be mounted here")
	}
	r := newRecording(t, d)
	r.must(1, 100)
	long := strings.Repeat("\u00fc", 30_000) // 180 kB when each is escaped
	for i := range 900 {
		conn, err := net.Dial("tcp", d.p.proxy.Host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET ftp://h%d.example/%s HTTP/1.1\r\nHost: h\r\n\r\n", i, long)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("request %d: %+v, %v", i, resp, err)
		}
		conn.Close()
	}
	if free, _, err := rotate.Free(d.dir); err != nil || free < 7e6 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	if n := d.p.status().Unlogged; n == 0 {
		t.Error("/status counts no failure without a line")
	}
	if n := strings.Count(d.p.log(), "cannot write the failure log"); n != 1 {
		t.Errorf("the log says %d times that the failure log is not written", n)
	}
	d.p.signal(syscall.SIGTERM)
	<-d.p.exited
	r.check()
}

func (d *disk) client(*testing.T) *http.Client { return d.p.client(false) }

// SIGHUP in the middle of traffic: another file each time, and nothing is
// dropped, neither what is under way nor what comes.
func TestHangUpInMidTraffic(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "warcs")
	p := startProgram(t, dir)
	slow := httptest.NewServer(http.HandlerFunc(trickle))
	defer slow.Close()
	resp, err := p.client(false).Get(slow.URL + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := newRecording(t, &disk{t: t, p: p, dir: dir})
	var done atomic.Bool
	hungUp := make(chan int)
	go func() { // ends with done
		n := 0
		for ; !done.Load(); n++ {
			p.cmd.Process.Signal(syscall.SIGHUP)
			time.Sleep(50 * time.Millisecond)
		}
		hungUp <- n
	}()
	r.must(100, 5000)
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != trickled("/slow") {
		t.Errorf("the client gets %d octets, %v", len(body), err)
	}
	done.Store(true)
	n := <-hungUp
	p.stop()
	r.given[slow.URL+"/slow"] = true
	records := r.check()
	files := 0
	for _, rec := range records {
		if rec.Type == "warcinfo" {
			files++
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz")); files != len(names) || files < 3 {
		t.Errorf("%d signals gave %d files with %d warcinfo records", n, len(names), files)
	}
}
