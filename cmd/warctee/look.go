package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// damageHint is what to do about a file of which not all can be read.
const damageHint = "'warctee check' tells more of it, 'warctee repair' saves what is whole"

// isDamage reports whether an error is about a file that is not as it should be.
func isDamage(err error) bool {
	broken := (*warc.Error)(nil)
	return errors.As(err, &broken)
}

// filterFlags choose records, for ls and grep.
type filterFlags struct {
	urls   []string
	types  []string
	status []string
	media  []string
	ids    []string
	from   string
	to     string
}

func (f *filterFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.urls, "url", nil, "records of this `URL`; * stands for any text")
	flags.StringSliceVar(&f.types, "type", nil, "records of this WARC-`TYPE`: response, request, …")
	flags.StringSliceVar(&f.status, "status", nil, "HTTP responses with this status `CODE`, or class as 3xx")
	flags.StringSliceVar(&f.media, "mime", nil, "payloads of this media `TYPE`, as text/html or image/*")
	flags.StringVar(&f.from, "from", "", "since this `DATE`: 2026, 2026-11-21, 2026-11-21T10:15Z, …, in UTC")
	flags.StringVar(&f.to, "to", "", "until this `DATE`, all of the year or day included")
	flags.StringSliceVar(&f.ids, "id", nil, "the record with this `ID`")
}

func (f *filterFlags) filter() (*archive.Filter, error) {
	out := &archive.Filter{}
	for _, text := range f.urls {
		out.URL = append(out.URL, archive.NewPattern(text))
	}
	for _, text := range f.types {
		out.Types = append(out.Types, strings.ToLower(text))
	}
	for _, text := range f.status {
		status, err := archive.ParseStatus(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--status: %w", err)}
		}
		out.Status = append(out.Status, status)
	}
	for _, text := range f.media {
		out.Media = append(out.Media, archive.NewPattern(strings.ToLower(text)))
	}
	for _, text := range f.ids {
		out.IDs = append(out.IDs, archive.CleanID(text))
	}
	var err error
	if f.from != "" {
		if out.From, _, err = archive.ParsePeriod(f.from); err != nil {
			return nil, usageError{fmt.Errorf("--from: %w", err)}
		}
	}
	if f.to != "" {
		if _, out.Before, err = archive.ParsePeriod(f.to); err != nil {
			return nil, usageError{fmt.Errorf("--to: %w", err)}
		}
	}
	return out, nil
}

// openArchives opens the files that arguments mean.
func openArchives(args []string) ([]*archive.File, error) {
	named, _, err := archiveFiles(args, packageSuffix)
	if err != nil {
		return nil, err
	}
	paths, refused := expand(named)
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	var files []*archive.File
	for _, path := range paths {
		f, err := archive.Open(path)
		if err != nil {
			closeArchives(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeArchives(files []*archive.File) {
	for _, f := range files {
		f.Close()
	}
}

// eachArchive calls look for the files that arguments mean, one after the other.
// A file that is damaged, or no WARC file, does not keep the next from being looked at:
// that is reported on stderr at once, and in the error at the end.
func eachArchive(args []string, stderr io.Writer, look func(f *archive.File) error) error {
	named, _, err := archiveFiles(args, packageSuffix)
	if err != nil {
		return err
	}
	paths, refused := expand(named)
	unread := refuseForms(stderr, refused, "read")
	damaged := 0
	for _, path := range paths {
		f, err := archive.Open(path)
		if err != nil {
			return err
		}
		err = look(f)
		f.Close()
		if isDamage(err) {
			tell(stderr, err)
			damaged++
		} else if err != nil {
			return err
		}
	}
	if unread != nil {
		return commandError{exitFound, unread}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %s could not be read as a whole: %w; %s", damaged, english.Plural(len(paths), "file", ""), errFound, damageHint)
	}
	return nil
}

// exclusive makes the use of more than one of some flags an error.
func exclusive(flags *pflag.FlagSet, names ...string) error {
	var used []string
	for _, name := range names {
		if flags.Changed(name) {
			used = append(used, flagName(flags.Lookup(name)))
		}
	}
	if len(used) > 1 {
		return usageError{fmt.Errorf("%s exclude each other", strings.Join(used, " and "))}
	}
	return nil
}

// flushed flushes out, and returns its error, or else err.
func flushed(err error, out *bufio.Writer) error {
	if lost := out.Flush(); lost != nil {
		return lost
	}
	return err
}

// quietly turns the error about a reader that wants no more, such as head, into
// none.
func quietly(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// selection says which record cat and show mean.
type selection struct {
	id    string
	url   string
	at    string
	types []string
}

// selectionUse is the part of the usage that it needs.
const selectionUse = "{FILE@OFFSET | --id ID | --url URL [--at DATE]} [flags] FILE…"

func (s *selection) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.id, "id", "", "the record with this `ID`")
	flags.StringVar(&s.url, "url", "", "a capture of this `URL`: the latest one, or see --at")
	flags.StringVar(&s.at, "at", "", "the capture that is nearest to this `DATE`, of two the earlier one")
	flags.StringSliceVar(&s.types, "type", nil, "with --url: a record of this WARC-`TYPE` instead of a response, revisit or resource")
}

// atOffset is FILE@OFFSET, as grep prints it.
var atOffset = regexp.MustCompile(`^(.+)@([0-9]{1,18})$`)

// open opens the files that are named, and returns the record that is meant, with
// what could not be read on the way to it told on stderr. The caller closes the
// files, in any case.
func (s *selection) open(args []string, stderr io.Writer) (files []*archive.File, place *archive.Place, err error) {
	path, offset := "", int64(-1)
	for i, arg := range args {
		m := atOffset.FindStringSubmatch(arg)
		if _, err := os.Stat(arg); m == nil || err == nil {
			continue
		}
		if offset >= 0 {
			return nil, nil, usageError{errors.New("only one record can be chosen, and there are two FILE@OFFSET")}
		}
		path = m[1]
		offset, _ = strconv.ParseInt(m[2], 10, 64) // 18 digits fit
		args = slices.Delete(slices.Clone(args), i, i+1)
	}
	ways := 0
	for _, given := range []bool{offset >= 0, s.id != "", s.url != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, nil, usageError{errors.New("which record? Give one of FILE@OFFSET, --id and --url; 'warctee ls' shows what there is")}
	}
	if s.url == "" && (s.at != "" || len(s.types) > 0) {
		return nil, nil, usageError{errors.New("--at and --type go with --url")}
	}
	if len(args) > 0 || offset < 0 {
		if files, err = openArchives(args); err != nil {
			return nil, nil, err
		}
	}
	if offset >= 0 {
		i := slices.IndexFunc(files, func(f *archive.File) bool { return filepath.Clean(f.Path) == filepath.Clean(path) })
		if members, err := container.Members(path); err == nil {
			return files, nil, usageError{fmt.Errorf("%s is a package: name the WARC file in it, in quotation marks, as in '%s@%d'", path, members[0], offset)}
		}
		if i < 0 {
			if err := container.Want(path, container.WARC); isOtherForm(err) {
				return files, nil, err
			}
			f, err := archive.Open(path)
			if err != nil {
				return files, nil, err
			}
			files, i = append(files, f), len(files)
		}
		place, err = archive.FindOffset(files[i], offset)
	} else {
		place, err = s.find(files)
	}
	if place != nil && err != nil {
		tell(stderr, err)
		err = nil
	}
	return files, place, lookError(err)
}

func (s *selection) find(files []*archive.File) (*archive.Place, error) {
	if s.id != "" {
		return archive.FindID(files, s.id)
	}
	var at time.Time
	if s.at != "" {
		var err error
		if at, _, err = archive.ParsePeriod(s.at); err != nil {
			return nil, usageError{fmt.Errorf("--at: %w", err)}
		}
	}
	for i := range s.types {
		s.types[i] = strings.ToLower(s.types[i])
	}
	return archive.FindURL(files, s.url, at, s.types)
}

// lookError makes what is not in the files, or wrong in them, give the exit
// status for that.
func lookError(err error) error {
	if errors.Is(err, archive.ErrNotFound) || errors.Is(err, archive.ErrIncomplete) || isDamage(err) {
		return commandError{exitFound, err}
	}
	return err
}
