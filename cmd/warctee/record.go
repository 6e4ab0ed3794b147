package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/resolve"
	"github.com/warctee/warctee/warc"
)

// recordFlags are the flags of record.
type recordFlags struct {
	listen   string
	dir      string
	caDir    string
	prefix   string
	maxSize  sizeFlag
	oversize *choiceFlag
	maxAge   time.Duration
	maxBody  sizeFlag
	timeout  time.Duration
	insecure bool
	resolver string
	noDNS    bool // records
	digest   *choiceFlag
	version  *choiceFlag
	compress compressFlags
	dedup    string
	inFlight int
	grace    time.Duration
	logLevel *choiceFlag
	quiet    quietFlag
	warcinfo fieldsFlag
	strict   bool

	failureLog     string
	recordFailures bool

	limits  limitFlags
	access  accessFlags
	storage storageFlags

	printChromium bool

	endOnHangUp bool // SIGHUP ends the recording: it comes from the terminal
}

func newRecordCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Start the recording proxy",
		Long: `Start the recording proxy. It runs until SIGINT or SIGTERM, then finishes what
is under way (see --grace; a second signal cuts it) and leaves final files. When
it was started from a terminal, closing that (SIGHUP) ends it too. Without a
terminal, and under nohup, SIGHUP finishes the current file and starts a new one.

Each flag can also be given as an environment variable: --max-size as
WARCTEE_MAX_SIZE, and so on. Sizes are numbers of bytes, or 1GB, 500MiB.

Exit status: 0 all recorded; 1 an error; 2 wrong usage; 3 something that a
client was given is truncated in the archive or missing from it, or requests
were refused because of the disk, or recording was paused at the end.`,
		Example: `  warctee record
  warctee record --dir /srv/warcs --prefix MYCRAWL --max-size 5GB --warcinfo 'operator=Jane Doe'`,
		Args:    noArgs,
		PreRunE: f.readEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.endOnHangUp = hasTerminal() && !signal.Ignored(syscall.SIGHUP)
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.addTo(cmd)
	return cmd
}

// readEnvironment takes the flags that are in the environment, and tells of what
// looks like one there.
func (f *recordFlags) readEnvironment(cmd *cobra.Command, _ []string) error {
	if err := fromEnvironment(cmd.Flags()); err != nil {
		return err
	}
	for _, sentence := range unknownVariables(cmd.Flags(), os.Environ()) {
		f.logger(cmd.ErrOrStderr()).Warn(sentence)
	}
	return nil
}

// addTo gives cmd the flags, and lets the shell complete them.
func (f *recordFlags) addTo(cmd *cobra.Command) {
	f.register(cmd.Flags())
	cmd.SetUsageFunc(usageInSections)
	for _, dirs := range []string{"dir", "ca-dir"} {
		cobra.CheckErr(cmd.MarkFlagDirname(dirs))
	}
	cobra.CheckErr(cmd.MarkFlagFilename("auth"))
	f.digest.complete(cmd, "digest")
	f.version.complete(cmd, "warc-version")
	f.compress.compression.complete(cmd, "compress")
	f.oversize.complete(cmd, "oversize")
	f.logLevel.complete(cmd, "log-level")
	f.storage.onFailure.complete(cmd, "on-failure")
}

func (f *recordFlags) register(flags *pflag.FlagSet) {
	f.maxSize, f.maxBody = 1e9, 16<<30
	f.digest = choice("sha256", "sha1")
	f.version = choice("1.1", "1.0")
	f.oversize = choice("whole", "segment", "truncate")
	f.logLevel = choice("info", "debug", "warn", "error")
	flags.SortFlags = false
	f.listen, f.dir, f.prefix = "127.0.0.1:8000", "./warcs", "warctee"
	text(flags, &f.listen, "listen", "ADDRESS", "address and port to listen on; port 0 takes a free one")
	text(flags, &f.dir, "dir", "DIR", "directory for the WARC files; made when missing")
	text(flags, &f.caDir, "ca-dir", "DIR", "directory with the certificate authority; made when missing (default: warctee in the user's config directory)")
	text(flags, &f.prefix, "prefix", "NAME", "start of the names of the files")
	flags.Var(&f.maxSize, "max-size", "size at which a file is finished and a new one started")
	flags.Var(f.oversize, "oversize", "what becomes of a record that does not fit a file of that size: it makes its file larger, is divided into segments in several files, or is cut")
	flags.DurationVar(&f.maxAge, "max-age", 0, "age at which a file is finished, such as 1h (default: any)")
	flags.Var(&f.maxBody, "max-body", "octets of a body, as on the wire, that are recorded in each direction; the client gets all. 0 means no limit")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "bound on silence of an origin: while connecting, before the reply, between parts of the body; never on the whole")
	flags.BoolVar(&f.insecure, "insecure-upstream", false, "accept invalid certificates of origins")
	text(flags, &f.resolver, "resolver", "ADDRESS", "DNS server to ask: udp://ADDRESS, tcp://ADDRESS or tls://NAME, each with or without a port (default: those of the system)")
	flags.BoolVar(&f.noDNS, "no-dns-records", false, "leave out the records of DNS look-ups")
	flags.Var(f.digest, "digest", "digest algorithm of the records")
	flags.Var(f.version, "warc-version", "version of the records")
	f.compress.register(flags)
	text(flags, &f.dedup, "dedup", "off|memory:|bolt:PATH", "where payloads are remembered, so that repeated ones become revisit records (default: bolt:DIR/dedup.bolt with the DIR of --dir)")
	flags.IntVar(&f.inFlight, "max-in-flight", 256, "exchanges under way at once; further ones wait")
	flags.DurationVar(&f.grace, "grace", 10*time.Second, "time that exchanges under way have to end after SIGTERM")
	flags.Var(f.logLevel, "log-level", "least level of what is logged")
	flags.BoolVarP((*bool)(&f.quiet), "quiet", "q", false, "print no line at the start and no summary at the end; the log and errors are still printed")
	flags.Var(&f.warcinfo, "warcinfo", "further field for the warcinfo records, such as operator, description, isPartOf or robots; may be repeated")
	flags.BoolVar(&f.strict, "strict", false, "leave out the fields that the standard does not define")
	text(flags, &f.failureLog, "failure-log", "FILE", "file for a line of JSON about everything that gave no response record, or off (default: DIR/failures.jsonl with the DIR of --dir)")
	flags.BoolVar(&f.recordFailures, "record-failures", false, "write a metadata record for each exchange without a response")
	inSection(flags, "Access", f.access.register)
	inSection(flags, "Storage", f.storage.register)
	inSection(flags, "Limits", f.limits.register)
	flags.BoolVar(&f.printChromium, "print-chromium-flags", false, "start, and print the flags that Chromium wants as a line for a shell")
}

// maxInFlight bounds --max-in-flight: each exchange needs two connections.
const maxInFlight = 100_000

// minBounded is the least --max-size that no file may exceed: half of it for the
// start of the file and the header of a record, and half for its block.
const minBounded = 128 << 10

// oversizes are the values of --oversize.
var oversizes = map[string]recorder.Oversize{"whole": recorder.OversizeWhole, "segment": recorder.OversizeSegment, "truncate": recorder.OversizeTruncate}

// check refuses what the parser of the flags could not.
func (f *recordFlags) check() error {
	if err := resolve.CheckServer(f.resolver); f.resolver != "" && err != nil {
		return usageError{fmt.Errorf("--resolver: %w", err)}
	}
	_, port, err := net.SplitHostPort(f.listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usageError{fmt.Errorf("--listen %s: not an address and a port, such as 127.0.0.1:8000", f.listen)}
	}
	if f.dir == "" {
		return usageError{errors.New("--dir is empty")}
	}
	if err := f.access.check(f.listen); err != nil {
		return err
	}
	if f.inFlight > maxInFlight {
		return usageError{fmt.Errorf("--max-in-flight %d: more than %d", f.inFlight, maxInFlight)}
	}
	if err := firstBad([]bound{
		{"max-in-flight", f.inFlight, f.inFlight >= 1, "it must be at least 1"},
		{"max-size", &f.maxSize, f.maxSize >= 1, "it must be at least 1"},
		{"max-size", &f.maxSize, f.oversize.value == "whole" || f.maxSize >= minBounded, "with --oversize " + f.oversize.value + " it must be at least 128KiB"},
		{"timeout", f.timeout, f.timeout > 0, "it must be more than 0"},
		{"max-age", f.maxAge, f.maxAge >= 0, "it must not be negative"},
		{"grace", f.grace, f.grace >= 0, "it must not be negative"},
	}); err != nil {
		return err
	}
	if f.prefix == "" || !recorder.ValidPrefix(f.prefix) {
		return usageError{fmt.Errorf("--prefix %q: a file name cannot start so: 1 to 100 bytes, no dot or space in front, no / \\ or control characters", f.prefix)}
	}
	if err := errors.Join(f.limits.check(), f.storage.check(f.dir), f.compress.check()); err != nil {
		return err
	}
	if kind, path, _ := strings.Cut(f.dedup, ":"); f.dedup != "" && f.dedup != "off" && f.dedup != "memory:" && (kind != "bolt" || path == "") {
		return usageError{fmt.Errorf("--dedup %s: not one of off, memory: and bolt:PATH", f.dedup)}
	}
	return nil
}

func (f *recordFlags) recorderOptions(log *slog.Logger) (recorder.Options, error) {
	digest, err := warc.ParseAlgorithm(f.digest.value)
	if err != nil {
		return recorder.Options{}, usageError{err}
	}
	o := recorder.Options{
		Dir:               f.dir,
		Prefix:            f.prefix,
		MaxSize:           int64(f.maxSize),
		Oversize:          oversizes[f.oversize.value],
		MaxAge:            f.maxAge,
		Version:           warc.Version(f.version.value),
		Digest:            digest,
		Software:          "warctee/" + version,
		Warcinfo:          f.warcinfo,
		MaxBody:           int64(f.maxBody),
		MaxInFlight:       f.inFlight,
		MaxLong:           f.limits.maxLong,
		MaxConnsPerOrigin: f.limits.maxConnsPerOrigin,
		MaxConnsPerTunnel: f.limits.maxConnsPerTunnel,
		MaxReplyHead:      int(f.limits.maxReplyHead),
		MaxReplyFields:    f.limits.maxReplyFields,
		SpoolMemory:       int64(f.limits.spoolMemory),
		SpoolDisk:         int64(f.limits.spoolDisk),
		Timeout:           f.timeout,
		InsecureUpstream:  f.insecure,
		Strict:            f.strict,
		RecordFailures:    f.recordFailures,
		Logger:            log,
	}
	if o.MaxBody == 0 {
		o.MaxBody = recorder.Unlimited
	}
	if err := f.compress.addTo(&o); err != nil {
		return recorder.Options{}, err
	}
	f.storage.addTo(&o)
	if f.dedup != "off" {
		o.OpenIndex = func() (dedup.Index, error) { return f.openIndex(log) }
	}
	return o, nil
}

// failureLogPath is the file that --failure-log names, "" for none.
func (f *recordFlags) failureLogPath() string {
	switch f.failureLog {
	case "":
		return filepath.Join(f.dir, "failures.jsonl")
	case "off":
		return ""
	}
	return f.failureLog
}

// openIndex opens what --dedup names, which check has looked at.
func (f *recordFlags) openIndex(log *slog.Logger) (dedup.Index, error) {
	if f.dedup == "memory:" {
		return dedup.NewMemory(), nil
	}
	path := strings.TrimPrefix(f.dedup, "bolt:")
	if path == "" {
		path = filepath.Join(f.dir, "dedup.bolt")
	}
	index, err := dedup.OpenBolt(path, log)
	if err != nil {
		return nil, fmt.Errorf("%w (--dedup)", err)
	}
	return index, nil
}

func (f *recordFlags) defaultCADir() error {
	dir, err := defaultCADir(f.caDir)
	f.caDir = dir
	return err
}

// defaultCADir is dir, or where the certificate authority is if that is not said.
func defaultCADir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the user's config directory (give --ca-dir): %w", err)
	}
	return filepath.Join(config, "warctee"), nil
}

func (f *recordFlags) logger(stderr io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel.value)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: shortenAttr}))
}

// shortenAttr bounds what a line of the log has of one text: the log may be on the
// disk of the archive.
func shortenAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(shortened(v))
	case error:
		a.Value = slog.StringValue(shortened(v.Error()))
	}
	return a
}

// run records until a signal comes or ctx is done.
func (f *recordFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	defer surviveBrokenPipes()()

	defer f.limits.aimMemory()()
	log := f.logger(stderr)
	starting, started := f.untilSignal(ctx)
	defer started()
	s, err := f.start(starting, log)
	if err != nil {
		return err
	}
	started() // a signal that came meanwhile is in signals too
	fmt.Fprintf(f.quiet.notes(stderr), "warctee: recording http://%s into %s (CA certificate: %s)\n", s.listener.Addr(), harmless(f.dir), harmless(s.authority.CertPath()))
	if f.printChromium {
		// The shell makes the directory of the profile.
		flags := chromiumFlags("http://"+s.listener.Addr().String(), s.authority.Certificate())
		fmt.Fprintln(stdout, shellLine(flags), `--user-data-dir="$(mktemp -d)"`)
	}
	err = s.wait(ctx, signals, f.endOnHangUp, log)
	return errors.Join(err, f.drain(s, signals, stderr))
}

// untilSignal returns a context that a signal ends, one that would end the
// recording.
func (f *recordFlags) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.endOnHangUp {
		return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// surviveBrokenPipes keeps the process alive when the program that reads its
// output has ended, for example with the terminal: what is under way has to be
// recorded all the same. The result undoes it.
func surviveBrokenPipes() (undo func()) {
	pipes := make(chan os.Signal, 1) // nobody reads it: to have asked is enough
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// wait returns when a signal ends the recording, ctx is done, or the proxy stops
// by itself, which is its error. SIGHUP ends the recording when endOnHangUp says
// so, and else finishes the current file.
func (s *server) wait(ctx context.Context, signals <-chan os.Signal, endOnHangUp bool, log *slog.Logger) error {
	rotate := make(chan struct{}, 1)
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with done; a Rotate under way ends when the recorder is closed
		for {
			select {
			case <-rotate:
			case <-done:
				return
			}
			err := s.recorder.Rotate()
			select {
			case <-done: // the files are finished anyway
				return
			default:
			}
			if err != nil {
				log.Error("cannot finish the current file", "error", err)
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failed:
			return fmt.Errorf("the proxy has stopped: %w", err)
		case sig := <-signals:
			if sig != syscall.SIGHUP || endOnHangUp {
				return nil
			}
			select {
			case rotate <- struct{}{}:
			default: // one is to begin anyway
			}
		}
	}
}

// drain stops within the grace time; another signal ends that at once.
func (f *recordFlags) drain(s *server, signals <-chan os.Signal, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), f.grace)
	defer cancel()
	watched := make(chan struct{})
	soon := time.After(200 * time.Millisecond) // most end before that
	go func() {                                // ends with cancel
		defer close(watched)
		for {
			select {
			case <-ctx.Done():
				return
			case <-soon:
				if status := s.recorder.Status(); status.InFlight+status.Long > 0 {
					n := status.InFlight + status.Long
					fmt.Fprintf(f.quiet.notes(stderr), "warctee: stopping: %s up to %s to end (a signal cuts it short)\n", english.Plural(n, "exchange has", "exchanges have"), f.grace)
				}
			case sig := <-signals:
				if sig != syscall.SIGHUP {
					cancel()
				}
			}
		}
	}()
	err := s.stop(ctx)
	cancel()
	<-watched
	status := s.status(f)
	fmt.Fprintln(f.quiet.notes(stderr), harmless(summary(status, s.recorder.Status().Files, s.authority.CertPath())))
	return errors.Join(status.incomplete(), err)
}

// incomplete says what is missing from the archive, or may be; nil: nothing.
func (s serverStatus) incomplete() error {
	var what []string
	if s.Incomplete > 0 || s.Lost > 0 {
		what = append(what, fmt.Sprintf("%s recorded in part, %d not at all", english.Plural(int(s.Incomplete), "response was", "responses were"), s.Lost))
	}
	if s.LostRecords > 0 {
		what = append(what, fmt.Sprintf("%s lost", english.Plural(int(s.LostRecords), "record of a look-up, failure or bad reply is", "records of look-ups, failures or bad replies are")))
	}
	if s.Damaged == 0 { // else that is the error
		if s.Unstorable > 0 {
			what = append(what, fmt.Sprintf("%s refused because of the disk", english.Plural(int(s.Unstorable), "request was", "requests were")))
		}
		if s.State == "paused" || s.State == "stopped" {
			what = append(what, fmt.Sprintf("recording was %s at the end: %s", s.State, s.Error))
		}
	}
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errIncomplete, strings.Join(what, "; "))
}

// summary tells a person what was done.
func summary(s serverStatus, files int64, caFile string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "warctee: %s and %s recorded in %s", english.Plural(int(s.Responses), "response", ""), english.Plural(int(s.Revisits), "revisit", ""), s.Dir)
	fmt.Fprintf(&b, " (%s, %s received, %s written)", english.Plural(int(files), "file", ""), humanize.Bytes(uint64(s.Received)), humanize.Bytes(uint64(s.Written)))
	for _, n := range []struct {
		count     int64
		what, all string
	}{
		{s.Truncated, "truncated", "truncated"},
		{s.Failures, "request without a response", "requests without a response"},
		{s.Forbidden, "request refused because of where it goes", "requests refused because of where they go"},
		{s.Denied, "connection of a client that may not use the proxy", "connections of clients that may not use the proxy"},
		{s.TLSFailures, "TLS connection failed: does the client trust " + caFile + "?", "TLS connections failed: do the clients trust " + caFile + "?"},
		{s.Pauses, "pause because of the disk", "pauses because of the disk"},
		{s.Unstorable, "REQUEST REFUSED BECAUSE OF THE DISK", "REQUESTS REFUSED BECAUSE OF THE DISK"},
		{s.Damaged, "FILE DAMAGED OR GONE", "FILES DAMAGED OR GONE"},
		{s.NotRecorded, "tunnel not recorded", "tunnels not recorded"},
		{s.Lost, "RESPONSE LOST", "RESPONSES LOST"},
		{s.LostRecords, "OTHER RECORD LOST", "OTHER RECORDS LOST"},
	} {
		if n.count > 0 {
			fmt.Fprintf(&b, "; %s", english.Plural(int(n.count), n.what, n.all))
		}
	}
	return b.String()
}
