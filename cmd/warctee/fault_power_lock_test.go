package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// wantRefused starts a program that has to end with status 1, at once, and say
// all of these.
func wantRefused(t *testing.T, args []string, says ...string) {
	t.Helper()
	args = append([]string{"record", "--listen", "127.0.0.1:0", "--ca-dir", filepath.Join(t.TempDir(), "ca")}, args...)
	cmd := programCommand(t, args...)
	late := time.AfterFunc(programPatience, func() { cmd.Process.Kill() })
	defer late.Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitError {
		t.Errorf("%q: %v, want exit status %d", args, err, exitError)
	}
	for _, text := range says {
		if !strings.Contains(string(out), text) {
			t.Errorf("%q says\n%s\nwithout %q", args, out, text)
		}
	}
}

// A directory belongs to one program. A second one names the first, and does it
// no harm; when the first has gone, however it went, its lock holds nobody up.
func TestTwoProgramsOneDirectory(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(killOrigin))
	defer origin.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	urls := make(map[string]bool)
	use := func(p *program, path string) {
		t.Helper()
		if err := killGet(p.client(false), origin.URL+path); err != nil {
			t.Fatal(err)
		}
		urls[origin.URL+path] = true
	}

	first := startProgram(t, dir)
	use(first, "/1")
	pid := fmt.Sprintf("process %d;", first.cmd.Process.Pid)
	for range 2 {
		wantRefused(t, []string{"--dir", dir}, dir, pid, "stop it or choose another directory (--dir)")
	}
	use(first, "/2")
	first.waitForRecords(2)
	first.cmd.Process.Kill()
	<-first.exited

	second := startProgram(t, dir)
	use(second, "/3")
	second.waitForRecords(1)
	second.cmd.Process.Kill()
	<-second.exited

	// The pid in the file is now somebody else's, who is alive; or nobody's.
	for _, pid := range []string{strconv.Itoa(os.Getpid()) + "\n", "1\n", "999999999\n", "", "what is this"} {
		if err := os.WriteFile(filepath.Join(dir, ".lock"), []byte(pid), 0o644); err != nil {
			t.Fatal(err)
		}
		p := startProgram(t, dir)
		use(p, "/4/"+strconv.Itoa(len(urls)))
		p.stop()
	}
	wantAll(t, dir, urls)
}

// An index belongs to one program too, also when the directories differ.
func TestTwoProgramsOneIndex(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(killOrigin))
	defer origin.Close()
	dirs := [2]string{filepath.Join(t.TempDir(), "warcs"), filepath.Join(t.TempDir(), "warcs")}
	index := filepath.Join(t.TempDir(), "shared.bolt")
	first := startProgram(t, dirs[0], "--dedup", "bolt:"+index)
	wantRefused(t, []string{"--dir", dirs[1], "--dedup", "bolt:" + index}, index, "another process is using it", "--dedup")
	if err := killGet(first.client(false), origin.URL+"/1"); err != nil {
		t.Fatal(err)
	}
	first.waitForRecords(1)
	first.cmd.Process.Kill()
	<-first.exited

	second := startProgram(t, dirs[1], "--dedup", "bolt:"+index)
	if err := killGet(second.client(false), origin.URL+"/2"); err != nil {
		t.Fatal(err)
	}
	second.stop()
	warctest.Check(t, dirs[1])
}

// Programs that start at once with a new directory for the authority all get
// the same one.
func TestProgramsShareTheAuthority(t *testing.T) {
	t.Parallel()
	origin := httptest.NewTLSServer(http.HandlerFunc(killOrigin))
	defer origin.Close()
	for range 3 {
		caDir := filepath.Join(t.TempDir(), "ca")
		programs := make([]*program, 4)
		var all sync.WaitGroup
		for i := range programs {
			all.Go(func() { // ends when the program listens
				programs[i] = startProgram(t, filepath.Join(t.TempDir(), "warcs"), "--ca-dir", caDir)
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
		// The client trusts what is in the directory now.
		for i, p := range programs {
			if err := killGet(p.client(false), fmt.Sprintf("%s/%d", origin.URL, i)); err != nil {
				t.Errorf("program %d has another authority: %v", i, err)
			}
			p.stop()
		}
		left, err := os.ReadDir(caDir)
		if err != nil || len(left) != 2 {
			t.Errorf("the directory holds %v, %v; want ca.pem and ca-key.pem", left, err)
		}
	}
}
