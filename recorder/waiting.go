package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// What waits while the archive cannot be written to is in memory and in files
// without names: a kill ends it. A note says then what there was. It has its
// room on the disk from the start, so that it can be written when that is full.
const (
	noteName = ".waiting"
	noteSize = 64 << 10 // bytes: captures that find no room in it are only counted
	noteHead = 128      // bytes of the line with the counts
	noteURL  = 500      // bytes of a URL, at most
)

// A waitingNote is the file with the note, of a recorder that runs. Its methods
// are the writer's. All of them do what they can: nothing depends on the note.
type waitingNote struct {
	log    *slog.Logger
	path   string
	f      *os.File // nil: it could not be made
	counts noteCounts
	synced time.Time
	dirty  bool // since then
}

// noteCounts are the first line of a note.
type noteCounts struct {
	Responses int   `json:"responses"` // that clients were given
	Records   int   `json:"records"`   // others: of look-ups, failures or bad replies
	Octets    int64 `json:"octets"`    // of their blocks
	Listed    int   `json:"listed"`    // of both: that have a line
}

// noteLine is a further line.
type noteLine struct {
	Time   time.Time `json:"time"`
	URL    string    `json:"url"`
	Octets int64     `json:"octets"`
}

// openNote logs what the note of a process that died says, and makes a new one.
func openNote(dir string, log *slog.Logger) *waitingNote {
	n := &waitingNote{log: log, path: filepath.Join(dir, noteName)}
	n.report()
	f, err := os.OpenFile(n.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteAt(make([]byte, noteSize), 0)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		log.Warn("should the program be killed while the archive cannot be written to, the next start will not know what is lost", "error", err)
		return n
	}
	n.f = f
	return n
}

// report logs what was lost with another process.
func (n *waitingNote) report() {
	b, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var counts noteCounts
	head, lines, _ := bytes.Cut(b[:min(len(b), noteSize)], []byte("\n"))
	if head = bytes.Trim(head, " \x00"); err == nil && len(head) > 0 {
		err = json.Unmarshal(head, &counts)
	}
	if err != nil {
		n.log.Warn("cannot read what was lost when the program was killed the last time", "file", n.path, "error", err)
		return
	}
	if counts.Responses+counts.Records == 0 {
		return
	}
	n.log.Error("THE PROGRAM WAS KILLED WHILE THE ARCHIVE COULD NOT BE WRITTEN TO: what waited is lost, or was just being written", "responses that clients were given", counts.Responses, "other records", counts.Records, "octets", counts.Octets)
	for range counts.Listed {
		var line noteLine
		var text []byte
		if text, lines, _ = bytes.Cut(lines, []byte("\n")); json.Unmarshal(text, &line) == nil {
			n.log.Error("this was waiting when the program was killed", "url", line.URL, "begun", line.Time, "octets", line.Octets)
		}
	}
	if rest := counts.Responses + counts.Records - counts.Listed; rest > 0 {
		n.log.Error("more was waiting than the note had room for", "captures", rest)
	}
}

// update writes down what waits.
func (n *waitingNote) update(waiting []*capture) {
	if n.f == nil || len(waiting) == 0 && n.counts == (noteCounts{}) && !n.dirty {
		return
	}
	var counts noteCounts
	lines := make([]byte, 0, 1<<10)
	full := false
	for _, c := range waiting {
		octets := c.octets()
		counts.Octets += octets
		if c.x.received != nil {
			counts.Responses++
		} else {
			counts.Records++
		}
		if full { // thousands may wait, and each that comes updates the note
			continue
		}
		line, err := json.Marshal(noteLine{c.x.start.UTC(), c.x.uri[:min(len(c.x.uri), noteURL)], octets})
		if full = err != nil || noteHead+len(lines)+len(line) >= noteSize; !full {
			lines = append(append(lines, line...), '\n')
			counts.Listed++
		}
	}
	if counts != n.counts {
		n.write(counts, lines)
	}
	if n.dirty && time.Since(n.synced) >= retryEvery {
		n.f.Sync()
		n.synced, n.dirty = time.Now(), false
	}
}

func (n *waitingNote) write(counts noteCounts, lines []byte) {
	head, err := json.Marshal(counts)
	if err == nil {
		_, err = n.f.WriteAt(fmt.Appendf(nil, "%-*s\n%s", noteHead-1, head, lines), 0)
	}
	if err != nil {
		n.log.Debug("cannot write down what waits", "error", err)
		return
	}
	n.counts, n.dirty = counts, true
}

// close removes the note, unless there is another one by now: what could not be
// written has been logged.
func (n *waitingNote) close() {
	if n.f == nil {
		return
	}
	ours, err := n.f.Stat()
	there, thereErr := os.Stat(n.path)
	n.f.Close()
	if err == nil && thereErr == nil && os.SameFile(ours, there) {
		os.Remove(n.path)
	}
}

// octets are those of the blocks of the records.
func (c *capture) octets() int64 {
	n := c.request.length + c.response.length + c.note.length
	if c.revisit {
		n += c.whole.length - c.response.length
	}
	return n
}
