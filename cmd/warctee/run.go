package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes of run besides COMMAND's own, as a shell has them.
const (
	exitCannotExecute = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the number of the signal
)

// A commandError tells how the command of run ended. Its exit code becomes ours.
type commandError struct {
	code  int
	cause error // what there is to say about it besides; nil: nothing
}

func (e commandError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.cause.Error()
}

func (e commandError) Unwrap() error { return e.cause }

func newRunCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command and record what it fetches",
		Long: `Run a command and record what it fetches. A recording proxy is started on a
free port, COMMAND with an environment that leads it there:

  http_proxy, https_proxy (in both cases)  the proxy
  no_proxy, all_proxy (in both cases)      removed
  SSL_CERT_FILE, CURL_CA_BUNDLE,           a file with the system's root certificates
  REQUESTS_CA_BUNDLE, GIT_SSL_CAINFO       and that of warctee
  NODE_EXTRA_CA_CERTS, NODE_USE_ENV_PROXY  for Node.js
  WGETRC                                   for wget, your own included
  WARCTEE_CHROMIUM_FLAGS                   for Chromium, with a profile of its own:
                                           chromium $WARCTEE_CHROMIUM_FLAGS URL
  WARCTEE_CHROMIUM_FLAGS_NO_PROFILE        the same without the profile, for what makes
                                           one itself: Playwright, Puppeteer

A program that asks none of these is not recorded. Signals are passed on. When
COMMAND has ended, what is under way is finished (see --grace) and a summary is
printed.

Exit status: COMMAND's if that is not zero (128 and the number of the signal
that killed it; 126 it cannot be executed; 127 it is not found), else that of
record: 0 all recorded; 1 an error; 2 wrong usage; 3 something that COMMAND was
given is truncated in the archive or missing from it, or requests were refused
because of the disk, or recording was paused at the end.`,
		Example: `  warctee run -- curl https://example.com/
  warctee run --dir /srv/warcs --prefix MYSITE -- wget --mirror https://example.com/
  warctee run -- sh -c 'chromium $WARCTEE_CHROMIUM_FLAGS https://example.com/'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usageError{errors.New("run: there is no command to be run, as in: warctee run -- curl https://example.com/")}
			}
			return nil
		},
		PreRunE: f.readEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			child := exec.Cmd{Args: args, Stdin: cmd.InOrStdin(), Stdout: rawWriter(cmd.OutOrStdout()), Stderr: rawWriter(cmd.ErrOrStderr())}
			return f.runCommand(cmd.Context(), &child, cmd.ErrOrStderr())
		},
	}
	f.addTo(cmd)
	listen := cmd.Flags().Lookup("listen")
	f.listen, listen.DefValue = "127.0.0.1:0", "127.0.0.1:0"
	listen.Usage = "loopback address and port to listen on; port 0 takes a free one"
	for _, refused := range []string{"allow-client", "auth"} { // by checkRun
		cobra.CheckErr(cmd.Flags().MarkHidden(refused))
	}
	cmd.Flags().SetInterspersed(false) // what follows COMMAND is its own
	return cmd
}

// runCommand records what child fetches, until child ends.
func (f *recordFlags) runCommand(ctx context.Context, child *exec.Cmd, stderr io.Writer) error {
	err := f.access.checkRun(f.listen)
	if err != nil {
		return err
	}
	if child.Path, err = exec.LookPath(child.Args[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		return cannotRun(child.Args[0], err)
	}
	dir, err := os.MkdirTemp("", "warctee-run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer f.limits.aimMemory()()
	log := f.logger(stderr)
	defer surviveBrokenPipes()()
	signals := forwardedSignals() // before others change what is ignored
	defer signal.Stop(signals)
	starting, started := f.untilSignal(ctx)
	defer started()
	s, err := f.start(starting, log)
	if err != nil {
		return err
	}
	if starting.Err() != nil {
		return errors.Join(fmt.Errorf("the command was not run: %w", context.Cause(starting)), s.stop(ctx))
	}
	started()
	env := environment{proxy: "http://" + s.listener.Addr().String(), authority: s.authority.Certificate(), dir: dir, log: log}
	if child.Env, err = env.build(os.Environ()); err != nil {
		return errors.Join(err, s.stop(ctx))
	}
	if f.printChromium {
		fmt.Fprintln(stderr, shellLine(env.chromiumFlags()))
	}
	if err := child.Start(); err != nil {
		return errors.Join(cannotRun(child.Args[0], err), s.stop(ctx))
	}
	err = supervise(ctx, child, s, signals)
	// From now on signals cut what is under way, as in record. Those that the
	// command was ended with have had their effect.
	last := make(chan os.Signal, 4)
	signal.Notify(last, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(last)
	signal.Stop(signals)
	drained := f.drain(s, last, stderr)
	if s.status(f).unused() {
		fmt.Fprint(f.quiet.notes(stderr), unusedHint)
	}
	var ended commandError
	if errors.As(err, &ended) && drained != nil {
		tell(stderr, drained) // the exit code is the command's
		return err
	}
	return errors.Join(err, drained)
}

// unusedHint is printed when nothing came from the command.
const unusedHint = `warctee: nothing was recorded: the command did not send any request to the proxy. Did it
  - fetch nothing, or need no network?
  - run Node.js before 22.21 or 24.5, which ignores proxy variables? Use a later one, or a proxy agent
  - run a Go program that fetches from localhost or 127.0.0.1? Go never uses a proxy for these; use another address
  - run Chromium, Playwright or Puppeteer without $WARCTEE_CHROMIUM_FLAGS or $WARCTEE_CHROMIUM_FLAGS_NO_PROFILE?
  - use a proxy setting of its own, as in .curlrc or git's http.proxy, or ignore http_proxy and https_proxy?
`

// unused reports whether no client has asked for anything.
func (s serverStatus) unused() bool {
	return s.Responses+s.Revisits+s.Incomplete+s.Failures+s.Unstorable+s.Forbidden+s.Lost+s.LostRecords == 0 &&
		s.TLSTunnels+s.PlainTunnels+s.NotRecorded+s.TLSFailures+s.BadRequests+s.Refused+s.Denied+s.BadLogins == 0
}

// cannotRun is the error of a command that could not be started.
func cannotRun(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return commandError{exitNotFound, fmt.Errorf("cannot find the command %q in PATH", name)}
	case errors.Is(err, fs.ErrNotExist):
		return commandError{exitNotFound, fmt.Errorf("cannot run %q: there is no such file, or not the interpreter that it names", name)}
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return commandError{exitCannotExecute, fmt.Errorf("cannot run %q: %w", name, err)}
}

// supervise waits for the end of child and passes signals on to it. The error is
// a commandError when child failed, another when the proxy did.
func supervise(ctx context.Context, child *exec.Cmd, s *server, signals chan os.Signal) error {
	ended := make(chan struct{})
	go func() { // ends with the child
		defer close(ended)
		child.Wait() // what it tells is in ProcessState
	}()
	var stopped error
	done, interrupted := ctx.Done(), false
	for {
		select {
		case <-done:
			done = nil
			child.Process.Signal(syscall.SIGTERM)
		case err := <-s.failed:
			stopped = fmt.Errorf("the proxy has stopped: %w", err)
		case sig := <-signals:
			interrupted = interrupted || sig == syscall.SIGINT
			if !fromTerminal(sig) {
				child.Process.Signal(sig) // an error: it has just ended
			}
		case <-ended:
			code := exitCode(child.ProcessState)
			if code == exitSignal+int(syscall.SIGINT) && !interrupted {
				// It came from a terminal: ours is still on its way, and must
				// not be taken for the wish to cut what is under way.
				select {
				case <-signals:
				case <-time.After(100 * time.Millisecond):
				}
			}
			if code != 0 {
				return commandError{code, stopped}
			}
			return stopped
		}
	}
}

// exitCode is what a shell makes of the end of a process.
func exitCode(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitSignal + int(w.Signal())
	}
	return state.ExitCode()
}

// forwardedSignals receives the signals that are passed on to the command,
// except for those that we were started to ignore (see nohup).
func forwardedSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, sig := range passedOn {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	return signals
}

// shellLine makes of words what can be pasted into a shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return strings.Join(quoted, " ")
}

func shellQuote(word string) string {
	safe := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_=+./:,@%", c)
	}
	if word != "" && strings.TrimFunc(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
