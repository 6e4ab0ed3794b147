package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What is printed of files, names and origins passes harmless, or harmlessJSON in
// JSON. A safeWriter is the last exit of standard output and standard error: it
// escapes what reached it all the same.

// harmless makes a text of an origin fit for a line on a terminal: what is not
// printable, such as escape sequences, line ends, octets that are not UTF-8, and
// marks that turn the direction of writing, is shown as \x1b, \u202e and the like.
func harmless(s string) string {
	if isHarmless(s, "") {
		return s
	}
	return string(appendHarmless(nil, s, ""))
}

// harmlessJSON escapes in JSON what encoding/json leaves as it is, though it may do
// something to a terminal. The meaning stays the same.
func harmlessJSON(json string) string {
	if isHarmless(json, "\n") {
		return json
	}
	var b []byte
	for _, c := range json {
		if c == '\n' || unicode.IsPrint(c) {
			b = utf8.AppendRune(b, c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return string(b)
}

func isHarmless(s, allowed string) bool {
	for i, c := range s {
		if c == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") || !unicode.IsPrint(c) && !strings.ContainsRune(allowed, c) {
			return false
		}
	}
	return true
}

// appendHarmless appends a text, in which the allowed control characters stay.
func appendHarmless(b []byte, s, allowed string) []byte {
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		switch {
		case c == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[0])
		case unicode.IsPrint(c) || strings.ContainsRune(allowed, c):
			b = utf8.AppendRune(b, c)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < utf8.RuneSelf:
			b = fmt.Appendf(b, `\x%02x`, c)
		case c > 0xffff:
			b = fmt.Appendf(b, `\U%08x`, c)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
		s = s[n:]
	}
	return b
}

// errorLines returns an error in lines that are harmless: one, or where errors are
// joined in it one for each of those. A line feed in a name makes no line.
func errorLines(err error) []string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		var texts, lines []string
		for _, part := range joined.Unwrap() {
			texts = append(texts, part.Error())
			lines = append(lines, errorLines(part)...)
		}
		before, after, found := strings.Cut(err.Error(), strings.Join(texts, "\n"))
		if len(texts) < 2 || !found {
			break
		}
		lines[0] = harmless(before) + lines[0]
		lines[len(lines)-1] += harmless(after)
		return lines
	}
	return []string{harmless(err.Error())}
}

// tell writes each line of an error as a message.
func tell(stderr io.Writer, err error) {
	for _, line := range errorLines(err) {
		fmt.Fprintf(stderr, "warctee: %s\n", line)
	}
}

// A safeWriter writes text of which nothing but line feeds and tabs controls a
// terminal. It is safe for concurrent use.
type safeWriter struct {
	w io.Writer

	mu   sync.Mutex
	rest []byte // the start of a character whose end may still come
}

const lineControls = "\n\t"

func (s *safeWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.rest) + string(p)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				whole -= n
			}
			break
		}
	}
	s.rest = append(s.rest[:0], text[whole:]...)
	if err := s.put(text[:whole]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *safeWriter) put(text string) error {
	if text == "" {
		return nil
	}
	b := []byte(text)
	if !isHarmless(text, lineControls) {
		b = appendHarmless(nil, text, lineControls)
	}
	_, err := s.w.Write(b)
	return err
}

// flush writes the start of a character whose end did not come.
func (s *safeWriter) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := string(s.rest)
	s.rest = nil
	return s.put(rest)
}

// rawWriter returns what is behind a safeWriter: for the output of another program,
// for what draws on the terminal, and for data.
func rawWriter(w io.Writer) io.Writer {
	if safe, ok := w.(*safeWriter); ok {
		return safe.w
	}
	return w
}

// dataWriter returns where to write what a program reads, and every octet counts. On
// a terminal it is text like all else.
func dataWriter(w io.Writer) io.Writer {
	if isTerminal(w) {
		return w
	}
	return rawWriter(w)
}
