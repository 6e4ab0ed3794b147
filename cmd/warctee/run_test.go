//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
	"golang.org/x/sys/unix"
)

// goClient makes the test binary a program that fetches the URLs it names with
// Go's own client.
const goClient = "TEST_BINARY_FETCHES"

// interruptCounter makes the test binary a program that tells of each SIGINT,
// until SIGTERM. In a shell two that come close to each other are one.
const interruptCounter = "TEST_BINARY_COUNTS"

func init() {
	if os.Getenv(interruptCounter) != "" {
		countInterrupts()
	}
	urls := os.Getenv(goClient)
	if urls == "" {
		return
	}
	for u := range strings.FieldsSeq(urls) {
		resp, err := http.Get(u)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		io.Copy(os.Stdout, resp.Body)
	}
	os.Exit(0)
}

func countInterrupts() {
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready")
	for n := 0; ; n++ {
		if <-signals == syscall.SIGTERM {
			fmt.Println(n, "in all")
			os.Exit(0)
		}
		fmt.Println("interrupted")
	}
}

// tool returns a program that the tests need. Without it a test is skipped, but
// not where all of them have to run.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// A running is `warctee run` under way. What COMMAND says is in files, so that
// a test does not wait for those who inherit them.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	work   string // the working directory; the archive is in warcs
	exited chan struct{}
}

// startRun starts `warctee run`; flags end with "--" and the command. The
// process has a session of its own, and no terminal.
func startRun(t *testing.T, args ...string) *running {
	t.Helper()
	r := prepareRun(t, args...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for name, stream := range map[string]*io.Writer{"stdout": &r.cmd.Stdout, "stderr": &r.cmd.Stderr} {
		f, err := os.Create(filepath.Join(r.work, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		*stream = f
	}
	r.start()
	return r
}

func prepareRun(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, work: t.TempDir(), exited: make(chan struct{})}
	r.cmd = programCommand(t, append([]string{"run", "--dir", "warcs", "--ca-dir", "ca"}, args...)...)
	r.cmd.Dir = r.work
	r.cmd.Env = append(r.cmd.Env, "SSL_CERT_FILE="+originCA.CertPath(), "PATH="+os.Getenv("PATH"))
	return r
}

func (r *running) start() {
	r.t.Helper()
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { // ends with the process
		defer close(r.exited)
		r.cmd.Wait() // what it tells is in ProcessState
	}()
	r.t.Cleanup(func() {
		if syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) != nil { // with all that it has started
			r.cmd.Process.Kill()
		}
		<-r.exited
	})
}

func (r *running) output(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.work, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// waitFor waits until COMMAND has said something.
func (r *running) waitFor(text string) {
	r.t.Helper()
	for start := time.Now(); !strings.Contains(r.output("stdout"), text); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > programPatience {
			r.t.Fatalf("the command does not say %q; stdout: %s\nstderr: %s", text, r.output("stdout"), r.output("stderr"))
		}
	}
}

// wait waits for the end and checks the exit status.
func (r *running) wait(status int) {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(programPatience):
		r.t.Fatal("warctee does not end")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Errorf("exit status %d, want %d; stdout: %s\nstderr: %s", got, status, r.output("stdout"), r.output("stderr"))
	}
}

// recorded checks the archive and that it holds a response for each URL.
func (r *running) recorded(urls ...string) {
	r.t.Helper()
	var got []string
	for _, rec := range warctest.Check(r.t, filepath.Join(r.work, "warcs")) {
		if rec.Type == "response" || rec.Type == "revisit" {
			got = append(got, rec.TargetURI)
		}
	}
	for _, u := range urls {
		if !slices.Contains(got, u) {
			r.t.Errorf("there is no record of %s, only of %q", u, got)
		}
	}
}

// origins starts a server for http and one for https, whose certificate the
// recorder trusts, at an address of this machine.
func origins(t *testing.T, ip string, h http.Handler) (plain, encrypted string) {
	t.Helper()
	leaf, err := originCA.Leaf(ip)
	if err != nil {
		t.Fatal(err)
	}
	servers := make([]*httptest.Server, 2)
	for i := range servers {
		ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			t.Fatal(err)
		}
		servers[i] = &httptest.Server{Listener: ln, Config: &http.Server{Handler: h}, TLS: &tls.Config{Certificates: []tls.Certificate{*leaf}}}
		t.Cleanup(servers[i].Close)
	}
	servers[0].Start()
	servers[1].StartTLS()
	return servers[0].URL, servers[1].URL
}

func sayPath(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "this is %s\n", r.URL.Path) }

// All kinds of clients are recorded over http and https, without any option of
// their own.
func TestRunClients(t *testing.T) {
	for name, command := range map[string]func(t *testing.T, urls ...string) []string{
		"curl": func(t *testing.T, urls ...string) []string {
			return append([]string{tool(t, "curl"), "-sS"}, urls...)
		},
		"wget": func(t *testing.T, urls ...string) []string {
			return append([]string{tool(t, "wget"), "-nv", "-O-"}, urls...)
		},
		"python": func(t *testing.T, urls ...string) []string {
			script := "import sys, urllib.request\nfor u in sys.argv[1:]: print(urllib.request.urlopen(u).read().decode())"
			return append([]string{python(t), "-c", script}, urls...)
		},
		"node": func(t *testing.T, urls ...string) []string {
			return append([]string{tool(t, "node"), "-e", nodeClient}, urls...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, encrypted := origins(t, "127.0.0.1", http.HandlerFunc(sayPath))
			urls := []string{plain + "/http", encrypted + "/https"}
			r := startRun(t, append([]string{"--"}, command(t, urls...)...)...)
			r.wait(0)
			for _, want := range []string{"this is /http", "this is /https"} {
				if !strings.Contains(r.output("stdout"), want) {
					t.Errorf("%q is not on stdout, but %q", want, r.output("stdout"))
				}
			}
			if said := r.output("stderr"); !strings.Contains(said, "warctee: 2 responses and 0 revisits recorded in warcs (1 file, ") {
				t.Errorf("the summary is %q", said)
			}
			r.recorded(urls...)
		})
	}
}

// python is the interpreter itself: some are started by scripts, which look for
// them in HOME.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(tool(t, "python3"), "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Node.js before 22.21 knows no proxies: there the script makes the tunnel.
const nodeClient = `
const http = require('http'), tls = require('tls'), proxy = new URL(process.env.http_proxy)
const known = parseInt(process.versions.node) >= 24
function tunnel(u) {
	return new Promise((done, failed) => http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: u.host})
		.on('connect', (_, socket) => {
			const c = tls.connect({socket, host: u.hostname}, () => c.end('GET ' + u.pathname + ' HTTP/1.1\r\nHost: ' + u.host + '\r\nConnection: close\r\n\r\n'))
			c.on('data', d => process.stdout.write(d)).on('error', failed).on('close', done)
		}).on('error', failed).end())
}
function plain(u) {
	return new Promise((done, failed) => http.get({host: proxy.hostname, port: proxy.port, path: u.href, headers: {Host: u.host}},
		r => { r.pipe(process.stdout); r.on('end', done) }).on('error', failed))
}
(async () => {
	for (const u of process.argv.slice(1).map(a => new URL(a))) {
		if (known) console.log(await (await fetch(u)).text())
		else await (u.protocol === 'https:' ? tunnel(u) : plain(u))
	}
})()`

// Go's client never asks a proxy for what is on this machine's loopback.
func TestRunGo(t *testing.T) {
	plain, encrypted := origins(t, outsideAddress(t), http.HandlerFunc(sayPath))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	urls := []string{plain + "/http", encrypted + "/https"}
	r := startRun(t, "--", "env", "-u", asProgram, goClient+"="+strings.Join(urls, " "), self)
	r.wait(0)
	if got := r.output("stdout"); got != "this is /http\nthis is /https\n" {
		t.Errorf("the client gets %q", got)
	}
	r.recorded(urls...)
}

// outsideAddress is an address of this machine that is not loopback.
func outsideAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no network")
	return ""
}

// A repository is cloned over https, in git's own protocol.
func TestRunGit(t *testing.T) {
	git := tool(t, "git")
	root := t.TempDir()
	runGit := func(args ...string) {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	runGit("init", "-q", "repo")
	runGit("-C", "repo", "commit", "-q", "--allow-empty", "-m", "the first")
	execPath, err := exec.Command(git, "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, encrypted := origins(t, "127.0.0.1", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	r := startRun(t, "--", git, "clone", "-q", encrypted+"/repo/.git", "copy")
	r.wait(0)
	log, err := exec.Command(git, "-C", filepath.Join(r.work, "copy"), "log", "--format=%s").Output()
	if err != nil || string(log) != "the first\n" {
		t.Errorf("the clone has %q, %v", log, err)
	}
	r.recorded(encrypted+"/repo/.git/info/refs?service=git-upload-pack", encrypted+"/repo/.git/git-upload-pack")
}

// Signals reach the command, which decides what becomes of it.
func TestRunForwardsSignals(t *testing.T) {
	// The loop is short, since a shell runs its traps between commands.
	const trapping = `trap 'echo got '%[1]s'; exit 7' %[1]s; echo ready; while :; do sleep 0.05; done`
	for name, sig := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRun(t, "--", "sh", "-c", fmt.Sprintf(trapping, name))
			r.waitFor("ready")
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			r.wait(7)
			if got := r.output("stdout"); got != "ready\ngot "+name+"\n" {
				t.Errorf("the command says %q", got)
			}
			if said, only := strings.CutSuffix(r.output("stderr"), unusedHint); !only || !strings.HasPrefix(said, "warctee: 0 responses") || strings.Count(said, "\n") != 1 {
				t.Errorf("not the summary and the hint alone are on stderr: %q", said)
			}
		})
	}
	t.Run("killed by it", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, "--", "sh", "-c", "echo ready; exec sleep 300")
		r.waitFor("ready")
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.wait(128 + 15)
	})
}

// Ctrl-C reaches the command once: the terminal sends it to both.
func TestRunInTerminal(t *testing.T) {
	master, slave := terminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := prepareRun(t, "--", "env", "-u", asProgram, interruptCounter+"=1", self)
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = slave, slave, slave
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r.start()
	slave.Close()
	var said bytes.Buffer
	waitFor := func(times int, text string) {
		t.Helper()
		b := make([]byte, 1000)
		for strings.Count(said.String(), text) < times {
			n, err := master.Read(b)
			if said.Write(b[:n]); err != nil {
				t.Fatalf("the terminal shows %q, then %v; want %q", said.String(), err, text)
			}
		}
	}
	waitFor(1, "ready")
	const times = 10 // a signal that follows at once is sometimes lost
	for i := range times {
		if _, err := master.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		waitFor(i+1, "interrupted")
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(1, "in all")
	if !strings.Contains(said.String(), fmt.Sprintf("\n%d in all", times)) {
		t.Errorf("the terminal shows %q, want %d interrupts", said.String(), times)
	}
	waitFor(1, "responses")
	<-r.exited
	if got := r.cmd.ProcessState.ExitCode(); got != 0 {
		t.Errorf("exit status %d, want 0", got)
	}
}

// terminal opens a new terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// Those who outlive the command do not keep us: neither an idle one, nor one
// with a transfer under way, which is cut after the grace time.
func TestRunLeavesGrandchildren(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, "--grace", "10m", "--", "sh", "-c", "sleep 300 & echo gone; exit 5")
		r.wait(5)
	})
	t.Run("transferring", func(t *testing.T) {
		t.Parallel()
		curl := tool(t, "curl")
		_, encrypted := origins(t, "127.0.0.1", http.HandlerFunc(trickle))
		r := startRun(t, "--grace", "300ms", "--", "sh", "-c", `"$0" -sN "$1" & until grep -q 'piece 0' stdout; do sleep 0.05; done`, curl, encrypted+"/endless")
		r.wait(exitIncomplete)
		if said := r.output("stderr"); !strings.Contains(said, "1 truncated") || !strings.Contains(said, "the archive is incomplete") {
			t.Errorf("stderr says %q", said)
		}
		r.recorded(encrypted + "/endless")
	})
	t.Run("transferring, command failed", func(t *testing.T) {
		t.Parallel()
		curl := tool(t, "curl")
		plain, _ := origins(t, "127.0.0.1", http.HandlerFunc(trickle))
		r := startRun(t, "--grace", "300ms", "--", "sh", "-c", `"$0" -sN "$1" & until grep -q 'piece 0' stdout; do sleep 0.05; done; exit 9`, curl, plain+"/endless")
		r.wait(9)
		if said := r.output("stderr"); !strings.Contains(said, "the archive is incomplete") {
			t.Errorf("stderr says %q", said)
		}
	})
}

// While what the command has left behind is being finished, a signal cuts it.
func TestRunSignalCuts(t *testing.T) {
	curl := tool(t, "curl")
	plain, _ := origins(t, "127.0.0.1", http.HandlerFunc(trickle))
	r := startRun(t, "--grace", "10m", "--", "sh", "-c", `"$0" -sN "$1" & until grep -q 'piece 0' stdout; do sleep 0.05; done`, curl, plain+"/endless")
	for start := time.Now(); !strings.Contains(r.output("stderr"), "stopping: 1 exchange has"); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > programPatience {
			t.Fatalf("stderr says %q", r.output("stderr"))
		}
	}
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r.wait(exitIncomplete)
}

// The recorder keeps to the roots that it had, whatever the command is given:
// a certificate of its own authority is not one of an origin.
func TestRunOwnRoots(t *testing.T) {
	curl := tool(t, "curl")
	server := httptest.NewTLSServer(http.HandlerFunc(sayPath)) // not signed by originCA
	defer server.Close()
	r := startRun(t, "--", curl, "-sSf", server.URL)
	r.wait(22) // curl: the response is 400 or more
}

// When the proxy stops by itself, that is told, whatever the command makes of it.
func TestSuperviseTellsOfProxy(t *testing.T) {
	for command, want := range map[string]int{"true": 0, "false": 1} {
		s := &server{failed: make(chan error, 1)}
		s.failed <- errors.New("out of order")
		gate, open, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer gate.Close()
		child := exec.Command("sh", "-c", "read x; "+command)
		child.Stdin = gate
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { // ends when the error has been taken
			for len(s.failed) > 0 {
				time.Sleep(time.Millisecond)
			}
			open.Close()
		}()
		err = supervise(context.Background(), child, s, nil)
		if err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("%s: %v", command, err)
		}
		var ended commandError
		if errors.As(err, &ended); ended.code != want {
			t.Errorf("%s: exit code %d, want %d", command, ended.code, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for _, word := range []string{"", "plain", "--a=b", "<-loopback>", "it's", "a b", "$HOME", "`x`", `"`, `\`, "*", "~", "#x", "ä", "a\nb", "!", "a;b"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is quoted as %s, which is %q: %v", word, shellQuote(word), out, err)
		}
	}
}
