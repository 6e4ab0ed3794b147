package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/warctee/warctee/"

// mayImport says which packages of ours each package may import. Arrows only
// point down; a new package gets a line here.
var mayImport = map[string][]string{
	"http1":         {},
	"rotate":        {},
	"dedup":         {},
	"certs":         {"secret"},
	"coding":        {"http1"},
	"warc":          {},
	"warc/check":    {"container", "warc", "http1", "coding"},
	"warc/warctest": {"warc/check"},
	"arc":           {},
	"container":     {"arc"},
	"archive":       {"container", "warc", "http1", "coding"},
	"convert":       {"arc", "archive", "http1", "warc"},
	"cdx":           {"arc", "archive", "container", "http1", "warc"},
	"wacz":          {"archive", "cdx", "container", "http1", "secret", "warc"},
	"manifest":      {},
	"mitm":          {"http1"},
	"proxy":         {"http1", "secret"},
	"repair":        {"warc"},
	"recorder":      {"coding", "http1", "warc", "dedup", "rotate"},
	"resolve":       {},
	"secret":        {},
	"cmd/warctee":   {"arc", "archive", "cdx", "certs", "coding", "container", "convert", "dedup", "manifest", "mitm", "proxy", "recorder", "repair", "resolve", "rotate", "wacz", "warc", "warc/check"},
	"bench":         {"certs", "dedup", "mitm", "proxy", "warc", "warc/check"},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-buildvcs=false", "-json=ImportPath,Imports,Doc", module+"...").Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var pkg struct {
			ImportPath, Doc string
			Imports         []string
		}
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(pkg.ImportPath, module)
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("package %s has no line in mayImport", name)
		}
		if pkg.Doc == "" {
			t.Errorf("package %s has no package comment", name)
		}
		for _, imported := range pkg.Imports {
			if ours, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s", name, ours)
			}
		}
	}
	if seen != len(mayImport) {
		t.Errorf("go list shows %d packages, mayImport has %d", seen, len(mayImport))
	}
}
