package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const sectionAnnotation = "warctee_section"

// helpWidth is how many columns the descriptions of flags take at most.
const helpWidth = 110

// inSection registers flags that --help shows under a heading of their own,
// behind the ordinary ones.
func inSection(flags *pflag.FlagSet, heading string, register func(*pflag.FlagSet)) {
	section := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	section.SortFlags = false
	register(section)
	section.VisitAll(func(f *pflag.Flag) {
		// The error is about a flag that does not exist.
		cobra.CheckErr(section.SetAnnotation(f.Name, sectionAnnotation, []string{heading}))
	})
	flags.AddFlagSet(section)
}

// usageInSections is the usage function of a command with sections.
func usageInSections(cmd *cobra.Command) error {
	var headings []string
	sections := make(map[string]*pflag.FlagSet)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		heading := "Flags"
		if a := f.Annotations[sectionAnnotation]; len(a) > 0 {
			heading = a[0]
		}
		if sections[heading] == nil {
			headings = append(headings, heading)
			sections[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			sections[heading].SortFlags = false
		}
		sections[heading].AddFlag(f)
	})
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	for _, heading := range headings {
		fmt.Fprintf(&b, "\n%s:\n%s", heading, sections[heading].FlagUsagesWrapped(helpWidth))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// exitStatus starts the sentences about the exit status in the help of a command.
const exitStatus = "Exit status:"

// addExitStatus adds the exit status to the help of all commands that have no
// more to say of it.
func addExitStatus(root *cobra.Command) {
	// The error is one of the function.
	cobra.CheckErr(eachCommand(root, func(c *cobra.Command) error {
		if !strings.Contains(c.Long, exitStatus) {
			text := c.Long
			if text == "" {
				text = c.Short + "."
			}
			c.Long = strings.TrimRight(text, "\n") + "\n\n" + exitStatus + " 0 done; 1 an error; 2 wrong usage."
		}
		return nil
	}))
}
