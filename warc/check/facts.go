package check

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/lanrat/extsort"
	"github.com/warctee/warctee/warc"
)

// A fact is what there is to say about an id, or about a capture: that a record
// has it, or names it.
type fact struct {
	key    string // what it is about, see idKey and captureKey
	kind   byte
	number int64 // of a segment; orders the segments of a record

	file   int
	offset int64
	length int64 // of the record in the file, in bytes

	version    warc.Version
	id         string // of the record that the fact comes from
	recordType string
	date       string // WARC-Date; of a refersTo WARC-Refers-To-Date
	captured   string // WARC-Date, also of a refersTo
	target     uint64 // hash of WARC-Target-URI; of a refersTo of WARC-Refers-To-Target-URI; 0: there is none
	digest     uint64 // hash of WARC-Payload-Digest; 0: there is none that can be compared
	algorithm  warc.Algorithm
	flags      uint64
	block      int64 // octets of the block
	total      int64 // WARC-Segment-Total-Length, or -1
	names      []uint64
}

// The kinds of facts, in the order in which those about one id are looked at.
const (
	isDefined   byte = iota // a record has the id
	isSegment               // a record names it in WARC-Segment-Origin-ID
	isConcurred             // likewise in WARC-Concurrent-To
	isReferred              // likewise in WARC-Refers-To, or the capture in the other two fields
	isInfo                  // likewise in WARC-Warcinfo-ID
)

// The flags of a fact, about the record that it comes from.
const (
	isHead       uint64 = 1 << iota // a request with the method HEAD
	hasMethod                       // a request whose method is known
	hasPayload                      // a payload of more than nothing
	isIncomplete                    // a response whose body is missing, if its request is no HEAD
	isTruncated
	isPartial  // status 206
	isDamaged  // what the block holds is not known
	isFirst    // the first segment of several
	isMany     // it names more than maxNames
	isIdentity // a revisit of an identical payload
	isFresh    // the first record of a file, behind the warcinfo
	isHeadSeen // of a first segment: see Record.headSeen
)

const (
	maxNames = 64  // records that a fact remembers as named in WARC-Concurrent-To
	maxKey   = 160 // bytes of an id; of longer ones the rest is a hash
)

// idKey is the key of facts about a record.
func idKey(id string) string { return "i" + bounded(folded(id)) }

// folded returns an id so that equal ones are the same text: a UUID is the same in
// either case (RFC 9562 §4).
func folded(id string) string {
	const uuid = "<urn:uuid:"
	if len(id) < maxKey && len(id) > len(uuid) && strings.EqualFold(id[:len(uuid)], uuid) {
		return strings.ToLower(id)
	}
	return id
}

// captureKey is the key of facts about what was captured at a time.
func captureKey(uri, date string) string {
	if t, err := warc.ParseDate(date, warc.V1_1); err == nil {
		date = warc.FormatDate(t, warc.V1_1)
	}
	sum := sha256.Sum256([]byte(uri + " " + date))
	return "c" + hex.EncodeToString(sum[:16])
}

// bounded shortens what is long, and what would disturb the order of encoded
// facts.
func bounded(s string) string {
	if len(s) <= maxKey && strings.IndexByte(s, 0) < 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.ReplaceAll(s[:min(len(s), 64)], "\x00", "?") + "…" + hex.EncodeToString(sum[:])
}

var seed = maphash.MakeSeed()

// hashed returns a number for a text, 0 for none.
func hashed(s string) uint64 {
	if s == "" {
		return 0
	}
	return max(maphash.String(seed, s), 1)
}

// facts notes what a record says, for links.
func (f *file) facts(r *Record) {
	base := fact{
		file: f.index, offset: r.Offset, length: r.Length, version: r.Version, id: bounded(r.ID), recordType: cut(r.Type, 40), date: cut(r.Date, 40), captured: cut(r.Date, 40),
		target: hashed(r.TargetURI), block: r.BlockSize, total: -1, flags: flagsOf(r),
	}
	if d, err := parseDigest(r.Header.Get("WARC-Payload-Digest")); err == nil {
		base.algorithm, base.digest = d.Algorithm, hashed(string(d.Sum))
	}
	concurrent := r.Header.Values("WARC-Concurrent-To")
	for _, id := range concurrent[:min(len(concurrent), maxNames)] {
		base.names = append(base.names, hashed(folded(id)))
	}
	f.define(r, base)
	if r.damaged {
		return
	}
	base.names = nil
	if !r.is(warc.TypeWarcinfo, warc.TypeConversion, warc.TypeContinuation) { // which shall not have it
		for _, id := range concurrent {
			f.note(base, isConcurred, idKey(id))
		}
	}
	if r.Type == warc.TypeContinuation {
		segment := base
		segment.number, segment.total = number(r.Header.Get("WARC-Segment-Number")), -1
		if v := r.Header.Get("WARC-Segment-Total-Length"); v != "" {
			segment.total = number(v)
		}
		if id := r.Header.Get("WARC-Segment-Origin-ID"); id != "" && segment.number > 0 {
			f.note(segment, isSegment, idKey(id))
		}
	}
	f.noteOriginal(r, base)
	f.noteWarcinfo(r, base)
}

func flagsOf(r *Record) uint64 {
	var flags uint64
	set := func(flag uint64, is bool) {
		if is {
			flags |= flag
		}
	}
	set(isHead, r.Method == "HEAD")
	set(hasMethod, r.Method != "")
	set(hasPayload, r.PayloadSize > 0)
	set(isIncomplete, r.incomplete && r.Type == warc.TypeResponse)
	set(isTruncated, r.Header.Get("WARC-Truncated") != "")
	set(isPartial, r.Status == 206)
	set(isDamaged, r.damaged)
	set(isFirst, r.Type != warc.TypeContinuation && number(r.Header.Get("WARC-Segment-Number")) == 1)
	set(isMany, len(r.Header.Values("WARC-Concurrent-To")) > maxNames)
	set(isFresh, r.place == 1)
	set(isHeadSeen, r.headSeen)
	set(isIdentity, r.Type == warc.TypeRevisit && profile(r.Header.Get("WARC-Profile")) == identicalPayload)
	return flags
}

func (f *file) note(base fact, kind byte, key string) {
	base.kind, base.key = kind, key
	f.emit(base.encode())
}

// define notes that there is a record with its id, and what was captured.
func (f *file) define(r *Record, base fact) {
	if r.ID != "" {
		f.note(base, isDefined, idKey(r.ID))
	}
	if r.is(warc.TypeResponse, warc.TypeResource) && r.TargetURI != "" {
		f.note(base, isDefined, captureKey(r.TargetURI, r.Date))
	}
}

// noteOriginal notes what a record refers to.
func (f *file) noteOriginal(r *Record, base fact) {
	id, date := r.Header.Get("WARC-Refers-To"), r.Header.Get("WARC-Refers-To-Date")
	uri := withoutBrackets(r.Header.Get("WARC-Refers-To-Target-URI"))
	if r.Type == warc.TypeRevisit {
		f.revisitFields(r, id, uri, date)
	}
	base.date, base.target = cut(date, 40), hashed(uri)
	switch {
	case id != "":
		f.note(base, isReferred, idKey(id))
	case uri != "" && date != "":
		f.note(base, isReferred, captureKey(uri, date))
	}
}

// revisitFields checks that a revisit says where its original is (§6.7).
func (f *file) revisitFields(r *Record, id, uri, date string) {
	if profile(r.Header.Get("WARC-Profile")) != identicalPayload {
		return
	}
	if r.BlockSize > 0 && !strings.EqualFold(r.Header.Get("WARC-Truncated"), "length") {
		f.add(r, RuleRevisitTruncated, "a revisit that keeps the response head is truncated: length")
	}
	switch {
	case f.options.Profile == Warctee:
		for _, name := range []string{"WARC-Refers-To", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"} {
			if r.Header.Get(name) == "" {
				f.addField(r, RuleRefersToFields, name, "%s is missing", name)
			}
		}
	case id == "" && (uri == "" || date == ""):
		f.add(r, RuleRefersToFields, "there is no WARC-Refers-To, nor both WARC-Refers-To-Target-URI and WARC-Refers-To-Date")
	}
}

// maxWarcinfos bounds how many warcinfo records of a file are remembered. What
// names others is checked at the end.
const maxWarcinfos = 16

// noteWarcinfo checks which warcinfo a record names. Nearly always it is the one
// at the start of its file, which takes no fact.
func (f *file) noteWarcinfo(r *Record, base fact) {
	if r.Type == warc.TypeWarcinfo {
		if len(f.warcinfos) == maxWarcinfos {
			f.warcinfos = slices.Delete(f.warcinfos, 0, 1)
		}
		f.warcinfos = append(f.warcinfos, bounded(r.ID))
		return
	}
	id := r.Header.Get("WARC-Warcinfo-ID")
	short := bounded(id)
	switch {
	case id == "":
		f.add(r, RuleWarcinfoPlace, "WARC-Warcinfo-ID is missing")
	case slices.Contains(f.warcinfos, short):
	case f.lastInfo == short && f.options.Profile == Standard: // once is enough
	default:
		f.lastInfo = short
		f.note(base, isInfo, idKey(id))
	}
}

func withoutBrackets(uri string) string {
	if inner, ok := strings.CutPrefix(uri, "<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return uri
}

// encode returns the fact in a form whose order is that of key, kind, number,
// file and offset.
func (x *fact) encode() string {
	b := make([]byte, 0, 160)
	b = append(b, x.key...)
	b = append(b, 0, x.kind)
	for _, n := range []int64{x.number, int64(x.file), x.offset} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, s := range []string{x.id, x.recordType, x.date, x.captured, string(x.version)} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range []uint64{uint64(x.length), uint64(x.block), uint64(x.total + 1), x.target, x.digest, uint64(x.algorithm), x.flags, uint64(len(x.names))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, n := range x.names {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return string(b)
}

var errFact = errors.New("a temporary file does not hold what was written to it")

// decodeFact is the inverse of encode.
func decodeFact(s string) (x fact, err error) {
	end := strings.IndexByte(s, 0)
	if end < 0 || len(s) < end+2+3*8 {
		return x, errFact
	}
	d := decoder{rest: []byte(s[end+2+3*8:])}
	fixed := []byte(s[end+2:])
	x.key, x.kind = s[:end], s[end+1]
	x.number, x.file, x.offset = int64(binary.BigEndian.Uint64(fixed)), int(binary.BigEndian.Uint64(fixed[8:])), int64(binary.BigEndian.Uint64(fixed[16:]))
	x.id, x.recordType, x.date, x.captured, x.version = d.text(), d.text(), d.text(), d.text(), warc.Version(d.text())
	x.length, x.block, x.total = int64(d.uint()), int64(d.uint()), int64(d.uint())-1
	x.target, x.digest, x.algorithm, x.flags = d.uint(), d.uint(), warc.Algorithm(d.uint()), d.uint()
	n := d.uint()
	if d.bad || n > maxNames || uint64(len(d.rest)) != n*8 {
		return x, errFact
	}
	for ; len(d.rest) > 0; d.rest = d.rest[8:] {
		x.names = append(x.names, binary.LittleEndian.Uint64(d.rest))
	}
	return x, nil
}

type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, n = true, 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() string {
	n := d.uint()
	if n > uint64(len(d.rest)) {
		d.bad, n = true, 0
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// A sorter sorts lines of which there are too many for the memory.
type sorter struct {
	in   chan string
	out  <-chan string
	errs <-chan error
	done chan struct{} // closed when nothing is taken any more
}

// factsAtOnce is how many facts are sorted in memory, of some 200 bytes each.
// The sort holds up to four such chunks.
const factsAtOnce = 30_000

func newSorter(ctx context.Context, dir string, atOnce int) *sorter {
	s := &sorter{in: make(chan string, 256), done: make(chan struct{})}
	sort, out, errs := extsort.Strings(s.in, &extsort.Config{ChunkSize: atOnce, NumWorkers: 1, SortedChanBuffSize: 256, TempFilesDir: dir})
	s.out, s.errs = out, errs
	go func() { // ends when in is closed, or with ctx, or an error of the disk
		sort.Sort(ctx)
		close(s.done)
	}()
	return s
}

func (s *sorter) add(line string) {
	select {
	case s.in <- line:
	case <-s.done: // with an error, which each tells
	}
}

// close ends the sort early; its context has ended.
func (s *sorter) close() {
	close(s.in)
	for range s.out {
	}
}

// each calls do with all lines in order, once.
func (s *sorter) each(do func(line string) error) error {
	close(s.in)
	var failed error
	for line := range s.out {
		if failed == nil {
			failed = do(line)
		}
	}
	if err := <-s.errs; err != nil && failed == nil {
		failed = fmt.Errorf("check: sorting what records say of each other: %w", err)
	}
	return failed
}
