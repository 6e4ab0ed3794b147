package wacz

import (
	"archive/zip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warctee/warctee/container"
)

// Bounds on packages that are verified.
const (
	maxPackage = 16 << 20 // octets of datapackage.json, some 200 for each file
	maxDigest  = 1 << 20  // octets of datapackage-digest.json
	maxFaults  = 10_000   // that are reported one by one
)

// VerifyOptions say what Verify wants.
type VerifyOptions struct {
	Signer   string             // as [Signer] names it: no other signature will do, nor none
	Progress func(octets int64) // is told what was read
}

// A Fault is what is wrong with a package.
type Fault struct {
	Name   string `json:"name"` // of the file in it
	Detail string `json:"detail"`
}

func (f Fault) String() string { return fmt.Sprintf("%q: %s", f.Name, f.Detail) }

// A Report is what Verify has found.
type Report struct {
	Files    int     // in the package
	Octets   int64   // of them that were read
	Faults   []Fault // none: the package is whole; at most 10,000
	Further  int     // faults that are not among them
	Signer   string  // of a signature that is valid, as [Signer] names it
	Signed   string  // when, as the signature says
	Software string  // that signed
	Notes    []string
}

// Verify compares a package with the sizes and digests in it, and its signature
// with its public key. The error is one of reading, or says that r is no zip
// file with a datapackage.json.
func Verify(ctx context.Context, r io.ReaderAt, size int64, opts VerifyOptions) (Report, error) {
	z, err := container.NewZip(r, size) // checkNames reports insecure paths
	if err != nil {
		return Report{}, err
	}
	v := &verifier{ctx: ctx, opts: opts, files: make(map[string]*zip.File), listed: make(map[string]bool)}
	v.checkNames(z)
	err = v.verify()
	return v.report, err
}

type verifier struct {
	ctx    context.Context
	opts   VerifyOptions
	files  map[string]*zip.File
	listed map[string]bool
	report Report
}

func (v *verifier) fault(name, format string, args ...any) {
	if len(v.report.Faults) == maxFaults {
		v.report.Further++
		return
	}
	v.report.Faults = append(v.report.Faults, Fault{cut(name), cut(fmt.Sprintf(format, args...))})
}

// cut bounds what is said of a fault, in bytes.
func cut(s string) string {
	const limit = 1000
	if len(s) <= limit {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// checkNames looks at the directory of the zip file: a name is there once, and
// leads nowhere else.
func (v *verifier) checkNames(files []*zip.File) {
	for _, f := range files {
		name := f.Name
		if strings.HasSuffix(name, "/") && f.UncompressedSize64 == 0 {
			continue
		}
		v.report.Files++
		switch {
		case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) || path.Clean("/"+name) != "/"+name:
			v.fault(name, "the name leads out of the package, or is no plain one")
		case v.files[name] != nil:
			v.fault(name, "there are two files of this name: programs differ in which they take")
		case f.Flags&1 != 0:
			v.fault(name, "it is encrypted")
		case f.Method != zip.Store && !mayDeflate(name):
			v.fault(name, "it is compressed by the zip, so a replay cannot read parts of it")
		}
		if v.files[name] == nil {
			v.files[name] = f
		}
	}
}

// mayDeflate tells which files the format allows to be compressed: those that
// are not compressed already and are read whole.
func mayDeflate(name string) bool {
	return !strings.HasPrefix(name, archiveDir) && !strings.HasSuffix(name, ".gz")
}

func (v *verifier) verify() error {
	text, err := v.readWhole(packageName, maxPackage)
	if err != nil {
		return err
	}
	v.checkDigest(text, fmt.Sprintf("sha256:%x", sha256.Sum256(text)))
	if err := v.checkPackage(text); err != nil {
		return err
	}
	v.checkUnlisted()
	return v.ctx.Err()
}

// checkPackage goes over datapackage.json, and compares the files that it lists. They
// are not collected: a list of many is short. The error is that of the context.
func (v *verifier) checkPackage(text []byte) error {
	var pkg dataPackage // but for its resources
	has := make(map[string]bool)
	broken := eachMember(text, func(name string, d *json.Decoder) error {
		switch name {
		case "profile":
			return d.Decode(&pkg.Profile)
		case "wacz_version":
			return d.Decode(&pkg.Version)
		case "resources":
			return eachElement(d, func() error {
				var r resource
				if err := d.Decode(&r); err != nil {
					return err
				}
				for _, want := range wantedDirs {
					has[want.dir] = has[want.dir] || strings.HasPrefix(r.Path, want.dir)
				}
				if err := v.checkResource(r); err != nil {
					return stopError{err}
				}
				return nil
			})
		}
		return skipValue(d)
	})
	if stop := (stopError{}); errors.As(broken, &stop) {
		return stop.error
	}
	if broken != nil {
		v.fault(packageName, "it cannot be read: %v", broken)
		return nil
	}
	if pkg.Profile != "data-package" && pkg.Profile != "wacz-package" {
		v.fault(packageName, "the profile is %q, not data-package", pkg.Profile)
	}
	if pkg.Version == "" {
		v.fault(packageName, "it has no wacz_version")
	}
	for _, want := range wantedDirs {
		if !has[want.dir] {
			v.fault(packageName, "the package has no %s (%s)", want.what, want.dir)
		}
	}
	return nil
}

// wantedDirs are where a package has at least one file.
var wantedDirs = []struct{ dir, what string }{
	{archiveDir, "WARC file"}, {indexesDir, "index"}, {pagesName, "list of pages"},
}

// A stopError ends the verification.
type stopError struct{ error }

// readWhole reads a small file.
func (v *verifier) readWhole(name string, limit int64) ([]byte, error) {
	f := v.files[name]
	if f == nil {
		return nil, fmt.Errorf("no WACZ: there is no %s in it", name)
	}
	if f.UncompressedSize64 > uint64(limit) {
		return nil, fmt.Errorf("%s has %d octets, more than %d", name, f.UncompressedSize64, limit)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	text := make([]byte, f.UncompressedSize64)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if v.opts.Progress != nil {
		v.opts.Progress(int64(f.CompressedSize64))
	}
	return text, nil
}

// checkDigest compares the digest of the package, and its signature.
func (v *verifier) checkDigest(text []byte, hash string) {
	if v.files[digestName] == nil {
		v.report.Notes = append(v.report.Notes, "there is no "+digestName+": nothing tells whether datapackage.json is as it was")
		v.wantSigner("")
		return
	}
	signer := ""
	defer func() { v.wantSigner(signer) }()
	digest, err := v.readWhole(digestName, maxDigest)
	if err != nil {
		v.fault(digestName, "%v", err)
		return
	}
	var d digestFile
	if err := json.Unmarshal(digest, &d); err != nil {
		v.fault(digestName, "it cannot be read: %v", err)
		return
	}
	if d.Path != packageName {
		v.fault(digestName, "it is about %q", d.Path)
	}
	if new := newHash(d.Hash); new == nil {
		v.fault(digestName, "digest %q cannot be computed here", d.Hash)
	} else if got := textHash(d.Hash, new, text); got != d.Hash {
		v.fault(packageName, "its digest is %s, not %s", got, d.Hash)
	}
	switch s := d.SignedData; {
	case s == nil:
		v.report.Notes = append(v.report.Notes, "it is not signed")
	case s.Hash != hash:
		v.fault(digestName, "the signature is of %q, not of the digest of datapackage.json", s.Hash)
	case s.Domain != "" && s.PublicKey == "":
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("it is signed for the domain %q, which is not verified here", s.Domain))
	default:
		if signer, err = s.check(); err != nil {
			v.fault(digestName, "%v", err)
			return
		}
		v.report.Signer, v.report.Signed, v.report.Software = signer, s.Created, s.Software
	}
}

func (v *verifier) wantSigner(signer string) {
	if v.opts.Signer == "" || v.opts.Signer == signer {
		return
	}
	if signer == "" {
		signer = "nobody that can be told"
	}
	v.fault(digestName, "it is signed by %s, not by %s", signer, v.opts.Signer)
}

// UnmarshalJSON reads a resource, also as version 1.0.0 of the format has it.
func (r *resource) UnmarshalJSON(text []byte) error {
	type plain resource // without this method
	old := struct {
		*plain
		Hashing string
		Stats   *struct {
			Hash  string
			Bytes int64
		}
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	if old.Stats != nil {
		r.Hash, r.Bytes = old.Hashing+":"+old.Stats.Hash, old.Stats.Bytes
	}
	return nil
}

// newHash returns the hash function of a digest such as sha256:00…, nil when it
// is not known.
func newHash(digest string) func() hash.Hash {
	algorithm, _, _ := strings.Cut(digest, ":")
	return map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New, "md5": md5.New}[algorithm]
}

func textHash(like string, new func() hash.Hash, text []byte) string {
	h := new()
	h.Write(text)
	return sumLike(like, h)
}

func sumLike(like string, h hash.Hash) string {
	algorithm, _, _ := strings.Cut(like, ":")
	return fmt.Sprintf("%s:%x", algorithm, h.Sum(nil))
}

// checkResource compares a file with its size and digest. What cannot be read is
// a fault; the error is that of the context.
func (v *verifier) checkResource(r resource) error {
	if v.listed[r.Path] {
		v.fault(r.Path, "it is listed twice")
		return nil
	}
	f := v.files[r.Path]
	if f != nil {
		v.listed[f.Name] = true
	}
	newSum := newHash(r.Hash)
	switch {
	case f == nil:
		v.fault(r.Path, "it is missing")
		return nil
	case r.Bytes < 0 || f.UncompressedSize64 != uint64(r.Bytes):
		v.fault(r.Path, "it has %d octets, not %d", f.UncompressedSize64, r.Bytes)
		return nil
	case newSum == nil:
		v.fault(r.Path, "digest %q cannot be computed here", r.Hash)
		return nil
	}
	content, err := f.Open()
	if err != nil {
		v.fault(r.Path, "%v", err)
		return nil
	}
	defer content.Close()
	h := newSum()
	// More than the size would be a lie of the zip: one octet of it is enough.
	n, err := io.CopyBuffer(h, &meter{ctx: v.ctx, r: io.LimitReader(content, r.Bytes+1), told: v.opts.Progress}, make([]byte, 256<<10))
	v.report.Octets += n
	switch got := sumLike(r.Hash, h); {
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	case err != nil:
		v.fault(r.Path, "%v", err)
	case got != r.Hash:
		v.fault(r.Path, "its digest is %s, not %s", got, r.Hash)
	}
	return nil
}

// checkUnlisted tells of files that no digest protects.
func (v *verifier) checkUnlisted() {
	var names []string
	for name := range v.files {
		if !v.listed[name] && name != packageName && name != digestName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		v.fault(name, "it is not listed in datapackage.json")
	}
}
