package http1

import (
	"errors"
	"strings"
	"testing"
)

// Limits can be smaller and larger than the defaults.
func TestLimits(t *testing.T) {
	for _, limits := range []Limits{{Target: 100, Fields: 200, FieldCount: 5}, {Target: 3 * MaxTarget, Fields: 3 * MaxRequestFields, FieldCount: 3 * MaxFieldCount}} {
		for _, test := range []struct {
			name                 string
			target, fields, more int
			status               int
		}{
			{"all that is allowed", limits.Target, limits.Fields, limits.FieldCount - 2, 0},
			{"long target", limits.Target + 1, limits.Fields, 0, 414},
			{"many bytes", limits.Target, limits.Fields + 1, 0, 431},
			{"many fields", limits.Target, limits.Fields, limits.FieldCount - 1, 431},
			{"no field, but many lines", 1, limits.Fields, -1, 431},
		} {
			head := "GET /" + strings.Repeat("a", test.target-1) + " HTTP/1.1\r\n"
			fields := "Host: h\r\n" + strings.Repeat("A:\r\n", max(0, test.more))
			if test.more < 0 {
				fields += strings.Repeat("\n ", limits.FieldCount)
			}
			pad := test.fields - len(fields) - len("B: \r\n\r\n")
			raw := head + fields + "B: " + strings.Repeat("b", pad) + "\r\n\r\n"
			_, err := limits.ParseRequest([]byte(raw))
			var e *Error
			if errors.As(err, &e) != (test.status > 0) || e != nil && e.Status != test.status {
				t.Errorf("%+v, %s: got %v, want %d", limits, test.name, err, test.status)
			}
			if err == nil && len(raw) > limits.Head() {
				t.Errorf("%+v: a head has %d bytes, more than %d", limits, len(raw), limits.Head())
			}
		}
	}
}
