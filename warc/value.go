package warc

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewRecordID returns a new WARC-Record-ID, a random UUID (RFC 9562 §5.4) in
// angle brackets.
func NewRecordID() string {
	return "<" + uuid.New().URN() + ">"
}

const (
	dateSeconds = "2006-01-02T15:04:05Z"
	dateMillis  = "2006-01-02T15:04:05.000Z"
)

// FormatDate returns a WARC-Date in UTC: to the millisecond, in version 1.0 to
// the second (WARC 1.1 §5.4).
func FormatDate(t time.Time, v Version) string {
	if v.orDefault() == V1_1 {
		return t.UTC().Format(dateMillis)
	}
	return t.UTC().Format(dateSeconds)
}

// ParseDate understands a WARC-Date: to the second, or since version 1.1 any
// of the granularities of W3C-ISO8601 from the year to the nanosecond.
func ParseDate(s string, v Version) (time.Time, error) {
	layouts := []string{dateSeconds}
	if v.orDefault() == V1_1 {
		layouts = append(layouts, "2006-01-02T15:04Z", "2006-01-02", "2006-01", "2006")
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, s)
		// time.Parse takes a fraction, after a comma too, where the layout has none.
		if err == nil && (len(s) == len(layout) || v.orDefault() == V1_1 && !strings.Contains(s, ",")) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("warc: %.60q is not a date of WARC %s, such as %s", s, v.orDefault(), FormatDate(time.Unix(0, 0), v))
}
