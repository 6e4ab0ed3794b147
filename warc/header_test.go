package warc

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHeaderAccess(t *testing.T) {
	var h Header
	h.Add("WARC-Type", "response")
	h.Add("WARC-Concurrent-To", "<a:1>")
	h.Add("warc-concurrent-to", "<a:2>")
	h.Add("X", "y")
	if got := h.Get("warc-TYPE"); got != "response" {
		t.Errorf("Get = %q", got)
	}
	if got := h.Values("WARC-Concurrent-To"); !slices.Equal(got, []string{"<a:1>", "<a:2>"}) {
		t.Errorf("Values = %q", got)
	}
	if h.Get("none") != "" || h.Values("none") != nil {
		t.Error("a field that is not there has a value")
	}
	h.Set("Warc-Concurrent-To", "<a:3>")
	h.Set("New", "1")
	want := Header{{"WARC-Type", "response"}, {"WARC-Concurrent-To", "<a:3>"}, {"X", "y"}, {"New", "1"}}
	if !slices.Equal(h, want) {
		t.Errorf("after Set: %q", h)
	}
	h.Del("x")
	if !slices.Equal(h, slices.Delete(want, 2, 3)) {
		t.Errorf("after Del: %q", h)
	}
}

func TestEncode(t *testing.T) {
	h := Header{{"WARC-Type", "warcinfo"}, {"WARC-Protocol", "http/1.1"}, {"WARC-Protocol", "tls/1.3"}, {"Empty", ""}, {"U", "ä b"}}
	got, err := h.Encode([]byte("before"), V1_0)
	want := "beforeWARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Protocol: http/1.1\r\nWARC-Protocol: tls/1.3\r\nEmpty: \r\nU: ä b\r\n\r\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := (Header{}).Encode(nil, ""); err != nil || string(got) != "WARC/1.1\r\n\r\n" {
		t.Errorf("default version: %q, %v", got, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, f := range []Field{
		{"", "x"}, {"a b", "x"}, {"a:", "x"}, {"a\r\nb", "x"}, {"ä", "x"}, {"a\x7f", "x"}, {"a\t", "x"}, {"<a>", "x"},
		{"a", "x\r\nWARC-Type: response"}, {"a", "x\ny"}, {"a", "x\ry"}, {"a", "\x00"}, {"a", "x\ty"}, {"a", "\x7f"},
		{"a", "x\u0085y"}, {"a", "\xff"}, {"a", " x"}, {"a", "x "}, {"a", strings.Repeat("x", MaxHeader)},
	} {
		dst := []byte("before")
		got, err := Header{{"WARC-Type", "response"}, f}.Encode(dst, V1_1)
		if err == nil {
			t.Errorf("%.60q was encoded", f)
		}
		if string(got) != "before" {
			t.Errorf("%.60q: dst is %.60q after the error", f, got)
		}
	}
	if _, err := (Header{}).Encode(nil, "0.18"); err == nil {
		t.Error("version 0.18 was written")
	}
}

func TestProfiles(t *testing.T) {
	if got := V1_0.IdenticalPayloadProfile(); got != "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest" {
		t.Error(got)
	}
	if got := Version("").NotModifiedProfile(); got != "http://netpreserve.org/warc/1.1/revisit/server-not-modified" {
		t.Error(got)
	}
}

func TestDates(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_999_999, time.FixedZone("", 3600))
	if got := FormatDate(at, V1_1); got != "2026-02-03T03:05:06.007Z" {
		t.Error(got)
	}
	if got := FormatDate(at, V1_0); got != "2026-02-03T03:05:06Z" {
		t.Error(got)
	}
	for _, c := range []struct {
		in       string
		in10, ok bool
	}{
		{"2026-02-03T03:05:06Z", true, true},
		{"2026-02-03T03:05:06.007Z", false, true},
		{"2026-02-03T03:05:06.123456789Z", false, true},
		{"2026-02-03T03:05Z", false, true},
		{"2026-02-03", false, true},
		{"2026-02", false, true},
		{"2026", false, true},
		{"2026-02-03T03:05:06,007Z", false, false},
		{"2026-02-03T03:05:06", false, false},
		{"2026-02-03T03:05:06+01:00", false, false},
		{"2026-02-30T03:05:06Z", false, false},
		{"2026-2-3T3:05:06Z", false, false},
		{"20260203030506", false, false},
		{"", false, false},
	} {
		if _, err := ParseDate(c.in, V1_0); (err == nil) != c.in10 {
			t.Errorf("1.0: %q: %v", c.in, err)
		}
		if _, err := ParseDate(c.in, V1_1); (err == nil) != c.ok {
			t.Errorf("1.1: %q: %v", c.in, err)
		}
	}
}

func TestRecordID(t *testing.T) {
	a, b := NewRecordID(), NewRecordID()
	if a == b || len(a) != len("<urn:uuid:00000000-0000-4000-8000-000000000000>") || !strings.HasPrefix(a, "<urn:uuid:") || a[24] != '4' || !strings.HasSuffix(a, ">") {
		t.Errorf("%q, %q", a, b)
	}
}
