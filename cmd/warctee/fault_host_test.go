package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Hosts that programs understand in different ways, or that are none, are
// refused in every form; nothing is looked up.
func TestOddHosts(t *testing.T) {
	t.Parallel()
	server := startMovingDNS(t)
	server.moves("127.0.0.1")
	x := newScene(t, false, func(f *recordFlags) { f.resolver = "udp://" + server.address })
	hosts := []string{
		"127.1", "127.0.1", "0x7f.1", "0X7F.1", "0x7f.0.0.0x1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "127.0.0.01", "127.0.0.1.",
		"127.0.0.1..", "1.2.3.4.5", "256.1.1.1", "1.2.3.08", "example.1", "example.0x1f", "example.0x", "99999999999999999999", "１２７.１", "127。1",
		"[fe80::1%25lo]", "[fe80::1%lo]", "[::1", "::1]", "[::g]", "[::1]x", "[127.0.0.1]", "[localhost]", "[]", "::1", "[v1.x]",
		"*", "*.example.org", "a..b", ".a", ".", "..", "a,b", "a;b", "a'b", "a(b)", "a&b", "a=b", "a$b", "a!b", "a~b", "a+b", "a@b@c",
		"a\"b", "a<b>", "a\\b", "a^b", "a`b", "a{b}", "a|b", "a%00b", "a%2fb", "a%0d%0ab", "a%b", "a\x7fb",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "aa", "a\u202eb.example", "\u200b.example", "a\u00adb\u0000.example", "caf\xe9.example",
		"ex\u2100mple", "-\u00fc.example",
	}
	ask := func(request string) {
		t.Helper()
		c := x.client()
		c.send(request + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n")
		x.refused(c.reply("GET"), 400, "")
		c.ends()
	}
	for _, host := range hosts {
		t.Run(host, func(t *testing.T) {
			if host != "::1" && host != "a@b@c" { // in a URL "::1" has an empty host, "@" ends the user
				ask("GET http://" + host + "/")
				ask("GET https://" + host + ":8443/")
			}
			ask("CONNECT " + host + ":443")
		})
	}
	for _, port := range []string{":0", ":00", ":65536", ":70000", ":99999999999999999999", ":http", ":-1", ":+80", ":8 0", ":80:80", ":８０", ":0x50", ":%38"} {
		ask("GET http://a.test" + port + "/")
		ask("CONNECT a.test" + port)
		ask("CONNECT [::1]" + port)
	}
	ask("GET http://a.test:/")
	ask("CONNECT a.test:")
	ask("CONNECT a.test")
	ask("CONNECT user@a.test:443")
	ask("CONNECT ../../etc/passwd:443")
	ask("CONNECT a.test:443/../b")
	ask("CONNECT a.test:443?b")
	ask("CONNECT a.test:443#b")
	if asked := server.questions(); len(asked) > 0 {
		t.Errorf("the DNS was asked for %q", asked)
	}
	if n := x.origin.connections(); n > 0 {
		t.Errorf("the origin has had %d connections", n)
	}
	x.fine("/next")
	x.finish()
}

// In a tunnel a host may be written in Unicode, too; what decides is its ASCII
// form.
func TestUnicodeTunnel(t *testing.T) {
	for name, host := range map[string]string{"U-label": "bücher.test", "upper case": "BÜCHER.Test", "A-label": "xn--bcher-kva.test"} {
		for _, inner := range []string{"bücher.test", "xn--BCHER-kva.test", "bücher.test"} {
			t.Run(name, func(t *testing.T) {
				server := startMovingDNS(t)
				server.moves("127.0.0.1")
				x := newScene(t, false, func(f *recordFlags) { f.resolver, f.noDNS = "udp://"+server.address, true })
				_, port, _ := net.SplitHostPort(x.origin.authority)
				c := x.tunnel(host + ":" + port)
				go c.listen() // ends with stop
				head := "GET /a HTTP/1.1\r\nHost: " + inner + ":" + port + "\r\n\r\n"
				c.send(head)
				o := x.origin.next()
				request := o.request()
				x.same("the request", request, head)
				response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost"
				o.send(response)
				x.got(c.reply("GET"), 200, "host")
				x.want(wanted{uri: "http://xn--bcher-kva.test:" + port + "/a", request: request, response: response})
				c.send("GET /b HTTP/1.1\r\nHost: b%C3%BCcher.test.evil:" + port + "\r\n\r\n")
				x.refused(c.reply("GET"), 421, "the tunnel goes to xn--bcher-kva.test:"+port)
				x.finish()
				for _, asked := range server.questions() {
					if asked != "xn--bcher-kva.test." {
						t.Errorf("the DNS was asked for %q", asked)
					}
				}
			})
		}
	}
}

// Names from clients make no certificate that says more than the name of the
// tunnel, and no files.
func TestHostileServerNames(t *testing.T) {
	t.Parallel()
	x := newScene(t, true, func(*recordFlags) {})
	for _, name := range []string{
		"*", "*.example.org", "*.com", strings.Repeat("a", 64) + ".example", strings.Repeat("a", 300), "a\x00.example", "../../../etc/passwd", "a/b", "a\\b",
		"x\r\nWARC-Type: forged", "\x1b]0;owned\x07", "a b", "bücher.example", "-", "..", "a..b", "CN=evil", "a,b", "%2e%2e",
	} {
		p := x.tunnel(x.origin.authority)
		c := tls.Client(p.Conn, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err := c.Handshake(); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		leaf := c.ConnectionState().PeerCertificates[0]
		if name == "-" { // a label all the same
			if !slices.Equal(leaf.DNSNames, []string{"-"}) || len(leaf.IPAddresses) > 0 {
				t.Errorf("%q: the certificate is for %q %v", name, leaf.DNSNames, leaf.IPAddresses)
			}
		} else if len(leaf.DNSNames) > 0 || len(leaf.IPAddresses) != 1 || leaf.IPAddresses[0].String() != "127.0.0.1" {
			t.Errorf("%q: the certificate is for %q %v, want 127.0.0.1", name, leaf.DNSNames, leaf.IPAddresses)
		}
		if leaf.Subject.String() != "" || len(leaf.EmailAddresses)+len(leaf.URIs) > 0 {
			t.Errorf("%q: the certificate is for %q %v %v", name, leaf.Subject, leaf.EmailAddresses, leaf.URIs)
		}
		p.Conn = c
		go p.listen() // ends with stop
		x.fineOn(p, "/")
	}
	log := x.log.String()
	x.finish()
	var files []string
	for _, dir := range []string{x.flags.caDir, filepath.Dir(x.flags.dir), filepath.Dir(x.flags.caDir), x.flags.dir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".warc.gz") {
				files = append(files, e.Name())
			}
		}
	}
	if want := []string{"ca-key.pem", "ca.pem", "warcs", "ca", ".lock"}; !slices.Equal(files, want) {
		t.Errorf("there are the files %q, want %q", files, want)
	}
	wantPlainText(t, "log", log)
}

// A CONNECT may look a little different.
func TestFormsOfConnect(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"empty lines in front": "\r\n\r\nCONNECT AUTHORITY HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n",
		"HTTP/1.0":             "CONNECT AUTHORITY HTTP/1.0\r\n\r\n",
		"HTTP/1.0 with Host":   "CONNECT AUTHORITY HTTP/1.0\r\nHost: AUTHORITY\r\nProxy-Connection: keep-alive\r\n\r\n",
		"another Host":         "CONNECT AUTHORITY HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
		"empty body":           "CONNECT AUTHORITY HTTP/1.1\r\nHost: AUTHORITY\r\nContent-Length: 0\r\n\r\n",
	} {
		for _, https := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := newScene(t, https, func(*recordFlags) {})
				c := x.direct()
				c.send(strings.ReplaceAll(head, "AUTHORITY", x.origin.authority))
				established := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
				c.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.ReadFull(c, established); err != nil || !strings.HasPrefix(string(established), "HTTP/1.1 200 ") {
					t.Fatalf("got %q, %v", established, err)
				}
				c.SetReadDeadline(time.Time{})
				if https {
					x.encrypt(c, "http/1.1")
				}
				go c.listen() // ends with stop
				request := "GET /in HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n"
				c.send(request)
				o := x.origin.next()
				x.same("the request", o.request(), request)
				response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin"
				o.send(response)
				x.got(c.reply("GET"), 200, "in")
				x.want(wanted{uri: x.uri("/in"), request: request, response: response})
				x.finish()
			})
		}
	}
}
