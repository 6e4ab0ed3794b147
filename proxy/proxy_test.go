package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"
)

func TestConnectAuthority(t *testing.T) {
	for in, want := range map[string]string{
		"example.org:443":         "example.org:443",
		"EXAMPLE.org:8443":        "example.org:8443",
		"bücher.example:443":      "xn--bcher-kva.example:443",
		"under_score.example:443": "under_score.example:443",
		"example.org.:443":        "example.org.:443",
		"127.0.0.1:80":            "127.0.0.1:80",
		"[::1]:443":               "[::1]:443",
		"[2001:DB8::1]:443":       "[2001:db8::1]:443",
		"example.org":             "",
		":443":                    "",
		"example.org:":            "",
		"example.org:0":           "",
		"example.org:70000":       "",
		"example.org:http":        "",
		"[fe80::1%eth0]:443":      "",
		"[::g]:443":               "",
		"127.1:80":                "",
		"0x7f.0.0.1:80":           "", // the last label is a number, the host no address
		"2130706433:80":           "",
		"127.0.0.01:80":           "",
		"127.0.0.1.:80":           "",
		"1.2.3.08:80":             "",
		"99999999999999999999:80": "",
		"example.0x:80":           "",
		"1.2.3.4.example:80":      "1.2.3.4.example:80",
		"*:80":                    "",
		"*.example.org:80":        "",
		"..:80":                   "",
		"../x:80":                 "",
		"a..b:80":                 "",
		".example:80":             "",
		"[fe80::1%25eth0]:80":     "",
		"a\x00b:80":               "",
		"caf\xe9.example:80":      "",
		"caf\ufffd.example:80":    "",
		"-under.example:80":       "-under.example:80",
		"１２７.０.０.１:80":            "127.0.0.1:80",
		"127。0。0。1:80":            "127.0.0.1:80",
		"a b:80":                  "",
		"a/b:80":                  "",
		"a@b:80":                  "",
		"a\r\nb:80":               "",
	} {
		got, err := connectAuthority(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("connectAuthority(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && (err.status != http.StatusBadRequest || strings.ContainsAny(err.reason, "\r\n")) {
			t.Errorf("connectAuthority(%q): %d %q", in, err.status, err.reason)
		}
	}
}

// transport answers everything, and notes where it went.
type transport struct {
	urls []string
	resp func(*http.Request) (*http.Response, error)
}

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tr.urls = append(tr.urls, r.URL.String())
	if tr.resp != nil {
		return tr.resp(r)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("fine")), ContentLength: 4}, nil
}

func TestWhereRequestsGo(t *testing.T) {
	for _, test := range []struct {
		name, tunnel    string // "" for none
		encrypted       bool
		method, target  string
		host            string
		status          int
		url             string // asked of the transport, or ""
		mentionedReason string
	}{
		{"absolute", "", false, "GET", "http://example.org/a?b", "example.org", 200, "http://example.org/a?b", ""},
		{"absolute https", "", false, "GET", "https://example.org/", "example.org", 200, "https://example.org/", ""},
		{"absolute, IDN", "", false, "GET", "http://b%C3%BCcher.example/", "bücher.example", 200, "http://xn--bcher-kva.example/", ""},
		{"absolute, IDN and port", "", false, "GET", "http://b%C3%BCcher.example:81/", "bücher.example", 200, "http://xn--bcher-kva.example:81/", ""},
		{"another scheme", "", false, "GET", "ftp://example.org/", "example.org", 400, "", "ftp"},
		{"bad host", "", false, "GET", "http://127.1/", "127.1", 400, "", "127.1"},
		{"local", "", false, "GET", "/", "127.0.0.1:8000", 299, "", ""},
		{"local TRACE", "", false, "TRACE", "/", "127.0.0.1:8000", 299, "", ""},
		{"TRACE in a tunnel", "example.org:443", true, "TRACE", "/", "example.org", 405, "", "TRACE"},
		{"TRACE", "", false, "TRACE", "http://example.org/", "example.org", 405, "", "TRACE"},
		{"tunnel", "example.org:443", true, "GET", "/a", "example.org", 200, "https://example.org:443/a", ""},
		{"tunnel, port named", "example.org:443", true, "GET", "/a", "Example.org:443", 200, "https://example.org:443/a", ""},
		{"tunnel, IDN", "xn--bcher-kva.example:443", true, "GET", "/", "bücher.example", 200, "https://xn--bcher-kva.example:443/", ""},
		{"tunnel, another port", "example.org:8443", true, "GET", "/a", "example.org:8443", 200, "https://example.org:8443/a", ""},
		{"tunnel, plain", "example.org:80", false, "GET", "/a", "example.org", 200, "http://example.org:80/a", ""},
		{"tunnel, IPv6", "[::1]:443", true, "GET", "/", "[::1]", 200, "https://[::1]:443/", ""},
		{"tunnel, another host", "example.org:443", true, "GET", "/", "evil.example", 421, "", "evil.example"},
		{"tunnel, port differs", "example.org:443", true, "GET", "/", "example.org:444", 421, "", "444"},
		{"tunnel, default port is not it", "example.org:8443", true, "GET", "/", "example.org", 421, "", "8443"},
		{"tunnel, absolute", "example.org:443", true, "GET", "https://example.org/a", "example.org", 200, "https://example.org:443/a", ""},
		{"tunnel, absolute elsewhere", "example.org:443", true, "GET", "https://evil.example/", "example.org", 421, "", "evil.example"},
		{"tunnel, absolute in another scheme", "example.org:443", true, "GET", "http://example.org/", "example.org", 421, "", "http"},
		{"CONNECT in a tunnel", "example.org:443", true, "CONNECT", "example.org:443", "example.org:443", 400, "", "tunnel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := &transport{}
			h := New(Options{
				Transport: tr,
				Intercept: func(c net.Conn, _ string) { c.Close() },
				Tunnel: func(context.Context) (string, bool, bool) {
					return test.tunnel, test.encrypted, test.tunnel != ""
				},
				Local: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }),
			})
			r := httptest.NewRequest(test.method, test.target, nil)
			r.Host = test.host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.status {
				t.Errorf("status %d, want %d: %s", w.Code, test.status, w.Body)
			}
			if got := strings.Join(tr.urls, " "); got != test.url {
				t.Errorf("the transport was asked for %q, want %q", got, test.url)
			}
			if !strings.Contains(w.Body.String(), test.mentionedReason) {
				t.Errorf("the answer %q does not name %q", w.Body, test.mentionedReason)
			}
		})
	}
}

// A refusal over HTTP/2 ends its stream, not the connection and the streams of
// others.
func TestRefusalKeepsHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(New(Options{
		Tunnel: func(context.Context) (string, bool, bool) { return "example.org:443", true, true },
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for i := range 3 {
		r, err := http.NewRequest("GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		reused := false
		r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}))
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest || resp.ProtoMajor != 2 || reused != (i > 0) {
			t.Errorf("request %d: %s over %s, connection used again: %t", i, resp.Status, resp.Proto, reused)
		}
	}
}

type statusError struct{ error }

func (statusError) HTTPStatus() int { return 504 }

func TestTransportErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
	}{
		{errors.New("out of order <b>"), 502},
		{statusError{errors.New("too slow")}, 504},
	} {
		h := New(Options{Transport: &transport{resp: func(*http.Request) (*http.Response, error) { return nil, test.err }}})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://h/", nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.err.Error()) {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
		if ct, sniff := w.Header().Get("Content-Type"), w.Header().Get("X-Content-Type-Options"); ct != "text/plain; charset=utf-8" || sniff != "nosniff" {
			t.Errorf("the answer is %q, sniffing %q", ct, sniff)
		}
	}
}

func TestEndToEnd(t *testing.T) {
	h := endToEnd(http.Header{
		"Connection": {"X-Hop, close"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}, "Proxy-Authenticate": {"x"}, "Upgrade": {"h2"},
		"Transfer-Encoding": {"chunked"}, "Alt-Svc": {"h3"}, "Set-Cookie": {"a", "b"}, "Strict-Transport-Security": {"x"},
	})
	if len(h) != 2 || len(h["Set-Cookie"]) != 2 || h.Get("Strict-Transport-Security") == "" {
		t.Errorf("left: %v", h)
	}
}

// brokenBody gives some bytes, then an error.
type brokenBody struct{ gave bool }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.gave {
		return 0, errors.New("broken")
	}
	b.gave = true
	return copy(p, "part"), nil
}

func (*brokenBody) Close() error { return nil }

// TestBrokenBodyCutsTheConnection: goproxy alone would make it look whole.
func TestBrokenBodyCutsTheConnection(t *testing.T) {
	h := New(Options{Transport: &transport{resp: func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &brokenBody{}, ContentLength: -1}, nil
	}}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "http", r.Host
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil || string(b) != "part" {
		t.Errorf("the client got %q, %v", b, err)
	}
}

// TestAbsentFieldsStayAbsent: net/http would add Date and Content-Type.
func TestAbsentFieldsStayAbsent(t *testing.T) {
	h := New(Options{Transport: &transport{}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "http", r.Host
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, name := range []string{"Date", "Content-Type", "Via", "Server"} {
		if v, ok := resp.Header[name]; ok {
			t.Errorf("%s: %q was added", name, v)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	for _, test := range []struct {
		listen, to string
		refused    bool
	}{
		{"127.0.0.1:8000", "127.0.0.1:8000", true},
		{"127.0.0.1:8000", "[::ffff:127.0.0.1]:8000", true},
		{"127.0.0.1:8000", "0.0.0.0:8000", true},
		{"127.0.0.1:8000", "127.0.0.1:8001", false},
		{"127.0.0.1:8000", "127.0.0.2:8000", false},
		{"[::1]:8000", "[::1]:8000", true},
		{"[::]:8000", "127.0.0.1:8000", true},
		{"[::]:8000", "192.0.2.1:8000", false},
		{"[::]:8000", "[::1]:8000", true},
		{"[::]:8000", "[64:ff9b::127.0.0.1]:8000", true},
		{"0.0.0.0:8000", "127.0.0.2:8000", true},
		{"0.0.0.0:8000", "127.0.0.2:8001", false},
	} {
		listen, err := net.ResolveTCPAddr("tcp", test.listen)
		if err != nil {
			t.Fatal(err)
		}
		d := &Destinations{Listen: listen}
		err = d.Control("name.example", netip.MustParseAddrPort(test.to))
		if (asRefusal(err).status == http.StatusLoopDetected) != test.refused {
			t.Errorf("listening on %s, connecting to %s: %v", test.listen, test.to, err)
		}
	}
}

func TestPages(t *testing.T) {
	pages := testPages(nil)
	for _, test := range []struct {
		path, contentType, contains string
		status                      int
	}{
		{"/", "text/html; charset=utf-8", "/w&lt;b&gt;", 200},
		{"/ca.pem", "application/x-pem-file", "PEM", 200},
		{"/status", "application/json", `"responses": 3`, 200},
		{"/other", "text/plain; charset=utf-8", "this is a proxy", 404},
	} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, pageRequest(test.path))
		if w.Code != test.status || w.Header().Get("Content-Type") != test.contentType || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s: %d %q %q", test.path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if _, ok := w.Header()["Access-Control-Allow-Origin"]; ok {
			t.Errorf("%s may be read across sites", test.path)
		}
	}
}
