package convert

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
)

// A rawField is a named field as it is in a file.
type rawField struct {
	text []byte // all its lines, with their line ends
	name string // without white space; "" when the line has no colon
}

// splitHeader divides the octets of a header into the version line, the fields
// and the empty line, as [warc.Reader] does.
func splitHeader(raw []byte) (version []byte, fields []rawField, end []byte) {
	lines := bytes.SplitAfter(raw, []byte("\n"))
	lines = lines[:len(lines)-1] // what comes behind the last line end: nothing
	version, end = lines[0], lines[len(lines)-1]
	for _, line := range lines[1 : len(lines)-1] {
		if (line[0] == ' ' || line[0] == '\t') && len(fields) > 0 {
			last := &fields[len(fields)-1]
			last.text = append(slices.Clip(last.text), line...)
			continue
		}
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			name = nil
		}
		fields = append(fields, rawField{line, strings.Trim(string(name), " \t")})
	}
	return version, fields, end
}

// A change is a new value for a field of a header.
type change struct {
	field int // its place in the header
	value string
}

// changeHeader returns the header of rec with another version, unless that is
// empty, and other values. All else stays as the octets that it is. That a
// reader understands the result so is checked; if not, the error is
// ErrUnchangeable.
func changeHeader(rec *warc.Record, version warc.Version, changes []change) ([]byte, error) {
	line, fields, end := splitHeader(rec.Raw)
	if version != "" {
		line = []byte("WARC/" + string(version) + lineEnd(line))
	} else {
		version = rec.Version
	}
	want := slices.Clone(rec.Header)
	for _, c := range changes {
		want[c.field].Value = c.value
	}
	out, named := slices.Clone(line), -1
	for _, f := range fields {
		if f.name != "" {
			named++
		}
		i := slices.IndexFunc(changes, func(c change) bool { return c.field == named && f.name != "" })
		if i < 0 {
			out = append(out, f.text...)
		} else {
			out = append(out, f.name+": "+changes[i].value+lineEnd(f.text)...)
		}
	}
	out = append(out, end...)
	got, err := warc.NewReader(bytes.NewReader(out)).Next()
	if err != nil || got.Version != version || !slices.Equal(got.Header, want) {
		return nil, ErrUnchangeable
	}
	return out, nil
}

// ErrUnchangeable says that a record cannot be made one of another version.
var ErrUnchangeable = errors.New("its header has lines that nobody can be sure of, and in another version would say something else: leave --warc-version out, or mend it first")

func lineEnd(line []byte) string {
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
