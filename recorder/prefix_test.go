package recorder

import (
	"strings"
	"testing"
)

// A prefix that could not be the start of a file name, or of a WARC-Filename,
// is refused before anything is asked of an origin.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{".hidden", "..", " a", "a/b", `a\b`, "a\nb", "a\r", "a\tb", "\x00", "a\x7f", "a\u0085b", "\xff"} {
		o := Options{Dir: t.TempDir(), Prefix: prefix}
		if r, err := Open(o); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
			closeForTest(t, r)
		} else if !strings.Contains(err.Error(), "prefix") {
			t.Errorf("the prefix %q is refused with %v", prefix, err)
		}
	}
	for _, prefix := range []string{"a", "a b", "a.b", "-a", "bücher", "a%b", "日本"} {
		r := openForTest(t, Options{Prefix: prefix, Dial: originHandler(t, echoPath)})
		mustFetch(t, r, "http://origin/")
		closeForTest(t, r)
		for _, record := range archive(t, r) {
			if !strings.HasPrefix(record.File, prefix) && !strings.Contains(record.File, "/"+prefix) {
				t.Errorf("with the prefix %q a file is named %q", prefix, record.File)
			}
		}
	}
}
