package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/recorder"
)

// A failureLog is the file of JSON lines with everything that gave no response
// record. It is made with the first line.
type failureLog struct {
	path string // "" for none
	log  *slog.Logger

	mu     sync.Mutex
	file   *os.File
	broken bool // it has been said that it cannot be written
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
	text = escapeUnprintable(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.write(append(text, '\n'))
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

// escapeUnprintable escapes in JSON what encoding/json leaves as it is, though
// it may do something to a terminal.
func escapeUnprintable(text []byte) []byte {
	if !bytes.ContainsFunc(text, isUnprintable) {
		return text
	}
	var b []byte
	for _, c := range string(text) {
		if !isUnprintable(c) {
			b = utf8.AppendRune(b, c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}

func isUnprintable(c rune) bool { return !unicode.IsPrint(c) }

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
	if isPolicy(f.Err) {
		line.Class = "policy"
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
	l.add(failureLine{
		Time:    time.Now(),
		Method:  r.Method,
		URL:     r.URL.Redacted(),
		Phase:   "request",
		Class:   class,
		Status:  status,
		Address: r.Host,
		Error:   reason,
	})
}
