package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date",
		Long: `Print the version of warctee, the commit that it was built from with its date, and
the version of Go and the system that it was built for. "modified" means that the
sources had been changed since that commit.`,
		Example: `  warctee version`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "warctee %s\n%s %s/%s\n", fullVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// fullVersion is the version with what is known of the sources.
func fullVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	if from := sources(info); from != "" {
		return version + " (" + from + ")"
	}
	return version
}

// pseudoVersion is the end of the version of a module at a commit without a tag
// (go.dev/ref/mod#pseudo-versions): the time, and the start of the commit's hash.
var pseudoVersion = regexp.MustCompile(`[-.]([0-9]{14})-([0-9a-f]{12})(\+dirty)?$`)

// sources says which commit a program was built from: as the repository had it when
// it was built there, or as the module was called when go install fetched it.
func sources(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		parts := []string{"commit " + commit[:min(12, len(commit))]}
		if at, err := time.Parse(time.RFC3339, settings["vcs.time"]); err == nil {
			parts = append(parts, at.UTC().Format(time.DateOnly))
		}
		if settings["vcs.modified"] == "true" {
			parts = append(parts, "modified")
		}
		return strings.Join(parts, ", ")
	}
	if m := pseudoVersion.FindStringSubmatch(info.Main.Version); m != nil {
		at, err := time.Parse("20060102150405", m[1])
		if err != nil {
			return "commit " + m[2]
		}
		return "commit " + m[2] + ", " + at.Format(time.DateOnly)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return "module " + v
	}
	return ""
}
