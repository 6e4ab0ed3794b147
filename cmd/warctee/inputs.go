package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/container"
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
		info, err := container.Stat(arg)
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
			return nil, 0, fmt.Errorf("%s: no WARC files (%s) in this directory", arg, strings.Join(suffixes, ", "))
		}
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
			return nil, 0, fmt.Errorf("%s: no regular file, which it has to be", path)
		}
		size += info.Size()
	}
	return files, size, nil
}
