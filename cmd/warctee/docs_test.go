package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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

var statusRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ")

// Each field of /status has a line in docs/status.md, and in that order.
func TestStatusIsDocumented(t *testing.T) {
	var listed, fields []string
	for _, m := range statusRow.FindAllSubmatch(readAllFiles(t, "../../docs/status.md")["../../docs/status.md"], -1) {
		listed = append(listed, string(m[1]))
	}
	for f := range reflect.TypeFor[serverStatus]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	if !slices.Equal(listed, fields) {
		t.Errorf("docs/status.md lists\n%q, the fields are\n%q", listed, fields)
	}
}

var (
	namedClasses = regexp.MustCompile(`\| class ([a-z-]+(?:, [a-z-]+)*)`)
	tableRow     = regexp.MustCompile(`(?m)^\|.*\|$`)
)

// The classes of failures that docs/faults.md names are in docs/failures.md.
func TestClassesAreDocumented(t *testing.T) {
	failures := string(readAllFiles(t, "../../docs/failures.md")["../../docs/failures.md"])
	_, classes, _ := strings.Cut(failures, "\n| class | at | |\n")
	named := 0
	for _, m := range namedClasses.FindAllSubmatch(readAllFiles(t, "../../docs/faults.md")["../../docs/faults.md"], -1) {
		for class := range strings.SplitSeq(string(m[1]), ", ") {
			named++
			if !strings.Contains(classes, "`"+class+"`") {
				t.Errorf("docs/faults.md names the class %s, which docs/failures.md does not list", class)
			}
		}
	}
	if named < 10 {
		t.Errorf("docs/faults.md names %d classes: too few to be true", named)
	}
}

// All rows of a table have as many cells as its head.
func TestTablesAreWhole(t *testing.T) {
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		for file, b := range readAllFiles(t, pattern) {
			cells := 0 // of the table
			for i, line := range strings.Split(string(b), "\n") {
				if !tableRow.MatchString(line) {
					cells = 0
					continue
				}
				n := strings.Count(line, "|") - strings.Count(line, `\|`)
				if cells == 0 {
					cells = n
				}
				if n != cells {
					t.Errorf("%s:%d has %d cells, the table %d", strings.TrimPrefix(file, "../../"), i+1, n-1, cells-1)
				}
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// Links between the documents lead somewhere, each page is in the table of
// contents, and that is the only page with a name that looks like one.
func TestDocsAreLinked(t *testing.T) {
	const contents = "../../docs/README.md"
	inContents := make(map[string]bool)
	links := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		for file, b := range readAllFiles(t, pattern) {
			for _, m := range link.FindAllSubmatch(b, -1) {
				target, anchor, _ := strings.Cut(string(m[1]), "#")
				if strings.Contains(target, ":") {
					continue // on the web
				}
				links++
				path := file
				if target != "" {
					path = filepath.Join(filepath.Dir(file), target)
				}
				if file == contents {
					inContents[path] = true
				}
				text, err := os.ReadFile(path)
				if err != nil {
					t.Errorf("%s links to %s: %v", file, target, err)
				} else if anchor != "" && !slices.Contains(anchors(text), anchor) {
					t.Errorf("%s links to %s#%s, and there is no such heading", file, target, anchor)
				}
			}
		}
	}
	for page := range readAllFiles(t, "../../docs/*.md") {
		if page != contents && !inContents[page] {
			t.Errorf("docs/README.md does not list %s", page)
		}
		if strings.HasPrefix(filepath.Base(page), "index.") {
			t.Errorf("%s looks like a table of contents", page)
		}
	}
	if links < 50 {
		t.Errorf("there are %d links: too few to be true", links)
	}
}

var (
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the names by which the headings of a page are linked to, as
// GitHub makes them.
func anchors(page []byte) (names []string) {
	for _, m := range headingLine.FindAllSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(string(m[1])), "")
		names = append(names, strings.ReplaceAll(text, " ", "-"))
	}
	return names
}

var (
	optionRow = regexp.MustCompile("(?m)^\\| (`--[^|]*(?:\\\\\\|[^|]*)*) \\|")
	optionIn  = regexp.MustCompile("`--([a-z-]+)")
)

// Each option of record has a row in the README's table or in docs/limits.md or
// docs/storage.md, and no row is of another.
func TestOptionsAreDocumented(t *testing.T) {
	rows := make(map[string]bool)
	for _, page := range []string{"../../README.md", "../../docs/limits.md", "../../docs/storage.md"} {
		for _, row := range optionRow.FindAllSubmatch(readAllFiles(t, page)[page], -1) {
			for _, m := range optionIn.FindAllSubmatch(row[1], -1) {
				rows[string(m[1])] = true
			}
		}
	}
	newRecordCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !rows[f.Name] && !f.Hidden {
			t.Errorf("no table describes --%s", f.Name)
		}
		delete(rows, f.Name)
	})
	for name := range rows {
		t.Errorf("a table describes --%s, which record does not have", name)
	}
}

var quoted = regexp.MustCompile("(?m)^(?:### |\\| )`([^`…]{12,})`")

// The messages that docs/troubleshooting.md quotes are those of the program.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	const page = "../../docs/troubleshooting.md"
	var source []byte
	for _, pattern := range []string{"../../*/*.go", "../../*/*/*.go"} {
		for file, b := range readAllFiles(t, pattern) {
			if !strings.HasSuffix(file, "_test.go") {
				source = append(source, b...)
			}
		}
	}
	checked := 0
	for _, m := range quoted.FindAllSubmatch(readAllFiles(t, page)[page], -1) {
		checked++
		if message := bytes.TrimSuffix(m[1], []byte(" 127.0.0.1:8000")); !bytes.Contains(source, message) {
			t.Errorf("no message of the program says %q", message)
		}
	}
	if checked < 8 {
		t.Errorf("%d messages are quoted: too few to be true", checked)
	}
}
