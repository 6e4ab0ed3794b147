package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A Reason says why a file of a directory is left out of a list.
type Reason string

const (
	// Working files are what the recorder keeps for itself in the directory of
	// an archive: its lock, the index of what was recorded, the log of failures,
	// and temporary files. Later recordings change them, and the log holds secrets.
	Working Reason = "working file"
	// Unfinished files are still written to, or were left by a crash until the next
	// start of the recorder; either changes their names and contents.
	Unfinished Reason = "being written"
)

// lockName is the file that marks a directory in which the recorder works.
const lockName = ".lock"

var (
	unfinishedName = regexp.MustCompile(`\.warc(\.gz|\.zst)?(\.open|\.[a-z2-7]+-[0-9]+\.part)$`)
	temporaryName  = regexp.MustCompile(`^\.spool-|\.tmp-[A-Z2-7]{8}$`)
	indexName      = regexp.MustCompile(`^dedup\.bolt($|\.corrupt-)`)
	archiveName    = regexp.MustCompile(`\.(warc|arc)(\.gz|\.zst)?$`)
	// setAsideName is of what recovery from a crash adds to an archive. It can hold
	// records that are nowhere else.
	setAsideName = regexp.MustCompile(`\.warc(\.gz|\.zst)?\.(tail|bad-[0-9]+|lost)$`)
)

// The log of failures, and the note of what waits while nothing can be written.
const (
	failuresName = "failures.jsonl"
	waitingName  = ".waiting"
)

// omitted returns why a file or directory that was found in a directory is left
// out, "" when it is not. Files of the recorder that have other names, since the
// user has chosen them, are known by their first octets.
func omitted(fsys fs.FS, name string, d fs.DirEntry) Reason {
	base := path.Base(name)
	switch {
	case temporaryName.MatchString(base):
		return Working
	case d.IsDir():
		return ""
	case unfinishedName.MatchString(base):
		return Unfinished
	case base == lockName, base == waitingName, base == failuresName, indexName.MatchString(base):
		return Working
	case archiveName.MatchString(base), setAsideName.MatchString(base), !d.Type().IsRegular():
		return ""
	case isIndex(fsys, name) || isFailureLog(fsys, name):
		return Working
	}
	return ""
}

// firstOctets is how much of a file is looked at to know what it is, in octets.
const firstOctets = 16 << 10

// start returns the first octets of a file, none of one that cannot be read.
func start(fsys fs.FS, name string) []byte {
	f, err := fsys.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, firstOctets))
	return b
}

// isIndex reports whether a file is a database of bbolt, as the index of what was
// recorded is.
func isIndex(fsys fs.FS, name string) bool {
	const at, magic = 16, 0xed0cdaed // of the first page, behind its header
	b := start(fsys, name)
	return len(b) >= at+4 && binary.NativeEndian.Uint32(b[at:]) == magic
}

// isFailureLog reports whether a file starts with a line of the log of failures.
func isFailureLog(fsys fs.FS, name string) bool {
	line, _, _ := bytes.Cut(start(fsys, name), []byte("\n"))
	return bytes.HasPrefix(line, []byte(`{"time":"`)) && bytes.Contains(line, []byte(`,"phase":"`)) && bytes.Contains(line, []byte(`,"class":"`))
}

// wasOmitted reports whether a file that a list has is one that would now be left
// out of it. One that was being written is, when it has its final name now.
func wasOmitted(fsys fs.FS, name string) bool {
	if final, ok := strings.CutSuffix(name, ".open"); ok && isUnfinished(name) {
		info, err := fs.Lstat(fsys, final)
		return err == nil && info.Mode().IsRegular()
	}
	base := path.Base(name)
	if base == lockName || base == failuresName || indexName.MatchString(base) {
		return true
	}
	info, err := fs.Lstat(fsys, name)
	return err == nil && omitted(fsys, name, fs.FileInfoToDirEntry(info)) == Working
}

// errUnfinished says that a file that was named cannot be listed.
func errUnfinished(name string) error {
	return fmt.Errorf("%s is being written, or was left by a crash: it gets its final name when the recording ends, on SIGHUP, or at the next start", name)
}

// isUnfinished reports whether a file that was named is still being written.
func isUnfinished(name string) bool { return unfinishedName.MatchString(path.Base(name)) }

// errNothing says that there are no files to be listed.
var errNothing = errors.New("there is no file to be listed")

// grows reports whether recordings can have added a file to its directory since
// the list was made.
func grows(fsys fs.FS, name string) bool {
	base := path.Base(name)
	if !archiveName.MatchString(base) && !setAsideName.MatchString(base) {
		return false
	}
	info, err := fs.Stat(fsys, path.Join(path.Dir(name), lockName))
	return err == nil && info.Mode().IsRegular()
}

// leftOut tells of a file that is left out.
func (o *Options) leftOut(name string, why Reason) {
	if o.LeftOut != nil {
		o.LeftOut(name, why)
	}
}

// shown names files in a message, only the first ones of many.
func shown(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
