package main

import (
	"errors"
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
	if len(text) > 3*maxRefused+500 {
		t.Errorf("a line of %d bytes", len(text))
	}
	for _, line := range readFailures(t, l.path) {
		for _, s := range []string{line.URL, line.Error} {
			if !strings.HasSuffix(s, "…") || len(s) > maxRefused || len(s) < maxRefused-8 || strings.Contains(s, "\ufffd") {
				t.Errorf("%d bytes: %.20q … %q", len(s), s, s[max(0, len(s)-20):])
			}
		}
	}
}
