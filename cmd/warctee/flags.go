package main

import (
	"fmt"
	"math"
	"os"
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

// A fieldsFlag collects key=value pairs for the warcinfo record.
type fieldsFlag []warc.Field

func (f *fieldsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || !utf8.ValidString(text) || strings.ContainsFunc(name+value, isControl) || strings.ContainsAny(name, ": \t") {
		return fmt.Errorf("%q is not a field of the form operator=Jane Doe", text)
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

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "WARCTEE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that are not on the command line. An empty
// variable counts as none. A flag that
// may be repeated takes a line each.
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
				err = usageError{fmt.Errorf("environment variable %s: %w", envName(f.Name), e)}
				return
			}
		}
	})
	return err
}
