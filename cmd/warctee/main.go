// Command warctee is a recording HTTP/HTTPS proxy: it writes every exchange
// that passes through it to WARC files.
//
// One file holds one subcommand: record.go, run.go, ca.go, ls.go, … server.go puts the
// parts together, flags.go reads flags and the environment, environment.go makes
// the one that run gives to its command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const version = "0.1.0"

// Exit codes. Errors choose theirs by wrapping one of the two below.
const (
	exitOK         = 0
	exitError      = 1
	exitUsage      = 2
	exitIncomplete = 3 // a response that a client was given is truncated in the archive or missing from it, or the disk kept it from being fetched
	exitFound      = 3 // a command did its work, and something is wrong in the files that it looked at
)

// A usageError is a mistake on the command line.
type usageError struct{ error }

// errIncomplete ends a recording that could not keep all that it should have.
var errIncomplete = errors.New("the archive is incomplete: see the log")

// errFound is wrapped by the error of a command that did its work and found
// something wrong in the files.
var errFound = errors.New("see above")

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; the result is the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	out, errs := &safeWriter{w: stdout}, &safeWriter{w: stderr}
	cmd.SetOut(out)
	cmd.SetErr(errs)
	defer errs.flush() // there is nobody to tell of its error
	typed, err := cmd.ExecuteContextC(ctx)
	if lost := out.flush(); err == nil {
		err = lost
	}
	if err == nil {
		return exitOK
	}
	var ended commandError
	if errors.As(err, &ended) && ended.cause == nil {
		return ended.code // the command has said why
	}
	tell(errs, err)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(errs, "'%s --help' shows how it is used.\n", typed.CommandPath())
		return exitUsage
	case errors.As(err, &ended):
		return ended.code
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	case errors.Is(err, errFound):
		return exitFound
	}
	return exitError
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "warctee",
		Short: "A recording HTTP/HTTPS proxy for web archiving",
		Long: `warctee is a recording HTTP/HTTPS proxy: what passes through it is written,
byte for byte, to WARC files (ISO 28500). It works with such files too: checks
them, looks into them, indexes, repairs, converts and packs them.

Exit status: 0 all well; 1 an error; 2 wrong usage; 3 it was done, and the archive
is incomplete, or something in the files is wrong (grep: nothing was found). run
ends with the status of its command if that is not zero.`,
		Version:       fullVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	addGroup(root, "Recording:", newRecordCommand(), newRunCommand(), newCACommand())
	addGroup(root, groupOfFiles, newCheckCommand(), newLsCommand(), newShowCommand(), newCatCommand(), newGrepCommand(),
		newIndexCommand(), newRepairCommand(), newConvertCommand(), newPackCommand(), newManifestCommand())
	for _, cmd := range root.Commands() {
		if cmd.GroupID == groupOfFiles {
			cmd.PreRun = func(*cobra.Command, []string) { collectSooner() }
		}
	}
	root.AddCommand(newVersionCommand(), newManCommand())
	checkArguments(root)
	addExitStatus(root)
	completeFlags(root)
	return root
}

// groupOfFiles is the title of the commands that work with files. They keep little in
// memory, whatever is in the files.
const groupOfFiles = "Working with the files:"

// collectSooner makes the garbage collector run before there is much garbage, where the
// user has not said otherwise: the peak is then near what is in use.
func collectSooner() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(100 << 20)
	}
}

// The commands are listed in the order in which they are added.
func init() { cobra.EnableCommandSorting = false }

func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return noCommand(cmd, args[0])
	}
	return usageError{fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])}
}

// noCommand says that cmd has no such command, and which it may be.
func noCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	path := strings.TrimPrefix(cmd.CommandPath()+" ", cmd.Root().Name()+" ")
	return usageError{fmt.Errorf("there is no command %q%s", path+name, didYouMean(path, name, known))}
}

// checkArguments makes cobra's own commands refuse what they do not know, which
// they answer with a help text and success.
func checkArguments(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, _ := root.Find(args); len(rest) > 0 {
					return noCommand(found, rest[0])
				}
				return nil
			}
		case "completion":
			cmd.Args = noArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
