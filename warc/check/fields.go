package check

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
)

var types = strings.Fields("warcinfo response resource request metadata revisit conversion continuation")

// mandatory fields of all records, and of some types.
var mandatory = []struct{ name, types string }{
	{"WARC-Type", ""},
	{"WARC-Record-ID", ""},
	{"WARC-Date", ""},
	{"Content-Length", ""},
	{"WARC-Target-URI", "response resource request revisit conversion continuation"},
	{"WARC-Filename", "warcinfo"},
	{"WARC-Profile", "revisit"},
	{"WARC-Segment-Number", "continuation"},
	{"WARC-Segment-Origin-ID", "continuation"},
}

// allowed fields: of these, the types not named must have none.
var allowed = []struct{ name, types string }{
	{"WARC-Target-URI", "response resource request metadata revisit conversion continuation"},
	{"WARC-IP-Address", "response resource request metadata revisit"},
	{"WARC-Concurrent-To", "response resource request metadata revisit"},
	{"WARC-Refers-To", "metadata revisit conversion"},
	{"WARC-Refers-To-Target-URI", "revisit"},
	{"WARC-Refers-To-Date", "revisit"},
	{"WARC-Warcinfo-ID", "response resource request metadata revisit conversion continuation"},
	{"WARC-Payload-Digest", "response resource request revisit conversion continuation"},
	{"WARC-Identified-Payload-Type", "response resource request revisit conversion continuation"},
	{"WARC-Filename", "warcinfo"},
	{"WARC-Profile", "revisit"},
	{"WARC-Segment-Origin-ID", "continuation"},
	{"WARC-Segment-Total-Length", "continuation"},
}

// repeatable fields may be there more than once.
var repeatable = []string{"warc-concurrent-to", "warc-protocol"}

// fields checks the header of a record.
func (p *Report) fields(r *Record) {
	p.presence(r)
	for _, name := range []string{"WARC-Record-ID", "WARC-Warcinfo-ID", "WARC-Concurrent-To", "WARC-Refers-To", "WARC-Segment-Origin-ID"} {
		for _, v := range r.Header.Values(name) {
			inner, ok := strings.CutPrefix(v, "<")
			inner, ok2 := strings.CutSuffix(inner, ">")
			if why := badURI(inner); !ok || !ok2 || why != "" {
				p.add(r, RuleRecordID, "%s %q is not a URI in angle brackets", name, v)
			}
		}
	}
	for _, name := range []string{"WARC-Target-URI", "WARC-Refers-To-Target-URI"} {
		for _, v := range r.Header.Values(name) {
			if why := badTargetURI(v); why != "" {
				p.add(r, RuleTargetURI, "%s %.200q %s", name, v, why)
			}
		}
	}
	for _, name := range []string{"WARC-Date", "WARC-Refers-To-Date"} {
		for _, v := range r.Header.Values(name) {
			if _, err := warc.ParseDate(v, r.Version); err != nil {
				p.add(r, RuleDate, "%s: %v", name, err)
			}
		}
	}
	for _, v := range r.Header.Values("WARC-IP-Address") {
		if a, err := netip.ParseAddr(v); err != nil || a.Zone() != "" || a.String() != v {
			p.add(r, RuleIPAddress, "%q is not an IP address in its usual form", v)
		}
	}
	for _, v := range r.Header.Values("WARC-Truncated") {
		if !slices.Contains([]string{"length", "time", "disconnect", "unspecified"}, v) {
			p.add(r, RuleTruncated, "%q is not a reason", v)
		}
	}
	for _, v := range r.Header.Values("WARC-Profile") {
		if kind := profile(v); kind == "" {
			p.add(r, RuleProfile, "%q is not known", v)
		}
	}
	p.contentType(r)
}

func (p *Report) presence(r *Record) {
	for _, m := range mandatory {
		if (m.types == "" || hasWord(m.types, r.Type)) && r.Header.Get(m.name) == "" {
			p.add(r, RuleMandatory, "%s is missing", m.name)
		}
	}
	for _, a := range allowed {
		if slices.Contains(types, r.Type) && !hasWord(a.types, r.Type) && r.Header.Values(a.name) != nil {
			p.add(r, RuleForbidden, "a %s record must not have %s", r.Type, a.name)
		}
	}
	seen := map[string]bool{}
	for _, f := range r.Header {
		name := strings.ToLower(f.Name)
		if seen[name] && !slices.Contains(repeatable, name) {
			p.add(r, RuleRepeated, "%s is there more than once", f.Name)
		}
		seen[name] = true
	}
}

func hasWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// The kinds of revisit records, in WARC 1.0 and 1.1.
const (
	identicalPayload = "identical-payload-digest"
	notModified      = "server-not-modified"
)

func profile(uri string) string {
	for _, v := range []warc.Version{warc.V1_0, warc.V1_1} {
		switch uri {
		case v.IdenticalPayloadProfile():
			return identicalPayload
		case v.NotModifiedProfile():
			return notModified
		}
	}
	return ""
}

func (p *Report) contentType(r *Record) {
	got := mediaType(r.Header.Get("Content-Type"))
	want := ""
	switch {
	case r.Type == warc.TypeWarcinfo:
		want = "application/warc-fields"
	case r.is(warc.TypeRequest, warc.TypeResponse) && isHTTP(r.TargetURI), r.Type == warc.TypeRevisit && isHTTP(r.TargetURI) && r.BlockSize > 0:
		want = "application/http"
	}
	if want != "" && got != want {
		p.add(r, RuleContentType, "Content-Type of a %s record is %q, not %s", r.Type, got, want)
	}
}

// mediaType returns a Content-Type without parameters, in lower case.
func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}

func isHTTP(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// A URI by RFC 3986: appendix B takes it apart, the others say what may be in
// its parts (§3, §2.1).
var (
	uriParts   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$`)
	uriText    = regexp.MustCompile(`^(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*$`)
	uriAuth    = regexp.MustCompile(`^(?:(.*)@)?(\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?$`)
	badURIPart = "is not a URI of RFC 3986"
)

// badURI says what is wrong with a URI.
func badURI(s string) string {
	parts := uriParts.FindStringSubmatch(s)
	switch {
	case parts == nil, !uriText.MatchString(parts[3]), !uriText.MatchString(parts[4]), !uriText.MatchString(strings.TrimPrefix(parts[5], "#")):
		return badURIPart
	case !uriAuth.MatchString(parts[2]):
		return badURIPart
	}
	return ""
}

// badTargetURI says what is wrong with a WARC-Target-URI.
func badTargetURI(s string) string {
	if strings.HasPrefix(s, "<") {
		return "is in angle brackets"
	}
	if why := badURI(s); why != "" {
		return why
	}
	parts := uriParts.FindStringSubmatch(s)
	if parts[5] != "" {
		return "has a fragment"
	}
	if !isHTTP(s) {
		return ""
	}
	auth := uriAuth.FindStringSubmatch(parts[2])
	host, port := auth[2], auth[3]
	switch {
	case strings.Contains(parts[2], "@"):
		return "has user information"
	case host == "":
		return "has no host"
	case host[0] == '[' && !isIPv6(host[1:len(host)-1]):
		return "has a host that is not an IPv6 address"
	case port == ":", strings.EqualFold(parts[1], "http") && port == ":80", strings.EqualFold(parts[1], "https") && port == ":443":
		return "has a port that is to be left out"
	}
	return ""
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}
