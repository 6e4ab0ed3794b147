package recorder

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A policyError is a refusal of Options.Dial.
type policyError struct{}

func (policyError) Error() string   { return "not there" }
func (policyError) HTTPStatus() int { return http.StatusForbidden }

// Whatever keeps an origin from being reached is told by phase, class, status and
// one sentence.
func TestUnreachable(t *testing.T) {
	system := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for _, c := range []struct {
		name     string
		err      error // nil: no answer
		phase    Phase
		class    string
		status   int
		sentence string
	}{
		{"refused", system(syscall.ECONNREFUSED), PhaseConnect, "refused", 502, "cannot connect to origin.test:80: connection refused"},
		{"no route", system(syscall.EHOSTUNREACH), PhaseConnect, "unreachable", 502, "cannot connect to origin.test:80: no route to host"},
		{"no network", system(syscall.ENETUNREACH), PhaseConnect, "unreachable", 502, "cannot connect to origin.test:80: network is unreachable"},
		{"reset", system(syscall.ECONNRESET), PhaseConnect, "reset", 502, "cannot connect to origin.test:80: connection reset"},
		{"time-out of the system", system(syscall.ETIMEDOUT), PhaseConnect, "timeout", 504, "cannot connect to origin.test:80: no answer in time"},
		{"no answer", nil, PhaseConnect, "timeout", 504, "cannot connect to origin.test:80: no answer in time"},
		{"policy", policyError{}, PhaseConnect, "policy", 403, "cannot connect to origin.test:80: not there"},
		{"no such host", &net.DNSError{Err: "no such host", Name: "origin.test", IsNotFound: true}, PhaseResolve, "no-such-host", 502, "cannot find the host origin.test: no such host in the DNS"},
		{"broken DNS", &net.DNSError{Err: "SERVFAIL", Name: "origin.test"}, PhaseResolve, "dns", 502, "cannot find the host origin.test: SERVFAIL"},
		{"silent DNS", &net.DNSError{Err: "timeout", Name: "origin.test", IsTimeout: true}, PhaseResolve, "timeout", 504, "cannot find the host origin.test: the DNS server does not answer"},
		{"no descriptors", system(syscall.EMFILE), PhaseConnect, "no-descriptors", 503, "cannot connect to origin.test:80: warctee has no file descriptor left: too many open files (raise ulimit -n, or lower --max-connections)"},
		{"no descriptors in the system", system(syscall.ENFILE), PhaseConnect, "no-descriptors", 503, "cannot connect to origin.test:80: warctee has no file descriptor left: too many open files in system (raise"},
		{"no descriptors for the DNS", &net.DNSError{Err: "socket: too many open files", Name: "origin.test", UnwrapErr: system(syscall.EMFILE)}, PhaseResolve, "no-descriptors", 503, "cannot connect to origin.test:80: warctee has no file descriptor left: too many open files (raise"},
		{"something else", errors.New("odd"), PhaseConnect, "other", 502, "cannot connect to origin.test:80: odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []Failure
				r := openForTest(t, Options{
					Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						if c.err != nil {
							return nil, c.err
						}
						<-ctx.Done()
						return nil, ctx.Err()
					},
					OnFailure: func(f Failure) { told = append(told, f) },
				})
				begun := time.Now()
				_, err := fetch(r, "GET", "http://origin.test/", "")
				wantRefusal(t, err, c.phase, c.status)
				if want := "http://origin.test/: " + c.sentence; err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("the error is %v, want %s", err, want)
				}
				if waited := time.Since(begun); (c.err == nil) != (waited == time.Minute) {
					t.Errorf("it took %v", waited)
				}
				if len(told) != 1 || told[0].Phase != c.phase || told[0].Class != c.class || told[0].Status != c.status || told[0].Addr != "origin.test:80" {
					t.Errorf("told of %+v, want one failure of class %s", told, c.class)
				}
				closeForTest(t, r)
				if n := len(archive(t, r)); n != 0 {
					t.Errorf("the archive has %d records", n)
				}
			})
		})
	}
}
