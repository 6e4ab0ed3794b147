package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/warc"
)

// A sizeFlag is a number of bytes: 1GB, 500MiB, 1000000.
type sizeFlag int64

func (s *sizeFlag) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 1GB, 500MiB or 1000000", text)
	}
	*s = sizeFlag(n)
	return nil
}

func (s *sizeFlag) Type() string { return "BYTES" }

func (s *sizeFlag) String() string {
	n := uint64(*s)
	if text := strings.ReplaceAll(humanize.IBytes(n), " ", ""); n > 0 && n%1024 == 0 {
		return text
	}
	return strings.ReplaceAll(humanize.Bytes(n), " ", "")
}

// A textFlag is a text. Unlike one of pflag's it says in its type what --help
// calls it, which needs no marks in the usage then: completions show that as it
// is.
type textFlag struct {
	value *string
	kind  string
}

// text registers a text, whose default is what it is now.
func text(flags *pflag.FlagSet, value *string, name, kind, usage string) {
	flags.Var(textFlag{value, kind}, name, usage)
}

func (t textFlag) Set(text string) error { *t.value = text; return nil }
func (t textFlag) Type() string          { return t.kind }
func (t textFlag) String() string        { return *t.value }

// A choiceFlag is one of a few words.
type choiceFlag struct {
	value   string
	choices []string
}

func choice(value string, others ...string) *choiceFlag {
	return &choiceFlag{value, append([]string{value}, others...)}
}

func (c *choiceFlag) Set(text string) error {
	for _, known := range c.choices {
		if text == known {
			c.value = text
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(c.choices, ", "))
}

func (c *choiceFlag) Type() string   { return strings.Join(c.choices, "|") }
func (c *choiceFlag) String() string { return c.value }

// complete lets the shell complete the values.
func (c *choiceFlag) complete(cmd *cobra.Command, flag string) {
	// The error is about a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(asCompletions(c.choices), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func asCompletions(words []string) []cobra.Completion {
	list := make([]cobra.Completion, len(words))
	copy(list, words)
	return list
}

// ownFields are those of the warcinfo records that the recorder sets.
var ownFields = []string{"software", "hostname", "format", "conformsTo"}

// A fieldsFlag collects key=value pairs for the warcinfo record.
type fieldsFlag []warc.Field

func (f *fieldsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.TrimSpace(value) == "" || !utf8.ValidString(text) || strings.ContainsFunc(name+value, isControl) || strings.ContainsAny(name, ": \t") {
		return fmt.Errorf("%q is not a field of the form operator=Jane Doe", text)
	}
	if slices.ContainsFunc(ownFields, func(own string) bool { return strings.EqualFold(own, name) }) {
		return fmt.Errorf("%s is a field that warctee itself sets", name)
	}
	*f = append(*f, warc.Field{Name: name, Value: value})
	return nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func (f *fieldsFlag) Type() string { return "KEY=VALUE" }

func (f *fieldsFlag) String() string {
	var pairs []string
	for _, field := range *f {
		pairs = append(pairs, field.Name+"="+field.Value)
	}
	return strings.Join(pairs, "\n")
}

const envPrefix = "WARCTEE_"

// envName is the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that are not on the command line. An empty
// variable counts as none. --warcinfo takes a field from each line.
func fromEnvironment(flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(envName(f.Name))
		if err != nil || !ok || value == "" || f.Changed || f.Name == "help" {
			return
		}
		values := []string{value}
		if _, repeats := f.Value.(*fieldsFlag); repeats {
			values = strings.FieldsFunc(value, func(c rune) bool { return c == '\n' })
		}
		for _, v := range values {
			if e := flags.Set(f.Name, v); e != nil {
				err = usageError{fmt.Errorf("environment variable %s: %s", envName(f.Name), valueReason(e))}
				return
			}
		}
	})
	return err
}

// flagError words what pflag has against the command line.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usageError{fmt.Errorf("%w%s", err, didYouMean("--", unknown.GetSpecifiedName(), known))}
	case errors.As(err, &unknown):
		name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
		if slices.Contains(known, name) {
			return usageError{fmt.Errorf("unknown flag: -%s; did you mean --%s?", name, name)}
		}
	case errors.As(err, &value):
		return usageError{fmt.Errorf("%s: %s", flagName(value.GetFlag()), valueReason(err))}
	}
	return usageError{err}
}

// flagName is the name of a flag in messages, in all forms in which it can have
// been typed.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + "/--" + f.Name
	}
	return "--" + f.Name
}

// valueReason says what is wrong with the value of a flag.
func valueReason(err error) string {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err.Error()
	}
	switch value.GetFlag().Value.Type() {
	case "bool":
		return fmt.Sprintf("%q is neither true nor false", value.GetValue())
	case "int":
		return fmt.Sprintf("%q is not a whole number", value.GetValue())
	case "duration":
		return fmt.Sprintf("%q is not a duration such as 90s, 10m or 1h30m", value.GetValue())
	}
	return value.Unwrap().Error()
}

// otherVariables are what run sets for its command, which may be warctee, and
// what is a flag of ca.
var otherVariables = []string{"CHROMIUM_FLAGS", "CHROMIUM_FLAGS_NO_PROFILE", "OUT"}

// unknownVariables tells, in a sentence each, of variables in the environment
// that look like one of a flag and are none.
func unknownVariables(flags *pflag.FlagSet, environment []string) (sentences []string) {
	known := slices.Clone(otherVariables)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			known = append(known, strings.TrimPrefix(envName(f.Name), envPrefix))
		}
	})
	for _, v := range environment {
		name, _, _ := strings.Cut(v, "=")
		if word, ours := strings.CutPrefix(name, envPrefix); ours && !slices.Contains(known, word) {
			sentences = append(sentences, fmt.Sprintf("unknown environment variable %s%s", name, didYouMean(envPrefix, word, known)))
		}
	}
	return sentences
}

// didYouMean adds to a sentence which of the known words, behind the prefix, the
// user may have meant, or nothing.
func didYouMean(prefix, word string, known []string) string {
	best, least := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// distance is how many characters have to be added, removed or changed to make
// b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
