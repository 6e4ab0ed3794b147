package main

import (
	"fmt"
	"slices"
	"time"
)

const (
	thinEvery    = time.Minute
	maxAlike     = 10   // lines in that time that differ in nothing but time and bytes
	maxThinLines = 1000 // lines in that time of all that is thinned
)

// A thinner thins out the lines of which a client can cause any number without an
// exchange that goes to an origin: by connecting again and again, or with requests
// that are refused.
type thinner struct {
	timer *time.Timer // ends the time that the rest is about; nil: none has begun
	kinds map[failureLine]*kind
	lines int
}

// A kind is what lines that are alike have in common.
type kind struct {
	lines int
	rest  failureLine // tells of those that got no line; Repeated counts them
}

// takes reports whether a line is to be written. When it has begun to count,
// over is called after thinEvery, and has to call end.
func (t *thinner) takes(line failureLine, over func()) bool {
	if t.timer == nil {
		t.timer = time.AfterFunc(thinEvery, over)
		t.kinds = make(map[failureLine]*kind)
	}
	key := line
	key.Time, key.Bytes = lineTime{}, 0
	if t.kinds[key] == nil && t.lines >= maxThinLines {
		key = failureLine{Phase: line.Phase, Class: line.Class, Error: fmt.Sprintf("there were more than %d lines in a minute: what the others were about is not told", maxThinLines)}
	}
	k := t.kinds[key]
	if k == nil {
		k = &kind{rest: key}
		t.kinds[key] = k
	}
	if k.lines < maxAlike && t.lines < maxThinLines {
		k.lines++
		t.lines++
		return true
	}
	k.rest.Time = line.Time
	k.rest.Bytes += line.Bytes
	k.rest.Repeated++
	return false
}

// end returns the lines about those that got none, and begins anew.
func (t *thinner) end() []failureLine {
	if t.timer == nil {
		return nil
	}
	t.timer.Stop()
	var lines []failureLine
	for _, k := range t.kinds {
		if k.rest.Repeated > 0 {
			lines = append(lines, k.rest)
		}
	}
	slices.SortFunc(lines, func(a, b failureLine) int { return a.Time.Compare(b.Time.Time) })
	*t = thinner{}
	return lines
}
