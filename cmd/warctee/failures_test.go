package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/warc/warctest"
)

// failuresOf reads the failure log of a scene.
func failuresOf(x *scene) []failureLine {
	x.Helper()
	return readFailures(x, filepath.Join(x.flags.dir, "failures.jsonl"))
}

func readFailures(t testing.TB, path string) []failureLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []failureLine
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		var line failureLine
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestFailureLog: whatever gives no response record gives a line.
func TestFailureLog(t *testing.T) {
	x := newScene(t, false, func(f *recordFlags) { f.recordFailures = true; anyPort(f) })
	before := time.Now()

	client := x.client()
	o, _ := x.get(client, "/empty?a=b")
	o.Close()
	x.refused(client.reply("GET"), 502, "closed the connection")

	o, _ = x.get(client, "/bad")
	o.send("SOURCETABLE 200 OK\r\n\r\n")
	x.refused(client.reply("GET"), 502, "not valid HTTP/1.1")

	client.send("GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
	x.refused(client.reply("GET"), 502, "refused")

	client.send("GET ftp://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
	x.refused(client.reply("GET"), 400, "ftp")

	client = x.client()
	client.send("GET / HTTP/1.1\r\nHost: h\r\nbad header\r\n\r\n")
	x.refused(client.reply("GET"), 400, "colon")

	dir := x.flags.dir
	x.stop()
	lines := failuresOf(x)
	type row struct {
		phase, class string
		status       int
		url          string
	}
	var got []row
	for _, l := range lines {
		got = append(got, row{l.Phase, l.Class, l.Status, l.URL})
		if l.Time.Before(before.Add(-time.Second)) || l.Time.After(time.Now()) || l.Error == "" {
			t.Errorf("odd line %+v", l)
		}
	}
	want := []row{
		{"reply-head", "empty-reply", 502, x.uri("/empty?a=b")},
		{"reply-head", "bad-reply", 502, x.uri("/bad")},
		{"connect", "refused", 502, "http://127.0.0.1:1/"},
		{"request", "not-forwarded", 400, "ftp://example.org/"},
		{"client", "bad-request", 400, ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}

	// The exchanges, not what the proxy refused, have metadata records.
	var uris []string
	for _, r := range warctest.Check(t, dir) {
		if r.Type != "metadata" {
			continue
		}
		uris = append(uris, r.TargetURI)
		block, err := r.Block()
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"failurePhase: ", "failureClass: ", "failureReason: ", "method: GET\r\n", "fetchTimeMs: "} {
			if !strings.Contains(string(block), field) {
				t.Errorf("%s: the block %q has no %q", r.TargetURI, block, field)
			}
		}
	}
	if want := []string{x.uri("/empty?a=b"), x.uri("/bad"), "http://127.0.0.1:1/"}; !slices.Equal(uris, want) {
		t.Errorf("metadata records of %q, want %q", uris, want)
	}
}

// Each line has the same form: a time of fixed width, a host and a port, and a
// URL that can be copied.
func TestFailureLogForm(t *testing.T) {
	x := newScene(t, true, func(f *recordFlags) { set(&f.access.denyDestinations, "denied.test,::1") })
	for _, request := range []string{
		"CONNECT denied.test:9999 HTTP/1.1\r\nHost: a\r\n",
		"GET http://denied.test/?a=1&b=2 HTTP/1.1\r\nHost: a\r\n",
		"GET https://[::1]/ HTTP/1.1\r\nHost: a\r\n",
		"GET ftp://denied.test/ HTTP/1.1\r\nHost: a\r\n",
	} {
		c := x.direct()
		go c.listen() // ends with stop
		c.send(request + "\r\n")
		c.reply("GET")
	}
	c := x.client()
	c.send("GET /path HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n")
	x.refused(c.reply("GET"), 421, "elsewhere.test")
	x.stop()
	text, err := os.ReadFile(filepath.Join(x.flags.dir, "failures.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !regexp.MustCompile(`^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",.*\}\n$`).MatchString(line) {
			t.Errorf("odd line %q", line)
		}
	}
	if !strings.Contains(string(text), `"url":"http://denied.test/?a=1&b=2"`) {
		t.Errorf("a URL is not as it was:\n%s", text)
	}
	type row struct{ method, url, address, class string }
	var got []row
	for _, l := range failuresOf(x) {
		got = append(got, row{l.Method, l.URL, l.Address, l.Class})
	}
	want := []row{
		{"CONNECT", "", "denied.test:9999", "policy"},
		{"GET", "http://denied.test/?a=1&b=2", "denied.test:80", "policy"},
		{"GET", "https://[::1]/", "[::1]:443", "policy"},
		{"GET", "ftp://denied.test/", "", "not-forwarded"},
		{"GET", "https://elsewhere.test/path", x.origin.authority, "not-forwarded"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// TestFailureLogOfTunnels: also what never became HTTP.
func TestFailureLogOfTunnels(t *testing.T) {
	x := newScene(t, false, func(*recordFlags) {})
	client := x.tunnel(x.origin.authority)
	go client.listen() // ended by stop
	client.send("SSH-2.0-test\r\n")
	o := x.origin.next()
	o.upTo("SSH-2.0-test\r\n")
	o.send("SSH-2.0-origin\r\n")
	client.upTo("origin\r\n")
	client.Close()
	o.Close()

	untrusting := x.tunnel(x.origin.authority)
	if err := tls.Client(untrusting.Conn, &tls.Config{ServerName: "127.0.0.1"}).Handshake(); err == nil {
		t.Fatal("a client without our certificate trusts the proxy")
	}
	untrusting.Close()
	x.eventually("both tunnels are counted", func() bool {
		s := x.proxy.status(x.flags)
		return s.TLSFailures == 1 && s.NotRecorded == 1
	})
	if got := summary(x.proxy.status(x.flags), 0, "/the/ca.pem"); !strings.Contains(got, "; 1 TLS connection failed: does the client trust /the/ca.pem?; 1 tunnel not recorded") {
		t.Errorf("the summary is %q", got)
	}
	x.stop()
	classes := map[string]failureLine{}
	for _, l := range failuresOf(x) {
		classes[l.Class] = l
	}
	if l := classes["unrecorded-tunnel"]; l.Address != x.origin.authority || l.Bytes != 30 {
		t.Errorf("of the blind tunnel: %+v", l)
	}
	if l := classes["client-tls"]; l.Address != x.origin.authority || !strings.HasPrefix(l.Error, "the client does not trust our certificate (") {
		t.Errorf("of the client that does not trust us: %+v", l)
	}
}

func TestFailureLogOff(t *testing.T) {
	x := newScene(t, false, func(f *recordFlags) { f.failureLog = "off" })
	client := x.client()
	o, _ := x.get(client, "/")
	o.Close()
	x.refused(client.reply("GET"), 502, "closed the connection")
	x.stop()
	if _, err := os.Stat(filepath.Join(x.flags.dir, "failures.jsonl")); err == nil {
		t.Error("there is a failure log")
	}
}

// TestStrict: no field that the standard does not define.
func TestStrict(t *testing.T) {
	x := newScene(t, true, func(f *recordFlags) { f.strict = true })
	client := x.client()
	o, _ := x.get(client, "/")
	response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
	o.send(response)
	x.got(client.reply("GET"), 200, "up")
	dir := x.flags.dir
	x.stop()
	for _, r := range warctest.Check(t, dir) {
		for _, f := range r.Header {
			if strings.EqualFold(f.Name, "WARC-Protocol") || strings.EqualFold(f.Name, "WARC-Cipher-Suite") {
				t.Errorf("%s record has %s: %s", r.Type, f.Name, f.Value)
			}
		}
	}
}
