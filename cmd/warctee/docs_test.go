package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\b(Test|Fuzz)[A-Z0-9]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// What the documents say is tested by somebody is.
func TestDocsNameRealTests(t *testing.T) {
	tests := make(map[string]bool)
	for _, pattern := range []string{"../../*/*_test.go", "../../*/*/*_test.go"} {
		for _, b := range readAllFiles(t, pattern) {
			for _, m := range testFunc.FindAllSubmatch(b, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	named := 0
	for _, pattern := range []string{"../../SECURITY.md", "../../docs/*.md"} {
		for file, b := range readAllFiles(t, pattern) {
			for i, line := range bytes.Split(b, []byte("\n")) {
				for _, name := range testName.FindAllString(string(line), -1) {
					named++
					if !tests[name] {
						t.Errorf("%s:%d names %s, and there is no such test", strings.TrimPrefix(file, "../../"), i+1, name)
					}
				}
			}
		}
	}
	if len(tests) < 200 || named < 20 {
		t.Errorf("there are %d tests, and the documents name %d: too few to be true", len(tests), named)
	}
}

var (
	listedModule   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	requiredModule = regexp.MustCompile(`(?m)^\t(\S+) v\S+( // indirect)?$`)
	usedTool       = regexp.MustCompile(`(?m)^(?:tool |\t)(\S+/cmd/\S+)$`)
)

// Each module that we chose has a line in docs/dependencies.md, and no other has.
func TestDependenciesAreListed(t *testing.T) {
	listed := make(map[string]bool)
	for _, m := range listedModule.FindAllSubmatch(readAllFiles(t, "../../docs/dependencies.md")["../../docs/dependencies.md"], -1) {
		listed[string(m[1])] = true
	}
	mod := readAllFiles(t, "../../go.mod")["../../go.mod"]
	tools := usedTool.FindAllSubmatch(mod, -1)
	chosen := 0
	for _, m := range requiredModule.FindAllSubmatch(mod, -1) {
		path := string(m[1])
		isTool := slices.ContainsFunc(tools, func(tool [][]byte) bool { return strings.HasPrefix(string(tool[1]), path+"/") })
		if len(m[2]) > 0 && !isTool {
			continue
		}
		chosen++
		if !listed[path] {
			t.Errorf("docs/dependencies.md does not tell of %s", path)
		}
		delete(listed, path)
	}
	for path := range listed {
		t.Errorf("docs/dependencies.md tells of %s, which is not in go.mod", path)
	}
	if chosen < 10 || len(tools) == 0 {
		t.Errorf("go.mod has %d modules of ours and %d tools: too few to be true", chosen, len(tools))
	}
}

// readAllFiles returns the content of the files that match, by name.
func readAllFiles(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}
