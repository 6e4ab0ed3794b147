package main

import (
	"errors"
	"strings"
	"testing"
)

// What is missing from the archive is said, and gives the exit status 3.
func TestWhatIsIncomplete(t *testing.T) {
	for _, test := range []struct {
		status serverStatus
		want   string // "" for nothing
	}{
		{serverStatus{Recording: true, Pauses: 1, Truncated: 2, Failures: 3, Forbidden: 4}, ""},
		{serverStatus{Recording: true, Incomplete: 1}, ": 1 response was recorded in part, 0 not at all"},
		{serverStatus{Recording: true, Incomplete: 2, Lost: 1}, ": 2 responses were recorded in part, 1 not at all"},
		{serverStatus{Recording: true, LostRecords: 1}, ": 1 record of a look-up, failure or bad reply is lost"},
		{serverStatus{Recording: true, Unstorable: 2}, ": 2 requests were refused because of the disk"},
		{serverStatus{State: "paused", Error: "no space", Unstorable: 1}, ": 1 request was refused because of the disk; recording was paused at the end: no space"},
		{serverStatus{State: "stopped", Error: "no space"}, ": recording was stopped at the end: no space"},
		{serverStatus{Recording: true, Unstorable: 1, Damaged: 1}, ""}, // an error of its own
	} {
		err := test.status.incomplete()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%+v: %v", test.status, err)
		case test.want != "" && (!errors.Is(err, errIncomplete) || !strings.HasSuffix(err.Error(), test.want)):
			t.Errorf("%+v: %v, want %s", test.status, err, test.want)
		}
	}
}
