package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages for all commands into a directory",
		Long: `Write a manual page for each command into a directory, which is made when it is
missing: warctee.1, warctee-record.1 and so on. Existing pages are replaced.`,
		Example: `  warctee man ~/.local/share/man/man1
  man warctee-record`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("where to? Name one directory, such as ~/.local/share/man/man1")}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return eachCommand(cmd.Root(), func(c *cobra.Command) error {
				return os.WriteFile(filepath.Join(args[0], manName(c)+".1"), []byte(manPage(c)), 0o666)
			})
		},
	}
}

// eachCommand calls do for a command and those below it that can be used.
func eachCommand(cmd *cobra.Command, do func(c *cobra.Command) error) error {
	if err := do(cmd); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Deprecated != "" {
			continue
		}
		if err := eachCommand(c, do); err != nil {
			return err
		}
	}
	return nil
}

// manName is the name of the manual page of a command.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the manual page of a command, for man(7).
func manPage(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"warctee %s\" \"warctee\"\n", strings.ToUpper(roff(manName(cmd))), version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", roff(cmd.UseLine()))
	description, status, _ := strings.Cut(cmd.Long, exitStatus)
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", roffText(description))
	heading := ""
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.SortFlags = false
	all.AddFlagSet(cmd.NonInheritedFlags())
	all.AddFlagSet(cmd.InheritedFlags())
	all.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		section := "Options"
		if a := f.Annotations[sectionAnnotation]; len(a) > 0 {
			section = a[0]
		}
		if section != heading {
			heading = section
			fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(roff(heading)))
		}
		b.WriteString(manFlag(f))
	})
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", roffText(cmd.Example))
	}
	if status != "" {
		fmt.Fprintf(&b, ".SH EXIT STATUS\n%s", roffText(strings.TrimSpace(status)))
	}
	var related []string
	if cmd.HasParent() {
		related = append(related, manName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			related = append(related, manName(c))
		}
	}
	for i, name := range related {
		related[i] = ".BR " + roff(name) + " (1)"
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(related, " ,\n"))
	return b.String()
}

// manFlag describes a flag, with its default as --help shows it.
func manFlag(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	if _, standard, ok := strings.Cut(one.FlagUsages(), usage+" (default "); ok {
		usage += " (default " + strings.TrimSpace(standard)
	}
	return fmt.Sprintf(".TP\n.B %s\n%s\n", roff(name), roff(usage))
}

// roffText is a text in paragraphs. Lines that are indented stay as they are.
func roffText(text string) string {
	var b strings.Builder
	verbatim := false
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		switch indented := strings.HasPrefix(line, "  "); {
		case indented && !verbatim:
			b.WriteString(".nf\n")
			verbatim = true
		case !indented && verbatim && line != "":
			b.WriteString(".fi\n")
			verbatim = false
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// roff escapes a text of one line: hyphens are those of commands, and no line
// starts with a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`", "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`).Replace(text)
	var b strings.Builder
	if strings.HasPrefix(text, ".") {
		b.WriteString(`\&`)
	}
	for _, c := range text {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, c)
		}
	}
	return b.String()
}
