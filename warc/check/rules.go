package check

import (
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
)

// A Profile says by what files are judged.
type Profile string

// The profiles.
const (
	Standard Profile = "standard" // ISO 28500 and its drafts, each record by its own version
	Warctee  Profile = "warctee"  // docs/records.md, which says what warctee itself writes
)

// A Severity says how bad it is that a rule is broken.
type Severity string

// The severities. A rule without one does not belong to the profile.
const (
	Error   Severity = "error"   // the standard demands it
	Warning Severity = "warning" // it is recommended, or often done in another way
)

// A Rule is what a [Finding] says is broken.
type Rule struct {
	Name     string   `json:"rule"`
	Standard Severity `json:"standard,omitempty"` // in that profile; "" where it is not looked at
	Warctee  Severity `json:"warctee,omitempty"`  // likewise
	Open     bool     `json:"open,omitempty"`     // a warning that [Options.Complete] makes an error
	Clause   string   `json:"clause"`             // of WARC 1.1, if no other text is named; "fields": that of the field at fault
	Text     string   `json:"text"`               // what is wrong when it is broken
}

// Names of rules that the code speaks of. Those that a [warc.Reader] finds
// broken keep the names that it gives them.
const (
	RuleOpen            = "open-file"
	RuleCompression     = "compression"
	RuleEmpty           = "empty"
	RuleCut             = "cut"
	RuleEndShort        = "end-short"
	RuleFrameHead       = "frame-head"
	RuleNotChecked      = "not-checked"
	RuleMandatory       = "mandatory"
	RuleForbidden       = "forbidden"
	RuleUndefined       = "undefined"
	RuleRepeated        = "repeated"
	RuleRecordID        = "record-id"
	RuleUniqueID        = "unique-id"
	RuleDate            = "date"
	RuleTargetURI       = "target-uri"
	RuleURICharacters   = "uri-characters"
	RuleURISpelling     = "uri-spelling"
	RuleIPAddress       = "ip-address"
	RuleIPSpelling      = "ip-spelling"
	RuleTypeUnknown     = "type-unknown"
	RuleMediaType       = "media-type"
	RuleMediaTypeEmpty  = "media-type-empty"
	RuleContentMissing  = "content-type-missing"
	RuleContentType     = "content-type"
	RuleDNS             = "dns"
	RuleTruncatedReason = "truncated-reason"
	RuleTruncated       = "truncated"
	RuleProfile         = "profile"
	RuleProfileVersion  = "profile-version"
	RuleDigestForm      = "digest-form"
	RuleDigestUnknown   = "digest-unknown"
	RuleDigestSpelling  = "digest-spelling"
	RuleDigestMissing   = "digest-missing"
	RuleBlockDigest     = "block-digest"
	RulePayloadDigest   = "payload-digest"
	RuleNoPayload       = "no-payload"
	RuleNoBody          = "no-body"
	RuleWarcFields      = "warc-fields"
	RuleHTTPHead        = "http-head"
	RuleHTTPVersion     = "http-version"
	RulePseudoField     = "pseudo-field"
	RuleHTTPBody        = "http-body"
	RuleContentEncoding = "content-encoding"
	RuleNotModified     = "not-modified"
	RuleInterim         = "interim"
	RuleWarcinfo        = "warcinfo"
	RuleFilename        = "filename"
	RuleFilenameMissing = "filename-missing"

	RuleWarcinfoID       = "warcinfo-id"
	RuleWarcinfoMissing  = "warcinfo-missing"
	RuleWarcinfoPlace    = "warcinfo-place"
	RuleConcurrentTo     = "concurrent-to"
	RuleConcurrentDate   = "concurrent-date"
	RuleConcurrentURI    = "concurrent-uri"
	RuleConcurrentPlace  = "concurrent-place"
	RuleConcurrentNone   = "concurrent-missing"
	RuleRefersTo         = "refers-to"
	RuleRefersToMissing  = "refers-to-missing"
	RuleRefersToFields   = "refers-to-fields"
	RuleRefersToDiffers  = "refers-to-differs"
	RuleRevisitDate      = "revisit-date"
	RuleRevisitDigest    = "revisit-digest"
	RuleRevisitTruncated = "revisit-truncated"
	RuleSegment          = "segment"
	RuleSegmentMissing   = "segment-missing"
	RuleSegmentPlace     = "segment-place"
	RuleSegmentDigest    = "segment-digest"
)

const ours = "docs/records.md"

// rules are all of them; docs/check.md shows them in this order.
var rules = []Rule{
	{RuleOpen, Warning, Error, false, ours, "the name ends in .open: the file was not finished"},
	{RuleCompression, Warning, Error, false, "Annex D", "the end of the name does not tell the compression (.gz, .zst, or none)"},
	{RuleEmpty, Error, Error, false, "§4", "the file has no records"},
	{RuleCut, Error, Error, false, "§4", "the file ends in the middle of its last record"},
	{warc.RuleMember, Error, Error, false, "RFC 1952 §2.2, RFC 8878 §3.1.1, WARC 1.1 Annex D", "a gzip member or zstd frame is damaged, or is not one record"},
	{RuleFrameHead, Warning, Error, false, "IIPC, Zstandard Compression for WARC Files 1.0", "a zstd frame does not tell its content size or dictionary, or has no checksum"},
	{warc.RuleVersion, Error, Error, false, "§4", "a record does not start with a version of WARC"},
	{warc.RuleHeader, Error, Error, false, "§4", "the header is not lines of named fields that end in CR LF"},
	{warc.RuleLength, Error, Error, false, "§5.3", "Content-Length is missing, there twice, no number, or more than there is"},
	{warc.RuleEnd, Error, Error, false, "§4", "behind the block there is no CR LF CR LF"},
	{RuleEndShort, Warning, Error, false, "§4", "behind the last record of the file, whose block is empty, there is only one CR LF"},
	{RuleNotChecked, Error, Error, false, ours, "there is so much damage that the rest of the file was not looked at"},

	{RuleMandatory, Error, Error, false, "fields", "a field is missing that all records or those of the type shall have"},
	{RuleForbidden, Error, Error, false, "fields", "a field is there that records of the type shall not have"},
	{RuleUndefined, Warning, Error, false, "fields", "a field is there that means nothing on records of the type"},
	{RuleRepeated, Error, Error, false, "§5.1", "a field is there more than once"},
	{RuleRecordID, Error, Error, false, "fields", "an id is not a URI in angle brackets"},
	{RuleUniqueID, Error, Error, false, "§5.2", "another record has the same id"},
	{RuleDate, Error, Error, false, "fields", "a date is not in the form of the version: 1.1 takes W3CDTF in UTC, 1.0 whole seconds"},
	{RuleTargetURI, Error, Error, false, "fields", "a URI has no scheme, or white space, or since 1.1 angle brackets"},
	{RuleURICharacters, Warning, Error, false, "fields", "a URI has characters that RFC 3986 wants percent-encoded"},
	{RuleURISpelling, "", Error, false, ours, "the URI of a target has a fragment, user information, a default port, no host, or brackets"},
	{RuleIPAddress, Error, Error, false, "§5.10", "WARC-IP-Address is not an address"},
	{RuleIPSpelling, "", Error, false, ours, "the address is not in the form of RFC 5952"},
	{RuleTypeUnknown, "", Error, false, ours, "WARC-Type is not one of the eight types of the standard"},
	{RuleMediaType, Error, Error, false, "fields", "a media type is not type/subtype with parameters"},
	{RuleMediaTypeEmpty, Warning, Error, false, "fields", "a media type has a semicolon that no parameter follows"},
	{RuleContentMissing, Warning, Error, false, "§5.6", "the block is not empty, and there is no Content-Type"},
	{RuleContentType, Warning, Error, false, "fields", "the Content-Type is not the one for the record type and the scheme"},
	{RuleDNS, Error, Error, false, "§6.4.4", "a resource of dns: is not text/dns"},
	{RuleTruncatedReason, Warning, Error, false, "§5.15", "WARC-Truncated is not one of the four reasons"},
	{RuleTruncated, Warning, Error, false, "§6.3.2", "the HTTP body ends too early, and there is no WARC-Truncated"},
	{RuleProfile, Warning, Error, false, "§6.7.1", "WARC-Profile is not one that the standard defines"},
	{RuleProfileVersion, "", Error, false, ours, "WARC-Profile is the one of another version of WARC than that of the record"},
	{RuleDigestForm, Error, Error, false, "fields", "a digest is not a label and a sum of that algorithm in Base16, Base32 or Base64"},
	{RuleDigestUnknown, Warning, Error, false, "fields", "a digest is of an algorithm that cannot be checked here"},
	{RuleDigestSpelling, "", Error, false, ours, "a digest is not in the usual base and case"},
	{RuleDigestMissing, "", Error, false, ours, "a record of an exchange has no digest of its block or payload"},
	{RuleBlockDigest, Error, Error, false, "§5.8", "WARC-Block-Digest is not that of the block"},
	{RulePayloadDigest, Error, Error, false, "§5.9", "WARC-Payload-Digest is not that of the payload"},
	{RuleNoPayload, Warning, Error, false, "§5.9", "WARC-Payload-Digest is not that of the block, and the standard does not say what the payload is; or on a request it is that of the block"},
	{RuleNoBody, "", Error, false, ours, "WARC-Payload-Digest on a request without a body"},
	{RuleWarcFields, Warning, Error, false, "§4", "a block of application/warc-fields is not lines of named fields that end in CR LF"},
	{RuleHTTPHead, Warning, Error, false, "§6.3.2", "the head of the HTTP message cannot be understood"},
	{RuleHTTPVersion, Warning, Error, false, "§6.3.2", "the first line of the HTTP message says HTTP/2 or later, whose messages have no such line"},
	{RulePseudoField, Warning, "", false, "§6.3.2", "the head of the HTTP message has pseudo-header fields, which only HTTP/2 and later have (RFC 9113 §8.3)"},
	{RuleHTTPBody, Warning, Error, false, "§6.3.2", "the HTTP body has wrong framing, is longer than its head says, or should not be there"},
	{RuleContentEncoding, Warning, "", false, "§6.3.2", "the payload does not begin as one with that Content-Encoding does"},
	{RuleNotModified, Warning, Error, false, "§6.7.3", "a revisit with the profile server-not-modified has the head of a response other than 304"},
	{RuleInterim, Warning, Error, false, "§6.3.2", "the block starts with an interim response"},
	{RuleWarcinfo, Warning, Error, false, "§5.5", "the file does not start with a warcinfo record"},
	{RuleFilename, Warning, Error, false, "§5.17", "WARC-Filename is not the name of the file"},
	{RuleFilenameMissing, "", Error, false, ours, "a warcinfo record has no WARC-Filename"},

	{RuleWarcinfoID, Error, Error, false, "§5.16", "WARC-Warcinfo-ID names a record that is no warcinfo"},
	{RuleWarcinfoMissing, Warning, Error, true, "§5.16", "WARC-Warcinfo-ID names a record that is not in the files"},
	{RuleWarcinfoPlace, "", Error, false, ours, "WARC-Warcinfo-ID is missing, or the warcinfo is not earlier in the same file"},
	{RuleConcurrentTo, Error, Error, false, "§5.7", "WARC-Concurrent-To names the record itself, or one of a type that shall not have it"},
	{RuleConcurrentDate, Warning, Error, false, "§5.4", "two records of one capture have different dates"},
	{RuleConcurrentURI, Warning, Error, false, "§5.7", "two records of one capture have different target URIs"},
	{RuleConcurrentPlace, "", Error, false, ours, "WARC-Concurrent-To is not on both records, or they are in two files and none begins its file"},
	{RuleConcurrentNone, Warning, Error, true, "§5.7", "WARC-Concurrent-To names a record that is not in the files"},
	{RuleRefersTo, Warning, Error, false, "§6.7.2", "what the record refers to cannot be its original"},
	{RuleRefersToMissing, Warning, Error, true, "§5.11", "the record that is referred to is not in the files"},
	{RuleRefersToFields, Warning, Error, false, "§6.7.2", "a revisit does not say where its original is"},
	{RuleRefersToDiffers, Warning, Error, false, "§6.7.2", "WARC-Refers-To-Target-URI or -Date is not that of the original"},
	{RuleRevisitDate, Warning, Error, false, "§6.7", "a revisit is older than its original"},
	{RuleRevisitDigest, Error, Error, false, "§6.7.2", "the payload digest of a revisit is not that of its original"},
	{RuleRevisitTruncated, Warning, Error, false, "§6.7.2", "a revisit that keeps the response head is not marked as truncated: length"},
	{RuleSegment, Error, Error, false, "§7", "segments do not fit together: numbers, target URIs, or the total length"},
	{RuleSegmentMissing, Warning, Error, true, "§7", "a segment of a record is not in the files"},
	{RuleSegmentPlace, Warning, Error, false, "§7", "a first segment is not in a fresh file"},
	{RuleSegmentDigest, Error, Error, false, "§5.9", "the payload digest of a segmented record is not that of its payload"},
}

// Rules returns all rules, in the order in which a file is looked at.
func Rules() []Rule { return slices.Clone(rules) }

var ruleByName = func() map[string]*Rule {
	m := make(map[string]*Rule)
	for i := range rules {
		m[rules[i].Name] = &rules[i]
	}
	return m
}()

// ruleNamed returns the rule of that name; one that only a reader knows is an
// error.
func ruleNamed(name string) *Rule {
	if r := ruleByName[name]; r != nil {
		return r
	}
	return &Rule{Name: name, Standard: Error, Warctee: Error, Clause: "§4"}
}

// rulePlace returns where a rule stands in rules.
func rulePlace(name string) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
}

// severity returns what it means in a profile that the rule is broken, "" for
// nothing.
func (r *Rule) severity(o *Options) Severity {
	switch {
	case o.Profile == Warctee:
		return r.Warctee
	case r.Open && o.Complete:
		return Error
	}
	return r.Standard
}

// sections of WARC 1.1 that define the fields.
var sections = map[string]string{
	"warc-record-id": "§5.2", "content-length": "§5.3", "warc-date": "§5.4", "warc-type": "§5.5", "content-type": "§5.6",
	"warc-concurrent-to": "§5.7", "warc-block-digest": "§5.8", "warc-payload-digest": "§5.9", "warc-ip-address": "§5.10",
	"warc-refers-to": "§5.11", "warc-refers-to-target-uri": "§5.12", "warc-refers-to-date": "§5.13", "warc-target-uri": "§5.14",
	"warc-truncated": "§5.15", "warc-warcinfo-id": "§5.16", "warc-filename": "§5.17", "warc-profile": "§5.18",
	"warc-identified-payload-type": "§5.19", "warc-segment-number": "§5.20", "warc-segment-origin-id": "§5.21", "warc-segment-total-length": "§5.22",
}

// renumbered are the sections that had another number in WARC 1.0 and before,
// where there were no WARC-Refers-To-Target-URI and -Date.
var renumbered = map[string]string{
	"§5.14": "§5.12", "§5.15": "§5.13", "§5.16": "§5.14", "§5.17": "§5.15", "§5.18": "§5.16", "§5.19": "§5.17",
	"§5.20": "§5.18", "§5.21": "§5.19", "§5.22": "§5.20", "Annex D": "Annex A",
}

// Cited returns the clause in full.
func (r *Rule) Cited() string {
	if r.Clause == "fields" {
		return "WARC 1.1 §5, of the field"
	}
	return r.clause("", warc.V1_1)
}

// clause returns what a finding cites: the section of the version of the record.
// The field is the one at fault, where the rule leaves that open.
func (r *Rule) clause(field string, v warc.Version) string {
	section := r.Clause
	if section == "fields" {
		if section = sections[strings.ToLower(field)]; section == "" {
			section = "§5.1"
		}
	}
	if !strings.HasPrefix(section, "§") && !strings.HasPrefix(section, "Annex") {
		return section
	}
	if v == "" || v == warc.V1_1 || section == "§5.12" || section == "§5.13" {
		return "WARC 1.1 " + section
	}
	if old := renumbered[section]; old != "" {
		section = old
	}
	return "WARC " + string(v) + " " + section
}
