package check

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warctee/warctee/warc"
)

// A group is what facts about one id, or one capture, are looked at with.
type group struct {
	*checker
	found    *sorter // of findings, see lineOf
	key      string
	defined  *fact // the first record that has the id
	segments *segments
	payloads map[warc.Algorithm][]uint64 // hashes of the digests that its payload can have, of those that were asked for
}

// links checks what records say of each other: the facts about one id come
// together, that it is defined first. The findings are sorted once more, by file
// and offset.
func (c *checker) links(ctx context.Context, facts *sorter, found func(Finding)) error {
	g := &group{checker: c, found: newSorter(ctx, c.options.TempDir, findingsAtOnce)}
	err := facts.each(func(line string) error {
		x, err := decodeFact(line)
		if err != nil {
			return err
		}
		return g.add(&x)
	})
	if err == nil {
		err = g.end()
	}
	err2 := g.found.each(func(line string) error {
		if f, ok := c.findingOf(line); ok {
			found(f)
		}
		return nil
	})
	if err == nil {
		err = err2
	}
	return err
}

func (g *group) add(x *fact) error {
	if x.key != g.key {
		if err := g.end(); err != nil {
			return err
		}
		g.key = x.key
	}
	switch x.kind {
	case isDefined:
		switch {
		case g.defined == nil:
			g.defined = x
		case x.key[0] == 'i':
			g.report(x, RuleUniqueID, "is also the id of the record at offset %d of %s", g.defined.offset, g.paths[g.defined.file])
		}
	case isSegment:
		if g.segments == nil {
			g.segments = newSegments(g.defined)
		}
		g.segment(x)
	case isConcurred:
		g.concurrent(x)
	case isReferred:
		return g.refersTo(x)
	case isInfo:
		g.warcinfo(x)
	}
	return nil
}

// end is called behind the last fact of a group.
func (g *group) end() error {
	if g.defined != nil && g.defined.is(isFirst) && g.segments == nil && g.key[0] == 'i' {
		g.segments = newSegments(g.defined)
	}
	var err error
	if g.segments != nil {
		err = g.endSegments()
	}
	g.defined, g.segments, g.payloads = nil, nil, nil
	return err
}

func (x *fact) is(flag uint64) bool { return x.flags&flag != 0 }

func (x *fact) isType(types ...string) bool { return slices.Contains(types, x.recordType) }

func (x *fact) namesID(id string) bool {
	return x.is(isMany) || slices.Contains(x.names, hashed(folded(id)))
}

// named is the id or capture that the facts are about, for people.
func (g *group) named() string {
	if g.key[0] == 'c' {
		return "the capture of WARC-Refers-To-Target-URI at WARC-Refers-To-Date"
	}
	return g.key[1:]
}

func (g *group) sameDate(a, b string) bool {
	if a == b || g.options.Profile == Warctee {
		return a == b
	}
	s, err := warc.ParseDate(a, warc.V1_1)
	t, err2 := warc.ParseDate(b, warc.V1_1)
	return err == nil && err2 == nil && s.Equal(t)
}

// exchange are the types of records that make up an exchange.
var exchange = []string{warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit}

// concurrent checks that two records are of one capture (§5.7).
func (g *group) concurrent(x *fact) {
	other := g.defined
	switch {
	case other == nil:
		g.report(x, RuleConcurrentNone, "WARC-Concurrent-To: %s is not in these files", g.named())
		return
	case other.file == x.file && other.offset == x.offset && other.id == x.id:
		g.report(x, RuleConcurrentTo, "WARC-Concurrent-To names the record itself")
		return
	case other.isType(warc.TypeWarcinfo, warc.TypeConversion, warc.TypeContinuation):
		g.report(x, RuleConcurrentTo, "WARC-Concurrent-To: %s is a %s record", g.named(), other.recordType)
		return
	case other.file != x.file && !other.is(isFresh) && !x.is(isFresh): // a large record begins a file of its own
		g.report(x, RuleConcurrentPlace, "%s is in another file, %s", g.named(), g.paths[other.file])
	}
	if !g.sameDate(other.date, x.date) {
		g.report(x, RuleConcurrentDate, "WARC-Date is %s here and %s in %s", x.date, other.date, g.named())
	}
	if !x.isType(exchange...) || !other.isType(exchange...) {
		return
	}
	mutual := other.namesID(x.id)
	if !mutual {
		g.report(x, RuleConcurrentPlace, "%s does not name this record", g.named())
	}
	if other.target != x.target {
		g.report(x, RuleConcurrentURI, "%s has another WARC-Target-URI", g.named())
	}
	g.answers(x, other)
	if !mutual { // the association counts for both (§5.7)
		g.answers(other, x)
	}
}

// answers checks a response against its request.
func (g *group) answers(response, request *fact) {
	switch {
	case request.is(isHead) && response.is(hasPayload):
		g.report(response, RuleHTTPBody, "the response to a HEAD request has a body")
	case request.is(hasMethod) && !request.is(isHead) && response.is(isIncomplete):
		g.report(response, RuleTruncated, tooShort)
	}
}

func (g *group) warcinfo(x *fact) {
	info := g.defined
	switch {
	case info == nil:
		g.report(x, RuleWarcinfoMissing, "WARC-Warcinfo-ID: %s is not in these files", g.named())
	case info.recordType != warc.TypeWarcinfo:
		g.report(x, RuleWarcinfoID, "WARC-Warcinfo-ID: %s is a %s record", g.named(), info.recordType)
	case info.file != x.file || info.offset >= x.offset:
		g.report(x, RuleWarcinfoPlace, "the warcinfo %s is not earlier in this file, but at offset %d of %s", g.named(), info.offset, g.paths[info.file])
	}
}

// refersTo checks a record against the one that it refers to (§5.11, §6.7).
func (g *group) refersTo(x *fact) error {
	original, strict := g.defined, g.options.Profile == Warctee
	if original == nil {
		g.report(x, RuleRefersToMissing, "%s is not in these files", g.named())
		return nil
	}
	if original.file == x.file && original.offset == x.offset && original.id == x.id {
		g.report(x, RuleRefersTo, "WARC-Refers-To names the record itself")
		return nil
	}
	if x.recordType != warc.TypeRevisit {
		return nil
	}
	switch {
	case !original.isType(warc.TypeResponse, warc.TypeResource):
		g.report(x, RuleRefersTo, "%s is a %s record", g.named(), original.recordType)
		return nil
	case strict && original.file == x.file && original.offset >= x.offset:
		g.report(x, RuleRefersTo, "%s is behind the revisit", g.named())
	}
	if strict && original.is(isTruncated) {
		g.report(x, RuleRefersTo, "%s is truncated", g.named())
	}
	if strict && (original.is(isPartial) || x.is(isPartial)) {
		g.report(x, RuleRefersTo, "partial content is neither an original nor a revisit")
	}
	if x.target != 0 && x.target != original.target {
		g.report(x, RuleRefersToDiffers, "WARC-Refers-To-Target-URI is not the WARC-Target-URI of %s", g.named())
	}
	if x.date != "" && !g.sameDate(x.date, original.date) {
		g.report(x, RuleRefersToDiffers, "WARC-Refers-To-Date is %s, but the WARC-Date of %s is %s", x.date, g.named(), original.date)
	}
	g.order(x, original)
	if !x.is(isIdentity) || x.digest == 0 {
		return nil
	}
	if original.digest != 0 && x.algorithm == original.algorithm {
		if x.digest != original.digest {
			g.report(x, RuleRevisitDigest, "WARC-Payload-Digest is not that of the original, %s", g.named())
		}
		return nil
	}
	return g.comparePayload(x)
}

// maxOverlap is by how much a revisit may be older than its original, where it is
// not certain that it was written first: of two captures at the same time the one
// that ends later is the revisit, also when it began earlier.
const maxOverlap = 24 * time.Hour

// order checks that a revisit is not older than its original (§6.7).
func (g *group) order(x, original *fact) {
	if !isOlder(x.captured, original.date) {
		return
	}
	first := x.file == original.file && x.offset < original.offset
	if s, err := warc.ParseDate(x.captured, warc.V1_1); err != nil {
		return
	} else if t, err := warc.ParseDate(original.date, warc.V1_1); err != nil || !first && t.Sub(s) <= maxOverlap {
		return
	}
	g.report(x, RuleRevisitDate, "WARC-Date is %s, but that of the original, %s, is %s", x.captured, g.named(), original.date)
}

// isOlder reports whether a WARC-Date is before another one, as far as both go:
// a date can leave out the time, or a part of it (§5.4).
func isOlder(a, b string) bool {
	a, b = strings.TrimSuffix(a, "Z"), strings.TrimSuffix(b, "Z")
	n := min(len(a), len(b))
	return a[:n] < b[:n]
}

// comparePayload compares the digest of a revisit with the payload of the original,
// which has no digest of the same algorithm, where that can be read.
func (g *group) comparePayload(x *fact) error {
	if _, known := g.payloads[x.algorithm]; !known {
		sums, err := g.sumsOf(g.defined, x.algorithm)
		if err != nil {
			return err
		}
		if g.payloads == nil {
			g.payloads = make(map[warc.Algorithm][]uint64)
		}
		g.payloads[x.algorithm] = sums
	}
	if sums := g.payloads[x.algorithm]; len(sums) > 0 && !slices.Contains(sums, x.digest) {
		g.report(x, RuleRevisitDigest, "WARC-Payload-Digest is not the %s of the payload of the original, %s", x.algorithm, g.named())
	}
	return nil
}

// maxLinkMessage bounds the message of a finding that is sorted, in bytes.
const maxLinkMessage = 500

// findingsAtOnce is how many findings are sorted in memory, of up to a kilobyte
// each.
const findingsAtOnce = 4_000

// report notes a finding about the record that a fact comes from.
func (g *group) report(x *fact, rule, format string, args ...any) {
	if ruleNamed(rule).severity(&g.options) == "" {
		return
	}
	line := binary.BigEndian.AppendUint64(nil, uint64(x.file))
	line = binary.BigEndian.AppendUint64(line, uint64(x.offset))
	for _, part := range []string{x.id, x.recordType, string(x.version), rule, cut(fmt.Sprintf(format, args...), maxLinkMessage)} {
		line = append(line, strings.ReplaceAll(part, "\x00", "?")...)
		line = append(line, 0)
	}
	g.found.add(string(line))
}

// findingOf makes a finding of a line that report has made. It is false where it
// is only to be counted.
func (c *checker) findingOf(line string) (Finding, bool) {
	parts := strings.Split(line[min(16, len(line)):], "\x00")
	if len(parts) != 6 {
		return Finding{}, false
	}
	file, offset := int(binary.BigEndian.Uint64([]byte(line))), int64(binary.BigEndian.Uint64([]byte(line[8:])))
	rule := ruleNamed(parts[3])
	severity := rule.severity(&c.options)
	if !c.take(file, rule.Name, severity) {
		return Finding{}, false
	}
	return Finding{
		File: c.paths[file], Offset: offset, ID: cut(parts[0], maxShown), Type: parts[1], Rule: rule.Name, Severity: severity,
		Clause: rule.clause("", warc.Version(parts[2])), Message: parts[4],
	}, true
}
