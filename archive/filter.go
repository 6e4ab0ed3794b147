package archive

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/warctee/warctee/warc"
)

// A Filter chooses records. An empty field means all; of several values of one
// field one has to fit.
type Filter struct {
	URL    []Pattern // of WARC-Target-URI
	Types  []string  // of WARC-Type, lower-case
	Status []Status  // of HTTP responses, also in revisits
	Media  []Pattern // of Message.MediaType
	From   time.Time // of WARC-Date
	Before time.Time // of WARC-Date; this time no more
	IDs    []string  // of WARC-Record-ID, as CleanID gives them
}

// Header reports whether a record is chosen as far as its header tells.
func (f *Filter) Header(rec *warc.Record) bool {
	if len(f.Types) > 0 && !anyOf(f.Types, func(t string) bool { return t == rec.Type() }) {
		return false
	}
	if len(f.IDs) > 0 && !anyOf(f.IDs, func(id string) bool { return id == CleanID(rec.ID()) }) {
		return false
	}
	if len(f.URL) > 0 && !anyOf(f.URL, func(p Pattern) bool { return p.Match(rec.TargetURI()) }) {
		return false
	}
	if f.From.IsZero() && f.Before.IsZero() {
		return true
	}
	date, err := rec.Date()
	return err == nil && !date.Before(f.From) && (f.Before.IsZero() || date.Before(f.Before))
}

// NeedsMessage reports whether Message has a say.
func (f *Filter) NeedsMessage() bool { return len(f.Status)+len(f.Media) > 0 }

// Message reports whether a record is chosen by what its block is. A nil message
// is one that cannot be understood.
func (f *Filter) Message(m *Message) bool {
	if len(f.Status) > 0 && (m == nil || m.Response == nil || !anyOf(f.Status, func(s Status) bool { return s.Match(m.Response.Status) })) {
		return false
	}
	return len(f.Media) == 0 || m != nil && anyOf(f.Media, func(p Pattern) bool { return p.Match(m.MediaType()) })
}

func anyOf[T any](list []T, fits func(T) bool) bool {
	for _, v := range list {
		if fits(v) {
			return true
		}
	}
	return false
}

// A Pattern is a text in which each * stands for any text, also for none. All
// other characters, the question mark too, are what they are.
type Pattern struct{ parts []string }

// NewPattern returns the pattern of a text.
func NewPattern(text string) Pattern { return Pattern{strings.Split(text, "*")} }

// Match reports whether all of s fits the pattern.
func (p Pattern) Match(s string) bool {
	last := len(p.parts) - 1
	if last <= 0 {
		return last == 0 && s == p.parts[0]
	}
	s, ok := strings.CutPrefix(s, p.parts[0])
	if !ok {
		return false
	}
	for _, part := range p.parts[1:last] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, p.parts[last])
}

// A Status is a range of status codes of HTTP.
type Status struct{ Low, High int }

// Match reports whether a status code is in the range.
func (s Status) Match(code int) bool { return s.Low <= code && code <= s.High }

// ParseStatus understands a status code, as 404, or a class of them, as 3xx.
func ParseStatus(text string) (Status, error) {
	class, isClass := strings.CutSuffix(strings.ToLower(text), "xx")
	n, err := strconv.ParseUint(class, 10, 16)
	switch {
	case err == nil && isClass && n <= 9:
		return Status{int(n) * 100, int(n)*100 + 99}, nil
	case err == nil && !isClass && n <= 999:
		return Status{int(n), int(n)}, nil
	}
	return Status{}, fmt.Errorf("%q is neither a status such as 404 nor a class such as 3xx", text)
}

// CleanID returns a record id without its angle brackets. A bare UUID is taken
// for a urn:uuid.
func CleanID(id string) string {
	id = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(id), "<"), ">")
	if bareUUID.MatchString(id) {
		id = "urn:uuid:" + id
	}
	return id
}

var bareUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

var errPeriod = errors.New("it is no date such as 2026, 2026-11-21, 2026-11-21T10:15Z or 20261121101500")

// ParsePeriod understands a date: of any of the granularities of W3C-ISO8601, as
// in WARC-Date, or of 4 to 14 digits, as in the URLs of web archives. It returns
// when the year, day, minute, … begins and when the next one does.
func ParsePeriod(text string) (from, before time.Time, err error) {
	step := func(t time.Time, years, months, days int, d time.Duration) (time.Time, time.Time, error) {
		return t, t.AddDate(years, months, days).Add(d), nil
	}
	for _, form := range []struct {
		layout              string
		years, months, days int
		d                   time.Duration
	}{
		{"2006", 1, 0, 0, 0}, {"200601", 0, 1, 0, 0}, {"20060102", 0, 0, 1, 0}, {"2006010215", 0, 0, 0, time.Hour},
		{"200601021504", 0, 0, 0, time.Minute}, {"20060102150405", 0, 0, 0, time.Second},
		{"2006-01", 0, 1, 0, 0}, {"2006-01-02", 0, 0, 1, 0}, {"2006-01-02T15:04Z", 0, 0, 0, time.Minute},
		{"2006-01-02T15:04:05Z", 0, 0, 0, time.Second},
	} {
		if t, err := time.Parse(form.layout, text); err == nil && len(text) == len(form.layout) {
			return step(t, form.years, form.months, form.days, form.d)
		}
	}
	t, err := warc.ParseDate(text, warc.V1_1)
	if err != nil {
		return t, t, fmt.Errorf("%q: %w", text, errPeriod)
	}
	return step(t, 0, 0, 0, 1)
}

// CleanURL returns a URL as records have it: scheme and host in lower case,
// without a default port and a fragment, and with a path. What is no URL stays.
func CleanURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
		if u.Scheme == scheme {
			u.Host = strings.TrimSuffix(u.Host, port)
		}
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
