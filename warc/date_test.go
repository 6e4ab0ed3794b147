package warc

import (
	"math"
	"testing"
	"time"
)

// Whatever the clock says, the date is valid in its version and reads back as
// the same moment, less what is finer than its unit.
func TestDatesOfAnyClock(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("east", 14*3600), time.FixedZone("west", -12*3600), time.FixedZone("odd", 5*3600+45*60+7)}
	for _, c := range []struct {
		at   time.Time
		want string // 1.1; 1.0 is without the fraction
	}{
		{time.Unix(0, 0), "1970-01-01T00:00:00.000Z"},
		{time.Unix(-1, 999_999_999), "1969-12-31T23:59:59.999Z"},
		{time.Unix(0, 999_999), "1970-01-01T00:00:00.000Z"},
		{time.Unix(0, 1_000_000), "1970-01-01T00:00:00.001Z"},
		{time.Unix(1<<31-1, 0), "2038-01-19T03:14:07.000Z"},
		{time.Unix(1<<31, 0), "2038-01-19T03:14:08.000Z"},
		{time.Unix(1<<32-1, 999_000_000), "2106-02-07T06:28:15.999Z"},
		{time.Unix(1<<32, 0), "2106-02-07T06:28:16.000Z"},
		{time.Unix(math.MaxInt64/1_000_000_000, 854_775_807), "2262-04-11T23:47:16.854Z"}, // the last that nanoseconds in 64 bits can tell
		{time.Unix(math.MaxInt64/1_000_000_000+1, 0), "2262-04-11T23:47:17.000Z"},
		{time.Date(2000, 2, 29, 23, 59, 59, 999_999_999, time.UTC), "2000-02-29T23:59:59.999Z"},
		{time.Date(2100, 2, 29, 0, 0, 0, 0, time.UTC), "2100-03-01T00:00:00.000Z"},     // there is none
		{time.Date(2016, 12, 31, 23, 59, 60, 0, time.UTC), "2017-01-01T00:00:00.000Z"}, // a leap second
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "9999-12-31T23:59:59.999Z"},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999Z"},
		{time.Unix(math.MaxInt32*1_000_000, 0), "9999-12-31T23:59:59.999Z"},
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "0001-01-01T00:00:00.000Z"},
		{time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), "0000-01-01T00:00:00.000Z"},
	} {
		for _, zone := range zones {
			at := c.at.In(zone)
			if got := FormatDate(at, V1_1); got != c.want {
				t.Errorf("%s: got %s, want %s", at, got, c.want)
			}
			want, err := ParseDate(c.want, V1_1)
			if err != nil {
				t.Errorf("%s cannot be read: %v", c.want, err)
			}
			if year := c.at.UTC().Year(); 0 <= year && year <= 9999 && !want.Equal(c.at.Truncate(time.Millisecond)) {
				t.Errorf("%s becomes %s", c.at, want)
			}
			seconds := c.want[:len("2006-01-02T15:04:05")] + "Z"
			if got := FormatDate(at, V1_0); got != seconds {
				t.Errorf("%s: got %s in WARC 1.0, want %s", at, got, seconds)
			}
			if got, err := ParseDate(seconds, V1_0); err != nil || !got.Equal(want.Truncate(time.Second)) {
				t.Errorf("%s is read as %s, %v", seconds, got, err)
			}
		}
	}
}
