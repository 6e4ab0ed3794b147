package manifest

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds on lists that are read.
const (
	maxLine = 64 << 10  // octets
	maxList = 256 << 20 // octets of a list
	maxBag  = 16 << 20  // octets of all the lists of a bag, which are held in memory
	maxBad  = 1000      // lines that cannot be understood; with more it is no list
)

// An Entry is a file that a list names.
type Entry struct {
	Name string // relative to the directory of the list, with slashes
	Size int64  // octets; -1 when the list does not tell
	Sums []Sum
}

// A List is the files of a manifest.
type List struct {
	Entries     []Entry
	Directories []string // whose files are all in the list, but for working files

	// WithWorking says that working files of the directories are in the list too,
	// as they were until version 0.1.
	WithWorking bool
}

// The lines of comment that carry what sha256sum does not know, and ignores.
const (
	commentTitle     = "# Digests and sizes, made by warctee manifest. sha256sum -c reads them too."
	commentDirectory = "# files of directory, without working files: "
	commentAll       = "# all files of directory: " // of earlier versions
	commentOctets    = "# octets: "
)

// WriteTo writes the list as sha256sum writes it, with the sizes in lines of
// comment. The only digests are SHA-256.
func (l *List) WriteTo(w io.Writer) (int64, error) {
	b := []byte(commentTitle + "\n")
	comment := commentDirectory
	if l.WithWorking {
		comment = commentAll
	}
	for _, dir := range l.Directories {
		b = append(b, comment+escapeName(dir)+"\n"...)
	}
	for _, e := range l.Entries {
		b = fmt.Appendf(b, "%s%d\n", commentOctets, e.Size)
		b = appendLine(b, e.Sums[0].Digest, e.Name)
	}
	n, err := w.Write(b)
	return int64(n), err
}

// appendLine appends a line as sha256sum writes it: a backslash at the start
// tells that there are some in the name.
func appendLine(b []byte, digest []byte, name string) []byte {
	escaped := escapeName(name)
	if escaped != name {
		b = append(b, '\\')
	}
	b = hex.AppendEncode(b, digest)
	return append(b, "  "+escaped+"\n"...)
}

var (
	nameEscaper   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	nameUnescaper = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

func escapeName(name string) string { return nameEscaper.Replace(name) }

// ReadList reads a list in the format of sha256sum, of ours or of others. The
// Faults are the lines that cannot be understood or used; the error is one of r.
func ReadList(r io.Reader) (*List, []Fault, error) {
	l := &List{}
	faults, err := l.scan(r, func(e Entry) error {
		l.Entries = append(l.Entries, e)
		return nil
	})
	return l, faults, err
}

// scan reads a list like ReadList, but gives its entries to a function. The error can
// be that of entry too.
func (l *List) scan(r io.Reader, entry func(e Entry) error) ([]Fault, error) {
	size, failed := int64(-1), error(nil)
	faults, err := readLines(r, func(line string) error {
		switch {
		case strings.HasPrefix(line, commentOctets):
			n, err := strconv.ParseInt(line[len(commentOctets):], 10, 64)
			if err != nil || n < 0 {
				return errors.New("no number of octets")
			}
			size = n
			return nil
		case strings.HasPrefix(line, commentDirectory):
			return l.addDirectory(line[len(commentDirectory):])
		case strings.HasPrefix(line, commentAll):
			l.WithWorking = true
			return l.addDirectory(line[len(commentAll):])
		case strings.HasPrefix(line, "#") || line == "":
			return nil
		}
		e, err := parseLine(line)
		e.Size, size = size, -1
		if err == nil && failed == nil {
			failed = entry(e)
		}
		return err
	})
	return faults, cmp.Or(failed, err)
}

func (l *List) addDirectory(escaped string) error {
	dir, err := safeName(nameUnescaper.Replace(escaped))
	if err == nil {
		l.Directories = append(l.Directories, dir)
	}
	return err
}

// readLines gives each line of a list to use. Errors of use become faults.
func readLines(r io.Reader, use func(line string) error) ([]Fault, error) {
	var faults []Fault
	limited := &io.LimitedReader{R: r, N: maxList + 1}
	lines := bufio.NewReaderSize(limited, maxLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case limited.N <= 0:
			return faults, fmt.Errorf("the list has more than %d MB", maxList>>20)
		case errors.Is(err, bufio.ErrBufferFull):
			return faults, fmt.Errorf("line %d has more than %d kB", number, maxLine>>10)
		case err != nil && err != io.EOF:
			return faults, err
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if number == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if problem := use(text); problem != nil {
			if len(faults) == maxBad {
				return faults, fmt.Errorf("it is no list of files with digests: more than %d lines cannot be understood, such as line %d: %w", maxBad, number, problem)
			}
			faults = append(faults, Fault{Kind: Malformed, Name: fmt.Sprintf("line %d", number), Detail: cut(problem.Error())})
		}
		if err == io.EOF {
			return faults, nil
		}
	}
}

// parseLine understands "DIGEST  NAME" and "DIGEST *NAME".
func parseLine(line string) (Entry, error) {
	escaped := strings.HasPrefix(line, `\`)
	digits, name, ok := strings.Cut(strings.TrimPrefix(line, `\`), " ")
	if !ok || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
		return Entry{}, errors.New("no line of the form: digest, two spaces, name")
	}
	name = name[1:]
	if escaped {
		name = nameUnescaper.Replace(name)
	}
	digest, err := hex.DecodeString(digits)
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.sumTool && a.size == len(digest) })
	if err != nil || i < 0 {
		return Entry{}, errors.New("the digest is none of SHA-256, SHA-512, SHA-384, SHA-224, SHA-1 or MD5 in hexadecimal")
	}
	name, err = safeName(name)
	return Entry{Name: name, Sums: []Sum{{algorithms[i].name, digest}}}, err
}

// safeName refuses names that could lead out of the directory that they are
// relative to, and returns the others in their shortest form, with slashes.
func safeName(name string) (string, error) {
	clean := strings.TrimPrefix(name, "./")
	switch local, err := filepath.Localize(clean); {
	case err == nil && local != "":
		return clean, nil
	case clean == "" || strings.ContainsRune(clean, 0):
		return "", errors.New("the name is empty or has a NUL in it")
	}
	// What Localize refuses besides: "a//b", "a/./b", "a/".
	short := filepath.ToSlash(filepath.Clean(filepath.FromSlash(clean)))
	if !filepath.IsLocal(filepath.FromSlash(short)) {
		return "", fmt.Errorf("%q leads out of the directory of the list", name)
	}
	return short, nil
}
