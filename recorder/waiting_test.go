package recorder

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// A note counts all that waits, and lists what it has room for. What it has no
// room for takes next to no work: the note is written anew for each capture that
// comes while thousands wait.
func TestNoteOfMany(t *testing.T) {
	n := openNote(t.TempDir(), slog.New(slog.DiscardHandler))
	if n.f == nil {
		t.Fatal("there is no note")
	}
	defer n.close()
	const many = 8000
	var waiting []*capture
	for i := range many {
		waiting = append(waiting, &capture{
			x:        &exchange{uri: fmt.Sprintf("http://origin/%d/%s", i, strings.Repeat("u", 2*noteURL)), received: new(message)},
			response: part{length: 10},
		})
	}
	allocations := testing.AllocsPerRun(1, func() {
		n.counts = noteCounts{}
		n.update(waiting)
	})
	if allocations > 2000 {
		t.Errorf("it takes %v allocations", allocations)
	}
	b, err := os.ReadFile(n.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(b), "\x00\n"), "\n")
	var counts noteCounts
	if err := json.Unmarshal([]byte(lines[0]), &counts); err != nil {
		t.Fatal(err)
	}
	if len(b) > noteSize || counts.Responses != many || counts.Octets != 10*many || counts.Listed != len(lines)-1 || counts.Listed < 90 {
		t.Errorf("the note has %d bytes, %d lines and says %+v", len(b), len(lines), counts)
	}
	for i, text := range lines[1:] {
		var line noteLine
		if err := json.Unmarshal([]byte(text), &line); err != nil || !strings.HasPrefix(line.URL, fmt.Sprintf("http://origin/%d/", i)) {
			t.Errorf("line %d is %.80q, %v", i, text, err)
		}
	}
}
