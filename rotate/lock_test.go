package rotate

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain lets the test binary be the second process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ROTATE_TEST_HOLD"); dir != "" {
		if _, err := Open(testOptions(dir)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("open")
		bufio.NewReader(os.Stdin).ReadByte() // until the test ends or kills us
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// second starts a process that opens the directory; line is what it says.
func second(t *testing.T, dir string) (p *exec.Cmd, line string) {
	t.Helper()
	p = exec.Command(os.Args[0])
	p.Env = append(os.Environ(), "ROTATE_TEST_HOLD="+dir)
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); p.Wait() })
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(line)
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	p, line := second(t, dir)
	if line != "open" {
		t.Fatal(line)
	}
	_, err := Open(testOptions(dir))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), "process "+strconv.Itoa(p.Process.Pid)+";") || !strings.Contains(err.Error(), "(--dir)") {
		t.Errorf("while process %d has it: %v", p.Process.Pid, err)
	}

	// The lock of a process that was killed holds nobody up; its pid stays
	// in the file.
	p.Process.Kill()
	p.Wait()
	if got := read(t, dir, ".lock"); got != strconv.Itoa(p.Process.Pid)+"\n" {
		t.Errorf("the lock file says %q", got)
	}
	s := open(t, testOptions(dir))
	if got := read(t, dir, ".lock"); got != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the lock file says %q", got)
	}
	if _, line := second(t, dir); !strings.Contains(line, "process "+strconv.Itoa(os.Getpid())+";") {
		t.Errorf("the second process says %q", line)
	}
	closeSet(t, s)
	if _, line := second(t, dir); line != "open" {
		t.Errorf("after Close: %s", line)
	}
}

func TestLockFileWithoutPid(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testOptions(dir))
	write(t, dir, ".lock", "") // as between lock and write
	if _, err := Open(testOptions(dir)); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	closeSet(t, s)
	write(t, dir, ".lock", strings.Repeat("99999999999999999999", 100))
	closeSet(t, open(t, testOptions(dir)))
}

func TestNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "")
	if _, err := Open(testOptions(dir + "/file/below")); err == nil || !strings.Contains(err.Error(), "below") {
		t.Errorf("below a file: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testOptions(dir)); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("read-only: %v", err)
	}
}
