package wacz

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func verify(t testing.TB, packed []byte, opts VerifyOptions) Report {
	t.Helper()
	report, err := Verify(context.Background(), bytes.NewReader(packed), int64(len(packed)), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// A part is a file of a zip file.
type part struct {
	name, content string
	method        uint16
}

func zipOf(t testing.TB, parts []part) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, p := range parts {
		w, err := z.CreateHeader(&zip.FileHeader{Name: p.name, Method: p.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(p.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// goodParts are those of a package, which change changes before the digests are
// made.
func goodParts(t testing.TB, change func(pkg *dataPackage)) []part {
	t.Helper()
	_, contents := pack(t, Options{}, writeFile(t, "x.warc.gz", htmlPage("1", "http://example.org/", "", "x")))
	var pkg dataPackage
	if err := json.Unmarshal([]byte(contents[packageName]), &pkg); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&pkg)
		text, err := json.Marshal(pkg)
		if err != nil {
			t.Fatal(err)
		}
		contents[packageName] = string(text)
		contents[digestName] = fmt.Sprintf(`{"path": "datapackage.json", "hash": "sha256:%x"}`, sha256.Sum256(text))
	}
	var parts []part
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		parts = append(parts, part{name: name, content: contents[name]})
	}
	return parts
}

// edit changes the content of one part.
func edit(parts []part, name string, change func(p *part)) []part {
	for i := range parts {
		if parts[i].name == name {
			change(&parts[i])
		}
	}
	return parts
}

var oldHash = regexp.MustCompile(`"hash": "sha256:(\w+)",\s*"bytes": (\d+)`)

// What can be wrong with a package, and how it is told.
func TestVerifyFaults(t *testing.T) {
	const archived = "archive/x.warc.gz"
	set := func(content string) func(*part) { return func(p *part) { p.content = content } }
	for name, c := range map[string]struct {
		change func(pkg *dataPackage)
		parts  func(parts []part) []part
		want   []string
	}{
		"nothing":          {nil, nil, nil},
		"other compressed": {nil, func(p []part) []part { return edit(p, pagesName, func(p *part) { p.method = zip.Deflate }) }, nil},
		"md5": {func(pkg *dataPackage) {
			pkg.Resources[1].Hash = fmt.Sprintf("md5:%x", md5.Sum([]byte(goodParts(t, nil)[3].content)))
		}, nil, nil},
		"version 1.0.0": {nil, func(p []part) []part {
			p = edit(p, packageName, func(p *part) {
				p.content = oldHash.ReplaceAllString(p.content, `"hashing": "sha256", "stats": {"hash": "$1", "bytes": $2}`)
			})
			return slices.DeleteFunc(p, func(p part) bool { return p.name == digestName })
		}, nil},
		"directory": {nil, func(p []part) []part { return append(p, part{name: "archive/"}) }, nil},
		"changed": {nil, func(p []part) []part {
			return edit(p, pagesName, func(p *part) { p.content = strings.ToUpper(p.content) })
		}, []string{pagesName + ": its digest is"}},
		"longer":        {nil, func(p []part) []part { return edit(p, archived, func(p *part) { p.content += "x" }) }, []string{archived + ": it has"}},
		"missing":       {nil, func(p []part) []part { return slices.DeleteFunc(p, func(p part) bool { return p.name == archived }) }, []string{archived + ": it is missing"}},
		"added":         {nil, func(p []part) []part { return append(p, part{name: "archive/y.warc.gz"}) }, []string{"archive/y.warc.gz: it is not listed"}},
		"compressed":    {nil, func(p []part) []part { return edit(p, archived, func(p *part) { p.method = zip.Deflate }) }, []string{archived + ": it is compressed"}},
		"twice":         {nil, func(p []part) []part { return append(p, part{name: archived}) }, []string{archived + ": there are two"}},
		"leads out":     {nil, func(p []part) []part { return append(p, part{name: "../x"}) }, []string{"../x: it is not listed", "../x: the name"}},
		"absolute":      {nil, func(p []part) []part { return append(p, part{name: "/x"}) }, []string{"/x: it is not listed", "/x: the name"}},
		"backslash":     {nil, func(p []part) []part { return append(p, part{name: `..\x`}) }, []string{`..\x: it is not listed`, `..\x: the name`}},
		"other package": {nil, func(p []part) []part { return edit(p, packageName, func(p *part) { p.content += " " }) }, []string{packageName + ": its digest is"}},
		"no JSON": {nil, func(p []part) []part { return edit(p, packageName, set("{")) },
			[]string{packageName + ": it cannot be read", packageName + ": its digest", archived + ": it is not listed", "indexes/index.cdx: it is not listed", pagesName + ": it is not listed"}},
		"no digest":      {nil, func(p []part) []part { return slices.DeleteFunc(p, func(p part) bool { return p.name == digestName }) }, nil},
		"digest no JSON": {nil, func(p []part) []part { return edit(p, digestName, set("[]")) }, []string{digestName + ": it cannot be read"}},
		"digest of other": {nil, func(p []part) []part {
			return edit(p, digestName, func(p *part) { p.content = strings.Replace(p.content, "datapackage.json", "x.json", 1) })
		}, []string{digestName + ": it is about"}},
		"digest unknown": {nil, func(p []part) []part {
			return edit(p, digestName, func(p *part) { p.content = strings.Replace(p.content, "sha256", "crc", 1) })
		}, []string{digestName + ": digest"}},
		"signature of other": {nil, func(p []part) []part {
			return edit(p, digestName, func(p *part) {
				p.content = strings.Replace(p.content, "}", `,"signedData": {"hash": "sha256:00"}}`, 1)
			})
		}, []string{digestName + ": the signature is of"}},
		"listed twice":   {func(pkg *dataPackage) { pkg.Resources = append(pkg.Resources, pkg.Resources[0]) }, nil, []string{archived + ": it is listed twice"}},
		"unknown digest": {func(pkg *dataPackage) { pkg.Resources[0].Hash = "crc:00" }, nil, []string{archived + ": digest"}},
		"negative size":  {func(pkg *dataPackage) { pkg.Resources[0].Bytes = -1 }, nil, []string{archived + ": it has"}},
		"no version":     {func(pkg *dataPackage) { pkg.Version, pkg.Profile = "", "x" }, nil, []string{packageName + ": it has no wacz_version", packageName + ": the profile"}},
		"not all parts":  {func(pkg *dataPackage) { pkg.Resources = pkg.Resources[:1] }, nil, []string{packageName + ": the package has no index", packageName + ": the package has no list", "indexes/index.cdx: it is not listed", pagesName + ": it is not listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := goodParts(t, c.change)
			if c.parts != nil {
				parts = c.parts(parts)
			}
			var got []string
			for _, f := range verify(t, zipOf(t, parts), VerifyOptions{}).Faults {
				got = append(got, f.Name+": "+f.Detail)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestVerifyWantsSigner(t *testing.T) {
	packed := zipOf(t, goodParts(t, nil))
	report := verify(t, packed, VerifyOptions{Signer: "sha256:00"})
	if len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Detail, "nobody") {
		t.Errorf("the report is %+v", report)
	}
	parts := slices.DeleteFunc(goodParts(t, nil), func(p part) bool { return p.name == digestName })
	if report := verify(t, zipOf(t, parts), VerifyOptions{Signer: "sha256:00"}); len(report.Faults) != 1 {
		t.Errorf("without a digest the report is %+v", report)
	}
	domain := edit(goodParts(t, nil), digestName, func(p *part) {
		hash := p.content[strings.Index(p.content, "sha256:") : strings.Index(p.content, "sha256:")+71]
		p.content = strings.Replace(p.content, "\n}", fmt.Sprintf(`, "signedData": {"hash": %q, "domain": "example.org", "domainCert": "x"}}`, hash), 1)
	})
	report = verify(t, zipOf(t, domain), VerifyOptions{})
	if len(report.Faults) > 0 || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "example.org") {
		t.Errorf("signed by a domain: %+v", report)
	}
}

// A lie about sizes in the zip costs no more than the size that is told.
func TestVerifyDamagedZip(t *testing.T) {
	packed := zipOf(t, goodParts(t, nil))
	i := bytes.Index(packed, []byte("\x1f\x8b")) // in the WARC file
	packed[i+20] ^= 0xff
	if report := verify(t, packed, VerifyOptions{}); len(report.Faults) != 1 {
		t.Errorf("the report is %+v", report)
	}
	for name, text := range map[string][]byte{"none": nil, "text": []byte("text"), "no package": zipOf(t, []part{{name: "x"}})} {
		if _, err := Verify(context.Background(), bytes.NewReader(text), int64(len(text)), VerifyOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A directory that would fill the memory is not read.
func TestVerifyBoundsDirectory(t *testing.T) {
	one := zipOf(t, []part{{name: strings.Repeat("x", 65500)}})
	start := bytes.Index(one, []byte("PK\x01\x02"))
	end := bytes.Index(one, []byte("PK\x05\x06"))
	const n = 1100
	packed := append(bytes.Repeat(one[start:end], n), one[end:]...)
	last := packed[n*(end-start):] // the end of the directory: it counts, and tells where it is
	binary.LittleEndian.PutUint16(last[8:], n)
	binary.LittleEndian.PutUint16(last[10:], n)
	binary.LittleEndian.PutUint32(last[12:], uint32(n*(end-start)))
	binary.LittleEndian.PutUint32(last[16:], 0)
	_, err := Verify(context.Background(), bytes.NewReader(packed), int64(len(packed)), VerifyOptions{})
	if err == nil || !strings.Contains(err.Error(), "its directory has more than 8 MB") {
		t.Errorf("got %v", err)
	}
}

// Whatever the octets, Verify comes to an end, and what is whole has the digests
// that it says.
func FuzzVerify(f *testing.F) {
	good := zipOf(f, goodParts(f, nil))
	f.Add(good)
	f.Add(good[:len(good)-30])
	f.Add(zipOf(f, []part{{name: packageName, content: `{"resources":[{"path":"../x","hash":"sha256:","bytes":9}]}`}, {name: digestName, content: `{"path":"datapackage.json","hash":"sha256:","signedData":{}}`, method: zip.Deflate}}))
	f.Fuzz(func(t *testing.T, packed []byte) {
		report, err := Verify(context.Background(), bytes.NewReader(packed), int64(len(packed)), VerifyOptions{})
		if err != nil || len(report.Faults) > 0 {
			return
		}
		if !bytes.Contains(packed, []byte("archive/")) {
			t.Errorf("whole without a WARC file: %+v", report)
		}
	})
}
