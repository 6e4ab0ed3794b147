package check

import (
	"mime"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

var types = strings.Fields("warcinfo response resource request metadata revisit conversion continuation")

// mandatory fields of all records, and of some types (§5, §6).
var mandatory = []struct{ name, types string }{
	{"WARC-Type", ""},
	{"WARC-Record-ID", ""},
	{"WARC-Date", ""},
	{"WARC-Target-URI", "response resource request revisit conversion continuation"},
	{"WARC-Profile", "revisit"},
	{"WARC-Segment-Number", "continuation"},
	{"WARC-Segment-Origin-ID", "continuation"},
}

// allowed fields: of these, the types not named shall have none (§5).
var allowed = []struct{ name, types string }{
	{"warc-target-uri", "response resource request metadata revisit conversion continuation"},
	{"warc-ip-address", "response resource request metadata revisit"},
	{"warc-concurrent-to", "response resource request metadata revisit"},
	{"warc-refers-to", "metadata revisit conversion"},
	{"warc-refers-to-target-uri", "revisit"},
	{"warc-refers-to-date", "revisit"},
	{"warc-warcinfo-id", "response resource request metadata revisit conversion continuation"},
	{"warc-payload-digest", "response resource request revisit conversion continuation"},
	{"warc-identified-payload-type", "response resource request revisit conversion continuation"},
	{"warc-filename", "warcinfo"},
	{"warc-profile", "revisit"},
	{"warc-segment-origin-id", "continuation"},
	{"warc-segment-total-length", "continuation"},
}

// mandatoryOf and forbiddenIn are the same by type.
var mandatoryOf, forbiddenIn = func() (map[string][]string, map[string][]string) {
	must, mustNot := make(map[string][]string), make(map[string][]string)
	for _, typ := range append(types, "") {
		for _, m := range mandatory {
			if m.types == "" || hasWord(m.types, typ) {
				must[typ] = append(must[typ], m.name)
			}
		}
		for _, a := range allowed {
			if typ != "" && !hasWord(a.types, typ) {
				mustNot[typ] = append(mustNot[typ], a.name)
			}
		}
	}
	return must, mustNot
}()

func mandatoryIn(typ string) []string {
	if names, known := mandatoryOf[typ]; known {
		return names
	}
	return mandatoryOf[""]
}

func hasWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// since11 are fields that have no meaning in the versions before.
var since11 = []string{"warc-refers-to-target-uri", "warc-refers-to-date"}

// repeatable fields may be there more than once. What Content-Length may be is for
// the reader to say.
var repeatable = []string{"warc-concurrent-to", "warc-protocol", "content-length"}

// fields checks the header of a record.
func (f *file) fields(r *Record) {
	f.presence(r)
	for _, name := range []string{"WARC-Record-ID", "WARC-Warcinfo-ID", "WARC-Concurrent-To", "WARC-Refers-To", "WARC-Segment-Origin-ID"} {
		for _, v := range r.Header.Values(name) {
			inner, ok := strings.CutPrefix(v, "<")
			inner, ok2 := strings.CutSuffix(inner, ">")
			if !ok || !ok2 || !isURI(inner) {
				f.addField(r, RuleRecordID, name, "%s %.200q is not a URI in angle brackets", name, v)
			}
		}
	}
	for _, name := range []string{"WARC-Target-URI", "WARC-Refers-To-Target-URI", "WARC-Profile"} {
		for _, v := range r.Header.Values(name) {
			if rule, why := judgeURI(v, r.Version, name != "WARC-Profile"); rule != "" {
				f.addField(r, rule, name, "%s %.200q %s", name, v, why)
			}
		}
	}
	f.dates(r)
	for _, v := range r.Header.Values("WARC-IP-Address") {
		if a, err := netip.ParseAddr(v); err != nil || a.Zone() != "" {
			f.add(r, RuleIPAddress, "%.200q is not an IP address", v)
		} else if a.String() != v {
			f.add(r, RuleIPSpelling, "%s is usually written %s", v, a)
		}
	}
	for _, v := range r.Header.Values("WARC-Truncated") {
		if !slices.Contains([]string{"length", "time", "disconnect", "unspecified"}, strings.ToLower(v)) {
			f.add(r, RuleTruncatedReason, "%.200q is not one of length, time, disconnect, unspecified", v)
		}
	}
	for _, v := range r.Header.Values("WARC-Profile") {
		switch kind := profile(v); {
		case r.Type != warc.TypeRevisit:
		case kind == "":
			f.add(r, RuleProfile, "%.200q is not known", v)
		case v != r.Version.IdenticalPayloadProfile() && v != r.Version.NotModifiedProfile() && withoutBrackets(v) == v:
			f.add(r, RuleProfileVersion, "%.200q is not of WARC %s", v, r.Version)
		}
	}
	if r.Type != "" && !slices.Contains(types, r.Type) {
		f.add(r, RuleTypeUnknown, "%.80q is not a type of the standard", r.Type)
	}
	f.contentType(r)
	f.segmentFields(r)
	if r.Type == warc.TypeWarcinfo {
		f.filename(r)
	}
}

func (f *file) presence(r *Record) {
	for _, name := range mandatoryIn(r.Type) {
		if r.Header.Get(name) == "" {
			f.addField(r, RuleMandatory, name, "%s is missing", name)
		}
	}
	if r.Type == warc.TypeRevisit && profile(r.Header.Get("WARC-Profile")) == identicalPayload && r.Header.Get("WARC-Payload-Digest") == "" {
		f.addField(r, RuleMandatory, "WARC-Payload-Digest", "WARC-Payload-Digest is missing on a revisit of an identical payload")
	}
	strict := f.options.Profile == Warctee
	for i, field := range r.Header {
		name := strings.ToLower(field.Name)
		first := !slices.ContainsFunc(r.Header[:min(i, maxCompared)], func(other warc.Field) bool { return strings.EqualFold(other.Name, name) })
		switch {
		case !first:
			if !slices.Contains(repeatable, name) && (strict || sections[name] != "") {
				f.addField(r, RuleRepeated, name, "%s is there more than once", field.Name)
			}
		case !slices.Contains(forbiddenIn[r.Type], name), !strict && r.Version != warc.V1_1 && slices.Contains(since11, name):
		case meansNothing(r.Type, name):
			f.addField(r, RuleUndefined, name, "%s means nothing on a %s record", field.Name, r.Type)
		default:
			f.addField(r, RuleForbidden, name, "a %s record must not have %s", r.Type, field.Name)
		}
	}
}

// meansNothing reports whether a field that the standard does not give to a type
// is there in the files of well-known writers, and harms nobody: digests of
// metadata by warcio and warcprox, a warcinfo that names itself by Wpull.
func meansNothing(typ, name string) bool {
	switch name {
	case "warc-profile":
		return true
	case "warc-payload-digest", "warc-identified-payload-type":
		return typ == warc.TypeMetadata || typ == warc.TypeWarcinfo
	case "warc-warcinfo-id":
		return typ == warc.TypeWarcinfo
	}
	return false
}

// maxCompared bounds how many fields others are compared with. Nobody has so many.
const maxCompared = 200

func (f *file) dates(r *Record) {
	for _, name := range []string{"WARC-Date", "WARC-Refers-To-Date"} {
		version := r.Version
		if name != "WARC-Date" && f.options.Profile == Standard {
			version = warc.V1_1 // which defines it
		}
		for _, v := range r.Header.Values(name) {
			if _, err := warc.ParseDate(v, version); err != nil {
				f.addField(r, RuleDate, name, "%s: %s", name, reason(err))
			} else if _, fraction, _ := strings.Cut(v, "."); len(fraction) > len("123456789Z") {
				f.addField(r, RuleDate, name, "%s %.80q has more than 9 digits behind the second", name, v)
			}
		}
	}
}

// The kinds of revisit records.
const (
	identicalPayload = "identical-payload-digest"
	notModified      = "server-not-modified"
)

// profile returns which kind of revisit a WARC-Profile of any version names, or "".
func profile(uri string) string {
	if inner, ok := strings.CutPrefix(uri, "<"); ok { // by the grammar of 1.0
		uri = strings.TrimSuffix(inner, ">")
	}
	for _, v := range []warc.Version{"0.17", "0.18", warc.V1_0, warc.V1_1} {
		switch uri {
		case v.IdenticalPayloadProfile():
			return identicalPayload
		case v.NotModifiedProfile():
			return notModified
		}
	}
	return ""
}

const lws = `[ \t]*`

// mediaTypeForm is the grammar of §5.6, with the empty parameters that RFC 9110
// §5.6.6 allows.
var mediaTypeForm = func() *regexp.Regexp {
	const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	return regexp.MustCompile(`^` + token + `/` + token + `(` + lws + `;` + lws + `(` + token + `=(` + token + `|"([^"\\]|\\.)*"))?)*` + lws + `$`)
}()

// emptyParameter is a semicolon that no parameter follows. Quoted values, which can
// have one, are passed over.
var emptyParameter = regexp.MustCompile(`("(?:[^"\\]|\\.)*")|;` + lws + `(?:;|$)`)

func hasEmptyParameter(mediaType string) bool {
	return slices.ContainsFunc(emptyParameter.FindAllString(mediaType, -1), func(s string) bool { return s[0] == ';' })
}

func (f *file) contentType(r *Record) {
	for _, name := range []string{"Content-Type", "WARC-Identified-Payload-Type"} {
		for _, v := range r.Header.Values(name) {
			switch rule := f.judgeMediaType(v); rule {
			case RuleMediaType:
				f.addField(r, rule, name, "%s %.200q is not a media type", name, v)
			case RuleMediaTypeEmpty:
				f.addField(r, rule, name, "%s %.200q has a semicolon that no parameter follows", name, v)
			}
		}
	}
	value := r.Header.Get("Content-Type")
	got := http1.MediaType(value)
	if got == "" {
		if r.BlockSize > 0 && r.Type != warc.TypeContinuation {
			f.add(r, RuleContentMissing, "Content-Type is missing, and the block has %d octets", r.BlockSize)
		}
		return
	}
	if r.Type == warc.TypeResource && got != "text/dns" && scheme(r.TargetURI) == "dns" {
		f.add(r, RuleDNS, "Content-Type of a resource of dns: is %.200q, not text/dns", value)
	}
	switch {
	case r.Type == warc.TypeWarcinfo:
		if got != "application/warc-fields" {
			f.addField(r, RuleContentType, "Content-Type", "Content-Type of a warcinfo record is %.200q, not application/warc-fields", value)
		}
	case isHTTP(r.TargetURI) && r.is(warc.TypeRequest, warc.TypeResponse, warc.TypeRevisit) && r.BlockSize > 0:
		f.httpType(r, value, got)
	}
}

// msgtype is that parameter of application/http (RFC 9112 §10.2).
var msgtype = regexp.MustCompile(`(?i);[ \t]*msgtype="?([^"; \t]+)`)

func (f *file) httpType(r *Record, value, got string) {
	if got != "application/http" && !(r.Type == warc.TypeRevisit && got == "message/http") { // as in the standard's example
		f.addField(r, RuleContentType, "Content-Type", "Content-Type of a %s record of HTTP is %.200q, not application/http", r.Type, value)
		return
	}
	want := "response"
	if r.Type == warc.TypeRequest {
		want = "request"
	}
	if m := msgtype.FindStringSubmatch(value); m != nil && !strings.EqualFold(m[1], want) {
		f.addField(r, RuleContentType, "Content-Type", "Content-Type of a %s record is %.200q, whose msgtype is not %s", r.Type, value, want)
	}
}

// judgeMediaType returns the rule that a media type breaks, "" for none. It
// remembers some results: a file has few media types.
func (f *file) judgeMediaType(s string) (rule string) {
	if rule, known := f.mediaTypes[s]; known {
		return rule
	}
	switch {
	case !mediaTypeForm.MatchString(s):
		rule = RuleMediaType
	case hasEmptyParameter(s):
		rule = RuleMediaTypeEmpty
	}
	if len(f.mediaTypes) < 100 && len(s) < 200 {
		f.mediaTypes[s] = rule
	}
	return rule
}

// filename compares WARC-Filename with the name of the file. Only the first
// record is of this file: others may come from files that were joined (§6.2).
func (f *file) filename(r *Record) {
	got := r.Header.Get("WARC-Filename")
	if len(got) > 1 && got[0] == '"' && got[len(got)-1] == '"' { // a quoted-string
		got = strings.ReplaceAll(got[1:len(got)-1], `\`, "")
	}
	if f.options.Profile == Standard {
		text, err := new(mime.WordDecoder).DecodeHeader(got) // §4 allows the encoded words of RFC 2047
		if err != nil {
			return // the character set is not known here, and so neither is the name
		}
		got = path.Base(strings.ReplaceAll(text, `\`, "/"))
	}
	name := strings.TrimSuffix(filepath.Base(f.path), ".open")
	switch {
	case r.Header.Get("WARC-Filename") == "":
		f.add(r, RuleFilenameMissing, "WARC-Filename is missing")
	case r.place == 0 && got != name && f.path != container.Stdin:
		f.add(r, RuleFilename, "WARC-Filename is %.200q", got)
	}
}

// segmentFields checks the numbers by which segments are joined.
func (f *file) segmentFields(r *Record) {
	if v := r.Header.Get("WARC-Segment-Total-Length"); v != "" && number(v) < 0 {
		f.add(r, RuleSegment, "WARC-Segment-Total-Length %.80q is not a number", v)
	}
	v := r.Header.Get("WARC-Segment-Number")
	n := number(v)
	switch {
	case v == "":
	case n < 1:
		f.add(r, RuleSegment, "WARC-Segment-Number %.80q is not a number from 1 on", v)
	case r.Type == warc.TypeContinuation && n == 1:
		f.add(r, RuleSegment, "WARC-Segment-Number of a continuation is 1")
	case r.Type != warc.TypeContinuation && n != 1:
		f.add(r, RuleSegment, "WARC-Segment-Number of a %s record is %d, not 1: later segments are continuation records", r.Type, n)
	case n == 1 && (r.place > 1 || r.place == 1 && len(f.warcinfos) == 0):
		f.add(r, RuleSegmentPlace, "the first segment is record %d of its file, and not preceded only by a warcinfo", r.place+1)
	}
}

// number returns what 1*DIGIT says, or -1.
func number(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

func scheme(uri string) string {
	s, _, _ := strings.Cut(uri, ":")
	return strings.ToLower(s)
}

func isHTTP(uri string) bool { return scheme(uri) == "http" || scheme(uri) == "https" }
