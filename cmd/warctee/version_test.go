package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	commit := setting("vcs.revision", "0123456789abcdef0123456789abcdef01234567")
	for _, test := range []struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		{"(devel)", nil, ""},
		{"", nil, ""},
		{"(devel)", []debug.BuildSetting{commit, setting("vcs.time", "2026-11-21T23:15:00-02:00"), setting("vcs.modified", "false")}, "commit 0123456789ab, 2026-11-22"},
		{"(devel)", []debug.BuildSetting{commit, setting("vcs.time", "2026-11-21T10:15:00Z"), setting("vcs.modified", "true")}, "commit 0123456789ab, 2026-11-21, modified"},
		{"(devel)", []debug.BuildSetting{setting("vcs.revision", "0123")}, "commit 0123"},
		{"v0.1.0", nil, "module v0.1.0"},
		{"v0.0.0-20261121101500-0123456789ab", nil, "commit 0123456789ab, 2026-11-21"},
		{"v0.1.1-0.20261121101500-0123456789ab+dirty", nil, "commit 0123456789ab, 2026-11-21"},
		{"v0.1.1-0.20269921101500-0123456789ab", nil, "commit 0123456789ab"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: test.module}, Settings: test.settings}
		if got := sources(info); got != test.want {
			t.Errorf("%+v: %q, want %q", test, got, test.want)
		}
	}
}

// A program that is built in the repository says from which commit.
func TestVersionOfBuild(t *testing.T) {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skipf("not in a repository of git: %v", err)
	}
	clone := t.TempDir() // in which nothing else is, such as a tree that belongs to a repository elsewhere
	if out, err := exec.Command("git", "clone", "--quiet", "--shared", "../..", clone).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bin := filepath.Join(t.TempDir(), "warctee")
	build := exec.Command("go", "build", "-buildvcs=true", "-o", bin, "./cmd/warctee")
	build.Dir = clone
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := regexp.MustCompile(`^warctee ` + regexp.QuoteMeta(version) + ` \(commit ` + strings.TrimSpace(string(commit))[:12] + `, 20\d\d-\d\d-\d\d\)\ngo1\S* \w+/\w+\n$`)
	cmd := exec.Command(bin, "version")
	cmd.Env = append(os.Environ(), asProgram+"=")
	out, err := cmd.Output()
	if err != nil || !want.Match(out) {
		t.Errorf("%q, %v; want %v", out, err, want)
	}
}
