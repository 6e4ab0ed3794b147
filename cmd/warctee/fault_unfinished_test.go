//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The crowd of TestUnfinished, and what the program may take with it.
const (
	unfinishedHeads      = 5500
	unfinishedHandshakes = 1000
	unfinishedBytes      = 120_000 // of a head
	unfinishedMemory     = 300 << 20
)

// TestUnfinished brings clients that begin to say much and do not finish: heads of
// requests, and TLS handshakes. Nobody has had to say who they are. The memory that
// the program takes stays bounded, and others are still served.
func TestUnfinished(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	if n := openFiles(); n < 10_000 {
		t.Skipf("ulimit -n is %d, this needs 10000", n)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X-Long"))) }))
	defer origin.Close()
	binary := filepath.Join(t.TempDir(), "warctee")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	// The clients have to wait for each other to finish.
	cmd := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "warcs"), "--ca-dir", filepath.Join(dir, "ca"),
		"--max-connections", "8000", "--max-connections-per-client", "8000", "--spool-memory", "64MiB", "--header-timeout", "10m", "--log-level", "error", "--failure-log", "off")
	cmd.Path, cmd.Args[0] = binary, binary
	p := startCommand(t, cmd)
	pid := p.status().PID
	before := memoryOf(t, pid, "VmRSS")

	head := []byte("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + strings.Repeat("x", unfinishedBytes))
	head = append(head[:60_000:60_000], bytes.Repeat([]byte("\r\nX: "+strings.Repeat("y", 1000)), 60)...)
	hello := append([]byte{1, 0, 0xff, 0}, bytes.Repeat([]byte{3}, 60_000)...) // a ClientHello of 65,280 bytes
	var handshake []byte
	for len(hello) > 0 {
		n := min(len(hello), 16_000)
		handshake = append(append(handshake, 0x16, 3, 1, byte(n>>8), byte(n)), hello[:n]...)
		hello = hello[n:]
	}
	refused := 0
	for i := range unfinishedHeads + unfinishedHandshakes {
		from := fmt.Sprintf("127.0.1.%d", 1+i%20)
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", p.proxy.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		said := head
		if i >= unfinishedHeads {
			if _, err := io.WriteString(c, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
				t.Fatal(err)
			}
			said = handshake
		}
		if _, err := c.Write(said); err != nil {
			refused++ // and closed already
		}
	}
	// When this client has been served the program has read what the others sent.
	for _, length := range []int{10, 30_000} {
		r, err := http.NewRequest("GET", origin.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("l", length))
		resp, err := p.client(false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != strconv.Itoa(length) {
			t.Errorf("an ordinary client got status %d: %q", resp.StatusCode, body)
		}
	}
	most := memoryOf(t, pid, "VmHWM")
	t.Logf("%d clients that do not finish: %d MB before, %d MB at most, %d connections left, %d writes failed", unfinishedHeads+unfinishedHandshakes, before>>20, most>>20, p.status().Connections, refused)
	if most > unfinishedMemory {
		t.Errorf("the program took %d MB, want at most %d", most>>20, unfinishedMemory>>20)
	}
	p.stop()
}

// memoryOf is a line of /proc/PID/status, in bytes.
func memoryOf(t testing.TB, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kB << 10
}
