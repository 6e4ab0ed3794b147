//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warctee/warctee/warc/check"
	"github.com/warctee/warctee/warc/warctest"
)

// asStage makes the test binary set a stage before it is the program:
// "tmpfs DIR SIZE" mounts a disk, "unprivileged" takes root's power to write
// everywhere away.
const asStage = "TEST_BINARY_STAGE"

func init() {
	if stage := strings.Fields(os.Getenv(asStage)); len(stage) > 0 {
		if err := setStage(stage); err != nil {
			fmt.Fprintln(os.Stderr, "cannot set the stage:", err)
			os.Exit(99)
		}
		main()
	}
}

func setStage(stage []string) error {
	switch stage[0] {
	case "tmpfs":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", stage[1], "tmpfs", 0, "size="+stage[2])
	case "unprivileged":
		runtime.LockOSThread() // until exec, which keeps what this thread may
		for _, c := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
				return err
			}
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		os.Unsetenv(asStage)
		return syscall.Exec(self, os.Args, os.Environ())
	}
	return errors.New("there is no such stage")
}

// A disk is where a program records, with what can happen to it.
type disk struct {
	t    *testing.T
	p    *program
	dir  string // as the test sees it
	fill func() // until nothing can be written
	lift func() // and again
}

// startOnDisk starts the program with a directory on a disk of its own, of so
// many bytes, if that is permitted.
func startOnDisk(t *testing.T, size int, args ...string) *disk {
	t.Helper()
	mountPoint := t.TempDir()
	dir := filepath.Join(mountPoint, "warcs")
	cmd := recordCommand(t, dir, args...)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=tmpfs %s %d", asStage, mountPoint, size))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: one,
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	}
	if !canMount(t, cmd) {
		return nil
	}
	d := &disk{t: t, p: startCommand(t, cmd)}
	d.p.dir = dir
	// The disk lives as long as somebody has its directory open.
	root, err := os.Open(fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, mountPoint))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	d.dir = fmt.Sprintf("/proc/self/fd/%d/warcs", root.Fd())
	filler := fmt.Sprintf("/proc/self/fd/%d/filler", root.Fd())
	d.fill = func() { fillDisk(t, filler) }
	d.lift = func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
	return d
}

// canMount tries the stage of cmd with a program that does nothing.
func canMount(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	try := exec.Command(cmd.Path, "--version")
	try.Env, try.SysProcAttr = cmd.Env, cmd.SysProcAttr
	out, err := try.CombinedOutput()
	if err != nil {
		t.Logf("no disk of its own can be mounted here (%v: %s): a limit on the size of files has to do", err, out)
	}
	return err == nil
}

// fillDisk writes until there is no space left.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// startLimited starts the program on an ordinary disk. Filling it is a limit on
// the size of its files.
func startLimited(t *testing.T, args ...string) *disk {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "warcs")
	d := &disk{t: t, p: startProgram(t, dir, args...), dir: dir}
	limit := func(n uint64) {
		old := unix.Rlimit{}
		if err := unix.Prlimit(d.p.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(d.p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: old.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	d.fill = func() { limit(1) }
	d.lift = func() { limit(unix.RLIM_INFINITY) }
	return d
}

func recordCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return programCommand(t, append([]string{"record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca")}, args...)...)
}

// overDisks runs a test on a disk of its own and with limited files.
func overDisks(t *testing.T, size int, args []string, run func(t *testing.T, d *disk)) {
	t.Run("small disk", func(t *testing.T) {
		t.Parallel()
		if d := startOnDisk(t, size, args...); d != nil {
			run(t, d)
		} // else the log says so, and the other variant has to do
	})
	t.Run("limited files", func(t *testing.T) {
		t.Parallel()
		run(t, startLimited(t, args...))
	})
}

// A noisyOrigin gives bodies that do not compress, of a length that the query
// tells, and under /same all the same one.
func noisyOrigin(t *testing.T) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, noisyBody(r.URL.Path, r.URL.RawQuery))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func noisyBody(path, query string) string {
	var seed [32]byte
	if !strings.HasPrefix(path, "/same") {
		copy(seed[:], path)
	}
	n, _ := strconv.Atoi(query)
	b := make([]byte, n)
	rand.NewChaCha8(seed).Read(b)
	return string(b)
}

// A recording asks for one thing after the other and knows what it was given.
type recording struct {
	t      *testing.T
	d      *disk
	client *http.Client
	origin string
	n      int
	given  map[string]bool
}

func newRecording(t *testing.T, d *disk) *recording {
	return &recording{t: t, d: d, client: d.p.client(false), origin: noisyOrigin(t), given: make(map[string]bool)}
}

// get fetches something new; the response is nil when it was refused.
func (r *recording) get(size int) (refused *http.Response, reason string) {
	r.t.Helper()
	path := fmt.Sprintf("/%d", r.n)
	if r.n%3 == 2 {
		path = fmt.Sprintf("/same/%d", r.n)
	}
	r.n++
	u := fmt.Sprintf("%s%s?%d", r.origin, path, size)
	resp, err := r.client.Get(u)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusServiceUnavailable {
		return resp, string(body)
	}
	if err != nil || string(body) != noisyBody(path, strconv.Itoa(size)) {
		r.t.Fatalf("%s: %d, %d octets, %v", u, resp.StatusCode, len(body), err)
	}
	r.given[u] = true
	return nil, ""
}

// must fetches n things that are not refused.
func (r *recording) must(n, size int) {
	r.t.Helper()
	for range n {
		if refused, reason := r.get(size); refused != nil {
			r.t.Fatalf("refused: %s", reason)
		}
	}
}

// untilRefused fetches until that is refused, and returns why.
func (r *recording) untilRefused(size int) (reason string) {
	r.t.Helper()
	for start := time.Now(); time.Since(start) < programPatience; time.Sleep(20 * time.Millisecond) {
		refused, reason := r.get(size)
		if refused != nil {
			if s := refused.Header.Get("Retry-After"); s != "5" {
				r.t.Errorf("Retry-After is %q", s)
			}
			return reason
		}
	}
	r.t.Fatal("nobody is refused")
	return ""
}

// untilRecording waits until the program records, or does not.
func (r *recording) untilRecording(want bool) serverStatus {
	r.t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if s := r.d.p.status(); s.Recording == want {
			return s
		}
		if time.Since(start) > programPatience {
			r.t.Fatalf("recording is still %v", !want)
		}
	}
}

// check looks for all that was given, once, in the archive.
func (r *recording) check() []check.Record {
	r.t.Helper()
	wantAll(r.t, r.d.dir, r.given)
	records := warctest.Check(r.t, r.d.dir)
	n := 0
	for _, rec := range records {
		if rec.Type == "response" || rec.Type == "revisit" {
			n++
		}
	}
	if n != len(r.given) {
		r.t.Errorf("%d captures are in the archive, %d were given", n, len(r.given))
	}
	for _, pattern := range []string{"*.open", "*.bad-*", "*.tail*", ".spool*"} {
		if names, _ := filepath.Glob(filepath.Join(r.d.dir, pattern)); len(names) > 0 {
			r.t.Errorf("%v is left", names)
		}
	}
	return records
}
