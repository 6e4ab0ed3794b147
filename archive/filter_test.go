package archive

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
)

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"http://a/", "http://a/", true},
		{"http://a/", "http://a/b", false},
		{"http://a/*", "http://a/", true},
		{"http://a/*", "http://a/b/c?d", true},
		{"*/b?c", "http://a/b?c", true},
		{"*/b?c", "http://a/bxc", false},
		{"*a*a*", "aa", true},
		{"*a*a*", "a", false},
		{"ab*ba", "aba", false},
		{"ab*ba", "abba", true},
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"http://a/[x]*", "http://a/[x]y", true},
	} {
		if got := NewPattern(test.pattern).Match(test.text); got != test.want {
			t.Errorf("%q fits %q: %v", test.text, test.pattern, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]Status{"404": {404, 404}, "3xx": {300, 399}, "5XX": {500, 599}, "0": {0, 0}, "999": {999, 999}} {
		if got, err := ParseStatus(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "xx", "1000", "-1", "40x", "44xx", "3xxx", " 200"} {
		if got, err := ParseStatus(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]string{
		"2026":                     "2026-01-01T00:00:00Z 2027-01-01T00:00:00Z",
		"2026-12":                  "2026-12-01T00:00:00Z 2027-01-01T00:00:00Z",
		"202602":                   "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z",
		"2024-02-28":               "2024-02-28T00:00:00Z 2024-02-29T00:00:00Z",
		"20261121":                 "2026-11-21T00:00:00Z 2026-11-22T00:00:00Z",
		"2026112110":               "2026-11-21T10:00:00Z 2026-11-21T11:00:00Z",
		"202611211015":             "2026-11-21T10:15:00Z 2026-11-21T10:16:00Z",
		"2026-11-21T10:15Z":        "2026-11-21T10:15:00Z 2026-11-21T10:16:00Z",
		"20261121101500":           "2026-11-21T10:15:00Z 2026-11-21T10:15:01Z",
		"2026-11-21T10:15:00Z":     "2026-11-21T10:15:00Z 2026-11-21T10:15:01Z",
		"2026-11-21T10:15:00.123Z": "2026-11-21T10:15:00.123Z 2026-11-21T10:15:00.123000001Z",
	} {
		from, before, err := ParsePeriod(text)
		if got := from.Format(time.RFC3339Nano) + " " + before.Format(time.RFC3339Nano); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "now", "26", "2026-13", "2026-1-2", "2026-02-30", "20261", "2026-11-21 10:15"} {
		if _, _, err := ParsePeriod(text); err == nil {
			t.Errorf("%q is a date", text)
		}
	}
}

func TestCleaned(t *testing.T) {
	const uuid = "0a0b0c0d-0000-4000-8000-000000000001"
	for text, want := range map[string]string{"<urn:uuid:" + uuid + ">": "urn:uuid:" + uuid, uuid: "urn:uuid:" + uuid, "<x:y>": "x:y", "x:y": "x:y"} {
		if got := CleanID(text); got != want {
			t.Errorf("id %q: %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"HTTP://Origin.Example:80/A?b#c": "http://origin.example/A?b",
		"https://origin.example:443":     "https://origin.example/",
		"http://origin.example:8080/":    "http://origin.example:8080/",
		"dns:origin.example":             "dns:origin.example",
		"http://origin.example/%zz":      "http://origin.example/%zz",
	} {
		if got := CleanURL(text); got != want {
			t.Errorf("URL %q: %q, want %q", text, got, want)
		}
	}
}

func TestFilter(t *testing.T) {
	rec := &warc.Record{Header: warc.Header{{Name: "WARC-Type", Value: "Response"}, {Name: "WARC-Record-ID", Value: "<x:1>"}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}, {Name: "WARC-Target-URI", Value: "<http://a/>"}}}
	day := func(text string) time.Time { from, _, _ := ParsePeriod(text); return from }
	for name, test := range map[string]struct {
		filter Filter
		want   bool
	}{
		"nothing":     {Filter{}, true},
		"type":        {Filter{Types: []string{"request", "response"}}, true},
		"other type":  {Filter{Types: []string{"request"}}, false},
		"id":          {Filter{IDs: []string{"x:1"}}, true},
		"other id":    {Filter{IDs: []string{"x:2"}}, false},
		"URL":         {Filter{URL: []Pattern{NewPattern("http://b*"), NewPattern("http://a/")}}, true},
		"other URL":   {Filter{URL: []Pattern{NewPattern("http://b*")}}, false},
		"since":       {Filter{From: day("2026-01-02")}, true},
		"too early":   {Filter{From: day("2026-01-03")}, false},
		"until":       {Filter{Before: day("2026-01-03")}, true},
		"too late":    {Filter{Before: day("2026-01-02")}, false},
		"all of them": {Filter{Types: []string{"response"}, IDs: []string{"x:2"}}, false},
	} {
		if got := test.filter.Header(rec); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	undated := &warc.Record{Header: warc.Header{{Name: "WARC-Date", Value: "once"}}}
	if (&Filter{From: day("2026")}).Header(undated) || !(&Filter{}).Header(undated) {
		t.Error("a record without a date")
	}
	m, err := ReadMessage(record("response", "application/http", "HTTP/1.1 404 No\r\nContent-Type: text/html\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter Filter
		m      *Message
		want   bool
	}{
		"nothing":      {Filter{}, m, true},
		"status":       {Filter{Status: []Status{{200, 299}, {400, 499}}}, m, true},
		"other status": {Filter{Status: []Status{{200, 299}}}, m, false},
		"media":        {Filter{Media: []Pattern{NewPattern("text/*")}}, m, true},
		"other media":  {Filter{Media: []Pattern{NewPattern("image/*")}}, m, false},
		"unreadable":   {Filter{}, nil, true},
		"its status":   {Filter{Status: []Status{{0, 999}}}, nil, false},
		"its media":    {Filter{Media: []Pattern{NewPattern("*")}}, nil, false},
	} {
		if got := test.filter.Message(test.m); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A pattern means what the regular expression does in which .* stands for *.
func FuzzPattern(f *testing.F) {
	f.Add("http://*/a*b", "http://x/aab")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 {
			return
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)^` + strings.Join(parts, ".*") + `$`)
		if err != nil || strings.ToValidUTF8(pattern, "") != pattern || strings.ToValidUTF8(text, "") != text {
			return
		}
		if got := NewPattern(pattern).Match(text); got != re.MatchString(text) {
			t.Errorf("%q fits %q: %v", text, pattern, got)
		}
	})
}

func FuzzParsePeriod(f *testing.F) {
	f.Add("2026-11-21T10:15Z")
	f.Add("20261121101500")
	f.Fuzz(func(t *testing.T, text string) {
		from, before, err := ParsePeriod(text)
		if err == nil && !from.Before(before) {
			t.Errorf("%q: %v to %v", text, from, before)
		}
		ParseStatus(text)
		if clean := CleanURL(text); CleanURL(clean) != clean {
			t.Errorf("%q: %q becomes %q", text, clean, CleanURL(clean))
		}
	})
}
