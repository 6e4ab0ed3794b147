package recorder

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// seen is what an origin got of the requests, as bytes, by connection.
type seen struct {
	mu       sync.Mutex
	requests []string
	conns    []int
}

func (s *seen) add(conn int, raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, raw)
	s.conns = append(s.conns, conn)
}

// of returns the numbers of the connections on which a request came.
func (s *seen) of(line string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var conns []int
	for i, raw := range s.requests {
		if strings.HasPrefix(raw, line+" ") {
			conns = append(conns, s.conns[i])
		}
	}
	return conns
}

// readRaw reads one request and returns its bytes.
func readRaw(in *bufio.Reader) (string, error) {
	var raw bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(oneByOne{in}, &raw), 16))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return raw.String(), err
}

// oneByOne keeps a buffered reader behind it from reading past a message.
type oneByOne struct{ in *bufio.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.in.Read(p[:min(1, len(p))]) }

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A scripted origin answers the requests of each connection with the replies
// of its script and closes it then. The last script goes on for all further
// connections.
func scripted(t *testing.T, s *seen, scripts ...[]string) func(context.Context, string, string) (net.Conn, error) {
	return originConns(t, func(n int, c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for _, reply := range scripts[min(n, len(scripts)-1)] {
			raw, err := readRaw(in)
			if err != nil {
				return
			}
			s.add(n, raw)
			if reply == "" {
				return // a pipe tells an empty write to its reader
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	})
}

// A request on a kept-alive connection that is closed instead of answered.
func TestRetryOnStaleConnection(t *testing.T) {
	for _, test := range []struct {
		method, body string
		retried      bool
	}{
		{"GET", "", true},
		{"HEAD", "", true},
		{"OPTIONS", "", true},
		{"DELETE", "", true},
		{"PUT", "", true},
		{"PUT", "body", false}, // the body is gone
		{"POST", "body", false},
		{"POST", "", false},
		{"PATCH", "body", false},
		{"FANCY", "", false}, // unknown methods may do anything
	} {
		t.Run(test.method+" "+test.body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s seen
				ok := okReply
				if test.method == "HEAD" {
					ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
				}
				r := openForTest(t, Options{Dial: scripted(t, &s, []string{okReply, ""}, []string{ok})})
				mustFetch(t, r, "http://origin/warm")
				synctest.Wait()
				_, err := fetch(r, test.method, "http://origin/x", test.body)
				want := []int{0}
				if test.retried {
					want = []int{0, 1}
				} else {
					wantRefusal(t, err, PhaseReply, http.StatusBadGateway)
				}
				if test.retried && err != nil {
					t.Error(err)
				}
				if got := s.of(test.method + " /x"); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the request came on the connections %v, want %v", got, want)
				}
				closeForTest(t, r)
				records := archive(t, r)
				if n := count(records, "request"); n != len(want) { // with the first one
					t.Errorf("%d requests are recorded, want %d", n, len(want))
				}
				if test.retried {
					request := theOne(t, records, "request", "http://origin/x")
					if got, want := block(t, request), s.requests[len(s.requests)-1]; got != want {
						t.Errorf("recorded is %q, the origin got %q", got, want)
					}
				}
			})
		})
	}
}

// Only a connection that was closed without a word is tried again, and only
// when it had been used before.
func TestNoRetry(t *testing.T) {
	for _, test := range []struct {
		name    string
		scripts [][]string
		status  int
		conns   []int
	}{
		{"fresh connection closed", [][]string{{okReply}, {""}}, 502, []int{1}},
		{"reply broken off", [][]string{{okReply, "HTTP/1.1 200"}, {okReply}}, 502, []int{0}},
		{"garbage", [][]string{{okReply, "garbage\r\n\r\n"}, {okReply}}, 502, []int{0}},
		{"broken off after an interim response", [][]string{{okReply, "HTTP/1.1 103 Early Hints\r\n\r\n"}, {okReply}}, 502, []int{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s seen
				r := openForTest(t, Options{Dial: scripted(t, &s, test.scripts...)})
				mustFetch(t, r, "http://origin/warm")
				synctest.Wait()
				_, err := fetch(r, "GET", "http://origin/x", "")
				wantRefusal(t, err, PhaseReply, test.status)
				if got := s.of("GET /x"); fmt.Sprint(got) != fmt.Sprint(test.conns) {
					t.Errorf("the request came on the connections %v, want %v", got, test.conns)
				}
				closeForTest(t, r)
				archive(t, r)
			})
		})
	}
}

// A kept-alive connection that stays silent is not tried again: the origin
// may be at work.
func TestNoRetryAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		dial := originConns(t, func(n int, c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			raw, _ := readRaw(in)
			s.add(n, raw)
			io.WriteString(c, okReply)
			raw, _ = readRaw(in)
			s.add(n, raw)
			io.Copy(io.Discard, in) // says nothing more
		})
		r := openForTest(t, Options{Dial: dial, Timeout: 7 * time.Second})
		mustFetch(t, r, "http://origin/warm")
		synctest.Wait()
		start := time.Now()
		_, err := fetch(r, "GET", "http://origin/x", "")
		wantRefusal(t, err, PhaseReply, http.StatusGatewayTimeout)
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("it took %s, want 7 s", d)
		}
		if got := s.of("GET /x"); len(got) != 1 {
			t.Errorf("the request came %d times", len(got))
		}
		closeForTest(t, r)
	})
}

// However many kept-alive connections have gone stale, the last attempt is
// made on a new one.
func TestRetryEndsOnNewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		gate := make(chan struct{})
		dial := originConns(t, func(n int, c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			raw, err := readRaw(in)
			if err != nil {
				return
			}
			s.add(n, raw)
			<-gate
			io.WriteString(c, okReply)
			if raw, err = readRaw(in); err == nil {
				s.add(n, raw) // and closes
			}
		})
		r := openForTest(t, Options{Dial: dial})
		const warm = 5
		var all []<-chan result
		for range warm {
			all = append(all, fetchAside(r, "http://origin/warm"))
		}
		synctest.Wait()
		close(gate)
		for _, done := range all {
			if got := <-done; got.err != nil {
				t.Fatal(got.err)
			}
		}
		synctest.Wait()
		mustFetch(t, r, "http://origin/x")
		got := s.of("GET /x")
		if len(got) != maxAttempts || got[maxAttempts-1] != warm {
			t.Errorf("the request came on the connections %v, want %d, the last of them the new one, %d", got, maxAttempts, warm)
		}
		closeForTest(t, r)
		if n := count(archive(t, r), "response"); n != warm+1 {
			t.Errorf("%d responses are recorded, want %d", n, warm+1)
		}
	})
}

// A connection that its origin closed while it was idle is not used, whatever
// the method; and a POST only goes out on one that was in use just before.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		r := openForTest(t, Options{Dial: scripted(t, &s, []string{okReply}, []string{okReply, okReply, okReply})})
		post := func(path string, want int) {
			t.Helper()
			if _, err := fetch(r, "POST", "http://origin"+path, "body"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := s.of("POST " + path); len(got) != 1 || got[0] != want {
				t.Errorf("%s came on the connections %v, want %d", path, got, want)
			}
		}
		mustFetch(t, r, "http://origin/warm") // the origin closes after it
		synctest.Wait()
		post("/closed", 1)
		time.Sleep(freshIdle)
		post("/fresh", 1)
		time.Sleep(freshIdle + time.Millisecond)
		post("/older", 2)
		closeForTest(t, r)
		archive(t, r)
	})
}

// A lateContext calls taken when the exchange has its connection and has not
// used it yet: the cancelling of what was derived from the context for the
// dialling tells.
type lateContext struct {
	context.Context
	never chan struct{}
	taken func()
}

func (c *lateContext) Done() <-chan struct{} { return c.never }

func (c *lateContext) AfterFunc(func()) func() bool {
	return func() bool {
		if taken := c.taken; taken != nil {
			c.taken = nil
			taken()
		}
		return true
	}
}

// A connection that is closed before anything was written: a POST too is sent
// on another one.
func TestRetryOfWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		closeFirst := make(chan struct{})
		dial := originConns(t, func(n int, c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			raw, err := readRaw(in)
			if err != nil {
				return
			}
			s.add(n, raw)
			io.WriteString(c, okReply)
			if n == 0 {
				<-closeFirst
			}
		})
		r := openForTest(t, Options{Dial: dial})
		mustFetch(t, r, "http://origin/warm")
		synctest.Wait()
		ctx := &lateContext{Context: context.Background(), never: make(chan struct{})}
		ctx.taken = func() {
			close(closeFirst)
			synctest.Wait()
		}
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://origin/x", strings.NewReader("the body"))
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if ctx.taken != nil {
			t.Fatal("the connection was not closed in time for this test")
		}
		if got := s.of("POST /x"); fmt.Sprint(got) != "[1]" {
			t.Errorf("the request came on the connections %v, want [1]", got)
		}
		closeForTest(t, r)
		request := theOne(t, archive(t, r), "request", "http://origin/x")
		if got := block(t, request); got != s.requests[1] {
			t.Errorf("recorded is %q, the origin got %q", got, s.requests[1])
		}
	})
}
