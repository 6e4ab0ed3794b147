package recorder

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPrefix leaves room, in the 255 bytes of a file name, for the rest of it.
const maxPrefix = 100

// ValidPrefix reports whether Options.Prefix may be prefix, which starts the
// names of files and so stands in WARC-Filename too.
func ValidPrefix(prefix string) bool {
	return utf8.ValidString(prefix) && len(prefix) <= maxPrefix && !strings.HasPrefix(prefix, ".") && !strings.HasPrefix(prefix, " ") &&
		!strings.ContainsFunc(prefix, func(c rune) bool { return c == '/' || c == '\\' || unicode.IsControl(c) })
}
