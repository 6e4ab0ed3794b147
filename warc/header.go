package warc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Version is the version of the format that a record is written in.
type Version string

// Versions to write. Version 0.17 and 0.18 are only read. Where a function
// takes a Version, the empty one means 1.1.
const (
	V1_1 Version = "1.1" // ISO 28500:2017
	V1_0 Version = "1.0" // ISO 28500:2009
)

func (v Version) orDefault() Version {
	if v == "" {
		return V1_1
	}
	return v
}

// IdenticalPayloadProfile is the WARC-Profile of a revisit record whose payload
// is that of an earlier capture (WARC 1.1 §6.7.2).
func (v Version) IdenticalPayloadProfile() string {
	return "http://netpreserve.org/warc/" + string(v.orDefault()) + "/revisit/identical-payload-digest"
}

// NotModifiedProfile is the WARC-Profile of a revisit record in which the
// origin said that nothing has changed (WARC 1.1 §6.7.3).
func (v Version) NotModifiedProfile() string {
	return "http://netpreserve.org/warc/" + string(v.orDefault()) + "/revisit/server-not-modified"
}

// The values of WARC-Type (WARC 1.1 §6). Readers meet others too.
const (
	TypeWarcinfo     = "warcinfo"
	TypeResponse     = "response"
	TypeResource     = "resource"
	TypeRequest      = "request"
	TypeMetadata     = "metadata"
	TypeRevisit      = "revisit"
	TypeConversion   = "conversion"
	TypeContinuation = "continuation"
)

// MaxHeader bounds the header of a record, version line and empty line
// included, in bytes. Longer ones are neither written nor read.
const MaxHeader = 1 << 20

// MaxHeaderLines bounds the lines of a header, folded ones included, likewise: each
// takes far more memory than octets. Headers have some twenty.
const MaxHeaderLines = 10_000

// A Field is a named field of a record.
type Field struct {
	Name  string
	Value string
}

// A Header is the named fields of a record, in order. Names may repeat, and
// compare without regard to case (WARC 1.1 §4).
type Header []Field

// Get returns the value of the first field of that name, or "".
func (h Header) Get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Values returns the values of all fields of that name, in order.
func (h Header) Values(name string) []string {
	var values []string
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// Add appends a field.
func (h *Header) Add(name, value string) {
	*h = append(*h, Field{name, value})
}

// Set gives the first field of that name the value and deletes the others of
// that name. It appends a field when there is none.
func (h *Header) Set(name, value string) {
	kept, found := (*h)[:0], false
	for _, f := range *h {
		if strings.EqualFold(f.Name, name) {
			if found {
				continue
			}
			found = true
			f.Value = value
		}
		kept = append(kept, f)
	}
	clear((*h)[len(kept):])
	*h = kept
	if !found {
		h.Add(name, value)
	}
}

// Del deletes all fields of that name.
func (h *Header) Del(name string) {
	kept := (*h)[:0]
	for _, f := range *h {
		if !strings.EqualFold(f.Name, name) {
			kept = append(kept, f)
		}
	}
	clear((*h)[len(kept):])
	*h = kept
}

// Encode appends the version line, the fields and the empty line to dst
// (WARC 1.1 §4). A [Reader] gets back exactly this header: what it would not
// get back, because the name or the value could be taken for something else,
// is refused. These are names that are not tokens, and values with control
// characters, white space at an end, or octets that are not UTF-8. On error
// dst is returned as it was.
func (h Header) Encode(dst []byte, v Version) ([]byte, error) {
	v = v.orDefault()
	if v != V1_1 && v != V1_0 {
		return dst, fmt.Errorf("warc: cannot write version %q, only 1.1 and 1.0", v)
	}
	start, room := len(dst), len("WARC/1.1\r\n\r\n")
	for _, f := range h {
		room += len(f.Name) + len(": ") + len(f.Value) + len("\r\n")
	}
	out := append(slices.Grow(dst, room), "WARC/"...)
	out = append(out, v...)
	out = append(out, "\r\n"...)
	for _, f := range h {
		if !isToken(f.Name) {
			return dst, fmt.Errorf("warc: the field name %.80q is not a token", f.Name)
		}
		if why := badValue(f.Value); why != "" {
			return dst, fmt.Errorf("warc: the value of %s has %s: %.80q", f.Name, why, f.Value)
		}
		out = append(out, f.Name...)
		out = append(out, ": "...)
		out = append(out, f.Value...)
		out = append(out, "\r\n"...)
	}
	out = append(out, "\r\n"...)
	if len(h) > MaxHeaderLines-2 { // with the version line and the empty one
		return dst, fmt.Errorf("warc: the header has %d fields, more than %d", len(h), MaxHeaderLines-2)
	}
	if n := len(out) - start; n > MaxHeader {
		return dst, fmt.Errorf("warc: the header has %d bytes, more than %d", n, MaxHeader)
	}
	return out, nil
}

// badValue says what is wrong with a value that is to be written.
func badValue(s string) string {
	switch {
	case isPrintable(s) && strings.Trim(s, " ") == s: // nearly all
		return ""
	case strings.ContainsFunc(s, unicode.IsControl): // CR, LF, NUL, and the likes of NEL
		return "a control character"
	case !utf8.ValidString(s):
		return "octets that are not UTF-8"
	case strings.Trim(s, " ") != s:
		return "a space at an end"
	}
	return ""
}

// isPrintable reports whether s is ASCII without controls.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s is a token: CHARs but controls and separators
// (WARC 1.1 §4).
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenBytes = func() (is [256]bool) {
	for c := ' ' + 1; c < 0x7f; c++ {
		is[c] = !strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
	}
	return is
}()
