package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// harmless makes a text of an origin fit for a terminal: what is not printable,
// such as escape sequences, octets that are not UTF-8, and marks that turn the
// direction of writing, is shown as \x1b, \u202e and the like.
func harmless(s string) string {
	clean := true
	for _, c := range s {
		if clean = c != utf8.RuneError && unicode.IsPrint(c); !clean {
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		switch {
		case c == utf8.RuneError && n == 1:
			appendEscape(&b, 'x', 2, rune(s[0]))
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < utf8.RuneSelf:
			appendEscape(&b, 'x', 2, c)
		case c > 0xffff:
			appendEscape(&b, 'U', 8, c)
		default:
			appendEscape(&b, 'u', 4, c)
		}
		s = s[n:]
	}
	return b.String()
}

// escapeControls escapes the control characters in JSON that JSON lets be: those
// behind ASCII, which are commands to some terminals.
func escapeControls(json string) string {
	if !strings.ContainsFunc(json, isLateControl) {
		return json
	}
	var b strings.Builder
	for _, c := range json {
		if isLateControl(c) {
			appendEscape(&b, 'u', 4, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func isLateControl(c rune) bool { return c >= 0x7f && c <= 0x9f }

func appendEscape(b *strings.Builder, kind byte, digits int, c rune) {
	b.WriteByte('\\')
	b.WriteByte(kind)
	for i := digits - 1; i >= 0; i-- {
		b.WriteByte("0123456789abcdef"[c>>(4*i)&0xf])
	}
}
