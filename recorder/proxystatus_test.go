package recorder

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// The table of Proxy-Status in docs/failures.md is what an Error says.
func TestProxyErrorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	errors := map[string][]string{} // by class
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(line, "_") {
			continue
		}
		for _, class := range quoted(cells[2]) {
			errors[class] = append(errors[class], quoted(cells[1])...)
		}
	}
	check := func(want bool, e *Error) {
		t.Helper()
		documented := false
		for _, kind := range errors[e.Class] {
			documented = documented || kind == e.ProxyError()
		}
		if documented != want {
			t.Errorf("%s at %s gives %s, documented are %q", e.Class, e.Phase, e.ProxyError(), errors[e.Class])
		}
	}
	for class := range proxyErrors {
		check(true, &Error{Class: class, Phase: PhaseConnect})
	}
	for _, class := range []string{"busy", "crowded", "paused", "stopped", "shutting-down"} {
		check(true, &Error{Class: class, Phase: PhaseAdmission})
	}
	for _, phase := range []Phase{PhaseResolve, PhaseConnect, PhaseTLS, PhaseReply, PhaseClient} {
		check(true, &Error{Class: "timeout", Phase: phase})
	}
	check(true, &Error{Class: "policy", Status: http.StatusForbidden, Phase: PhaseConnect})
	check(true, &Error{Class: "policy", Status: http.StatusLoopDetected, Phase: PhaseConnect})
	check(false, &Error{Class: "no-such-class"})
}

// quoted returns what stands in backquotes.
func quoted(s string) (words []string) {
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			words = append(words, part)
		}
	}
	return words
}
