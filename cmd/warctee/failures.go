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
	"github.com/warctee/warctee/rotate"
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
	unlogged    atomic.Int64 // what should have had a line, and has none

	stayFree func(total uint64) int64 // how much of the disk has to stay free; nil: nothing
	free     func(dir string) (free, total uint64, err error)

	mu     sync.Mutex // guards the rest
	file   *os.File
	closed bool // the file is opened for one line at a time
	broken bool // it has been said that it cannot be written
	thin   thinner
	room   room
}

// A failureLine is a line of it; docs/failures.md describes the fields.
type failureLine struct {
	Time      lineTime `json:"time"`
	Method    string   `json:"method,omitempty"`
	URL       string   `json:"url,omitempty"`
	URLLength int      `json:"url_length,omitempty"` // octets, where URL is cut
	Phase     string   `json:"phase"`
	Class     string   `json:"class"`
	Status    int      `json:"status,omitempty"`
	Address   string   `json:"address,omitempty"`
	Bytes     int64    `json:"bytes"`
	Error     string   `json:"error,omitempty"`
	Repeated  int64    `json:"repeated,omitempty"`
}

func newFailureLog(path string, log *slog.Logger) *failureLog {
	return &failureLog{path: path, log: log, free: rotate.Free, refused: proxy.NewDenials(log, "a request was refused because of where it goes; more are told of once a minute")}
}

// add adds a line. What a client can cause any number of, without an exchange that
// went to an origin, is thinned out.
func (l *failureLog) add(line failureLine, thinned bool) {
	if line.Class == classPolicy {
		defer l.refused.Add("method", line.Method, "address", shortened(line.Address), "why", shortened(line.Error))
	}
	if l.path == "" {
		return
	}
	line.shorten()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !thinned || l.thin.takes(line, l.tellRepeated) {
		l.addLocked(line, thinned)
	}
}

// tellRepeated adds the lines about what had none in the last minute.
func (l *failureLog) tellRepeated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.thin.end() {
		l.addLocked(line, true)
	}
}

// addLocked adds a line. Those about what is thinned leave alone all that has to
// stay free on the disk, the others half of it, as bodies do: what went to an origin
// comes first.
func (l *failureLog) addLocked(line failureLine, thinned bool) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // of URLs with & too one wants to copy
	err := e.Encode(line)
	if err == nil {
		text := []byte(harmlessJSON(b.String()))
		if err = l.room.take(l, int64(len(text)), thinned); err == nil {
			err = l.write(text)
		}
	}
	if err != nil {
		l.unlogged.Add(max(1, line.Repeated))
		if !l.broken {
			l.log.Error("cannot write the failure log (--failure-log): it lacks what fails from now on, until it can be written again; /status counts it", "error", err)
		}
		l.broken = true
	} else if thinned || l.room.enough() {
		l.broken = false
	}
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
	if l.closed {
		err = errors.Join(err, l.file.Close())
		l.file = nil
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

// close closes the file. What fails later opens it again, for its line.
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
		defer l.notReached.Add(1)
	}
	refused := f.Class == classPolicy || f.Phase == recorder.PhaseRequest && f.Addr == ""
	l.add(failureLine{
		Time:    lineTime{f.Time},
		Method:  f.Method,
		URL:     f.URL,
		Phase:   string(f.Phase),
		Class:   f.Class,
		Status:  f.Status,
		Address: f.Addr,
		Error:   f.Err.Error(),
	}, refused)
}

// client adds what came from a client and is no exchange.
func (l *failureLog) client(f mitm.Failure) {
	if f.Class == mitm.ClassBadRequest {
		defer l.badRequests.Add(1)
	}
	line := failureLine{Time: lineTime{f.Time}, Phase: "client", Class: f.Class, Status: f.Status, Address: f.Authority, Bytes: f.Bytes}
	if f.Err != nil {
		line.Error = f.Err.Error()
	}
	if isPolicy(f.Err) {
		line.Class = classPolicy
	}
	l.add(line, true)
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
		Error:  reason,
	}
	line.URL, line.Address = targetOf(r)
	l.add(line, true)
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
