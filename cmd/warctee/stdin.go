package main

import (
	"fmt"
	"slices"

	"github.com/warctee/warctee/container"
)

// refuseStdin is the error of a command that cannot work with standard input,
// with the reason.
func refuseStdin(files []string, command, reason string) error {
	if slices.Contains(files, container.Stdin) {
		return usageError{fmt.Errorf("%s cannot read standard input (-): %s", command, reason)}
	}
	return nil
}
