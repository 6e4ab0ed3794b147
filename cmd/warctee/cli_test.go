package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// TestScripts runs testdata/*.txtar. Besides the commands of testscript they
// have those of scriptCommands, and the variables ORIGIN and SECURE_ORIGIN: the
// URLs of servers that answer with the path.
func TestScripts(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "this is %s", r.URL.Path)
	})
	plain := httptest.NewServer(answer)
	defer plain.Close()
	encrypted := httptest.NewTLSServer(answer)
	defer encrypted.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scripts", func(t *testing.T) { // waits for the parallel ones
		testscript.Run(t, testscript.Params{
			Dir:                 "testdata",
			RequireExplicitExec: true,
			RequireUniqueNames:  true,
			Cmds:                scriptCommands,
			Setup: func(env *testscript.Env) error {
				t := env.T().(testing.TB)
				bin := filepath.Join(t.TempDir(), "warctee")
				if err := os.Symlink(self, bin); err != nil {
					return err
				}
				env.Values[scriptKey{}] = &scriptState{t: t, bin: bin}
				home := filepath.Join(env.WorkDir, "home")
				env.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"))
				env.Setenv("HOME", home)
				env.Setenv("XDG_CONFIG_HOME", "")
				env.Setenv(asProgram, "1")
				env.Setenv("GORACE", strings.TrimPrefix(quickExit, "GORACE="))
				env.Setenv("SSL_CERT_FILE", httptestCertificate(t))
				env.Setenv("NL", "\n")
				env.Setenv("ORIGIN", plain.URL)
				env.Setenv("SECURE_ORIGIN", encrypted.URL)
				return os.Mkdir(home, 0o755)
			},
		})
	})
}

type scriptKey struct{}

// A scriptState is what the commands of one script share.
type scriptState struct {
	t       testing.TB
	bin     string
	program *program
}

func stateOf(ts *testscript.TestScript) *scriptState {
	return ts.Value(scriptKey{}).(*scriptState)
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"fails":    scriptFails,
	"unhex":    scriptUnhex,
	"start":    scriptStart,
	"signal":   scriptSignal,
	"exits":    scriptExits,
	"get":      scriptGet,
	"written":  scriptWritten,
	"finished": scriptFinished,
	"dump":     scriptDump,
}

// unhex FILE…: makes FILE of FILE.hex, which has its octets in hexadecimal.
func scriptUnhex(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		b, err := hex.DecodeString(strings.TrimSpace(ts.ReadFile(name + ".hex")))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), b, 0o600))
	}
}

// fails CODE ARG…: warctee fails with that exit code, and says one sentence.
func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("warctee", args[1:]...)
	var exit *exec.ExitError
	if neg || !errors.As(err, &exit) {
		ts.Fatalf("want a failure, got %v", err)
	}
	if got := strconv.Itoa(exit.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
	if said := ts.ReadFile("stderr"); !strings.HasPrefix(said, "warctee: ") || strings.Contains(said, "goroutine ") || strings.Contains(said, "Usage:") {
		ts.Fatalf("a failure should start with one sentence, this one says %q", said)
	}
	if said := ts.ReadFile("stdout"); said != "" {
		ts.Fatalf("a failure writes to stdout: %q", said)
	}
}

// start ARG…: starts `warctee record ARG…`, on a free port if no other is given.
// PROXY is its URL, LISTEN its address, PID its process, CA its certificate.
func scriptStart(ts *testscript.TestScript, _ bool, args []string) {
	s := stateOf(ts)
	if !slices.Contains(args, "--listen") {
		args = append([]string{"--listen", "127.0.0.1:0"}, args...)
	}
	cmd := exec.Command(s.bin, append([]string{"record"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	names := []string{asProgram, "GORACE", "HOME", "XDG_CONFIG_HOME", "SSL_CERT_FILE"}
	newRecordCommand().Flags().VisitAll(func(f *pflag.Flag) { names = append(names, envName(f.Name)) })
	for _, name := range names {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	s.program = startCommand(s.t, cmd)
	ts.Setenv("PROXY", s.program.proxy.String())
	ts.Setenv("LISTEN", s.program.proxy.Host)
	ts.Setenv("PID", strconv.Itoa(cmd.Process.Pid))
	ts.Setenv("CA", s.program.caFile)
}

// signal NAME: sends SIGTERM, SIGINT or SIGHUP.
func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	stateOf(ts).program.signal(signals[args[0]])
}

// exits CODE: waits for the end. What the program has said is in stderr.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	p := stateOf(ts).program
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	p.wait(want)
	io.WriteString(ts.Stderr(), p.log())
}

// get PATH: fetches an absolute URL through the proxy, or a page of the proxy
// itself, to stdout; content types to stderr.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	p := stateOf(ts).program
	client, u := p.client(false), args[0]
	if strings.HasPrefix(u, "/") {
		client, u = http.DefaultClient, p.proxy.String()+u
	}
	resp, err := client.Get(u)
	ts.Check(err)
	defer resp.Body.Close()
	if neg == (resp.StatusCode == http.StatusOK) {
		ts.Fatalf("the response is %s", resp.Status)
	}
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stderr(), "%s\n", resp.Header.Get("Content-Type"))
}

// written N: waits until N responses and revisits have been written.
func scriptWritten(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	stateOf(ts).program.waitForRecords(n)
}

// finished: waits until no file is being written.
func scriptFinished(ts *testscript.TestScript, _ bool, _ []string) {
	for start := time.Now(); stateOf(ts).program.status().File != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > programPatience {
			ts.Fatalf("a file is still being written")
		}
	}
}

// dump DIR: checks the files of a directory and writes the headers of their
// records to stdout, and the blocks of warcinfo.
func scriptDump(ts *testscript.TestScript, _ bool, args []string) {
	for _, r := range warctest.Check(stateOf(ts).t, ts.MkAbs(args[0])) {
		fmt.Fprintf(ts.Stdout(), "%s\nWARC/%s\n", filepath.Base(r.File), r.Version)
		for _, f := range r.Header {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", f.Name, f.Value)
		}
		if r.Type == warc.TypeWarcinfo {
			block, err := r.Block()
			ts.Check(err)
			fmt.Fprintf(ts.Stdout(), "%s", bytes.ReplaceAll(block, []byte("\r\n"), []byte("\n")))
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                    0,
		"1000000":              1_000_000,
		"1GB":                  1_000_000_000,
		"500MiB":               500 << 20,
		"1.5kB":                1500,
		"16 GiB":               16 << 30,
		"2tb":                  2_000_000_000_000,
		"":                     -1,
		"-1":                   -1,
		"1e3":                  -1,
		"big":                  -1,
		"1GBs":                 -1,
		"10EiB":                -1, // more than an int64
		"1GB 2":                -1,
		"0x10":                 -1,
		"９":                    -1,
		"1\n2":                 -1,
		"NaN":                  -1,
		"99999999999999999999": -1,
	} {
		var s sizeFlag
		switch err := s.Set(text); {
		case want < 0 && err == nil:
			t.Errorf("%q is taken as %d", text, int64(s))
		case want >= 0 && (err != nil || int64(s) != want):
			t.Errorf("%q gives %d, %v; want %d", text, int64(s), err, want)
		}
	}
	for _, n := range []int64{0, 1, 1000, 1024, 1_000_000_000, 16 << 30, 500 << 20} {
		s := sizeFlag(n)
		var again sizeFlag
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%d is shown as %q, which is read as %d, %v", n, s.String(), int64(again), err)
		}
	}
}
