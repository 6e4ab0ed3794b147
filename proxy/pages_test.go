package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// testPages are those of a proxy that listens everywhere, on port 8000.
func testPages(u *Users) http.Handler {
	return Pages{
		CACertificate: []byte("PEM"), Status: func() any { return map[string]int{"responses": 3} }, Version: "1<2", Dir: "/w<b>",
		State: func() State {
			return State{Word: "paused", Why: "no space in /w<b>", Counts: []Count{{"responses", 7}, {"lost & gone", 1}}}
		},
		Listen: &net.TCPAddr{IP: net.IPv4zero, Port: 8000}, Host: "proxy.example", Users: u,
	}.Handler()
}

// pageRequest comes from the same machine.
func pageRequest(path string) *http.Request {
	return pageRequestFrom("127.0.0.1:999", "127.0.0.1", path)
}

// pageRequestFrom has reached the proxy at an address.
func pageRequestFrom(client, local, path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.Host, r.RemoteAddr = "localhost:8000", client
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(local), Port: 8000})))
}

// Only under its own names: a site whose name leads here by a trick of the DNS
// gets nothing.
func TestHostOfPages(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, ok := range map[string]bool{
		"localhost:8000":          true,
		"LocalHost:8000":          true,
		"127.0.0.1:8000":          true,
		"127.9.9.9:8000":          true,
		"[::1]:8000":              true,
		"[::ffff:127.0.0.1]:8000": true,
		"192.0.2.7:8000":          true, // where the client has connected to
		hostname + ":8000":        true,
		"proxy.example:8000":      true,
		"":                        false,
		"localhost":               false,
		"localhost:80":            false,
		"localhost:8001":          false,
		"localhost:":              false,
		"localhost:73536":         false,
		"localhost.:8000":         false,
		"192.0.2.8:8000":          false,
		"[fe80::1%25lo]:8000":     false,
		"evil.example:8000":       false,
		"localhost.evil:8000":     false,
		"127.0.0.1.evil:8000":     false,
		"x.proxy.example:8000":    false,
		":8000":                   false,
	} {
		for _, path := range []string{"/", "/ca.pem", "/status", "/other"} {
			r := pageRequestFrom("127.0.0.1:999", "192.0.2.7", path)
			r.Host = host
			w := httptest.NewRecorder()
			testPages(nil).ServeHTTP(w, r)
			if (w.Code != http.StatusMisdirectedRequest) != ok || !ok && !strings.Contains(w.Body.String(), "open http://192.0.2.7:8000/") {
				t.Errorf("Host %q, %s: status %d: %s", host, path, w.Code, w.Body)
			}
		}
	}
}

// Clients of this machine only, or with a password.
func TestWhoMayOpenPages(t *testing.T) {
	for _, test := range []struct {
		name, client, local, login string
		status, withUsers          int
	}{
		{"loopback", "127.0.0.1:999", "127.0.0.1", "", 200, 200},
		{"loopback, IPv6", "[::1]:999", "::1", "", 200, 200},
		{"loopback, mapped", "[::ffff:127.0.0.1]:999", "127.0.0.1", "", 200, 200},
		{"the same machine", "192.0.2.7:999", "192.0.2.7", "", 200, 200},
		{"another machine", "192.0.2.8:999", "192.0.2.7", "", 403, 401},
		{"another machine, wrong", "192.0.2.8:999", "192.0.2.7", "ann:wrong", 403, 401},
		{"another machine, right", "192.0.2.8:999", "192.0.2.7", "ann:secret", 403, 200},
		{"nobody knows", "@", "192.0.2.7", "", 403, 401},
	} {
		for _, path := range []string{"/", "/ca.pem", "/status"} {
			for _, u := range []*Users{nil, users(t, "ann:secret", quiet)} {
				r := pageRequestFrom(test.client, test.local, path)
				if test.login != "" {
					r.Header.Set("Authorization", basic(test.login))
				}
				w := httptest.NewRecorder()
				testPages(u).ServeHTTP(w, r)
				want := test.status
				if u != nil {
					want = test.withUsers
				}
				if w.Code != want || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") == challenge) {
					t.Errorf("%s, %s: status %d, want %d, %v", test.name, path, w.Code, want, w.Header())
				}
			}
		}
	}
}

// What other sites have a browser do gets no status, and whatever the answer is,
// they can neither read nor frame it.
func TestPagesAndOtherSites(t *testing.T) {
	for _, test := range []struct {
		path, from string
		status     int
	}{
		{"/", "cross-site", 200}, {"/ca.pem", "cross-site", 200}, {"/other", "cross-site", 404},
		{"/status", "", 200}, {"/status", "none", 200}, {"/status", "same-origin", 200},
		{"/status", "cross-site", 403}, {"/status", "same-site", 403}, {"/status", "new-word", 403},
	} {
		r := pageRequest(test.path)
		r.Header.Set("Origin", "https://evil.example")
		if test.from != "" {
			r.Header.Set("Sec-Fetch-Site", test.from)
		}
		w := httptest.NewRecorder()
		testPages(nil).ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s from %q: status %d, want %d", test.path, test.from, w.Code, test.status)
		}
		h := w.Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", test.path, name, got, want)
			}
		}
		if got := h.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors 'none'") || !strings.Contains(got, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", test.path, got)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
				t.Errorf("%s has %s", test.path, name)
			}
		}
	}
	// Nor may they ask for leave.
	r := pageRequest("/status")
	r.Method = "OPTIONS"
	r.Header.Set("Access-Control-Request-Private-Network", "true")
	w := httptest.NewRecorder()
	testPages(nil).ServeHTTP(w, r)
	if w.Code < 400 {
		t.Errorf("OPTIONS: status %d", w.Code)
	}
}

// The front page tells how the recording is getting on, and runs nothing.
func TestFrontPage(t *testing.T) {
	w := httptest.NewRecorder()
	testPages(nil).ServeHTTP(w, pageRequest("/"))
	page := w.Body.String()
	for _, text := range []string{
		"<strong>State: paused</strong>: no space in /w&lt;b&gt;</p>", "<td>responses</td><td>7</td>", "<td>lost &amp; gone</td><td>1</td>",
		"version 1&lt;2.", "<code>/w&lt;b&gt;</code>", "http://localhost:8000", "</html>",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q:\n%s", text, page)
		}
	}
	r := pageRequest("/")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w = httptest.NewRecorder()
	testPages(nil).ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "State") || !strings.Contains(w.Body.String(), "</html>") {
		t.Errorf("what another site leads to is\n%s", w.Body)
	}
	if lower := strings.ToLower(page); strings.Contains(lower, "<script") || strings.Contains(lower, "<b>") {
		t.Errorf("the page has what it should not have:\n%s", page)
	}
}
