package check

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/warctee/warctee/warc"
)

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

	place      int64 // how many records are before it in the file
	headSize   int64 // bytes of the header as it is in the file
	start      int64 // where its reader started
	incomplete bool  // the HTTP body ends before its framing says
	damaged    bool  // what the block holds is not known
	headSeen   bool  // of a first segment: it shows all that there is to check of the head
}

// Block reads the block of the record from its file.
func (r *Record) Block() ([]byte, error) {
	f, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := readerAt(f, r.Offset, r.Length)
	if err == nil {
		_, err = z.Next()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return io.ReadAll(z)
}

// readerAt returns a reader of what is in a part of a file.
func readerAt(f io.ReaderAt, offset, length int64) (*warc.Reader, error) {
	z := warc.NewReader(io.NewSectionReader(f, offset, length))
	if offset == 0 {
		return z, nil
	}
	var err error
	z.Dictionary, err = dictionary(f)
	return z, err
}

func (r *Record) is(types ...string) bool { return slices.Contains(types, r.Type) }

func (r *Record) segmented() bool { return r.Header.Get("WARC-Segment-Number") != "" }

// add adds a finding about a record of the file.
func (f *file) add(r *Record, rule, format string, args ...any) {
	f.addField(r, rule, "", format, args...)
}

// addField is add with the name of the field that is at fault.
func (f *file) addField(r *Record, rule, field, format string, args ...any) {
	found := ruleNamed(rule)
	severity := found.severity(&f.options)
	if severity == "" {
		return
	}
	f.told = true
	if !f.take(f.index, rule, severity) {
		return
	}
	f.findings <- Finding{
		File: f.path, Offset: r.Offset, ID: cut(r.ID, maxShown), Type: cut(r.Type, maxShown), Rule: rule, Severity: severity,
		Clause: found.clause(field, r.Version), Message: cut(fmt.Sprintf(format, args...), maxMessage),
	}
}

// Bounds on the parts of a finding, in bytes.
const (
	maxShown   = 200
	maxMessage = 1000
)

// readBlock reads the block of a record, which z has come to.
func (f *file) readBlock(r *Record, z *warc.Reader) (*block, error) {
	b := newBlock(r, f.options.Profile)
	for {
		n, err := z.Read(f.buf)
		b.write(f.buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	r.Length = z.InputOffset() + r.start - r.Offset
	return b, nil
}

// accept checks a record that was read, by itself, and notes what there is to
// check about others.
func (f *file) accept(r *Record, b *block) {
	r.place = f.records
	if f.records == 0 {
		f.firstRecord(r)
	}
	f.records++
	f.fields(r)
	f.block(r, b)
	s := &f.summaries[f.index]
	s.Records++
	s.Octets += r.BlockSize
	s.count(r.Type, 1)
	f.facts(r)
	if f.options.records != nil {
		f.options.records(r)
	}
}

func (f *file) firstRecord(r *Record) {
	if r.Type != warc.TypeWarcinfo {
		f.add(r, RuleWarcinfo, "the first record of the file is not a warcinfo but a %.80q", r.Type)
	}
}
