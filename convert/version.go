package convert

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/warctee/warctee/warc"
)

// maxWarcinfo is the longest block of a warcinfo, in octets, that is changed.
const maxWarcinfo = 1 << 20

// A Count is how often something was changed, or left, and why.
type Count struct {
	What string
	N    int64
}

// counts keeps the order in which things happened first.
type counts []Count

func (c *counts) add(what string) {
	for i := range *c {
		if (*c)[i].What == what {
			(*c)[i].N++
			return
		}
	}
	*c = append(*c, Count{what, 1})
}

// What may change, as it is counted.
const (
	changedVersion  = "records of another version"
	changedDate     = "dates cut to the second"
	filledDate      = "dates with less than a second filled up"
	changedProfile  = "revisit profiles"
	changedBrackets = "URIs without their angle brackets"
	changedInfo     = "warcinfo blocks"
	changedName     = "WARC-Filename fields"
)

// fieldChanges returns what has to change in the fields when a record becomes one
// of version v.
func fieldChanges(rec *warc.Record, v warc.Version, count *counts) (changes []change, odd []string) {
	for i, f := range rec.Header {
		value := f.Value
		switch name := strings.ToLower(f.Name); name {
		case "warc-date", "warc-refers-to-date":
			t, err := warc.ParseDate(value, warc.V1_1)
			if err != nil {
				odd = append(odd, fmt.Sprintf("%s: %.60q is not a date, and stays as it is", f.Name, value))
				continue
			}
			if v != warc.V1_0 || len(value) == len("2006-01-02T15:04:05Z") {
				continue
			}
			if value = warc.FormatDate(t, warc.V1_0); len(f.Value) < len(value) {
				count.add(filledDate)
			} else {
				count.add(changedDate)
			}
		case "warc-profile":
			if value = profileOf(value, v); value != f.Value {
				count.add(changedProfile)
			}
		case "warc-target-uri", "warc-refers-to-target-uri":
			inner, ok := strings.CutPrefix(value, "<")
			if v == warc.V1_1 && ok && strings.HasSuffix(inner, ">") {
				value = strings.TrimSuffix(inner, ">")
				count.add(changedBrackets)
			}
		}
		if value != f.Value {
			changes = append(changes, change{i, value})
		}
	}
	return changes, odd
}

var profiles = regexp.MustCompile(`^<?http://netpreserve\.org/warc/[0-9.]+/revisit/(identical-payload-digest|server-not-modified)>?$`)

// profileOf returns the URI that version v has for a profile. Profiles that it
// does not define stay as they are.
func profileOf(uri string, v warc.Version) string {
	switch m := profiles.FindStringSubmatch(uri); {
	case m == nil:
		return uri
	case m[1] == "server-not-modified":
		return v.NotModifiedProfile()
	}
	return v.IdenticalPayloadProfile()
}

// standards are the places where the standard is, for conformsTo: the version
// stands at the end, or is that of the draft of 1.0.
var standards = regexp.MustCompile(`^https?://(?:iipc\.github\.io/warc-specifications/specifications/warc-format/warc-1\.[01]/?|bibnum\.bnf\.fr/WARC/WARC_ISO_28500_version1_latestdraft\.pdf|bibnum\.bnf\.fr/WARC/WARC_ISO_28500_version1-1_latestdraft\.pdf)$`)

// conformsTo returns where the standard of version v is.
func conformsTo(v warc.Version) string {
	return "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-" + string(v) + "/"
}

func format(v warc.Version) string { return "WARC File Format " + string(v) }

// infoBlock changes the lines of a warcinfo that tell the version.
func infoBlock(block []byte, v warc.Version) []byte {
	var out []byte
	for _, line := range bytes.SplitAfter(block, []byte("\n")) {
		name, value, _ := strings.Cut(string(line), ":")
		text := strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "format") && strings.HasPrefix(text, "WARC File Format "):
			line = bytes.Replace(line, []byte(text), []byte(format(v)), 1)
		case strings.EqualFold(name, "conformsTo") && standards.MatchString(text):
			line = bytes.Replace(line, []byte(text), []byte(conformsTo(v)), 1)
		}
		out = append(out, line...)
	}
	return out
}

// changeInfo returns the block of a warcinfo as it is in version v, and the fields
// that change with it. They are those of the length and of the digest, whose
// algorithm stays. A block that contradicts its digest, or whose digest cannot be
// computed, is not changed, and odd says so.
func changeInfo(rec *warc.Record, block []byte, v warc.Version) (changed []byte, changes []change, odd string) {
	changed = infoBlock(block, v)
	if bytes.Equal(changed, block) {
		return block, nil, ""
	}
	for i, f := range rec.Header {
		switch strings.ToLower(f.Name) {
		case "content-length":
			changes = append(changes, change{i, strconv.Itoa(len(changed))})
		case "warc-block-digest", "warc-payload-digest": // the latter should not be here, but is met
			d, err := warc.ParseDigest(f.Value)
			if err != nil {
				return block, nil, fmt.Sprintf("the block of the warcinfo stays as it is: %v", err)
			}
			if !digest(d.Algorithm, block).Equal(d) {
				return block, nil, fmt.Sprintf("the block of the warcinfo stays as it is: it does not have its %s", f.Name)
			}
			changes = append(changes, change{i, digest(d.Algorithm, changed).String()})
		}
	}
	return changed, changes, ""
}

func digest(a warc.Algorithm, b []byte) warc.Digest {
	h := a.New()
	h.Write(b)
	return warc.Digest{Algorithm: a, Sum: h.Sum(nil)}
}
