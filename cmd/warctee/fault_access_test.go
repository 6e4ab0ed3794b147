package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// anyPort lets the proxy connect to all ports.
func anyPort(f *recordFlags) { set(&f.access.ports, "1-65535") }

// set gives a flag a value that is right.
func set(f interface{ Set(string) error }, value string) {
	if err := f.Set(value); err != nil {
		panic(err)
	}
}

// The password of these tests must not be seen anywhere.
const (
	password      = "Sesame-3141592"
	otherPassword = "Wrong-2718281"
)

// withUsers gives the proxy a file with the user ann.
func withUsers(t testing.TB) func(f *recordFlags) {
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("# who may\nbob:else\nann:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(f *recordFlags) { f.access.auth = path }
}

// login is a line with a name and a password.
func login(field, password string) string {
	return field + ": Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+password)) + "\r\n"
}

// wantUnsaid checks that texts, and passwords as they are sent, are nowhere in
// what a scene has left.
func wantUnsaid(x *scene, texts ...string) {
	x.Helper()
	for _, text := range []string{password, otherPassword} {
		texts = append(texts, text, strings.TrimSpace(login("", text))[len(": Basic "):])
	}
	left := map[string]string{"log": x.log.String()}
	names, _ := filepath.Glob(filepath.Join(x.flags.dir, "*"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			x.Fatal(err)
		}
		left[filepath.Base(name)] = string(b)
	}
	for _, r := range x.readArchive() {
		left["block of the "+r.kind()] += r.block
		for _, f := range r.Header {
			left["header of the "+r.kind()] += f.Name + ": " + f.Value + "\n"
		}
	}
	for where, all := range left {
		for _, text := range texts {
			if strings.Contains(all, text) {
				x.Errorf("%q is in the %s:\n%.2000s", text, where, all)
			}
		}
	}
}

// Each request outside a tunnel, and each tunnel, needs a name and a password;
// they end at the proxy.
func TestLogin(t *testing.T) {
	overBothWith(t, withUsers(t), func(x *scene) {
		x.strangers()
		x.known()
		if got := x.proxy.status(x.flags).BadLogins; got != 12 {
			x.Errorf("%d wrong passwords are counted, want 12", got)
		}
		x.finish()
		wantUnsaid(x)
		if n := strings.Count(x.log.String(), "wrong name or password"); n != 1 {
			x.Errorf("the log tells of wrong passwords %d times, want once a minute:\n%s", n, x.log)
		}
		if _, err := os.Stat(filepath.Join(x.flags.dir, "failures.jsonl")); err == nil {
			x.Errorf("strangers can fill the failure log: %+v", failuresOf(x))
		}
	})
}

// strangers are asked who they are, whatever they want.
func (x *scene) strangers() {
	x.Helper()
	host := "Host: " + x.origin.authority + "\r\n"
	for _, start := range []string{
		"CONNECT " + x.origin.authority, "GET http://" + x.origin.authority + "/", "POST https://" + x.origin.authority + "/", "GET http://127.1/",
		"CONNECT 127.0.0.1:25", "GET http://" + x.proxy.listener.Addr().String() + "/status",
	} {
		for _, fields := range []string{
			"", login("Proxy-Authorization", otherPassword), login("Authorization", password),
			login("Proxy-Authorization", password) + login("Proxy-Authorization", password),
		} {
			c := x.direct()
			go c.listen() // ends with stop
			c.send(start + " HTTP/1.1\r\n" + host + fields + "\r\n")
			r := c.reply("GET")
			x.refused(r, 407, "name and a password")
			if got := field(r.head, "Proxy-Authenticate"); got != `Basic realm="warctee", charset="UTF-8"` {
				x.Errorf("Proxy-Authenticate is %q", got)
			}
			c.ends()
		}
	}
	c := x.direct()
	go c.listen() // ends with stop
	c.send("GET / HTTP/1.1\r\nbad field\r\n\r\n")
	x.refused(c.reply("GET"), 400, "no colon")
	if n := x.origin.connections(); n > 0 {
		x.Errorf("the origin has had %d connections", n)
	}
}

// known is a client that says who it is, with an Authorization of its own for
// the origin.
func (x *scene) known() {
	x.Helper()
	c := x.direct()
	secret, own := login("pRoxy-authoriZation", password), "Authorization: Basic b3JpZ2lu\r\n"
	if x.https {
		c.send("CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n" + secret + "\r\n")
		established := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c, established); err != nil || !strings.HasPrefix(string(established), "HTTP/1.1 200 ") {
			x.Fatalf("CONNECT: %q, %v", established, err)
		}
		x.encrypt(c, "http/1.1")
		secret = ""
	}
	go c.listen() // ends with stop
	for _, target := range []string{"/1", "/2"} {
		sent, _ := x.ask("GET", target, own+secret)
		_, forwarded := x.ask("GET", target, own)
		c.send(sent)
		o := x.origin.next()
		request := o.request()
		x.same("the request", request, forwarded)
		response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + target
		o.send(response)
		x.got(c.reply("GET"), 200, target)
		x.want(wanted{uri: x.uri(target), request: request, response: response})
	}
	if !x.https { // also on a connection on which it was said before
		sent, _ := x.ask("GET", "/3", "")
		c.send(sent)
		x.refused(c.reply("GET"), 407, "name and a password")
		c.ends()
	}
}

// Connections from other addresses are closed, with a word.
func TestClientAddresses(t *testing.T) {
	x := newScene(t, false, func(f *recordFlags) { set(&f.access.allowClients, "192.0.2.0/24,127.0.0.2") })
	connect := func(from string) *peer {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", x.proxy.listener.Addr().String())
		if err != nil {
			t.Skip("no second loopback address here: ", err)
		}
		p := x.newPeer("the client", c, c.(*net.TCPConn))
		go p.listen() // ends with stop
		return p
	}
	for _, request := range []string{
		"GET " + x.uri("/") + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n",
		"CONNECT " + x.origin.authority + " HTTP/1.1\r\nHost: " + x.origin.authority + "\r\n\r\n",
		"GET /status HTTP/1.1\r\nHost: " + x.proxy.listener.Addr().String() + "\r\n\r\n",
		"\x16\x03\x01",
	} {
		c := connect("127.0.0.1")
		c.trySend(request)
		x.refused(c.reply("GET"), 403, "--allow-client")
		c.rest()
	}
	c := connect("127.0.0.2")
	x.fineOn(c, "/")
	if s := x.proxy.status(x.flags); s.Denied != 4 || s.Responses+s.Failures > 1 {
		t.Errorf("of 4 connections that were closed %+v is told", s)
	}
	x.finish()
	if n := strings.Count(x.log.String(), "(--allow-client)"); n != 1 {
		t.Errorf("the log tells %d times of clients that are not allowed:\n%s", n, x.log)
	}
}

// The pages of the proxy are for its own machine, under its own names, and not
// to be reached through it.
func TestOwnPages(t *testing.T) {
	x := newScene(t, false, withUsers(t))
	self := x.proxy.listener.Addr().String()
	_, port, _ := net.SplitHostPort(self)
	ask := func(target, host, fields string) reply {
		t.Helper()
		c := x.client()
		c.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n")
		return c.reply("GET")
	}
	for _, host := range []string{self, "localhost:" + port, "LOCALHOST:" + port, "[::1]:" + port} {
		for _, page := range []string{"/", "/ca.pem", "/status"} {
			r := ask(page, host, "")
			if r.status != 200 || field(r.head, "Cross-Origin-Resource-Policy") != "same-origin" || strings.Contains(r.head, "Access-Control") {
				t.Errorf("%s of %s: %q", page, host, r.head)
			}
		}
	}
	var status serverStatus
	if err := json.Unmarshal([]byte(ask("/status", self, "").body), &status); err != nil || status.Listen != self {
		t.Errorf("the status is %+v, %v", status, err)
	}
	x.refused(ask("/status", "rebound.example:"+port, ""), 421, `"rebound.example:`+port+`" is not one of its own names`)
	x.refused(ask("/", "rebound.example", ""), 421, "open http://"+self+"/")
	x.refused(ask("/ca.pem", "127.0.0.1:1", ""), 421, "own names")
	x.refused(ask("/status", self, "Sec-Fetch-Site: cross-site\r\n"), 403, "other sites")
	x.refused(ask("/other", self, ""), 404, "this is a proxy")
	// As HTTP/1.0 was used.
	c := x.client()
	c.send("GET /status HTTP/1.0\r\n\r\n")
	x.refused(c.reply("GET"), 421, "own names")
	// Through the proxy.
	x.refused(ask("http://"+self+"/status", self, login("Proxy-Authorization", password)), 508, "this proxy itself")
	x.refused(ask("https://localhost:"+port+"/", self, login("Proxy-Authorization", password)), 508, "this proxy itself")
	x.failures(2)
	x.finish()
	wantUnsaid(x)
}

// What is refused leaves nothing behind.
func TestRefusedClientsLeaveNothing(t *testing.T) {
	x := newScene(t, false, func(f *recordFlags) {
		withUsers(t)(f)
		set(&f.access.denyDestinations, "denied.example,127.0.0.9")
	})
	self := x.proxy.listener.Addr().String()
	ask := func(request string, status int) {
		t.Helper()
		c, err := net.Dial("tcp", self)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		got := make([]byte, 12)
		if _, err := c.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got[9:]) != strconv.Itoa(status) {
			t.Fatalf("%.60q is answered with %q, %v", request, got, err)
		}
	}
	round := func(n int) {
		t.Helper()
		secret := login("Proxy-Authorization", password) + "\r\n"
		for range n {
			ask("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 407)
			ask("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", 407)
			ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 421)
			ask("CONNECT a.example:25 HTTP/1.1\r\nHost: a.example\r\n"+secret, 403)
			ask("GET http://denied.example/ HTTP/1.1\r\nHost: a.example\r\n"+secret, 403)
			ask("GET http://127.0.0.9:8000/ HTTP/1.1\r\nHost: a.example\r\n"+secret, 403)
			ask("GET http://"+self+"/ HTTP/1.1\r\nHost: a.example\r\n"+secret, 508)
		}
	}
	round(1)
	before := settledGoroutines(t, 0)
	round(150)
	if after := settledGoroutines(t, before); after > before {
		buf := make([]byte, 1<<20)
		t.Errorf("there are %d goroutines, %d before:\n%s", after, before, buf[:runtime.Stack(buf, true)])
	}
	x.settled()
	if open, _ := x.proxy.clients.Connections(); open > 0 {
		t.Errorf("%d connections of clients are counted", open)
	}
	x.finish()
}

// settledGoroutines is how many there are when there are no more than most, or
// after a while when they do not become fewer.
func settledGoroutines(t *testing.T, most int) int {
	t.Helper()
	n := runtime.NumGoroutine()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for start := time.Now(); n > most && time.Since(start) < 3*time.Second; {
		<-poll.C
		n = runtime.NumGoroutine()
		if most == 0 && time.Since(start) > time.Second {
			break
		}
	}
	return n
}
