package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A response that a client was given and that is not in the archive makes the
// program end with the status that stands for that.
func TestExitStatusOfLostResponses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"nothing is lost": exitOK, "the directory is gone": exitIncomplete} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "warcs")
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			read, stderr := io.Pipe()
			status := make(chan int, 1)
			go func() { // ends with ctx
				status <- run(ctx, []string{"record", "--listen", "127.0.0.1:0", "--dir", dir, "--ca-dir", filepath.Join(t.TempDir(), "ca"), "--dedup", "memory:"}, io.Discard, stderr)
				stderr.Close()
			}()
			lines := bufio.NewScanner(read)
			for lines.Scan() {
				t.Log(lines.Text())
				m := regexp.MustCompile(`recording http://(\S+)`).FindStringSubmatch(lines.Text())
				if m == nil {
					continue
				}
				if want != exitOK {
					if err := os.RemoveAll(dir); err != nil {
						t.Error(err)
					}
				}
				go func() { // ends with the program
					defer stop()
					fetchOnce(t, m[1])
				}()
			}
			select {
			case got := <-status:
				if got != want {
					t.Errorf("the program ended with %d, want %d", got, want)
				}
			case <-time.After(patience):
				t.Fatal("the program does not end")
			}
		})
	}
}

// fetchOnce makes one exchange through a proxy.
func fetchOnce(t *testing.T, proxy string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "given") })) // ends with l
	c, err := net.DialTimeout("tcp", proxy, patience)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", l.Addr(), l.Addr())
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "given" || err != nil {
		t.Errorf("the client got %q, %v", b, err)
	}
}
