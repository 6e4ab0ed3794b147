package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var errPolicy = errors.New("not allowed")

func TestDialContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := newTestServer(t, soa+"live.example. 60 IN A 127.0.0.1\n"+
		"half.example. 60 IN AAAA ::1\nhalf.example. 60 IN A 127.0.0.9\nhalf.example. 60 IN A 127.0.0.1\n"+
		"mapped.example. 60 IN AAAA ::ffff:127.0.0.1\n")
	r := newTestResolver(t, s.addr)
	dial := func(host, network string) error {
		t.Helper()
		c, err := r.DialContext(context.Background(), network, net.JoinHostPort(host, port))
		if err == nil {
			if got := c.RemoteAddr().String(); got != l.Addr().String() {
				t.Errorf("%s: connected to %s", host, got)
			}
			c.Close()
		}
		return err
	}
	for _, host := range []string{"live.example", "live.example.", "half.example", "127.0.0.1", "localhost", "mapped.example"} {
		if err := dial(host, "tcp"); err != nil {
			t.Error(err)
		}
	}

	var dns *net.DNSError
	if err := dial("nowhere.example", "tcp"); !errors.As(err, &dns) || !dns.IsNotFound || err.Error() != "dial tcp: lookup nowhere.example: no such host" {
		t.Errorf("a host that does not exist: %v", err)
	}
	if err := dial("live.example", "tcp6"); err == nil || !strings.Contains(err.Error(), "no address for tcp6") {
		t.Errorf("a host without IPv6 over tcp6: %v", err)
	}
	if _, err := r.DialContext(context.Background(), "tcp", "live.example"); err == nil || !strings.Contains(err.Error(), "missing port") {
		t.Errorf("without a port: %v", err)
	}
	l.Close()
	if err := dial("half.example", "tcp"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.DialContext(ctx, "tcp", "127.0.0.1:"+port); !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("cancelled: %v", err)
	}
}

func TestControl(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := newTestServer(t, soa+"two.example. 60 IN A 127.0.0.9\ntwo.example. 60 IN A 127.0.0.1\n")
	r := newTestResolver(t, s.addr)
	var seen []string
	refuse := func(string) bool { return true }
	r.Control = func(host string, addr netip.AddrPort) error {
		seen = append(seen, host+" "+addr.String())
		if refuse(addr.Addr().String()) {
			return errPolicy
		}
		return nil
	}
	both := []string{"two.example 127.0.0.9:" + port, "two.example 127.0.0.1:" + port}
	_, err = r.DialContext(context.Background(), "tcp", "two.example:"+port)
	if !errors.Is(err, errPolicy) || !strings.HasSuffix(err.Error(), ": not allowed") {
		t.Errorf("the error is %v", err)
	}
	if !slices.Equal(seen, both) {
		t.Errorf("Control saw %q, want %q", seen, both)
	}
	// One that is allowed is used, wherever it stands; one that fails is not
	// the reason.
	for _, refused := range []string{"127.0.0.9", "127.0.0.1"} {
		seen, refuse = nil, func(addr string) bool { return addr == refused }
		c, err := r.DialContext(context.Background(), "tcp", "two.example:"+port)
		if !slices.Equal(seen, both) {
			t.Errorf("Control saw %q, want %q", seen, both)
		}
		if refused == "127.0.0.1" {
			if !errors.Is(err, errPolicy) {
				t.Errorf("one address is refused, nobody listens on the other: %v", err)
			}
			continue
		}
		if err != nil || c.RemoteAddr().String() != l.Addr().String() {
			t.Fatalf("one address is refused: %v, %v", c, err)
		}
		c.Close()
	}
	if n := len(r.told()); n != 1 {
		t.Errorf("OnAnswer was called %d times: what is refused was looked up all the same", n)
	}
}

func TestInTurn(t *testing.T) {
	addrs := []netip.Addr{}
	for _, text := range strings.Fields("192.0.2.1 192.0.2.2 192.0.2.3 2001:db8::1 ::ffff:192.0.2.4 2001:db8::2") {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	for network, want := range map[string]string{
		"tcp":  "2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2 192.0.2.3 ::ffff:192.0.2.4",
		"tcp4": "192.0.2.1 192.0.2.2 192.0.2.3 ::ffff:192.0.2.4",
		"tcp6": "2001:db8::1 2001:db8::2",
	} {
		var got []string
		for _, addr := range inTurn(addrs, network) {
			got = append(got, addr.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", network, got, want)
		}
	}
	if n := len(inTurn(make([]netip.Addr, 100), "tcp")); n != maxTried {
		t.Errorf("%d of 100 addresses are tried", n)
	}
}

// A testConn takes down that it was closed.
type testConn struct {
	net.Conn
	closed bool
}

func (c *testConn) Close() error { c.closed = true; return nil }

func TestRace(t *testing.T) {
	const never = 1000 * time.Hour
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	noRoute := &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}
	type attempt struct {
		after time.Duration // from its own start
		err   error
	}
	ms := time.Millisecond
	for name, test := range map[string]struct {
		attempts []attempt
		deadline time.Duration // 0: none
		winner   int           // -1: none
		err      error
		took     time.Duration
		started  int
	}{
		"the first":                  {[]attempt{{after: 200 * ms}, {}}, 0, 0, nil, 200 * ms, 1},
		"a dead address":             {[]attempt{{after: never}, {after: 10 * ms}}, 0, 1, nil, 260 * ms, 2},
		"two dead addresses":         {[]attempt{{after: never}, {after: never}, {after: 10 * ms}, {}}, 0, 2, nil, 510 * ms, 3},
		"a slow address wins":        {[]attempt{{after: 300 * ms}, {after: 100 * ms}}, 0, 0, nil, 300 * ms, 2},
		"a refused address":          {[]attempt{{10 * ms, refused}, {after: 20 * ms}, {}}, 0, 1, nil, 30 * ms, 2},
		"the delay begins anew":      {[]attempt{{200 * ms, refused}, {after: never}, {}}, 0, 2, nil, 450 * ms, 3},
		"all fail":                   {[]attempt{{10 * ms, refused}, {10 * ms, errPolicy}}, 0, -1, refused, 20 * ms, 2},
		"no IPv6":                    {[]attempt{{0, noRoute}, {10 * ms, refused}}, 0, -1, refused, 10 * ms, 2},
		"no network":                 {[]attempt{{0, noRoute}, {0, noRoute}}, 0, -1, noRoute, 0, 2},
		"a refusal is passed over":   {[]attempt{{after: never}, {0, refusal{errPolicy}}, {}}, 0, 2, nil, 250 * ms, 3},
		"refused and dead":           {[]attempt{{10 * ms, refused}, {0, refusal{errPolicy}}, {0, refused}}, 0, -1, errPolicy, 10 * ms, 3},
		"time is up":                 {[]attempt{{after: never}, {after: never}}, time.Second, -1, context.DeadlineExceeded, time.Second, 2},
		"time is up before the next": {[]attempt{{after: never}, {after: never}}, 100 * ms, -1, context.DeadlineExceeded, 100 * ms, 2},
		"two are there at once":      {[]attempt{{after: 350 * ms}, {after: 100 * ms}}, 0, -2, nil, 350 * ms, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conns := make([]*testConn, len(test.attempts))
				var started atomic.Int32
				dial := func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
					started.Add(1)
					i := int(addr.As4()[3])
					a := test.attempts[i]
					select {
					case <-time.After(a.after):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if a.err != nil {
						return nil, a.err
					}
					conns[i] = &testConn{}
					return conns[i], nil
				}
				var addrs []netip.Addr
				for i := range test.attempts {
					addrs = append(addrs, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
				}
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				begin := time.Now()
				got, err := race(ctx, addrs, dial)
				if took := time.Since(begin); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				if !errors.Is(err, test.err) || err != nil && got != nil {
					t.Errorf("conn %v, error %v, want %v", got, err, test.err)
				}
				synctest.Wait() // for the losers
				if got := int(started.Load()); got != test.started {
					t.Errorf("%d attempts, want %d", got, test.started)
				}
				for i, c := range conns {
					if c == nil {
						continue
					}
					if won := got == c; won == c.closed || test.winner >= 0 && won != (i == test.winner) {
						t.Errorf("connection %d: won is %t, closed is %t", i, won, c.closed)
					}
				}
				if test.winner >= 0 && got == nil {
					t.Error("nobody has won")
				}
			})
		})
	}
}
