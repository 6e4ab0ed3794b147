package http1

import (
	"bytes"
	"strings"
)

// A Field is one field of a head or trailer. The slices share memory with the
// head that it was parsed from.
type Field struct {
	Raw   []byte // the whole line with its line end, and the folded lines that continue it
	Name  []byte // as sent, without white space before the colon; nil when the line has no colon
	Value []byte // without surrounding SP and HTAB; folded lines are joined by a space
}

// A Head is the first line and the fields of a message.
type Head struct {
	Raw    []byte // everything, up to and including the empty line
	Line   []byte // the first line without its line end
	Fields []Field
}

// An Error says why a message was refused.
type Error struct {
	Status int    // what to answer: 400, 414, 431, 501, 505 for requests, 502 for responses
	Reason string // one sentence without a period
}

func (e *Error) Error() string { return e.Reason }

// HeadLen returns the length of the head that starts b, its empty line
// included, or 0 when b does not hold all of it yet. Lines end in LF; a CR
// before it belongs to the line end. The first from bytes were seen by an
// earlier call that returned 0.
func HeadLen(b []byte, from int) int {
	// An empty line is LF LF or LF CR LF; the earlier call may have ended
	// between those.
	i := max(from-2, 0)
	for {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n + 1
		rest := b[i:]
		if len(rest) > 0 && rest[0] == '\n' {
			return i + 1
		}
		if len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return i + 2
		}
	}
}

// parseHead splits raw, which ends in an empty line, into its lines.
func parseHead(raw []byte) Head {
	h := Head{Raw: raw}
	line, rest := cutLine(raw)
	h.Line = trimLineEnd(line)
	h.Fields = parseFields(rest)
	return h
}

// parseFields splits a field section up to its empty line or its end.
func parseFields(b []byte) []Field {
	fields := make([]Field, 0, bytes.Count(b, []byte{'\n'}))
	for len(b) > 0 {
		line, rest := cutLine(b)
		if len(trimLineEnd(line)) == 0 {
			break
		}
		for len(rest) > 0 && isBlank(rest[0]) {
			folded, after := cutLine(rest)
			line, rest = line[:len(line)+len(folded)], after
		}
		fields = append(fields, parseField(line))
		b = rest
	}
	return fields
}

// parseField parses a line and the folded lines that continue it.
func parseField(raw []byte) Field {
	f := Field{Raw: raw}
	line, folded := cutLine(raw)
	text := trimLineEnd(line)
	name, value, ok := bytes.Cut(text, []byte{':'})
	if ok {
		f.Name = bytes.TrimRight(name, " \t")
	} else {
		value = text
	}
	f.Value = joinFolded(trimBlank(value), folded)
	return f
}

// joinFolded returns value and what is in the folded lines, joined by spaces. It
// copies each octet once: a head may consist of nothing but folded lines.
func joinFolded(value, lines []byte) []byte {
	if len(lines) == 0 {
		return value
	}
	joined := append(make([]byte, 0, len(value)+len(lines)), value...)
	for len(lines) > 0 {
		var line []byte
		line, lines = cutLine(lines)
		text := trimBlank(trimLineEnd(line))
		if len(joined) > 0 && len(text) > 0 {
			joined = append(joined, ' ')
		}
		joined = append(joined, text...)
	}
	return joined
}

// cutLine returns the first line of b with its line end, and what follows.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], b[i+1:]
	}
	return b, nil
}

func trimLineEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func trimBlank(b []byte) []byte { return bytes.Trim(b, " \t") }

// Is reports whether the field has that name; case does not matter.
func (f *Field) Is(name string) bool {
	return len(f.Name) == len(name) && strings.EqualFold(string(f.Name), name)
}

// Get returns the value of the first field of that name.
func (h *Head) Get(name string) (value string, ok bool) {
	for i := range h.Fields {
		if h.Fields[i].Is(name) {
			return string(h.Fields[i].Value), true
		}
	}
	return "", false
}

// Values returns the values of all fields of that name, in order.
func (h *Head) Values(name string) []string {
	var values []string
	for i := range h.Fields {
		if h.Fields[i].Is(name) {
			values = append(values, string(h.Fields[i].Value))
		}
	}
	return values
}

// Tokens returns the members of all fields of that name, which hold
// comma-separated lists (RFC 9110 §5.6.1), in order and without the empty ones.
func (h *Head) Tokens(name string) []string {
	var tokens []string
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.Trim(t, " \t"); t != "" {
				tokens = append(tokens, t)
			}
		}
	}
	return tokens
}

// HasToken reports whether a comma-separated list holds the token; case does
// not matter.
func (h *Head) HasToken(name, token string) bool {
	for _, t := range h.Tokens(name) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}

// isToken reports whether s is a token (RFC 9110 §5.6.2).
func isToken(s []byte) bool {
	for _, c := range s {
		if !IsTokenByte(c) {
			return false
		}
	}
	return len(s) > 0
}

// IsTokenByte reports whether c can be in a token, such as a method or the name
// of a field (RFC 9110 §5.6.2).
func IsTokenByte(c byte) bool { return tokenBytes[c] }

var tokenBytes = func() (is [256]bool) {
	for c := range 256 {
		is[c] = isAlphanumeric(byte(c)) || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return is
}()

// hasControl reports whether s has a control character other than HTAB.
func hasControl(s []byte) bool {
	for _, c := range s {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}
