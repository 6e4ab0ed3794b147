package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

// usersFile writes a file for ReadUsers.
func usersFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func users(t *testing.T, text string, log *slog.Logger) *Users {
	t.Helper()
	u, err := ReadUsers(usersFile(t, text, 0o600), log)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func basic(pair string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

func TestReadUsers(t *testing.T) {
	for _, test := range []struct {
		name, text string
		mode       os.FileMode
		sentence   string // "" for none
	}{
		{"one", "ann:secret\n", 0o600, ""},
		{"read-only", "ann:secret", 0o400, ""},
		{"comments and empty lines", "# who may\n\n  \t\r\nann:secret\r\n#bob:x\ncleo:a:b", 0o600, ""},
		{"readable by the group", "ann:secret\n", 0o640, "mode 0640), which would let them use the proxy, or lock others out; run: chmod 600 "},
		{"readable by all", "ann:secret\n", 0o604, "chmod 600 "},
		{"writable by the group", "ann:secret\n", 0o620, "chmod 600 "},
		{"nothing", "", 0o600, "has no line NAME:PASSWORD"},
		{"comments alone", "# ann:secret\n\n", 0o600, "has no line NAME:PASSWORD"},
		{"no colon", "ann:secret\nbob secret\n", 0o600, "line 2 of "},
		{"no name", ":secret\n", 0o600, "line 1 of "},
		{"no password", "secret:\n", 0o600, "line 1 of "},
		{"large", strings.Repeat("ann:secret\n", 1<<17), 0o600, "more than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := usersFile(t, test.text, test.mode)
			_, err := ReadUsers(path, quiet)
			if test.sentence == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.sentence) || !strings.Contains(err.Error(), path) {
				t.Fatalf("the error is %v, want one with %q", err, test.sentence)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
	if _, err := ReadUsers(filepath.Join(t.TempDir(), "none"), quiet); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestUsers(t *testing.T) {
	u := users(t, "\ufeffann:secret\n# a comment\nbob:pass:with colons \r\nbücher:grün\n", quiet)
	for _, test := range []struct {
		values []string
		ok     bool
		failed bool // counts as an attempt
	}{
		{[]string{basic("ann:secret")}, true, false},
		{[]string{"basic " + basic("ann:secret")[6:]}, true, false},
		{[]string{"BASIC   " + basic("ann:secret")[6:] + " "}, true, false},
		{[]string{basic("bob:pass:with colons ")}, true, false},
		{[]string{basic("bücher:grün")}, true, false},
		{nil, false, false},
		{[]string{""}, false, true},
		{[]string{"Basic"}, false, true},
		{[]string{"Basic !"}, false, true},
		{[]string{"Bearer " + basic("ann:secret")[6:]}, false, true},
		{[]string{basic("ann:Secret")}, false, true},
		{[]string{basic("ann:secre")}, false, true},
		{[]string{basic("ann:secrets")}, false, true},
		{[]string{basic("Ann:secret")}, false, true},
		{[]string{basic("ann:")}, false, true},
		{[]string{basic("ann")}, false, true},
		{[]string{basic("")}, false, true},
		{[]string{basic("ann:pass:with colons ")}, false, true},
		{[]string{basic("# a comment")}, false, true},
		{[]string{basic("ann:secret\r")}, false, true},
		{[]string{basic("ann:secret"), basic("ann:secret")}, false, true},
	} {
		before := u.Failed()
		r := &http.Request{Header: http.Header{"Proxy-Authorization": test.values}}
		if got := u.admit(r, "Proxy-Authorization"); got != test.ok || (u.Failed() > before) != test.failed {
			t.Errorf("%q: admitted is %t, counted %d times", test.values, got, u.Failed()-before)
		}
	}
}

// A flood of wrong passwords does not fill the log.
func TestDenialsAreToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := NewDenials(slog.New(slog.NewTextHandler(&log, nil)), "no")
		for range 1000 {
			d.Add("client", "192.0.2.1:99")
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "client=192.0.2.1:99 times=600") || d.Total() != 1000 {
			t.Errorf("of %d denials the log tells %d times:\n%s", d.Total(), n, &log)
		}
	})
}

// Who has not said who it is gets 407 in every form, but for the pages of the
// proxy and what is in a tunnel.
func TestWhoHasToSayWhoItIs(t *testing.T) {
	for _, test := range []struct {
		name, tunnel, method, target, field string
		status                              int
	}{
		{"absolute", "", "GET", "http://example.org/", "", 407},
		{"absolute, wrong", "", "GET", "http://example.org/", "ann:wrong", 407},
		{"absolute, right", "", "GET", "http://example.org/", "ann:secret", 200},
		{"not even valid", "", "GET", "ftp://example.org/", "", 407},
		{"TRACE", "", "TRACE", "http://example.org/", "", 407},
		{"CONNECT", "", "CONNECT", "example.org:443", "", 407},
		{"CONNECT, wrong", "", "CONNECT", "example.org:443", "ann:wrong", 407},
		{"CONNECT to a port that is not allowed", "", "CONNECT", "example.org:25", "", 407},
		{"CONNECT to a port that is not allowed, right", "", "CONNECT", "example.org:25", "ann:secret", 403},
		{"in a tunnel", "example.org:443", "GET", "/", "", 200},
		{"in a tunnel, absolute", "example.org:443", "GET", "https://example.org/", "", 200},
		{"for the proxy", "", "GET", "/", "", 299},
		{"for the proxy, TRACE", "", "TRACE", "/", "", 299},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := &transport{}
			told := 0
			h := New(Options{
				Transport:    tr,
				Tunnel:       func(context.Context) (string, bool, bool) { return test.tunnel, true, test.tunnel != "" },
				Local:        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }),
				Users:        users(t, "ann:secret", quiet),
				Destinations: &Destinations{Listen: &net.TCPAddr{IP: net.IPv4zero, Port: 8000}},
				OnRefusal:    func(*http.Request, string, int, string) { told++ },
			})
			r := httptest.NewRequest(test.method, test.target, nil)
			r.Host = "example.org"
			if test.field != "" {
				r.Header.Set("Proxy-Authorization", basic(test.field))
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.status {
				t.Fatalf("status %d, want %d: %s", w.Code, test.status, w.Body)
			}
			if got, want := w.Header().Get("Proxy-Authenticate"), map[bool]string{true: `Basic realm="warctee", charset="UTF-8"`}[w.Code == 407]; got != want {
				t.Errorf("Proxy-Authenticate is %q, want %q", got, want)
			}
			if (told > 0) != (w.Code == 403) || (len(tr.urls) > 0) != (w.Code == 200) {
				t.Errorf("told %d times, asked for %q", told, tr.urls)
			}
		})
	}
}

func TestAllowClients(t *testing.T) {
	var log bytes.Buffer
	c := AllowClients([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		if why := c.Refuse(&net.TCPAddr{IP: net.IPv4(192, 0, 3, 1), Port: 99}); !strings.Contains(why, "(--allow-client)") {
			t.Errorf("who is not allowed is told %q", why)
		}
		if why := c.Refuse(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 99}); why != "" {
			t.Errorf("who is allowed is told %q", why)
		}
	}
	if c.Denied() != 3 {
		t.Errorf("%d are counted", c.Denied())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "client=192.0.3.1:99") {
		t.Errorf("the log has %d lines:\n%s", n, &log)
	}
}

func TestAllows(t *testing.T) {
	l := AllowClients([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("fe80::/10")}, quiet)
	for client, want := range map[string]bool{
		"192.0.2.9:1": true, "[::ffff:192.0.2.9]:1": true, "[2001:db8::9]:1": true, "[fe80::1%eth0]:1": true,
		"192.0.3.1:1": false, "127.0.0.1:1": false, "[::1]:1": false, "[2001:db9::1]:1": false,
	} {
		if got := l.allows(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))); got != want {
			t.Errorf("%s: %t, want %t", client, got, want)
		}
	}
	if l.allows(&net.UnixAddr{Name: "@"}) {
		t.Error("a client without an address is allowed")
	}
}

func TestParseAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":             "192.0.2.1/32",
		"192.0.2.9/24":          "192.0.2.0/24",
		"0.0.0.0/0":             "0.0.0.0/0",
		"::1":                   "::1/128",
		"2001:DB8::1/32":        "2001:db8::/32",
		"::ffff:192.0.2.1":      "192.0.2.1/32",
		"::ffff:192.0.2.0/120":  "192.0.2.0/24",
		"":                      "",
		"example.org":           "",
		"192.0.2":               "",
		"192.0.2.1/33":          "",
		"fe80::1%eth0":          "",
		"192.0.2.1 192.0.2.2":   "",
		"192.0.2.1/255.255.0.0": "",
	} {
		got, err := ParseAddresses(text)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q gives %s, %v; want %q", text, got, err, want)
		}
	}
}
