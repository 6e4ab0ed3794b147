package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/recorder"
)

// A failureLog is the file of JSON lines with everything that gave no response
// record. It is made with the first line.
type failureLog struct {
	path string // "" for none
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
}

// A failureLine is a line of it; docs/failures.md describes the fields.
type failureLine struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method,omitempty"`
	URL     string    `json:"url,omitempty"`
	Phase   string    `json:"phase"`
	Class   string    `json:"class"`
	Status  int       `json:"status,omitempty"`
	Address string    `json:"address,omitempty"`
	Bytes   int64     `json:"bytes"`
	Error   string    `json:"error,omitempty"`
}

func (l *failureLog) add(line failureLine) {
	if l.path == "" {
		return
	}
	line.Time = line.Time.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(line)
	if err != nil {
		l.log.Error("cannot write the failure log", "file", l.path, "error", err)
		return
	}
	if err := l.open(); err != nil {
		l.log.Error("cannot open the failure log (--failure-log)", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(text, '\n')); err != nil {
		l.log.Error("cannot write the failure log", "error", err)
	}
}

// open makes the file, unless it is open.
func (l *failureLog) open() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	return err
}

func (l *failureLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// exchange adds an exchange that gave no response.
func (l *failureLog) exchange(f recorder.Failure) {
	l.add(failureLine{
		Time:    f.Time,
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
	line := failureLine{Time: f.Time, Phase: "client", Class: f.Class, Status: f.Status, Address: f.Authority, Bytes: f.Bytes}
	if f.Err != nil {
		line.Error = f.Err.Error()
	}
	l.add(line)
}

// refusal adds a request that the proxy refused.
func (l *failureLog) refusal(r *http.Request, status int, reason string) {
	l.add(failureLine{
		Time:    time.Now(),
		Method:  r.Method,
		URL:     r.URL.Redacted(),
		Phase:   "request",
		Class:   "not-forwarded",
		Status:  status,
		Address: r.Host,
		Error:   reason,
	})
}
