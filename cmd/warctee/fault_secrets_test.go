package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warctee/warctee/warc/warctest"
)

// wantPlainText checks that a text does nothing to a terminal but to fill it.
func wantPlainText(t testing.TB, what, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		for _, c := range line {
			if c < ' ' || 0x7f <= c && c <= 0x9f || c == 0x2028 || c == 0x2029 || c == 0x202e {
				t.Errorf("the %s has the character %U: %q", what, c, line)
				break
			}
		}
		if !utf8.ValidString(line) {
			t.Errorf("the %s is not UTF-8: %q", what, line)
		}
	}
}

// hostile is what a terminal, or a reader of lines, should not get as it is.
const hostile = "\x1b]0;owned\x07\x1b[2J\x7f\nlevel=ERROR msg=forged\r\n{\"class\":\"forged\"}"

// originCertificate makes a certificate for origins that the proxy trusts.
func originCertificate(t testing.TB, change func(*x509.Certificate)) func() (*tls.Certificate, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(originCA.CertPath()), "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, originCA.Certificate(), key.(*ecdsa.PrivateKey).Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return func() (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
}

// Whatever clients and origins say, a line of the log stays one, and neither it
// nor the failure log nor an error page commands a terminal.
func TestLogInjection(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			x := newScene(t, scheme == "https", func(*recordFlags) {})
			pages := x.injections()
			log := x.log.String()
			failures, err := os.ReadFile(filepath.Join(x.flags.dir, "failures.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			wantPlainText(t, "log", log)
			wantPlainText(t, "failure log", string(failures))
			for _, p := range pages {
				wantPlainText(t, "error page", strings.ReplaceAll(p, "\r\n", "\n"))
			}
			for line := range strings.Lines(log) {
				if !strings.HasPrefix(line, "time=") || strings.Contains(line, "level=ERROR msg=forged") && !strings.Contains(line, "\\nlevel=ERROR msg=forged") {
					t.Errorf("the log has the line %q", line)
				}
			}
			for _, l := range failuresOf(x) {
				if l.Class == "forged" {
					t.Errorf("a forged line: %+v", l)
				}
			}
			for _, r := range warctest.Check(t, x.flags.dir) {
				for _, f := range r.Header {
					wantPlainText(t, "header of a "+r.Type+" record", f.Value)
				}
			}
		})
	}
}

// injections has clients and origins say hostile things, stops the proxy, and
// returns the pages that clients got.
func (x *scene) injections() (pages []string) {
	x.Helper()
	page := func(c *peer, status int) {
		x.Helper()
		r := c.reply("GET")
		if r.status != status {
			x.Errorf("status %d, want %d: %q", r.status, status, r.body)
		}
		pages = append(pages, r.head[strings.Index(r.head, "\r\n")+2:]+r.body)
	}
	// Requests that get through, to an origin that answers with worse.
	for _, target := range []string{"/\x9b2J", "/\xc2\x9b2J\xc2\x85level=ERROR", "/\xe2\x80\xae\xe2\x80\xa8", "/%1b%5b2J%0alevel=ERROR", "/?\"}\\n{\"class\":\"forged\"}"} {
		c := x.client()
		sent, _ := x.ask("GET", target, "X-Latin: \x9b\xff\r\nUser-Agent: \xc2\x9b\r\n")
		c.send(sent)
		o := x.origin.next()
		o.request()
		o.send(hostile)
		o.Close()
		page(c, 502)
	}
	for _, reply := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: " + hostile + "\r\n\r\n", "HTTP/9.9" + hostile + "\r\n\r\n", "HTTP/1.1 \x1b[2J OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: \x1b[2J\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\x1b\r\nContent-Length: 2\r\n\r\n",
	} {
		c := x.client()
		o, _ := x.get(c, "/")
		o.send(reply)
		o.Close()
		page(c, 502)
	}
	// Requests that do not.
	for _, request := range []string{
		"GET TARGET\x1b[2J HTTP/1.1\r\nHost: HOST\r\n\r\n", "GET TARGET HTTP/1.1\r\nHost: HOST\x1b\r\n\r\n", "GET TARGET HTTP/1.1\r\nHost: \xc2\x9b2J\r\nHost: HOST\r\n\r\n",
		"GET TARGET HTTP/1.1\r\nHost: HOST\r\nX: \x1b[2J\r\n\r\n", "GET TARGET HTTP/1.1\r\nHost: HOST\r\nX\x1b[2J: 1\r\n\r\n", "G\x1b[2J TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"GET TARGET HTTP/1.1\r\nHost: HOST\r\nContent-Length: \xc2\x9b2J\r\n\r\n", "GET TARGET HTTP/1.1\r\nHost: HOST\r\n\xc2\x9b2J\r\n\r\n",
		"GET \xc2\x9b2J HTTP/1.1\r\nHost: HOST\r\n\r\n", "GET TARGET HTTP/\x1b[2J\r\nHost: HOST\r\n\r\n",
	} {
		target := "/"
		if !x.https {
			target = x.uri("/")
		}
		c := x.client()
		c.send(strings.NewReplacer("TARGET", target, "HOST", x.origin.authority).Replace(request))
		page(c, 400)
	}
	if x.https {
		// An origin whose certificate names something else.
		certificate := originCertificate(x.T, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"b.example" + hostile} })
		x.origin.certificate.Store(&certificate)
		x.at("localhost") // of an address the certificate's names are not told
		c := x.client()
		sent, _ := x.ask("GET", "/certificate", "")
		c.send(sent)
		page(c, 502)
		if last := pages[len(pages)-1]; !strings.Contains(last, "b.example") {
			x.Errorf("the names in the certificate are not told: %q", last)
		}
		// A client that does not trust us, and names a host.
		p := x.tunnel(x.origin.authority)
		if tls.Client(p.Conn, &tls.Config{ServerName: "a" + hostile + "\xc2\x9b"}).Handshake() == nil {
			x.Error("a client without our certificate trusts the proxy")
		}
		p.Close()
	} else {
		for _, host := range []string{"\xc2\x9b2J.example", "a\xe2\x80\xae.example"} {
			c := x.client()
			c.send("GET http://" + host + "/ HTTP/1.1\r\nHost: HOST\r\n\r\n")
			page(c, 400)
			c = x.client()
			c.send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			page(c, 421)
		}
	}
	x.settled()
	x.stop()
	return pages
}

// An error page repeats what was asked for as text, nothing else.
func TestErrorPages(t *testing.T) {
	overBoth(t, func(x *scene) {
		x.origin.listener.Close()
		const script = "<script>alert(1)</script>"
		for _, request := range []string{
			"GET TARGET" + script + " HTTP/1.1\r\nHost: HOST\r\nAccept: text/html\r\n\r\n",
			"GET TARGET?" + script + " HTTP/1.1\r\nHost: HOST\r\n\r\n",
			script + " TARGET HTTP/1.1\r\nHost: HOST\r\n\r\n",
			"GET TARGET HTTP/1.1\r\nHost: " + script + "\r\n\r\n",
			"GET " + script + " HTTP/1.1\r\nHost: HOST\r\n\r\n",
			"GET http://" + script + "/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
		} {
			target := "/"
			if !x.https {
				target = x.uri("/")
			}
			c := x.client()
			c.send(strings.NewReplacer("TARGET", target, "HOST", x.origin.authority).Replace(request))
			r := c.reply("GET")
			x.refused(r, r.status, "warctee: ")
			if r.status < 400 || field(r.head, "X-Content-Type-Options") != "nosniff" {
				x.Errorf("%.60q is answered with %q", request, r.head)
			}
		}
		x.noMoreRequests()
	})
}

// Nothing is fetched to verify a certificate.
func TestNoFetchesForCertificates(t *testing.T) {
	var fetched atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	defer server.Close()
	for _, trusted := range []bool{true, false} {
		t.Run(strconv.FormatBool(trusted), func(t *testing.T) {
			x := newScene(t, true, func(*recordFlags) {})
			certificate := originCertificate(t, func(c *x509.Certificate) {
				c.OCSPServer, c.IssuingCertificateURL, c.CRLDistributionPoints = []string{server.URL}, []string{server.URL}, []string{server.URL}
				if !trusted {
					c.NotAfter = time.Now().Add(-time.Minute)
				}
			})
			x.origin.certificate.Store(&certificate)
			if trusted {
				x.fine("/")
			} else {
				x.refusedAt(502, "certificate")
			}
			x.finish()
		})
	}
	if n := fetched.Load(); n > 0 {
		t.Errorf("%d requests for OCSP, CRLs or issuers were made", n)
	}
}

// What clients and origins say, but for names and passwords for the proxy, that
// must stay between them and the archive.
const (
	saidCookie    = "Cookie-1618033"
	saidToken     = "Token-1414213"
	saidForm      = "password=Form-1732050"
	saidUserinfo  = "Userinfo-2236067"
	saidSetCookie = "SetCookie-2645751"
	saidHalf      = "Broken-3162277"
)

// saidSecrets is all of it.
func saidSecrets() []string {
	said := []string{password, otherPassword, saidCookie, saidToken, strings.TrimPrefix(saidForm, "password="), saidUserinfo, saidSetCookie, saidHalf}
	for _, pair := range []string{password, otherPassword, saidToken} {
		said = append(said, strings.TrimRight(strings.TrimSpace(login("", pair))[len(": Basic "):], "="))
	}
	return said
}

// A secretive origin keeps requests for /hang until it is closed.
type secretive struct {
	hanging chan struct{}
	closed  chan struct{}
}

func (o *secretive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Set-Cookie", "s="+saidSetCookie)
	switch r.URL.Path {
	case "/abort":
		panic(http.ErrAbortHandler)
	case "/half":
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, saidHalf)
		panic(http.ErrAbortHandler)
	case "/hang":
		o.hanging <- struct{}{}
		<-o.closed
	}
	io.WriteString(w, "fine "+r.URL.Path)
}

// secretPost is a request full of secrets.
func secretPost(url, fields string) string {
	return "POST " + url + " HTTP/1.1\r\nHost: h.example\r\n" + fields + "Cookie: c=" + saidCookie + "\r\nAuthorization: Bearer " + saidToken +
		"\r\nContent-Length: " + strconv.Itoa(len(saidForm)) + "\r\n\r\n" + saidForm
}

// raw sends a request to the proxy, whose own answers must tell no secrets.
func (p *program) raw(request string) {
	p.t.Helper()
	c, err := net.Dial("tcp", p.proxy.Host)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		p.t.Fatalf("%.40q: %v", request, err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 10_000)) // some break off
	if text := string(b); strings.HasPrefix(text, "warctee: ") {
		wantNoSecrets(p.t, "answer", text, saidSecrets())
	}
}

func wantNoSecrets(t testing.TB, what, text string, secrets []string) {
	t.Helper()
	for _, s := range secrets {
		if at := strings.Index(text, s); at >= 0 {
			t.Errorf("the %s tells %q: …%s", what, s, text[max(0, at-200):at+len(s)])
		}
	}
}

// tellSecrets makes requests of many kinds, with some fields; most of them fail.
func (p *program) tellSecrets(origin, fields string) {
	p.t.Helper()
	user := "http://ann:" + saidUserinfo + "@"
	for _, path := range []string{"/fine", "/abort", "/half"} {
		p.raw(secretPost(strings.Replace(origin, "http://", user, 1)+path, fields))
	}
	for _, url := range []string{
		user + "127.0.0.1:1024/", // nobody listens
		user + "127.0.0.1:25/",   // not a port for us
		user + "nowhere.invalid/", "ftp" + user[4:] + "h.example/", user + "[::g]/", user + "a b/", user + p.proxy.Host + "/", user + "h.example:99999/",
	} {
		p.raw(secretPost(url, fields))
	}
	for _, bad := range []string{"bad field\r\n", "Content-Length : 1\r\n", "Transfer-Encoding: chunked\r\n"} {
		p.raw(secretPost(origin+"/fine", fields+bad))
	}
	p.raw("CONNECT ann:" + saidUserinfo + "@h.example:443 HTTP/1.1\r\nHost: h.example\r\n" + fields + "\r\n")
	p.raw("GET /status HTTP/1.1\r\nHost: evil.example\r\n" + fields + "Cookie: c=" + saidCookie + "\r\n\r\n")
}

// tellSecretsInTunnel does so inside a tunnel, as somebody who may use the proxy.
func (p *program) tellSecretsInTunnel(origin string, http2 bool) {
	p.t.Helper()
	client := p.client(http2)
	client.Transport.(*http.Transport).ProxyConnectHeader = http.Header{"Proxy-Authorization": {strings.TrimSpace(login("", password)[2:])}}
	for _, path := range []string{"/fine", "/abort", "/half"} {
		r, err := http.NewRequest("POST", origin+path, strings.NewReader(saidForm))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Cookie", "c="+saidCookie)
		r.SetBasicAuth("ann", saidToken)
		resp, err := client.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// Passwords and keys get neither into what the program says, at any level, nor
// into its status, the failure log, or what it leaves when it crashes.
func TestNothingTellsSecrets(t *testing.T) {
	origin := &secretive{hanging: make(chan struct{}, 10), closed: make(chan struct{})}
	plain, encrypted := httptest.NewServer(origin), httptest.NewTLSServer(origin)
	defer plain.Close()
	defer encrypted.Close()
	defer close(origin.closed)
	flags := &recordFlags{}
	withUsers(t)(flags)
	dir := filepath.Join(t.TempDir(), "warcs")
	p := startProgram(t, dir, "--log-level", "debug", "--auth", flags.access.auth, "--record-failures")
	known := login("Proxy-Authorization", password)
	for _, fields := range []string{known, "", login("Proxy-Authorization", otherPassword), login("Authorization", otherPassword) + known} {
		p.tellSecrets(plain.URL, fields)
	}
	p.tellSecretsInTunnel(encrypted.URL, false)
	p.tellSecretsInTunnel(encrypted.URL, true)
	status, err := http.Get(p.proxy.String() + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer status.Body.Close()
	shown, err := io.ReadAll(status.Body)
	if err != nil || !bytes.Contains(shown, []byte(`"bad_logins": 8`)) {
		t.Errorf("the status is %s, %v", shown, err)
	}
	arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))

	// In the middle of everything it crashes.
	for _, fields := range []string{known, "X: 2\r\n" + known} {
		c, err := net.Dial("tcp", p.proxy.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, secretPost(strings.Replace(plain.URL, "http://", "http://ann:"+saidUserinfo+"@", 1)+"/hang", fields))
		<-origin.hanging
	}
	p.signal(syscall.SIGQUIT)
	p.wait(2)
	if !strings.Contains(p.log(), "goroutine 1 ") {
		t.Error("there is no dump of the goroutines")
	}
	failures, err := os.ReadFile(filepath.Join(dir, "failures.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := append(keyTexts(t, filepath.Join(filepath.Dir(p.caFile), "ca-key.pem")), saidSecrets()...)
	wantNoSecrets(t, "log", p.log(), secrets)
	wantNoSecrets(t, "status", string(shown), secrets)
	wantNoSecrets(t, "failure log", string(failures), secrets)
	wantNoSecrets(t, "command line", string(arguments), secrets)
}

// keyTexts are ways to write a private key.
func keyTexts(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := key.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"PRIVATE KEY", strings.Split(string(text), "\n")[1], hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret)[:20], new(big.Int).SetBytes(secret).String(), string(secret)}
}
