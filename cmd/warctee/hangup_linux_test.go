package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/warctee/warctee/warc/warctest"
)

// startInTerminal starts `warctee record` in a new terminal, whose session starts
// with a shell that runs the script. In it "$@" is the program.
func startInTerminal(t *testing.T, script string) (p *program, closeTerminal func()) {
	t.Helper()
	master, slave := terminal(t)
	defer slave.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	program := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca"))
	cmd := exec.Command(tool(t, "sh"), append([]string{"-c", script, "sh"}, program.Args...)...)
	cmd.Env = program.Env
	cmd.Stdin = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setctty: true} // stdin
	p = startCommand(t, cmd)
	p.dir = dir
	return p, func() {
		if err := master.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// When its terminal is closed the recording ends as with SIGTERM, wherever it
// stands in the session: a download under way is finished and recorded.
func TestTerminalHangsUp(t *testing.T) {
	for name, script := range map[string]string{
		"session leader":         `exec "$@"`,
		"foreground":             `"$@"; true`,
		"beside another process": `"$@" & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin := httptest.NewServer(http.HandlerFunc(trickle))
			defer origin.Close()
			p, closeTerminal := startInTerminal(t, script)
			resp, err := p.client(false).Get(origin.URL + "/slow")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			closeTerminal()
			p.waitForLog("warctee: stopping: 1 exchange")
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != trickled("/slow") {
				t.Errorf("the client gets %d octets, %v", len(body), err)
			}
			p.waitForLog("1 response and 0 revisits recorded")
			<-p.exited
			onlyRecord(t, warctest.Check(t, p.dir), "response", origin.URL+"/slow")
			if open, _ := filepath.Glob(filepath.Join(p.dir, "*.open")); len(open) > 0 {
				t.Errorf("%q is left", open)
			}
		})
	}
}

// Under nohup the recording outlives the terminal, and SIGHUP finishes the file.
func TestTerminalHangsUpUnderNohup(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(sayPath))
	defer origin.Close()
	p, closeTerminal := startInTerminal(t, `trap '' HUP; exec "$@"`)
	get := func(path string) {
		t.Helper()
		resp, err := p.client(false).Get(origin.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	get("/1")
	p.waitForRecords(1)
	closeTerminal()
	p.waitForLog("a file was finished")
	get("/2")
	p.stop()
	records := warctest.Check(t, p.dir)
	onlyRecord(t, records, "response", origin.URL+"/1")
	onlyRecord(t, records, "response", origin.URL+"/2")
}

// When the program that reads the log has ended, the recording goes on.
func TestLogReaderEnds(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(sayPath))
	defer origin.Close()
	dir := filepath.Join(t.TempDir(), "warcs")
	cmd := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca"))
	inOwnSession(cmd)
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	w.Close()
	line, err := bufio.NewReader(log).ReadString('\n')
	m := startLine.FindStringSubmatch(line)
	if err != nil || m == nil {
		t.Fatalf("it starts with %q, %v", line, err)
	}
	log.Close()
	proxy, err := url.Parse(m[1])
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	for _, u := range []string{"http://127.0.0.1:1/", origin.URL + "/there"} { // the first gives a line of the log
		resp, err := client.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	onlyRecord(t, warctest.Check(t, dir), "response", origin.URL+"/there")
	if open, _ := filepath.Glob(filepath.Join(dir, "*.open")); len(open) > 0 {
		t.Errorf("%q is left", open)
	}
}
