package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/recorder"
)

func failureLogForTest(t *testing.T) *failureLog {
	return newFailureLog(filepath.Join(t.TempDir(), "failures.jsonl"), slog.New(slog.DiscardHandler))
}

// Clients that fail again and again give some lines a minute, and one that tells
// how many more there were.
func TestRepeatedFailures(t *testing.T) {
	l := failureLogForTest(t)
	synctest.Test(t, func(t *testing.T) {
		for i := range 900 { // a minute and a half
			l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassClientTLS, Authority: "a.example:443", Err: errors.New("no trust")})
			l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassBlindTunnel, Authority: "b.example:22", Bytes: 3})
			if i%300 == 0 {
				l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassClientTLS, Authority: "c.example:443", Err: errors.New("no trust")})
				l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassBadRequest, Status: 400, Err: errors.New("what?")})
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
	})
	type of struct{ class, address string }
	lines, repeated, bytes := make(map[of]int), make(map[of]int64), make(map[of]int64)
	for _, line := range readFailures(t, l.path) {
		k := of{line.Class, line.Address}
		lines[k]++
		repeated[k] += line.Repeated
		bytes[k] += line.Bytes
		if line.Repeated > 0 && line.Class == mitm.ClassClientTLS && line.Error != "no trust" {
			t.Errorf("odd line %+v", line)
		}
	}
	for k, want := range map[of]int{
		{"client-tls", "a.example:443"}:       22,
		{"unrecorded-tunnel", "b.example:22"}: 22,
		{"client-tls", "c.example:443"}:       3,
		{"bad-request", ""}:                   3,
	} {
		total := int64(want)
		if want == 22 {
			total = 900 + 2 // the two lines that tell of others
		}
		if lines[k] != want || int64(lines[k])+repeated[k] != total {
			t.Errorf("%v: %d lines, %d more told of", k, lines[k], repeated[k])
		}
	}
	if n := bytes[of{"unrecorded-tunnel", "b.example:22"}]; n != 2700 {
		t.Errorf("%d bytes are told of, want 2700", n)
	}
	if n := l.badRequests.Load(); n != 3 {
		t.Errorf("%d bad requests are counted", n)
	}
}

// However many hosts a client names, the log grows by so many lines a minute.
func TestFailuresOfManyKinds(t *testing.T) {
	l := failureLogForTest(t)
	synctest.Test(t, func(t *testing.T) {
		for i := range 3000 {
			l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassClientTLS, Authority: strings.Repeat("a", i%300) + string(rune('a'+i/300)) + ".example:443", Err: errors.New("no trust")})
		}
		l.mu.Lock()
		if n := len(l.thin.kinds); n > maxThinLines+1 {
			t.Errorf("%d kinds are remembered", n)
		}
		l.mu.Unlock()
		time.Sleep(time.Hour)
		l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassClientTLS, Authority: "later.example:443", Err: errors.New("no trust")})
		l.close()
	})
	lines := readFailures(t, l.path)
	if len(lines) != maxThinLines+2 {
		t.Fatalf("%d lines, want %d", len(lines), maxThinLines+2)
	}
	if rest := lines[maxThinLines]; rest.Repeated != 3000-maxThinLines || rest.Address != "" || rest.Class != mitm.ClassClientTLS || rest.Error == "" {
		t.Errorf("the rest is told of with %+v", rest)
	}
	if last := lines[maxThinLines+1]; last.Address != "later.example:443" || last.Repeated != 0 {
		t.Errorf("an hour later: %+v", last)
	}
}

// What is refused gives a short line, however long it was.
func TestLongRefusal(t *testing.T) {
	l := failureLogForTest(t)
	long := strings.Repeat("%C3%BC", 10_000)
	r := httptest.NewRequest("GET", "http://"+long[:3000]+".example/"+long, nil)
	l.refusal(r, "not-forwarded", http.StatusBadRequest, "no: "+strings.Repeat("ü", 10_000))
	l.close()
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 3*maxText+500 {
		t.Errorf("a line of %d bytes", len(text))
	}
	for _, line := range readFailures(t, l.path) {
		if want := len("http://" + long[:3000] + ".example/" + long); line.URLLength != want {
			t.Errorf("the length of the URL is %d, want %d", line.URLLength, want)
		}
		for _, s := range []string{line.URL, line.Error} {
			if !strings.HasSuffix(s, "…") || len(s) > maxText || len(s) < maxText-8 || strings.Contains(s, "\ufffd") {
				t.Errorf("%d bytes: %.20q … %q", len(s), s, s[max(0, len(s)-20):])
			}
		}
	}
}

// What takes many bytes when it is escaped is cut so that the line stays short.
func TestShortened(t *testing.T) {
	for _, c := range []string{"a", "\x00", "\"", "\\", "ü", "\u200b", "\U000e0001", "\xff", "漢", "😀"} {
		for _, n := range []int{1, maxText / 12, maxText, 60_000} {
			s := strings.Repeat(c, n)
			short := shortened(s)
			if whole := strings.TrimSuffix(short, "…"); short != s && (whole == short || !strings.HasPrefix(s, whole)) {
				t.Errorf("%d times %q becomes %q", n, c, short)
			}
			b, err := json.Marshal(short)
			if text := harmlessJSON(string(b)); err != nil || len(text) > maxText+len(`""`) || short != s && len(text) < maxText-20 {
				t.Errorf("%d times %q takes %d bytes, %v", n, c, len(text), err)
			}
		}
	}
}

// However many requests are refused, exchanges that went to an origin have their
// line, also when their class is that of refusals.
func TestExchangesComeFirst(t *testing.T) {
	l := failureLogForTest(t)
	synctest.Test(t, func(t *testing.T) {
		for i := range 2000 {
			r := httptest.NewRequest("GET", fmt.Sprintf("http://h%d.example/", i), nil)
			l.refusal(r, "not-forwarded", http.StatusBadRequest, "no")
			l.exchange(recorder.Failure{Time: time.Now(), URL: fmt.Sprintf("http://reached.example/%d", i), Phase: recorder.PhaseRequest, Class: mitm.ClassBadRequest, Addr: "reached.example:80", Err: errors.New("a bad chunk")})
			l.exchange(recorder.Failure{Time: time.Now(), URL: fmt.Sprintf("http://private.example/%d", i), Phase: recorder.PhaseConnect, Class: classPolicy, Err: errors.New("private")})
		}
		l.close()
	})
	count := make(map[string]int64)
	lines := make(map[string]int)
	for _, line := range readFailures(t, l.path) {
		lines[line.Class]++
		count[line.Class] += max(1, line.Repeated)
	}
	for class, n := range count {
		if n != 2000 || class != mitm.ClassBadRequest && lines[class] > maxThinLines {
			t.Errorf("%s: %d lines for %d", class, lines[class], n)
		}
	}
	if lines[mitm.ClassBadRequest] != 2000 || len(count) != 3 {
		t.Errorf("the lines are %v", lines)
	}
	if l.refused.Total() != 2000 || l.notReached.Load() != 2000 || l.unlogged.Load() != 0 {
		t.Errorf("counted are %d, %d, %d", l.refused.Total(), l.notReached.Load(), l.unlogged.Load())
	}
}

// What is refused leaves on the disk what has to stay free; exchanges leave half
// of it. The log says it once, and what has no line is counted.
func TestFailureLogLeavesRoom(t *testing.T) {
	var log syncBuffer
	l := newFailureLog(filepath.Join(t.TempDir(), "failures.jsonl"), slog.New(slog.NewTextHandler(&log, nil)))
	const whole, stay = 1 << 20, 100_000
	size := func() int64 {
		info, err := os.Stat(l.path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	l.stayFree = func(uint64) int64 { return stay }
	others := int64(whole - stay - 20_000) // of the disk
	l.free = func(string) (uint64, uint64, error) { return uint64(whole - others - size()), whole, nil }
	synctest.Test(t, func(t *testing.T) {
		fail := func(n int) {
			for i := range n {
				l.refusal(httptest.NewRequest("GET", fmt.Sprintf("http://h%d.example/", i), nil), "not-forwarded", http.StatusBadRequest, "no")
			}
		}
		fail(500)
		if n := size(); n < 19_000 || n > 20_000 || l.unlogged.Load() < 100 {
			t.Errorf("%d bytes are written, %d lines are not", n, l.unlogged.Load())
		}
		reached := recorder.Failure{Time: time.Now(), URL: "http://reached.example/", Phase: recorder.PhaseReply, Class: "empty-reply", Err: errors.New("nothing came")}
		for range 1000 {
			l.exchange(reached)
		}
		if n := size(); n < stay/2+19_000 || n > stay/2+20_000 {
			t.Errorf("with exchanges %d bytes are written", n)
		}
		if n := strings.Count(log.String(), "the disk is nearly full"); n != 1 {
			t.Errorf("the log says it %d times:\n%s", n, log.String())
		}
		before := l.unlogged.Load()
		others = 0
		time.Sleep(time.Second)
		l.exchange(reached)
		if l.unlogged.Load() != before {
			t.Error("there is room again, and nothing is written")
		}
		l.close()
	})
}

// What fails after the end has its line too.
func TestFailureAfterTheEnd(t *testing.T) {
	l := failureLogForTest(t)
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	l.exchange(recorder.Failure{Time: time.Now(), URL: "http://late.example/", Phase: recorder.PhaseReply, Class: "empty-reply", Err: errors.New("nothing came")})
	l.client(mitm.Failure{Time: time.Now(), Class: mitm.ClassClientTLS, Authority: "late.example:443", Err: errors.New("no trust")})
	if lines := readFailures(t, l.path); len(lines) != 2 || l.file != nil {
		t.Errorf("the lines are %+v, and the file is open: %v", lines, l.file != nil)
	}
}
