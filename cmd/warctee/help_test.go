package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allCommands returns all commands, by their paths.
func allCommands(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	commands := make(map[string]*cobra.Command)
	eachCommand(newCommand(), func(c *cobra.Command) error {
		commands[c.CommandPath()] = c
		return nil
	})
	if len(commands) < 25 {
		t.Fatalf("there are %d commands: too few to be true", len(commands))
	}
	return commands
}

var statuses = regexp.MustCompile(`(?s)\nExit status: .*0 .*1 .*2 `)

// The help of each command says what its exit statuses mean.
func TestExitStatusInHelp(t *testing.T) {
	for path := range allCommands(t) {
		args := append(strings.Fields(path)[1:], "--help")
		code, stdout, stderr := inProcess(t, args...)
		if code != exitOK || stderr != "" || !statuses.MatchString(stdout) {
			t.Errorf("%s --help: exit code %d, %q, without its exit statuses:\n%s", path, code, stderr, stdout)
		}
	}
}

// Each flag that takes one of some words lets the shell complete them, and no
// flag offers files where none is meant.
func TestCompletionOfFlags(t *testing.T) {
	words := regexp.MustCompile(`^[a-z0-9.:]+$`)
	completed := 0
	for path, c := range allCommands(t) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if f.Hidden || kind == "bool" {
				return
			}
			var want []string
			for word := range strings.SplitSeq(kind, "|") {
				if strings.Contains(kind, "|") && words.MatchString(word) {
					want = append(want, word)
				}
			}
			args := append([]string{"__complete"}, strings.Fields(path)[1:]...)
			_, stdout, _ := inProcess(t, append(args, "--"+f.Name, "")...)
			var got []string
			for line := range strings.Lines(stdout) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				got = append(got, word)
			}
			directive := got[len(got)-1]
			for _, word := range want {
				completed++
				if !slices.Contains(got, word) {
					t.Errorf("%s --%s does not offer %q: %q", path, f.Name, word, got)
				}
			}
			isFile := strings.Contains(kind, "FILE") || f.Name == "root" || strings.Contains(kind, "PATH") || strings.Contains(kind, "DIR") || kind == "COMMAND"
			n, err := strconv.Atoi(strings.TrimPrefix(directive, ":"))
			if offersFiles := cobra.ShellCompDirective(n)&cobra.ShellCompDirectiveNoFileComp == 0; err != nil || offersFiles != isFile {
				t.Errorf("%s --%s %s offers files: %v (%s)", path, f.Name, kind, offersFiles, directive)
			}
		})
	}
	if completed < 20 {
		t.Errorf("%d words are completed: too few to be true", completed)
	}
	for _, command := range []string{"ls", "grep", "cat", "show"} {
		if _, stdout, _ := inProcess(t, "__complete", command, "--type", "re"); !strings.HasPrefix(stdout, "warcinfo\nresponse\n") || !strings.HasSuffix(stdout, "\ncontinuation\n:4\n") {
			t.Errorf("%s --type offers %q", command, stdout)
		}
	}
	if _, stdout, _ := inProcess(t, "__complete", "ls", "--type", "request,rev"); !strings.Contains(stdout, "\nrequest,revisit\n") {
		t.Errorf("the second of several types: %q", stdout)
	}
}

// A message about wrong usage leads to the help of the command that was typed.
func TestHintNamesTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"record now":               "'warctee record --help'",
		"ca spki x":                "'warctee ca spki --help'",
		"ls --nosuch":              "'warctee ls --help'",
		"nosuch":                   "'warctee --help'",
		"ca spkj":                  `there is no command "ca spkj"; did you mean ca spki?`,
		"record -dir x":            "unknown flag: -dir; did you mean --dir?",
		"index -o":                 "'o' in -o",
		"grep -l -q x y":           "-l/--files-with-matches and -q/--quiet exclude each other",
		"check --json --rule x":    "did you mean --rules?",
		"manifest -":               "'warctee manifest --help'",
		"help nosuch":              `there is no command "nosuch"`,
		"man":                      "Name one directory",
		"convert x --compress lz4": "--compress: \"lz4\" is not one of",
	} {
		code, stdout, stderr := inProcess(t, strings.Fields(line)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %q; want %q", line, code, stdout, stderr, want)
		}
	}
}

// There is a manual page for each command; what formats such pages has nothing to
// complain of.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, stdout, stderr := inProcess(t, "man", dir); code != exitOK || stdout+stderr != "" {
		t.Fatalf("exit code %d, %q, %q", code, stdout, stderr)
	}
	commands := allCommands(t)
	for path, c := range commands {
		name := filepath.Join(dir, strings.ReplaceAll(path, " ", "-")+".1")
		page, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := exec.LookPath("groff"); err == nil {
			said, err := exec.Command("groff", "-man", "-ww", "-z", name).CombinedOutput()
			if err != nil || len(said) > 0 {
				t.Errorf("groff says of %s: %s, %v", name, said, err)
			}
		}
		for _, heading := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"} {
			if strings.Count(string(page), "\n.SH "+heading+"\n") != 1 {
				t.Errorf("%s has no %s", name, heading)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(page), roff("--"+f.Name)) {
				t.Errorf("%s does not name --%s", name, f.Name)
			}
		})
	}
	for name, want := range map[string]string{
		"warctee-record.1": `(default 127.0.0.1:8000)`,
		"warctee-check.1":  `exit status`,
	} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(strings.ToLower(string(page)), want) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
	if got := roff(".a 'b' c-d \\e é\u2026"); got != `\&.a \(aqb\(aq c\-d \ee \[u00E9]\[u2026]` {
		t.Errorf("%q", got)
	}
}
