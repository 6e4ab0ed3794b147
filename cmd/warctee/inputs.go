package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/rotate"
)

// archiveSuffixes are the ends of the names of WARC files.
var archiveSuffixes = []string{".warc", ".warc.gz", ".warc.zst"}

// archiveFiles makes of the arguments of a command the files that they mean: a
// directory means the WARC files in it and below it, in the order of their names, but not
// those that are being written (.open); - means standard input. It returns the sum of their sizes too. A
// file that is named twice, or that is missing, is an error. Files whose names have
// one of the further suffixes are taken from directories too; packages only where there
// is nothing else, since they hold copies of files that may be there.
func archiveFiles(args []string, more ...string) (files []string, size int64, err error) {
	if len(args) == 0 {
		return nil, 0, usageError{errors.New("which files? Name WARC files, or directories with such")}
	}
	suffixes := append(slices.Clip(archiveSuffixes), more...)
	for _, arg := range args {
		if arg == container.Stdin {
			files = append(files, arg)
			continue
		}
		info, err := container.Stat(arg)
		if err != nil {
			return nil, 0, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		below, err := filesIn(arg, suffixes)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, below...)
	}
	seen := make(map[string]bool)
	for _, path := range files {
		if seen[filepath.Clean(path)] {
			return nil, 0, usageError{fmt.Errorf("%s is named twice", path)}
		}
		seen[filepath.Clean(path)] = true
		info, err := container.Stat(path)
		if err != nil {
			return nil, 0, err
		}
		if !info.Mode().IsRegular() { // to open a named pipe would wait for its writer
			return nil, 0, fmt.Errorf("%s: not a regular file", path)
		}
		size += info.Size()
	}
	return files, size, nil
}

// filesIn returns the files that a directory means.
func filesIn(dir string, suffixes []string) ([]string, error) {
	isPackage := func(suffix string) bool { return suffix == packageSuffix }
	files, err := filesBelow(nil, dir, slices.DeleteFunc(slices.Clone(suffixes), isPackage))
	if err == nil && len(files) == 0 && slices.ContainsFunc(suffixes, isPackage) {
		files, err = filesBelow(nil, dir, []string{packageSuffix})
	}
	if err == nil && len(files) == 0 {
		err = noFiles(dir, suffixes)
	}
	return files, err
}

// filesBelow appends the files in a directory whose names have one of the
// suffixes, and those in the directories below it. As in patterns of a shell,
// names that start with a dot mean nothing; as with find and grep -r, symbolic
// links to directories are not followed, so that there is no loop.
func filesBelow(files []string, dir string, suffixes []string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(dir, entry.Name())
		isArchive := slices.ContainsFunc(suffixes, func(end string) bool { return strings.HasSuffix(name, end) })
		switch {
		case strings.HasPrefix(name, "."):
		case entry.IsDir():
			if files, err = filesBelow(files, path, suffixes); err != nil {
				return nil, err
			}
		case isArchive && !(entry.Type()&fs.ModeSymlink != 0 && isDirectory(path)):
			files = append(files, path)
		}
	}
	return files, nil
}

// noFiles says that there are no files with the suffixes in a directory and below
// it, and names those that are unfinished.
func noFiles(dir string, suffixes []string) error {
	var unfinished []string
	for _, suffix := range suffixes {
		unfinished = append(unfinished, suffix+rotate.OpenSuffix)
	}
	open, err := filesBelow(nil, dir, unfinished)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return fmt.Errorf("%s: no WARC files (%s) in this directory or below it", dir, strings.Join(suffixes, ", "))
	}
	return fmt.Errorf("%s: no finished WARC files in this directory or below it, only %s, which is being written, or was left by a recording that was killed. The end of that recording, SIGHUP to it, or the next start finishes it; to read what is in it so far, name the file", dir, firstOf(open))
}
