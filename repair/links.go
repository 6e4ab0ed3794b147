package repair

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/warctee/warctee/warc"
)

const (
	// linkWindow is how many records can be between one that names another in
	// WARC-Concurrent-To and that other. The records of an exchange are
	// adjacent.
	linkWindow = 1024
	// maxLinks is how many links of one record and one field are looked at.
	maxLinks = 100
	// maxLostIDs is how many ids of lost records are remembered.
	maxLostIDs = 100_000
)

// linkFields name other records (WARC 1.1 §5.7, §5.11, §5.16, §5.21).
var linkFields = []string{"WARC-Concurrent-To", "WARC-Refers-To", "WARC-Warcinfo-ID", "WARC-Segment-Origin-ID"}

// maxID is how much of an id is kept, in bytes. Of a longer one the rest is a hash, so
// that it is told from others.
const maxID = 200

// kept returns what is remembered of an id.
func kept(id string) string {
	if len(id) <= maxID {
		return strings.Clone(id) // the header can be much longer
	}
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%s…%x", strings.ToValidUTF8(id[:maxID-70], ""), sum)
}

// links finds the links in the output that lead to what is lost: to an id that
// was seen in what is lost, or from a record near a gap to one of the same
// exchange that is nowhere near.
type links struct {
	dangling func(Link)

	lost    map[string]bool
	seen    map[string]bool
	ring    [linkWindow]string // of what is in seen
	n       int                // records and gaps so far
	lastGap int                // n of the last gap
	open    map[string][]Link  // Concurrent-To that were not seen yet
	due     [linkWindow][]string
}

func newLinks() *links {
	return &links{lost: make(map[string]bool), seen: make(map[string]bool), open: make(map[string][]Link), lastGap: -2 * linkWindow}
}

// lose tells of a record that is lost.
func (l *links) lose(id string) {
	if id == "" || len(l.lost) == maxLostIDs {
		return
	}
	l.lost[kept(id)] = true
}

// gap tells that something is lost here, maybe a record without a header.
func (l *links) gap() { l.lastGap = l.n }

// add tells of a record in the output.
func (l *links) add(rec *warc.Record) {
	id := kept(rec.ID())
	slot := l.n % linkWindow
	delete(l.seen, l.ring[slot])
	for _, old := range l.due[slot] {
		l.resolve(old, l.isLost(old))
	}
	l.ring[slot], l.due[slot] = id, nil
	l.seen[id] = true
	delete(l.lost, id) // it was there twice
	l.resolve(id, false)
	for _, name := range linkFields {
		values := rec.Header.Values(name)
		for _, to := range values[:min(len(values), maxLinks)] {
			to = kept(to)
			link := Link{ID: id, Field: name, To: to}
			switch {
			case name == linkFields[0] && !l.seen[to]:
				if _, ok := l.open[to]; !ok {
					l.due[slot] = append(l.due[slot], to)
				}
				l.open[to] = append(l.open[to], link)
			case l.lost[to]:
				l.dangling(link)
			}
		}
	}
	l.n++
}

// isLost judges about a record that is nowhere near.
func (l *links) isLost(id string) bool { return l.lost[id] || l.n-l.lastGap <= 2*linkWindow }

// resolve ends the wait for a record.
func (l *links) resolve(id string, lost bool) {
	if lost {
		for _, link := range l.open[id] {
			l.dangling(link)
		}
	}
	delete(l.open, id)
}

// end is called behind the last record.
func (l *links) end() {
	for i := range l.due {
		for _, id := range l.due[(l.n+i)%linkWindow] {
			l.resolve(id, l.isLost(id))
		}
	}
}
