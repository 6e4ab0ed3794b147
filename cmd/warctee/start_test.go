//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// A file of a kilobyte that another process has left, whose header is folded over
// 350,000 lines, does not keep the program from starting. Work that grows with the
// square of the lines would take minutes; see TestFoldedLinesTakeLinearWork too.
func TestStartWithFoldedHeader(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, "WARC/1.1\r\nContent-Length: 0\r\nX: y\r\n"+strings.Repeat(" x\n", 340_000)+"\r\n\r\n\r\n")
	z.Close()
	const name = "warctee-20260101000000000-00000-abc-host.warc.gz"
	if err := os.WriteFile(filepath.Join(dir, name+".open"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(sayPath))
	defer origin.Close()
	p := startProgram(t, dir)
	resp, err := p.client(false).Get(origin.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	p.stop()
	tail := filepath.Join(dir, name+".tail")
	if kept, err := os.ReadFile(tail); err != nil || !bytes.Equal(kept, b.Bytes()) { // it is not what a Writer writes
		t.Errorf("%d octets are kept, want %d: %v", len(kept), b.Len(), err)
	}
	onlyRecord(t, warctest.Check(t, dir), "response", origin.URL+"/")
}

// bomb is the start of a record in a gzip member that decompresses to many
// gigabytes, so that looking through it takes minutes.
func bomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, "WARC/1.1\r\nWARC-Type: resource\r\nContent-Length: 9000000000000000\r\n\r\n")
	zeros := make([]byte, 16<<20)
	z.Write(zeros)
	z.Flush()
	from := b.Len()
	z.Write(zeros)
	z.Flush()
	again := b.Bytes()[from:] // it refers to nothing but zeros before it
	return append(b.Bytes(), bytes.Repeat(again, 64<<20/len(again))...)
}

// While the start looks through what another process has left, a signal ends it;
// the file stays as it is for the next start.
func TestSignalWhileStarting(t *testing.T) {
	bomb := bomb()
	for name, args := range map[string][]string{"record": {"record", "--listen", "127.0.0.1:0"}, "run": {"run"}} {
		t.Run(name, func(t *testing.T) {
			dir, work := t.TempDir(), t.TempDir()
			file := filepath.Join(dir, "warctee-20260101000000000-00000-abc-host.warc.gz.open")
			if err := os.WriteFile(file, bomb, 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca"))
			if name == "run" {
				args = append(args, "--", "touch", filepath.Join(work, "ran"))
			}
			cmd := programCommand(t, args...)
			cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "TMPDIR="+work)
			inOwnSession(cmd)
			said := waitToSay(t, cmd, "an unfinished file is looked through")
			cmd.Process.Signal(syscall.SIGTERM)
			late := time.AfterFunc(programPatience, func() { cmd.Process.Kill() })
			defer late.Stop()
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != exitError || !strings.Contains(said.String(), "interrupted while recovering "+file+", which stays as it is") {
				t.Errorf("it ends with %d and says\n%s", code, said)
			}
			if info, err := os.Stat(file); err != nil || info.Size() != int64(len(bomb)) {
				t.Errorf("the file is not as it was: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(work, "*")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// waitToSay starts a command and returns when it has said something on stderr.
func waitToSay(t *testing.T, cmd *exec.Cmd, text string) *syncBuffer {
	t.Helper()
	said := &syncBuffer{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	for start := time.Now(); !strings.Contains(said.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > programPatience {
			t.Fatalf("it does not say %q, but\n%s", text, said)
		}
	}
	return said
}
