package recorder

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warctee/warctee/http1"
)

func TestTargetURI(t *testing.T) {
	for _, test := range []struct{ scheme, authority, target, want string }{
		{"http", "example.org", "/", "http://example.org/"},
		{"http", "Example.ORG:80", "/", "http://example.org/"},
		{"https", "example.org:443", "/a?b", "https://example.org/a?b"},
		{"http", "example.org:443", "/", "http://example.org:443/"},
		{"http", "[::1]:8080", "/", "http://[::1]:8080/"},
		{"https", "[2001:DB8::1]:443", "/", "https://[2001:db8::1]/"},
		{"http", "bücher.example", "/", "http://xn--bcher-kva.example/"},
		{"http", "h", "/a b", "http://h/a%20b"},
		{"http", "h", "/caf\xe9", "http://h/caf%E9"},
		{"http", "h", "/café", "http://h/caf%C3%A9"},
		{"http", "h", "/%zz%41%4", "http://h/%25zz%41%254"},
		{"http", "h", "/%", "http://h/%25"},
		{"http", "h", "/?", "http://h/?"},
		{"http", "h", "/?a?b/c", "http://h/?a?b/c"},
		{"http", "h", "/a[1]|\"<>\\^`{}", "http://h/a%5B1%5D%7C%22%3C%3E%5C%5E%60%7B%7D"},
		{"http", "h", "/a#frag", "http://h/a"},
		{"http", "h", "*", "http://h"},
	} {
		if got := targetURI(test.scheme, test.authority, test.target); got != test.want {
			t.Errorf("targetURI(%q, %q, %q) = %q, want %q", test.scheme, test.authority, test.target, got, test.want)
		}
	}
}

func TestOriginForm(t *testing.T) {
	for _, test := range []struct{ method, target, want string }{
		{"GET", "/a?b", "/a?b"},
		{"GET", "http://h/a%zz?b", "/a%zz?b"},
		{"GET", "http://h", "/"},
		{"GET", "http://h?q", "/?q"},
		{"GET", "HTTP://user:pw@h:80/x", "/x"},
		{"OPTIONS", "http://h", "*"},
		{"OPTIONS", "*", "*"},
		{"GET", "/x#f", "/x"},
	} {
		if got, _ := originForm(test.method, test.target); got != test.want {
			t.Errorf("originForm(%q, %q) = %q, want %q", test.method, test.target, got, test.want)
		}
	}
}

// headFor sends a client's head through the edits.
func headFor(t *testing.T, url, raw string) string {
	t.Helper()
	head, err := http1.ParseRequest([]byte(strings.ReplaceAll(raw, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(head.Method, url, nil)
	req = req.WithContext(WithClientHead(req.Context(), head))
	o, err := newOriginRequest(req)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(o.head), "\r\n", "\n")
}

func TestHeadFromClient(t *testing.T) {
	for _, test := range []struct{ name, url, raw, want string }{
		{
			"unchanged", "http://h/",
			"GET /?x HTTP/1.1\nhOST: h\nb: 1\nA:  2 \nb: 3\nConnection: keep-alive\n\n",
			"GET /?x HTTP/1.1\nhOST: h\nb: 1\nA:  2 \nb: 3\nConnection: keep-alive\n\n",
		}, {
			"absolute form", "http://h/",
			"GET http://h/a?%zz HTTP/1.1\nHost: h\n\n",
			"GET /a?%zz HTTP/1.1\nHost: h\n\n",
		}, {
			"version", "http://h/",
			"GET / HTTP/1.0\nHost: h\n\n",
			"GET / HTTP/1.1\nHost: h\n\n",
		}, {
			"no Host", "http://h:81/",
			"GET http://h:81/ HTTP/1.0\nA: b\n\n",
			"GET / HTTP/1.1\nHost: h:81\nA: b\n\n",
		}, {
			"another Host", "http://h/",
			"GET http://h/ HTTP/1.1\nA: b\nhost: other\n\n",
			"GET / HTTP/1.1\nA: b\nhost: h\n\n",
		}, {
			"the same Host, spelled otherwise", "http://h/",
			"GET http://h/ HTTP/1.1\nHost: H:80\n\n",
			"GET / HTTP/1.1\nHost: H:80\n\n",
		}, {
			"the same Host, in Unicode", "http://xn--bcher-kva.example:80/",
			"GET / HTTP/1.1\nHost: bücher.EXAMPLE\n\n",
			"GET / HTTP/1.1\nHost: bücher.EXAMPLE\n\n",
		}, {
			"the same Host, in brackets", "http://example.test/",
			"GET / HTTP/1.1\nHost: [example.test]\n\n",
			"GET / HTTP/1.1\nHost: example.test\n\n",
		}, {
			"hop by hop", "http://h/",
			"GET / HTTP/1.1\nHost: h\nProxy-Connection: keep-alive\nProxy-Authorization: Basic eA==\nConnection: X-Hop, close, te\nx-hop: 1\nTE: trailers\nKeep-Alive: 5\nUpgrade: h2c\nX: y\n\n",
			"GET / HTTP/1.1\nHost: h\nConnection: close\nX: y\n\n",
		}, {
			"Connection names Trailer", "http://h/",
			"GET / HTTP/1.1\nHost: h\nConnection: trailer\nTrailer: X-End\n\n",
			"GET / HTTP/1.1\nHost: h\n\n",
		}, {
			"only hop by hop", "http://h/",
			"GET / HTTP/1.1\nHost: h\nConnection: X-Hop\nX-Hop: 1\n\n",
			"GET / HTTP/1.1\nHost: h\n\n",
		}, {
			"Connection does not take the framing away", "http://h/",
			"POST / HTTP/1.1\nHost: h\nConnection: Content-Length, Host\nContent-Length: 0\n\n",
			"POST / HTTP/1.1\nHost: h\nContent-Length: 0\n\n",
		}, {
			"WebSocket", "http://h/",
			"GET / HTTP/1.1\nHost: h\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: k\n\n",
			"GET / HTTP/1.1\nHost: h\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: k\n\n",
		},
	} {
		if got := headFor(t, test.url, test.raw); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func TestHeadFromFields(t *testing.T) {
	req, err := http.NewRequest("POST", "http://h:81/a b?c", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"X-B": {"2", "1"}, "Accept": {"*/*"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Te": {"trailers"}, "Proxy-Foo": {"x"}}
	o, err := newOriginRequest(req)
	if err != nil {
		t.Fatal(err)
	}
	want := "POST /a%20b?c HTTP/1.1\r\nHost: h:81\r\nAccept: */*\r\nX-B: 2\r\nX-B: 1\r\nContent-Length: 4\r\n\r\n"
	if string(o.head) != want {
		t.Errorf("got\n%s\nwant\n%s", o.head, want)
	}
	for host, want := range map[string]string{
		"":                   "example.test:443",
		"Example.Test":       "Example.Test",
		"example.test:443":   "example.test:443",
		"example.test:80":    "example.test:443",
		"ex%61mple.test":     "example.test:443",
		"[example.test]":     "example.test:443",
		"[example.test]:443": "example.test:443",
		"other.test":         "example.test:443",
	} {
		req, err := http.NewRequest("GET", "https://example.test:443/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if o, err := newOriginRequest(req); err != nil || string(o.head) != "GET / HTTP/1.1\r\nHost: "+want+"\r\n\r\n" {
			t.Errorf("Host %q: %v, %+v, want %s", host, err, o, want)
		}
	}
	idn, err := http.NewRequest("GET", "http://bücher.example:81/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := newOriginRequest(idn); err != nil || string(o.head) != "GET / HTTP/1.1\r\nHost: xn--bcher-kva.example:81\r\n\r\n" {
		t.Errorf("U-label: %v, %v", o, err)
	}
	for name, change := range map[string]func(*http.Request){
		"method": func(r *http.Request) { r.Method = "A B" },
		"name":   func(r *http.Request) { r.Header = http.Header{"A\r\nB": {"c"}} },
		"value":  func(r *http.Request) { r.Header = http.Header{"A": {"b\r\nWARC-Type: x"}} },
		"host":   func(r *http.Request) { r.Host = "h\r\nA: b" },
		"target": func(r *http.Request) { r.RequestURI = "/a\r\nb" },
		"scheme": func(r *http.Request) { r.URL.Scheme = "ftp" },
		"none":   func(r *http.Request) { r.URL.Host = "" },
	} {
		bad := req.Clone(req.Context())
		change(bad)
		if o, err := newOriginRequest(bad); err == nil {
			t.Errorf("bad %s: accepted as %q", name, o.head)
		}
	}
}
