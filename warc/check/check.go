// Package check looks whether WARC files are right: not only readable, but as
// ISO 28500 and docs/records.md say they are.
//
// [Files] takes all files that belong together, since a revisit record may
// refer to another file. It goes over them once and then over the records:
//
//	file     warc.Reader, strict        members, lengths, line ends
//	record   fields                     which, how often, in which form
//	block    digest, HTTP message       entity body, framing, payload digest
//	records  links                      ids, concurrent, refers-to, warcinfo
//
// It is stricter than the standard where docs/records.md is: each file starts
// with a warcinfo record which all others name, each response has a payload
// digest, digests are in the usual form. A file that cannot be read any
// further gives one finding, and what is behind it is not looked at.
package check

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
)

// Rules that a finding can name, besides those of [warc.Error]. Sections are
// those of WARC 1.1.
const (
	RuleOpen          = "open-file"      // the name still ends in .open
	RuleCompression   = "compression"    // .gz in the name, and gzip in the file, or neither
	RuleMandatory     = "mandatory"      // a field that the type must have (§5, §6)
	RuleForbidden     = "forbidden"      // a field that the type must not have (§5)
	RuleRepeated      = "repeated"       // a field twice that may be there once (§4)
	RuleRecordID      = "record-id"      // an id that is not a URI in angle brackets (§5.2)
	RuleUniqueID      = "unique-id"      // an id that another record has (§5.2)
	RuleDate          = "date"           // form of WARC-Date (§5.4)
	RuleTargetURI     = "target-uri"     // not a URI, or in more than one spelling (§5.8)
	RuleIPAddress     = "ip-address"     // not in the form of RFC 5952 (§5.7)
	RuleContentType   = "content-type"   // of HTTP messages and warcinfo (§5.6)
	RuleTruncated     = "truncated"      // unknown reason, or missing where the block is incomplete (§5.13)
	RuleProfile       = "profile"        // unknown WARC-Profile (§6.7)
	RuleDigestForm    = "digest-form"    // label, base or case
	RuleDigestMissing = "digest-missing" // of block or payload, of the records of an exchange
	RuleBlockDigest   = "block-digest"   // wrong, or of an unknown algorithm (§5.9)
	RulePayloadDigest = "payload-digest" // the same, or of a request without a body (§5.10)
	RuleWarcFields    = "warc-fields"    // the block is not application/warc-fields
	RuleHTTPHead      = "http-head"      // the head of the message cannot be understood
	RuleHTTPBody      = "http-body"      // wrong framing, bytes behind the end, or a body in a revisit
	RuleInterim       = "interim"        // a 1xx in place of the response
	RuleWarcinfo      = "warcinfo"       // not first in its file, or WARC-Filename is another
	RuleWarcinfoID    = "warcinfo-id"    // does not name a warcinfo earlier in the file (§5.14)
	RuleConcurrentTo  = "concurrent-to"  // names nothing, not mutual, or records of two captures (§5.5)
	RuleRefersTo      = "refers-to"      // a revisit of nothing, or of what is no original (§6.7)
)

// A Finding is a rule broken somewhere.
type Finding struct {
	File    string // path, as given
	Offset  int64  // of the record or its gzip member, in bytes
	ID      string // of the record, where known
	Rule    string
	Message string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: offset %d: %s: %s %s", f.File, f.Offset, f.Rule, f.Message, f.ID)
}

// A Record is what was seen of a record.
type Record struct {
	File           string // path, as given
	Offset, Length int64  // of the record or its gzip member in the file, in bytes
	Version        warc.Version
	Header         warc.Header
	Type           string // lower-case
	ID             string // with angle brackets
	TargetURI      string // without
	Date           string // as written
	BlockSize      int64  // octets
	PayloadSize    int64  // octets of the entity body; where there is no HTTP message, of the block
	Method         string // of an HTTP request
	Status         int    // of an HTTP response, also in a revisit

	incomplete bool // the HTTP body ends before its framing says
}

// Block reads the block of the record from its file.
func (r *Record) Block() ([]byte, error) {
	f, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z := warc.NewReader(io.NewSectionReader(f, r.Offset, r.Length))
	if _, err := z.Next(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return io.ReadAll(z)
}

func (r *Record) is(types ...string) bool { return slices.Contains(types, r.Type) }

// A Report is what [Files] found.
type Report struct {
	Findings []Finding // in order of files and offsets
	Records  []Record  // in order of files and offsets
}

func (p *Report) add(r *Record, rule, format string, args ...any) {
	p.Findings = append(p.Findings, Finding{r.File, r.Offset, r.ID, rule, fmt.Sprintf(format, args...)})
}

// Files checks WARC files that belong together. An error means that a file
// could not be read, not that there is something wrong in it.
func Files(paths ...string) (*Report, error) {
	p := new(Report)
	for _, path := range paths {
		if err := p.file(path); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	p.links()
	order := make(map[string]int)
	for i, path := range paths {
		order[path] = i
	}
	slices.SortStableFunc(p.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Offset, b.Offset))
	})
	return p, nil
}

func (p *Report) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	whole := &Record{File: path}
	name, open := strings.CutSuffix(filepath.Base(path), ".open")
	if open {
		p.add(whole, RuleOpen, "the file was not finished")
	}
	in := bufio.NewReaderSize(f, 64<<10)
	magic, _ := in.Peek(2) // an error comes again
	if gzip := string(magic) == "\x1f\x8b"; gzip != strings.HasSuffix(name, ".gz") {
		p.add(whole, RuleCompression, "gzip in the file: %v, by its name: %v", gzip, !gzip)
	}

	z := warc.NewReader(in)
	z.Strict = true
	buf := make([]byte, 64<<10)
	for n := 0; ; n++ {
		head, err := z.Next()
		if err == nil {
			r := newRecord(path, head)
			if n == 0 {
				p.firstRecord(r, name)
			}
			err = p.record(r, z, buf)
		}
		broken := (*warc.Error)(nil)
		switch {
		case err == io.EOF && n == 0:
			p.add(whole, RuleWarcinfo, "the file has no records")
			return nil
		case err == io.EOF:
			return nil
		case errors.As(err, &broken):
			p.add(&Record{File: path, Offset: broken.Offset}, broken.Rule, "%v; what follows was not checked", broken.Err)
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func newRecord(path string, head *warc.Record) *Record {
	return &Record{
		File: path, Offset: head.Offset, Version: head.Version, Header: head.Header, BlockSize: head.Length,
		Type: head.Type(), ID: head.ID(), TargetURI: head.TargetURI(), Date: head.Header.Get("WARC-Date"),
	}
}

func (p *Report) firstRecord(r *Record, name string) {
	if r.Type != warc.TypeWarcinfo {
		p.add(r, RuleWarcinfo, "the first record of the file is not a warcinfo but a %q", r.Type)
		return
	}
	if got := r.Header.Get("WARC-Filename"); got != name && got != "" {
		p.add(r, RuleWarcinfo, "WARC-Filename is %q", got)
	}
}

// record checks a record, whose block z is about to read, by itself.
func (p *Report) record(r *Record, z *warc.Reader, buf []byte) error {
	b := newBlock(r)
	for {
		n, err := z.Read(buf)
		b.write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	r.Length = z.InputOffset() - r.Offset
	p.fields(r)
	p.block(r, b)
	p.Records = append(p.Records, *r)
	return nil
}
