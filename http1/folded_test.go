package http1

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestFoldedValues(t *testing.T) {
	for lines, want := range map[string]string{
		"A: b\r\n c\r\n":                       `A="b c"`,
		"A:\r\n\tb\n  c \t\r\n":                `A="b c"`,
		"A: b\r\n \r\n\t\r\n c\r\nD: e\r\n":    `A="b c" D="e"`,
		"A: b\r\n \r\n":                        `A="b"`,
		"A: b\r\n C: d\r\n":                    `A="b C: d"`,
		"no colon\r\n more\r\nA: b\r\n\tc\r\n": `="no colon more" A="b c"`,
		" first\r\n second\r\n":                `="first second"`,
		" A: first\r\n second\r\n":             ` A="first second"`,
	} {
		r, err := ParseResponse([]byte("HTTP/1.1 200 OK\r\n"+lines+"\r\n"), "GET")
		if err != nil {
			t.Errorf("%q: %v", lines, err)
			continue
		}
		var got []string
		raw := ""
		for _, f := range r.Fields {
			got = append(got, fmt.Sprintf("%s=%q", f.Name, f.Value))
			raw += string(f.Raw)
		}
		if s := strings.Join(got, " "); s != want || raw != lines {
			t.Errorf("%q: the fields are %s, want %s; their lines are %q", lines, s, want, raw)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What folded lines cost grows with their number, not with its square, which
// would be thousands of bytes for each.
func TestFoldedLinesTakeLinearWork(t *testing.T) {
	const perByte = 100 // a Field has 72 bytes, and a line at least 3
	for name, parse := range map[string]func(lines string){
		"head": func(lines string) {
			if _, err := ParseResponse([]byte("HTTP/1.1 200 OK\r\nA: b\r\n"+lines+"\r\n"), "GET"); err != nil {
				t.Error(err)
			}
		},
		"trailer": func(lines string) {
			body := NewBody(Framing{Kind: Chunked}, false)
			if _, _, err := body.Next([]byte("0\r\nA: b\r\n" + lines + "\r\n")); err != nil || !body.Done() {
				t.Errorf("the body is done: %v, %v", body.Done(), err)
			}
			body.Trailer()
		},
	} {
		lines := strings.Repeat(" x\n", 20_000)
		if n := allocated(func() { parse(lines) }); n > perByte*uint64(len(lines)) {
			t.Errorf("%s: %d bytes of folded lines take %d bytes", name, len(lines), n)
		}
	}
}
