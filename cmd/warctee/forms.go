package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize/english"
	"github.com/warctee/warctee/container"
)

// packageSuffix is the end of the names of packages, for commands that read the WARC
// files in them.
const packageSuffix = ".wacz"

// expand returns the files with each package replaced by the WARC files in it. Refused
// are those that are certainly of another form than WARC, or one of also, and packages
// that cannot be read. What cannot be opened stays: who opens it reports that.
func expand(paths []string, also ...container.Form) (files []string, refused []error) {
	for _, path := range paths {
		err := container.Want(path, append(also, container.WARC)...)
		other := (*container.FormError)(nil)
		switch {
		case !errors.As(err, &other):
			files = append(files, path)
		case other.Form != container.Zip:
			refused = append(refused, err)
		default:
			members, err := container.Members(path)
			files = append(files, members...)
			if err != nil {
				refused = append(refused, err)
			}
		}
	}
	return files, refused
}

// wantFile returns an error for a file that is of none of the forms, or in a package.
func wantFile(path string, forms ...container.Form) error {
	if _, _, ok := container.Divide(path); ok {
		return &container.FormError{Path: path, Form: container.Zip}
	}
	return container.Want(path, forms...)
}

// isOtherForm reports whether an error is about a file that is none that a command reads.
func isOtherForm(err error) bool {
	other := (*container.FormError)(nil)
	return errors.As(err, &other)
}

// refuseForms reports the files that a command does not read, and returns the error with
// which it ends, nil when there are none. Done is what they were not: "checked", say.
func refuseForms(stderr io.Writer, refused []error, done string) error {
	for _, err := range refused {
		tell(stderr, err)
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("%s not %s: see above", english.Plural(len(refused), "file was", "files were"), done)
}
