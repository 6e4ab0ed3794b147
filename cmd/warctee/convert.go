package main

import (
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/convert"
	"github.com/warctee/warctee/warc"
)

// keep is the choice of what a file is already.
const keep = "keep"

// convertFlags are the flags of convert.
type convertFlags struct {
	compress   *choiceFlag
	version    *choiceFlag
	dictionary string
	lengths    bool
	out        string
	force      bool
	jobs       int
	quiet      quietFlag

	with      string
	mediaType string
	newType   string
	timeLimit time.Duration
	maxResult sizeFlag
	date      string
}

func newConvertCommand() *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "convert [flags] FILE…",
		Short: "Convert ARC to WARC, and WARC to another compression or version",
		Long: `Convert archive files; the originals stay as they are. ARC files become WARC
files. WARC files are compressed in another way, record by record, or become
those of another version. With --with, conversion records are added: a command
makes a new format of each payload of a media type.

A directory means the ARC and WARC files in it and below it. NAME.arc.gz becomes NAME.warc.gz
beside it, or in the directory of --out. What was written is read again and
compared with what was read before it gets its name. docs/convert.md tells what
changes, and that nothing else does.

Exit status: 0 all converted; 1 an error; 2 wrong usage; 3 a file is damaged and
was not converted, or something in one is wrong, or the command of --with failed
for a payload.`,
		Example: `  warctee convert old/*.arc.gz --out new
  warctee convert --compress zstd --zstd-dictionary auto a.warc.gz
  warctee convert --warc-version 1.0 --out old-style a.warc.gz
  warctee convert --with 'magick bmp:- png:-' --type image/bmp --new-type image/png --out new a.warc.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, args, cmd.ErrOrStderr())
		},
	}
	f.register(cmd.Flags())
	cmd.SetUsageFunc(usageInSections)
	cobra.CheckErr(cmd.MarkFlagDirname("out"))
	f.compress.complete(cmd, "compress")
	f.version.complete(cmd, "warc-version")
	return cmd
}

func (f *convertFlags) register(flags *pflag.FlagSet) {
	f.compress = choice(keep, "gzip", "zstd", "none")
	f.version = choice(keep, "1.1", "1.0")
	f.maxResult, f.dictionary = 1<<30, "off"
	flags.SortFlags = false
	flags.Var(f.compress, "compress", "compression of the output; keep: as it is, and gzip for ARC files that are plain")
	flags.Var(f.version, "warc-version", "version of the records; keep: as it is, and 1.1 for those of ARC files")
	text(flags, &f.dictionary, "zstd-dictionary", "off|auto|FILE", "dictionary for --compress zstd, with which short records get shorter: trained from the first 1000 records of each file, or that of a file, which may be a .warc.zst")
	flags.BoolVar(&f.lengths, "skip-lengths", false, "write into each gzip member how long it is, so that listing need not decompress it")
	flags.VarP(textFlag{&f.out, "DIR"}, "out", "o", "directory for the output; made when missing (default: that of each file)")
	flags.BoolVar(&f.force, "force", false, "replace files that exist, but never one that is converted")
	flags.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "files that are converted at once")
	f.quiet.register(flags)
	inSection(flags, "Conversion records", func(flags *pflag.FlagSet) {
		text(flags, &f.with, "with", "COMMAND", "command that reads a payload, without its content-codings, and writes the new one; no shell is asked, but words may be quoted")
		text(flags, &f.mediaType, "type", "MEDIATYPE", "payloads of which type, such as image/bmp or image/*")
		text(flags, &f.newType, "new-type", "MEDIATYPE", "type of what the command makes")
		flags.DurationVar(&f.timeLimit, "time-limit", time.Minute, "time that the command has for a payload")
		flags.Var(&f.maxResult, "max-result", "most octets that it may make of one")
		text(flags, &f.date, "date", "DATE", "WARC-Date of the conversion records, such as 2026-01-31T12:00:00Z (default: when the program was started)")
	})
}

var mediaTypes = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*|\*)$`)

// transform returns what makes conversion records, nil for nothing.
func (f *convertFlags) transform() (*convert.Transform, error) {
	if f.with == "" {
		if f.mediaType+f.newType+f.date != "" {
			return nil, usageError{errors.New("--type, --new-type and --date are for conversion records: say with --with what makes them")}
		}
		return nil, nil
	}
	t := &convert.Transform{Type: f.mediaType, NewType: f.newType, Timeout: f.timeLimit, MaxSize: int64(f.maxResult), Date: time.Now()}
	var err error
	if t.Command, err = splitWords(f.with); err != nil {
		return nil, usageError{fmt.Errorf("--with: %w", err)}
	}
	if !mediaTypes.MatchString(f.mediaType) {
		return nil, usageError{fmt.Errorf("--with needs --type, the media type of the payloads, such as image/bmp or image/*: %q is none", f.mediaType)}
	}
	if !mediaTypes.MatchString(f.newType) || strings.HasSuffix(f.newType, "*") {
		return nil, usageError{fmt.Errorf("--with needs --new-type, the media type of what the command makes, such as image/png: %q is none", f.newType)}
	}
	if f.timeLimit <= 0 || f.maxResult <= 0 {
		return nil, usageError{errors.New("--time-limit and --max-result have to be more than nothing")}
	}
	if f.date != "" {
		if t.Date, err = warc.ParseDate(f.date, warc.V1_1); err != nil {
			return nil, usageError{fmt.Errorf("--date: %q is not a date such as 2026-01-31T12:00:00Z", f.date)}
		}
	}
	if _, err := exec.LookPath(t.Command[0]); err != nil {
		return nil, fmt.Errorf("--with: %w", err)
	}
	return t, nil
}

// splitWords divides a command into words, at spaces that are not within single
// or double quotes.
func splitWords(s string) (words []string, err error) {
	var word strings.Builder
	inside, quote := false, rune(0)
	for _, c := range s {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			inside, quote = true, c
		case quote == 0 && strings.ContainsRune(" \t\n", c):
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed in %q", quote, s)
	}
	if inside {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, fmt.Errorf("there is no command in %q", s)
	}
	return words, nil
}
