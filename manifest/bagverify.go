package manifest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A bag is what is known of a bag that is verified.
type bag struct {
	*verification
	old      bool              // BagIt before 1.0: % in names stands for itself
	fetched  map[string]bool   // names in fetch.txt
	entries  map[string]*Entry // by name
	payloads []bagList
	budget   int64 // octets of lists that may still be read
}

// A bagList is a manifest of a bag.
type bagList struct {
	name  string
	names map[string]bool
}

// verifyBag verifies a bag: that it is complete and valid (RFC 8493 §3).
func verifyBag(ctx context.Context, dir string, opts Options) (Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	b := &bag{
		verification: &verification{ctx: ctx, root: root, opts: opts},
		entries:      make(map[string]*Entry),
		fetched:      make(map[string]bool),
		budget:       maxBag,
	}
	if err := b.readDeclaration(); err != nil {
		return Report{}, fmt.Errorf("%s: no bag (RFC 8493), and no list of digests: %w", dir, err)
	}
	if err := b.readLists(); err != nil {
		return Report{}, fmt.Errorf("%s: %w", dir, err)
	}
	if err := b.checkPayload(); err != nil {
		return Report{}, err
	}
	all := make([]Entry, 0, len(b.entries))
	for _, e := range b.entries {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(x, y Entry) int { return cmp.Compare(x.Name, y.Name) })
	err = b.compare(func(use func(batch []Entry) error) error { return use(all) })
	b.explain(false)
	report := b.report()
	for i, f := range report.Faults {
		if f.Kind == Missing && b.fetched[f.Name] {
			report.Faults[i].Detail = "fetch.txt tells where it can be had"
		}
	}
	return report, err
}

var declarationForm = regexp.MustCompile(`^BagIt-Version: *(\d+)\.(\d+) *\r?\nTag-File-Character-Encoding: *(\S+) *(\r?\n)*$`)

func (b *bag) readDeclaration() error {
	text, err := readFile(b.root, bagDeclaration, maxLine)
	if err != nil {
		return err
	}
	m := declarationForm.FindStringSubmatch(strings.TrimPrefix(string(text), "\ufeff"))
	if m == nil {
		b.fault(Malformed, bagDeclaration, "not the two lines BagIt-Version and Tag-File-Character-Encoding")
		return nil
	}
	b.old = m[1] == "0"
	if !b.old && m[1]+"."+m[2] != "1.0" {
		b.fault(Malformed, bagDeclaration, "the version is %s.%s, not 0.93 to 1.0", m[1], m[2])
	}
	if !strings.EqualFold(m[3], "UTF-8") {
		b.fault(Malformed, bagDeclaration, "the encoding is %q; only UTF-8 is understood here", m[3])
	}
	return nil
}

// readLists reads all manifests of the bag.
func (b *bag) readLists() error {
	files, err := fs.ReadDir(b.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		algorithm, isPayload := manifestOf(name, "manifest-")
		if !isPayload {
			var isTag bool
			if algorithm, isTag = manifestOf(name, "tagmanifest-"); !isTag {
				continue
			}
		}
		if _, known := algorithmNamed(algorithm); !known {
			b.fault(Unreadable, name, "digests of %s cannot be computed here", algorithm)
			continue
		}
		if err := b.readList(name, algorithm, isPayload); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(b.payloads) == 0 {
		b.fault(Malformed, payloadList, "the bag has no manifest of its payload")
	}
	return b.readFetch()
}

func manifestOf(name, prefix string) (algorithm string, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", false
	}
	algorithm, ok = strings.CutSuffix(rest, ".txt")
	return strings.ToLower(algorithm), ok
}

// readList reads a manifest, of the payload or of the other files.
func (b *bag) readList(name, algorithm string, payload bool) error {
	list := bagList{name, make(map[string]bool)}
	err := b.lines(name, func(line string) error {
		digits, path, ok := cutBlanks(line)
		path = strings.TrimPrefix(path, "*") // as md5sum writes it
		if !ok || path == "" {
			return errors.New("no line of the form: digest, white space, name")
		}
		digest, err := hex.DecodeString(digits)
		if a, _ := algorithmNamed(algorithm); err != nil || len(digest) != a.size {
			return fmt.Errorf("the digest is no %s in hexadecimal", algorithm)
		}
		if path, err = b.fileName(path); err != nil {
			return err
		}
		if strings.HasPrefix(path, bagPayload+"/") != payload {
			return fmt.Errorf("%q does not belong into this manifest", path)
		}
		e := b.entries[path]
		if e == nil {
			e = &Entry{Name: path, Size: -1}
			b.entries[path] = e
		}
		e.Sums = append(e.Sums, Sum{algorithm, digest})
		list.names[path] = true
		return nil
	})
	if payload {
		b.payloads = append(b.payloads, list)
	}
	return err
}

// lines gives each line of a file of the bag to use; its errors become faults.
func (b *bag) lines(name string, use func(line string) error) error {
	text, err := readFile(b.root, name, b.budget)
	if err != nil {
		return err
	}
	b.budget -= int64(len(text))
	faults, err := readLines(bytes.NewReader(text), func(line string) error {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		return use(line)
	})
	for _, f := range faults {
		b.fault(Malformed, name, "%s: %s", f.Name, f.Detail)
	}
	return err
}

func cutBlanks(line string) (first, rest string, ok bool) {
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, "", false
	}
	return line[:i], strings.TrimLeft(line[i:], " \t"), true
}

// fileName decodes a name of a manifest. Writers before BagIt 1.0 left % as it
// is, and some do so still: a file that is there under the name as written is
// meant.
func (b *bag) fileName(written string) (string, error) {
	decoded, err := safeName(bagUnescaper.Replace(written))
	if err != nil || !strings.Contains(written, "%25") {
		return decoded, err
	}
	literal, err := safeName(written)
	if err != nil {
		return "", err
	}
	if b.old {
		return literal, nil
	}
	if _, err := b.root.Lstat(filepath.FromSlash(decoded)); err != nil {
		if _, err := b.root.Lstat(filepath.FromSlash(literal)); err == nil {
			return literal, nil
		}
	}
	return decoded, nil
}

// readFetch reads which files can be had elsewhere (RFC 8493 §2.2.3).
func (b *bag) readFetch() error {
	if _, err := b.root.Lstat(bagFetch); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return b.lines(bagFetch, func(line string) error {
		_, rest, _ := cutBlanks(line)
		_, path, ok := cutBlanks(rest)
		if !ok {
			return errors.New("no line of the form: URL, length, name")
		}
		name, err := b.fileName(path)
		b.fetched[name] = err == nil
		return err
	})
}

// checkPayload looks for files that a manifest does not have, and compares their
// number and size with Payload-Oxum.
func (b *bag) checkPayload() error {
	var octets, streams int64
	err := fs.WalkDir(b.root.FS(), bagPayload, func(name string, d fs.DirEntry, err error) error {
		if ctxErr := b.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		switch {
		case err != nil && name == bagPayload:
			b.fault(Malformed, bagPayload, "the directory of the payload: %v", err)
			return nil
		case err != nil:
			b.fault(Unreadable, name, "%v", err)
			return nil
		case d.IsDir():
			return nil
		}
		if info, err := stat(b.root, name); err == nil {
			octets += info.Size()
			streams++
		}
		b.checkListed(name)
		return nil
	})
	if err == nil {
		b.checkOxum(fmt.Sprintf("%d.%d", octets, streams))
	}
	return err
}

// checkListed wants a file in every manifest of the payload, before BagIt 1.0 in
// one of them.
func (b *bag) checkListed(name string) {
	var without []string
	for _, list := range b.payloads {
		if !list.names[name] {
			without = append(without, list.name)
		}
	}
	if len(without) == len(b.payloads) || len(without) > 0 && !b.old {
		b.fault(Unexpected, name, "not in %s", strings.Join(without, ", "))
	}
}

func (b *bag) checkOxum(found string) {
	text, err := readFile(b.root, bagInfo, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		b.fault(Unreadable, bagInfo, "%v", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		label, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(label, "Payload-Oxum") {
			continue
		}
		want := strings.TrimSpace(value)
		octets, streams, _ := strings.Cut(want, ".")
		if _, err := strconv.ParseUint(octets, 10, 64); err != nil {
			b.fault(Malformed, bagInfo, "Payload-Oxum is %q, not of the form 1234.5", want)
		} else if _, err := strconv.ParseUint(streams, 10, 64); err != nil {
			b.fault(Malformed, bagInfo, "Payload-Oxum is %q, not of the form 1234.5", want)
		} else if want != found {
			b.fault(Size, bagInfo, "the payload has %s octets.files, Payload-Oxum says %s", found, want)
		}
	}
}
