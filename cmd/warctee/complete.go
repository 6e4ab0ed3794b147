package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc"
)

// recordTypes are the values of --type where records are chosen (ISO 28500 §6).
var recordTypes = []string{
	warc.TypeWarcinfo, warc.TypeResponse, warc.TypeResource, warc.TypeRequest, warc.TypeMetadata, warc.TypeRevisit,
	warc.TypeConversion, warc.TypeContinuation,
}

var statusClasses = []string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// completeFlags lets the shell complete the values of all flags that have no
// completion of their own: the words in the type of a flag (off|auto|FILE), and
// files only where the type names one.
func completeFlags(root *cobra.Command) {
	// The errors are of the function, and about flags that do not exist.
	cobra.CheckErr(eachCommand(root, func(c *cobra.Command) error {
		add := func(f *pflag.Flag) {
			if _, known := c.GetFlagCompletionFunc(f.Name); known || f.Annotations[cobra.BashCompSubdirsInDir] != nil || f.Annotations[cobra.BashCompFilenameExt] != nil {
				return
			}
			cobra.CheckErr(c.RegisterFlagCompletionFunc(f.Name, completionOf(f)))
		}
		c.PersistentFlags().VisitAll(add)
		c.LocalNonPersistentFlags().VisitAll(add)
		return nil
	}))
}

// completionOf completes the value of one flag.
func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	kind, _ := pflag.UnquoteUsage(f)
	if f.Value.Type() == "stringSlice" {
		switch f.Name {
		case "type":
			return listOf(recordTypes)
		case "status":
			return listOf(statusClasses)
		}
	}
	var words []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	for word := range strings.SplitSeq(kind, "|") {
		scheme, rest, hasScheme := strings.Cut(word, ":")
		switch {
		case hasScheme && rest != "" && scheme == strings.ToLower(scheme):
			words = append(words, scheme+":")
			directive |= cobra.ShellCompDirectiveNoSpace
		case strings.Contains(kind, "|") && word == strings.ToLower(word):
			words = append(words, word)
		}
		if strings.HasSuffix(word, "FILE") || strings.HasSuffix(word, "PATH") || strings.HasSuffix(word, "DIR") || word == "COMMAND" {
			directive &^= cobra.ShellCompDirectiveNoFileComp
		}
	}
	return cobra.FixedCompletions(words, directive)
}

// listOf completes the last of some words with commas between them.
func listOf(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var list []cobra.Completion
		for _, word := range words {
			list = append(list, before+word)
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}
