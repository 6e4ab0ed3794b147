package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The corpora are collections of hostile messages that others have made, as data.
// They are no part of this project: WARCTEE_CORPORA names the folder.

// A verdict is what a corpus thinks of a message.
type verdict int

const (
	either  verdict = iota
	refuse          // it must not get through
	forward         // it should
)

// authorityMark stands for the authority in requests.
const authorityMark = "@AUTHORITY@"

// A specimen is a message of the corpora.
type specimen struct {
	suite, id string
	raw       string
	verdict   verdict
}

// corporaDir skips the test without the folder.
func corporaDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WARCTEE_CORPORA")
	if dir == "" {
		t.Skip("the hostile messages are no part of this project: set WARCTEE_CORPORA to their folder")
	}
	return dir
}

// readCorpus calls add for each line of a file of the corpora; add returns an id
// that need not be unique.
func readCorpus(t *testing.T, suite, path string, add func(line map[string]any, raw string) (h specimen, ok bool)) (list []specimen) {
	t.Helper()
	f, err := os.Open(filepath.Join(corporaDir(t), suite, path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := make(map[string]int)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := make(map[string]any)
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		text, _ := line["raw"].(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		h, ok := add(line, string(raw))
		if !ok {
			continue
		}
		h.suite = suite
		if seen[h.id]++; seen[h.id] > 1 {
			h.id += "#" + strconv.Itoa(seen[h.id])
		}
		list = append(list, h)
	}
	if err := lines.Err(); err != nil || len(list) == 0 {
		t.Fatalf("%s: %d messages (%v)", f.Name(), len(list), err)
	}
	return list
}

func word(line map[string]any, name string) string {
	s, _ := line[name].(string)
	return s
}

// hostileRequests reads the requests of all corpora.
func hostileRequests(t *testing.T) []specimen {
	list := readCorpus(t, "http-desync-guardian", "desync.jsonl", func(line map[string]any, raw string) (specimen, bool) {
		tier := map[string]verdict{"Severe": refuse, "Compliant": forward, "Acceptable": forward}[word(line, "tier")]
		return specimen{id: word(line, "name"), raw: withHost(raw), verdict: tier}, true
	})
	list = append(list, readCorpus(t, "llhttp", "llhttp.jsonl", func(line map[string]any, raw string) (specimen, bool) {
		return specimen{id: word(line, "file") + ": " + word(line, "name"), raw: withHost(addHost(completeHead(raw))), verdict: ofParser(line)}, word(line, "kind") == "request"
	})...)
	return append(list, readCorpus(t, "http11probe", "http11probe.jsonl", func(line map[string]any, _ string) (specimen, bool) {
		raw, ok := sharp{}.payload(word(line, "payload_expr"))
		return specimen{id: word(line, "id"), raw: raw, verdict: ofProbe(word(line, "expected_expr"))}, ok
	})...)
}

// hostileReplies reads the replies of all corpora.
func hostileReplies(t *testing.T) []specimen {
	list := readCorpus(t, "curl-replies", "curl.jsonl", func(line map[string]any, raw string) (specimen, bool) {
		h := specimen{id: word(line, "test"), raw: raw}
		switch line["curl_exit"] {
		case 0.0:
			h.verdict = forward
		case 8.0, 61.0: // a reply that it does not understand, or a transfer-coding
			h.verdict = refuse
		}
		return h, true
	})
	list = append(list, readCorpus(t, "llhttp", "llhttp.jsonl", func(line map[string]any, raw string) (specimen, bool) {
		return specimen{id: word(line, "file") + ": " + word(line, "name"), raw: completeHead(raw), verdict: ofParser(line)}, word(line, "kind") == "response"
	})...)
	return append(list, readCorpus(t, "wpt-h1", "h1-parsing.jsonl", func(line map[string]any, raw string) (specimen, bool) {
		h := specimen{id: word(line, "char") + " " + word(line, "pos"), raw: raw}
		if word(line, "char") == "NULL" {
			h.verdict = refuse
		}
		return h, true
	})...)
}

// ofParser is the verdict of a strict parser, which llhttp has tested.
func ofParser(line map[string]any) verdict {
	trouble := word(line, "expect_error")
	switch {
	case strings.Contains(word(line, "type"), "lenient"), strings.Contains(word(line, "type"), "finish"), strings.HasPrefix(trouble, "Pause"), strings.HasPrefix(trouble, "Data after"):
		return either
	case trouble != "":
		return refuse
	}
	return forward
}

// What the probe has to be answered, where that is one thing.
var (
	probeDescription = regexp.MustCompile(`Description = "([^"]*)"`)
	probeRefusals    = strings.Split("400, or close (no extra response)|400/close/timeout|400/501 or close|400 or close|400, or close|400/431 or close|400/505 or close|400/405/501 or close|"+
		"501/405/400 or close|400/414/431 or close|400/505/close/timeout|400 or close (pass)", "|")
)

func ofProbe(expected string) verdict {
	found := probeDescription.FindStringSubmatch(expected)
	switch {
	case strings.Contains(expected, "StatusCodeRange.Exact(400)"), found != nil && slices.Contains(probeRefusals, found[1]):
		return refuse
	case strings.Contains(expected, "StatusCodeRange.Range2xx"), found != nil && strings.HasPrefix(found[1], "2xx"):
		return forward
	}
	return either
}

var hostField = regexp.MustCompile(`(?im)^(host:[ \t]*)[a-z0-9.:=-]+([ \t]*\r?)$`)

// withHost puts authorityMark where an ordinary host is in a Host field.
func withHost(raw string) string { return hostField.ReplaceAllString(raw, "${1}"+authorityMark+"${2}") }

// addHost adds a Host field to a request that was made without one for short.
func addHost(raw string) string {
	start := len(raw) - len(strings.TrimLeft(raw, "\r\n"))
	line, rest, ok := strings.Cut(raw[start:], "\r\n")
	line = raw[:start] + line
	if !ok || regexp.MustCompile(`(?i)(^|\n)host[ \t]*:`).MatchString(rest) {
		return raw
	}
	return line + "\r\nHost: " + authorityMark + "\r\n" + rest
}

// completeHead adds the line ends that llhttp's collection has lost.
func completeHead(raw string) string {
	switch {
	case strings.Contains(raw, "\r\n\r\n"), strings.Contains(raw, "\n\n"):
		return raw
	case strings.HasSuffix(raw, "\r\n"):
		return raw + "\r\n"
	}
	return raw + "\r\n\r\n"
}

var chunkedField = regexp.MustCompile(`(?i)encoding.*chunked`)
var lastChunk = regexp.MustCompile(`(^|\r\n)0+(;[^\r\n]*)?\r\n`)
var lengthField = regexp.MustCompile(`(?im)^content-length[ \t]*:[ \t]*([0-9]{1,6})[ \t]*\r?$`)

// completeBody makes a request whole whose framing speaks of a body that is not
// there, in the way that is the worst: so that it could be understood.
func completeBody(raw string) string {
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		return raw
	}
	switch length := lengthField.FindStringSubmatch(head); {
	case chunkedField.MatchString(head) && !strings.HasSuffix(body, "\r\n\r\n"):
		switch {
		case strings.HasSuffix(body, "\r\n0"), body == "0":
			return raw + "\r\n\r\n"
		case lastChunk.MatchString(body):
			return raw + "\r\n"
		}
		return raw + "0\r\n\r\n"
	case length != nil:
		n, _ := strconv.Atoi(length[1])
		return raw + strings.Repeat("x", max(0, n-len(body)))
	}
	return raw
}

// A sharp evaluates the few expressions of C# in which a corpus writes its
// messages: strings with values in braces, octets, and their concatenation.
type sharp map[string]string

var (
	sharpNoise  = regexp.MustCompile(`(?m)//.*$`)
	sharpLine   = regexp.MustCompile(`(?:var|const string|byte\[\]) (\w+) =\s*([^;]*(?:"[^"]*"[^;]*)*);`)
	sharpText   = regexp.MustCompile(`^\s*\+?\s*(?:Encoding\.ASCII\.GetBytes\(|MakeRequest\()?\s*(?:\$?"((?:[^"\\]|\\.)*)"|new string\('(.)', ([0-9_]+)\)|\[([0-9A-Fax, ]+)\]|(\w+))`)
	sharpCount  = regexp.MustCompile(`^\s*Encoding\.ASCII\.GetByteCount\((\w+)\)`)
	sharpCopy   = regexp.MustCompile(`(\w+)\.CopyTo\(`)
	sharpReturn = regexp.MustCompile(`(?:return|^)\s*((?:Encoding\.ASCII\.GetBytes|MakeRequest)\([^;]*)`)
	sharpEscape = regexp.MustCompile(`\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)`)
	sharpValue  = regexp.MustCompile(`\{(ctx\.HostHeader|\w+)\}`)
)

func (s sharp) payload(source string) (raw string, ok bool) {
	if strings.Contains(source, "Enumerable") || strings.Contains(source, "StringBuilder") || strings.Contains(source, "ToString") || strings.Contains(source, "Random") {
		return "", false
	}
	source = strings.TrimSpace(source)
	if !strings.HasPrefix(source, "{") {
		return s.text(source)
	}
	source = sharpNoise.ReplaceAllString(source, "")
	for _, line := range sharpLine.FindAllStringSubmatch(source, -1) {
		if count := sharpCount.FindStringSubmatch(line[2]); count != nil {
			s[line[1]] = strconv.Itoa(len(s[count[1]]))
		} else if value, ok := s.text(line[2]); ok {
			s[line[1]] = value
		}
	}
	if copies := sharpCopy.FindAllStringSubmatch(source, -1); copies != nil {
		for _, c := range copies {
			raw += s[c[1]]
		}
		return raw, raw != ""
	}
	found := sharpReturn.FindStringSubmatch(source)
	if found == nil {
		return "", false
	}
	return s.text(found[1])
}

// text evaluates a concatenation.
func (s sharp) text(source string) (text string, ok bool) {
	for {
		m := sharpText.FindStringSubmatch(source)
		if m == nil || text != "" && !strings.HasPrefix(strings.TrimSpace(source), "+") {
			return text, text != ""
		}
		source = source[len(m[0]):]
		switch {
		case m[2] != "":
			n, _ := strconv.Atoi(strings.ReplaceAll(m[3], "_", ""))
			text += strings.Repeat(m[2], n)
		case m[4] != "":
			for _, octet := range strings.Split(m[4], ",") {
				n, _ := strconv.ParseUint(strings.TrimSpace(octet), 0, 8)
				text += string([]byte{byte(n)})
			}
		case m[5] != "":
			text += s[m[5]]
		default:
			text += sharpEscape.ReplaceAllStringFunc(sharpValue.ReplaceAllStringFunc(m[1], s.value), unescape)
		}
	}
}

func (s sharp) value(name string) string {
	if name = strings.Trim(name, "{}"); name == "ctx.HostHeader" {
		return authorityMark
	}
	return s[name]
}

func unescape(s string) string {
	switch s[1] {
	case 'x', 'u':
		n, _ := strconv.ParseUint(s[2:], 16, 16)
		return string([]byte{byte(n)})
	case '0':
		return "\x00"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	}
	return s[1:]
}

// A tally counts what became of a corpus.
type tally struct {
	messages, plays, refused, forwarded, cut, blind int

	explained map[string]bool // ids of those that differ from what the corpus expects, for a reason given
	surprises map[string]bool // for none
}

func (c *tally) String() string {
	return fmt.Sprintf("%d messages in %d plays: %d refused, %d forwarded, %d cut, %d in tunnels that nobody looks into; %d messages differ from what the corpus expects, for reasons given",
		c.messages, c.plays, c.refused, c.forwarded, c.cut, c.blind, len(c.explained))
}

// judge compares what became of a message with what the corpus expects.
func (c *tally) judge(h *specimen, forwarded bool, answer string, reasons map[string]string) {
	if h.verdict == either || forwarded == (h.verdict == forward) {
		return
	}
	if _, ok := reasons[h.suite+"/"+h.id]; ok {
		c.explained[h.suite+"/"+h.id] = true
		return
	}
	c.surprises[fmt.Sprintf("%q (forwarded: %t): %.200q, answer: %.200q", h.suite+"/"+h.id, forwarded, h.raw, answer)] = true
}

func newTallies(list []specimen) map[string]*tally {
	tallies := make(map[string]*tally)
	for _, h := range list {
		if tallies[h.suite] == nil {
			tallies[h.suite] = &tally{explained: make(map[string]bool), surprises: make(map[string]bool)}
		}
		tallies[h.suite].messages++
	}
	return tallies
}

func report(t *testing.T, tallies map[string]*tally, reasons map[string]string) {
	t.Helper()
	for key := range reasons {
		suite, _, _ := strings.Cut(key, "/")
		if c := tallies[suite]; c == nil || !c.explained[key] {
			t.Errorf("a reason is given for %q, which is as expected", key)
		}
	}
	for suite, c := range tallies {
		t.Logf("%s: %v", suite, c)
		for _, s := range slices.Sorted(maps.Keys(c.surprises)) {
			t.Errorf("other than %s expects, and nobody says why: %s", suite, s)
		}
	}
}
