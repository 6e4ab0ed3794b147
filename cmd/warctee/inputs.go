package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archiveSuffixes are the ends of the names of WARC files.
var archiveSuffixes = []string{".warc", ".warc.gz", ".warc.zst"}

// archiveFiles makes of the arguments of a command the files that they mean: a
// directory means the WARC files in it, in the order of their names, but not
// those that are being written (.open). It returns the sum of their sizes too. A
// file that is named twice, or that is missing, is an error. Files whose names have
// one of the further suffixes are taken from directories too.
func archiveFiles(args []string, more ...string) (files []string, size int64, err error) {
	if len(args) == 0 {
		return nil, 0, usageError{errors.New("which files? Name WARC files, or directories with such")}
	}
	suffixes := append(slices.Clip(archiveSuffixes), more...)
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, 0, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, 0, err
		}
		before := len(files)
		for _, entry := range entries {
			isArchive := slices.ContainsFunc(suffixes, func(end string) bool { return strings.HasSuffix(entry.Name(), end) })
			if isArchive && !entry.IsDir() {
				files = append(files, filepath.Join(arg, entry.Name()))
			}
		}
		if len(files) == before {
			return nil, 0, noFiles(arg, entries, suffixes)
		}
	}
	seen := make(map[string]bool)
	for _, path := range files {
		if seen[filepath.Clean(path)] {
			return nil, 0, usageError{fmt.Errorf("%s is named twice", path)}
		}
		seen[filepath.Clean(path)] = true
		info, err := os.Stat(path)
		if err != nil {
			return nil, 0, err
		}
		if !info.Mode().IsRegular() { // to open a named pipe would wait for its writer
			return nil, 0, fmt.Errorf("%s: no regular file, which it has to be", path)
		}
		size += info.Size()
	}
	return files, size, nil
}

// noFiles says that a directory has no files with the suffixes, and names those
// that are unfinished.
func noFiles(dir string, entries []os.DirEntry, suffixes []string) error {
	var open []string
	for _, entry := range entries {
		name, unfinished := strings.CutSuffix(entry.Name(), ".open")
		if unfinished && slices.ContainsFunc(suffixes, func(end string) bool { return strings.HasSuffix(name, end) }) {
			open = append(open, filepath.Join(dir, entry.Name()))
		}
	}
	if len(open) == 0 {
		return fmt.Errorf("%s: no WARC files (%s) in this directory", dir, strings.Join(suffixes, ", "))
	}
	return fmt.Errorf("%s: no finished WARC files in this directory, only %s, which is being written, or was left by a recording that was killed. The end of that recording, SIGHUP to it, or the next start finishes it; to read what is in it so far, name the file", dir, strings.Join(open, " and "))
}
