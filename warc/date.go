package warc

import (
	"fmt"
	"strings"
	"time"
)

const (
	dateSeconds = "2006-01-02T15:04:05Z"
	dateMillis  = "2006-01-02T15:04:05.000Z"
)

// FormatDate returns a WARC-Date in UTC: to the millisecond, in version 1.0 to
// the second (WARC 1.1 §5.4). What is finer is cut off, and so a date is never
// later than its time. A year has four digits: times before the year 0 and
// after 9999 become the first and the last that can be written.
func FormatDate(t time.Time, v Version) string {
	t = t.UTC()
	if t.Year() < 0 {
		t = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if t.Year() > 9999 {
		t = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	}
	if v.orDefault() == V1_1 {
		return t.Format(dateMillis)
	}
	return t.Format(dateSeconds)
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
