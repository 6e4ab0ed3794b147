package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/proxy"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/warc"
)

// A failureLog is the file of JSON lines with everything that gave no response
// record. It is made with the first line.
type failureLog struct {
	path string // "" for none
	log  *slog.Logger

	refused    *proxy.Denials // where the proxy does not connect to (class policy)
	notReached atomic.Int64   // of those: exchanges, which the recorder has counted as failures

	badRequests atomic.Int64

	mu     sync.Mutex // guards the rest
	file   *os.File
	closed bool // nothing is written any more
	broken bool // it has been said that it cannot be written
	thin   thinner
}

// A failureLine is a line of it; docs/failures.md describes the fields.
type failureLine struct {
	Time     lineTime `json:"time"`
	Method   string   `json:"method,omitempty"`
	URL      string   `json:"url,omitempty"`
	Phase    string   `json:"phase"`
	Class    string   `json:"class"`
	Status   int      `json:"status,omitempty"`
	Address  string   `json:"address,omitempty"`
	Bytes    int64    `json:"bytes"`
	Error    string   `json:"error,omitempty"`
	Repeated int64    `json:"repeated,omitempty"`
}

func newFailureLog(path string, log *slog.Logger) *failureLog {
	return &failureLog{path: path, log: log, refused: proxy.NewDenials(log, "a request was refused because of where it goes; more are told of once a minute")}
}

func (l *failureLog) add(line failureLine) {
	if line.Class == classPolicy {
		l.refused.Add("method", line.Method, "address", line.Address, "why", line.Error)
	}
	if l.path == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		l.log.Warn("a failure came after the end: it is not in the failure log", "class", line.Class, "error", line.Error)
	case l.thin.takes(line, l.tellRepeated):
		l.addLocked(line)
	}
}

// tellRepeated adds the lines about what had none in the last minute.
func (l *failureLog) tellRepeated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.thin.end() {
		l.addLocked(line)
	}
}

func (l *failureLog) addLocked(line failureLine) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // of URLs with & too one wants to copy
	if err := e.Encode(line); err != nil {
		l.log.Error("cannot write the failure log", "file", l.path, "error", err)
		return
	}
	err := l.write([]byte(harmlessJSON(b.String())))
	if err != nil && !l.broken {
		l.log.Error("cannot write the failure log (--failure-log): it lacks what fails from now on, until it can be written again", "error", err)
	}
	l.broken = err != nil
}

// write adds a line, or nothing.
func (l *failureLog) write(line []byte) error {
	if l.file != nil && !l.isThere() {
		l.file.Close() // somebody has moved it away: a new one
		l.file = nil
	}
	if err := l.openLocked(); err != nil {
		return err
	}
	n, err := l.file.Write(line)
	if err != nil && n > 0 {
		if info, err := l.file.Stat(); err == nil {
			l.file.Truncate(info.Size() - int64(n))
		}
	}
	return err
}

func (l *failureLog) isThere() bool {
	there, err := os.Stat(l.path)
	ours, oursErr := l.file.Stat()
	return err == nil && oursErr == nil && os.SameFile(there, ours)
}

// open makes the file, unless it is open.
func (l *failureLog) open() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked()
}

func (l *failureLog) openLocked() (err error) {
	if l.file == nil {
		l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	return err
}

func (l *failureLog) close() error {
	l.tellRepeated()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// exchange adds an exchange that gave no response.
func (l *failureLog) exchange(f recorder.Failure) {
	if f.Class == classPolicy {
		l.notReached.Add(1)
	}
	l.add(failureLine{
		Time:    lineTime{f.Time},
		Method:  f.Method,
		URL:     f.URL,
		Phase:   string(f.Phase),
		Class:   f.Class,
		Status:  f.Status,
		Address: f.Addr,
		Error:   f.Err.Error(),
	})
}

// client adds what came from a client and is no exchange.
func (l *failureLog) client(f mitm.Failure) {
	if f.Class == mitm.ClassBadRequest {
		l.badRequests.Add(1)
	}
	line := failureLine{Time: lineTime{f.Time}, Phase: "client", Class: f.Class, Status: f.Status, Address: f.Authority, Bytes: f.Bytes}
	if f.Err != nil {
		line.Error = f.Err.Error()
	}
	if isPolicy(f.Err) {
		line.Class = classPolicy
	}
	l.add(line)
}

// isPolicy reports whether err is a refusal by the proxy to connect somewhere.
func isPolicy(err error) bool {
	var policy interface{ HTTPStatus() int }
	return errors.As(err, &policy)
}

// refusal adds a request that the proxy refused.
func (l *failureLog) refusal(r *http.Request, class string, status int, reason string) {
	line := failureLine{
		Time:   lineTime{time.Now()},
		Method: r.Method,
		Phase:  "request",
		Class:  class,
		Status: status,
		Error:  shortened(reason),
	}
	url, address := targetOf(r)
	line.URL, line.Address = shortened(url), shortened(address)
	l.add(line)
}

// maxRefused bounds what the log says of a request that was refused: nothing
// else does, and such a request costs its client nothing.
const maxRefused = 2 << 10

func shortened(s string) string {
	const mark = "…"
	if len(s) <= maxRefused {
		return s
	}
	return strings.ToValidUTF8(s[:maxRefused-len(mark)], "") + mark
}

// targetOf is what a request that was refused is about: its URL, unless it is a
// CONNECT, and the host and port that it would have been sent to.
func targetOf(r *http.Request) (uri, address string) {
	u, authority := *r.URL, r.URL.Host
	if t := mitm.TunnelOf(r.Context()); t != nil {
		authority = t.Authority
		if u.Host == "" {
			u.Scheme, u.Host = "http", r.Host
			if t.TLS {
				u.Scheme = "https"
			}
		}
	}
	if r.Method != http.MethodConnect {
		uri = u.Redacted()
	}
	if _, _, err := net.SplitHostPort(authority); err == nil || authority == "" {
		return uri, authority
	}
	if port, known := map[string]string{"http": "80", "https": "443"}[u.Scheme]; known {
		return uri, net.JoinHostPort(strings.Trim(authority, "[]"), port)
	}
	return uri, ""
}

const classPolicy = "policy" // see docs/failures.md

// A lineTime is written as a WARC-Date is.
type lineTime struct{ time.Time }

func (t lineTime) MarshalJSON() ([]byte, error) {
	return []byte(`"` + warc.FormatDate(t.Time, warc.V1_1) + `"`), nil
}
