package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/warctee/warctee/certs"
	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/proxy"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/resolve"
)

// A server is the running proxy: the parts of the program, put together.
type server struct {
	authority *certs.Authority
	failures  *failureLog
	users     *proxy.Users   // nil: everybody
	allowed   *proxy.Clients // nil: all addresses are
	places    *proxy.Destinations
	recorder  *recorder.Recorder
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	tunnels   *mitm.Interceptor
	listener  net.Listener
	clients   *mitm.Listener // on top of listener
	http      *http.Server
	started   time.Time
	failed    chan error // when the server stops by itself
}

// start opens everything. When ctx is done before that it gives up.
func (f *recordFlags) start(ctx context.Context, log *slog.Logger) (*server, error) {
	if err := errors.Join(f.check(), f.defaultCADir()); err != nil {
		return nil, err
	}
	s := &server{started: time.Now(), failed: make(chan error, 1), failures: newFailureLog(f.failureLogPath(), log)}
	var err error
	if s.users, err = f.access.users(log); err != nil {
		return nil, err
	}
	if s.authority, err = certs.Open(f.caDir); err != nil {
		return nil, err
	}
	s.authority.KeepLeaves(f.limits.leafCache)
	warnOfExpiry(log, s.authority.Certificate())
	// Before the archive: a second start must not recover what it cannot
	// serve.
	if s.listener, err = net.Listen("tcp", f.listen); err != nil {
		return nil, fmt.Errorf("cannot listen on %s (another address: --listen): %w", f.listen, err)
	}
	if err := s.openRecorder(ctx, f, log); err != nil {
		s.listener.Close()
		return nil, err
	}
	s.serve(f, log)
	return s, nil
}

// openRecorder opens the archive.
func (s *server) openRecorder(ctx context.Context, f *recordFlags, log *slog.Logger) error {
	o, err := f.recorderOptions(log)
	if err != nil {
		return err
	}
	s.places = f.access.destinations(s.listener.Addr())
	resolver := &resolve.Resolver{Server: f.resolver, CacheSize: f.limits.dnsCache, Control: s.places.Control, Logger: log}
	if !f.noDNS {
		resolver.OnAnswer = func(a resolve.Answer) {
			s.recorder.AddResource(recorder.Resource{URI: a.URI(), ContentType: "text/dns", Date: a.When, Addr: a.Server.Addr(), Block: a.Block()})
		}
	}
	s.failures.stayFree = o.StayFree
	s.dial, o.Dial = resolver.DialContext, resolver.DialContext
	o.OnFailure = s.failures.exchange
	if s.recorder, err = recorder.OpenContext(ctx, o); err != nil {
		return fmt.Errorf("cannot record into %s (--dir): %w", f.dir, err)
	}
	if f.failureLog == "" || f.failureLog == "off" {
		return nil
	}
	if err := s.failures.open(); err != nil { // rather now than with the first failure
		return errors.Join(fmt.Errorf("cannot write the failure log (--failure-log): %w", err), s.recorder.Close(context.Background()))
	}
	return nil
}

// serve starts the proxy.
func (s *server) serve(f *recordFlags, log *slog.Logger) {
	s.tunnels = &mitm.Interceptor{GetCertificate: s.authority.Leaf, Dial: s.dial, OnFailure: s.failures.client, Limits: f.limits.clients(), Logger: log}
	handler := proxy.New(proxy.Options{
		Transport: s.recorder,
		Intercept: s.tunnels.ServeTunnel,
		Tunnel: func(ctx context.Context) (string, bool, bool) {
			t := mitm.TunnelOf(ctx)
			if t == nil {
				return "", false, false
			}
			return t.Authority, t.TLS, true
		},
		Context: func(ctx context.Context, c proxy.Client) context.Context {
			ctx = recorder.WithClient(ctx, clientOf(ctx, c))
			if head := mitm.RequestOf(ctx); head != nil {
				return recorder.WithClientHead(ctx, head)
			}
			return ctx
		},
		Local: proxy.Pages{
			CACertificate: s.authority.CertPEM(),
			Status:        func() any { return s.status(f) },
			State:         func() proxy.State { return s.status(f).page() },
			Version:       fullVersion(),
			Dir:           f.dir,
			Listen:        s.listener.Addr(),
			Host:          listenHost(f.listen),
			Users:         s.users,
		}.Handler(),
		Users:        s.users,
		Destinations: s.places,
		OnRefusal:    s.failures.refusal,
		Timeout:      f.timeout,
		StallTimeout: f.limits.stallTimeout,
		Logger:       log,
	})
	s.tunnels.Handler = handler
	s.http = mitm.NewServer(handler, f.limits.clients(), s.badRequest, log)
	s.clients = mitm.NewListener(s.listener, f.limits.clients(), log)
	if addrs := f.access.allowClients.values; len(addrs) > 0 {
		s.allowed = proxy.AllowClients(addrs, log)
		s.clients.Refuse = s.allowed.Refuse
	}
	go func() { // ended by stop
		if err := s.http.Serve(s.clients); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
}

// clientOf tells the recorder about a client. Only over HTTP/2 are there many
// requests in one tunnel at once.
func clientOf(ctx context.Context, c proxy.Client) recorder.Client {
	host, _, _ := net.SplitHostPort(c.Addr)
	client := recorder.Client{Name: host, HangUp: c.HangUp}
	if t := mitm.TunnelOf(ctx); t != nil && c.HTTP2 {
		client.Tunnel = t
	}
	return client
}

// stop lets what is under way end until ctx is done, and closes everything.
func (s *server) stop(ctx context.Context) error {
	// When the time is up the recorder cuts, and only then the connections to
	// the clients are closed: else it would look as if they had gone.
	clients, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	closed := make(chan error, 1)
	inTime := context.AfterFunc(ctx, func() {
		closed <- s.recorder.Close(ctx)
		hangUp()
	})
	inner := make(chan struct{})
	go func() { // ends with clients at the latest
		defer close(inner)
		s.tunnels.Shutdown(clients) // its error is that of clients
	}()
	if err := s.http.Shutdown(clients); err != nil {
		s.http.Close()
	}
	<-inner
	if inTime() {
		closed <- s.recorder.Close(ctx)
	}
	err := <-closed
	s.listener.Close() // in most cases it is closed already
	return errors.Join(err, s.failures.close())
}

// serverStatus is what /status shows.
type serverStatus struct {
	Version      string    `json:"version"`
	PID          int       `json:"pid"`
	Listen       string    `json:"listen"`
	Dir          string    `json:"dir"`
	File         string    `json:"file"`
	Started      time.Time `json:"started"`
	State        string    `json:"state"`
	Recording    bool      `json:"recording"`
	Error        string    `json:"error,omitempty"`
	Responses    int64     `json:"responses"`
	Revisits     int64     `json:"revisits"`
	Truncated    int64     `json:"truncated"`
	Incomplete   int64     `json:"incomplete"`
	Failures     int64     `json:"failures"`
	Unlogged     int64     `json:"failures_not_logged"`
	Unstorable   int64     `json:"refused_by_storage"`
	Forbidden    int64     `json:"refused"`
	Crowded      int64     `json:"refused_crowded"`
	Lost         int64     `json:"lost"`
	LostRecords  int64     `json:"records_lost"`
	InFlight     int       `json:"in_flight"`
	Long         int       `json:"long"`
	SlowClients  int64     `json:"slow_clients_cut"`
	Received     int64     `json:"bytes_received"`
	Written      int64     `json:"bytes_written"`
	TLSTunnels   int64     `json:"tls_tunnels"`
	PlainTunnels int64     `json:"plain_tunnels"`
	NotRecorded  int64     `json:"tunnels_not_recorded"`
	TLSFailures  int64     `json:"client_tls_failures"`
	BadRequests  int64     `json:"bad_requests"`
	Connections  int       `json:"connections"`
	Refused      int64     `json:"connections_refused"`
	Goroutines   int       `json:"goroutines"`
	Denied       int64     `json:"clients_denied"`
	BadLogins    int64     `json:"bad_logins"`
	Pauses       int64     `json:"pauses"`
	Waiting      int64     `json:"waiting"`
	WaitingBytes int64     `json:"waiting_bytes"`
	Damaged      int64     `json:"files_damaged"`
	DiskFree     int64     `json:"disk_free"`
	SpoolMemory  int64     `json:"spool_memory"`
	SpoolDisk    int64     `json:"spool_disk"`
}

func (s *server) status(f *recordFlags) serverStatus {
	notReached := s.failures.notReached.Load() // before the other: it counts on
	r, t := s.recorder.Status(), s.tunnels.Stats()
	open, refused := s.clients.Connections()
	st := serverStatus{
		Version:      fullVersion(),
		PID:          os.Getpid(),
		Listen:       s.listener.Addr().String(),
		Dir:          f.dir,
		File:         r.File,
		Started:      s.started.UTC().Truncate(time.Millisecond),
		Recording:    r.Unavailable == nil,
		Responses:    r.Responses,
		Revisits:     r.Revisits,
		Truncated:    r.Truncated,
		Incomplete:   r.Incomplete,
		Failures:     r.Failures - r.Unstorable - notReached,
		Crowded:      r.Crowded,
		Unlogged:     s.failures.unlogged.Load(),
		Unstorable:   r.Unstorable,
		Forbidden:    s.failures.refused.Total(),
		Lost:         r.Lost,
		LostRecords:  r.LostRecords,
		InFlight:     r.InFlight,
		Long:         r.Long,
		SlowClients:  r.SlowClients,
		Received:     r.Received,
		Written:      r.Written,
		TLSTunnels:   t.TLS,
		PlainTunnels: t.Plain,
		NotRecorded:  t.Blind,
		TLSFailures:  t.HandshakeFailures,
		BadRequests:  s.failures.badRequests.Load(),
		Connections:  open,
		Refused:      refused,
		Goroutines:   runtime.NumGoroutine(),
		Pauses:       r.Pauses,
		Waiting:      r.Waiting,
		WaitingBytes: r.WaitingOctets,
		Damaged:      r.Damaged,
		DiskFree:     r.Free,
		SpoolMemory:  r.SpoolMemory,
		SpoolDisk:    r.SpoolDisk,
	}
	if s.allowed != nil {
		st.Denied = s.allowed.Denied()
	}
	if s.users != nil {
		st.BadLogins = s.users.Failed()
	}
	switch st.State = "recording"; {
	case r.Stopped:
		st.State, st.Error = "stopped", r.Unavailable.Error()
	case r.Unavailable != nil:
		st.State, st.Error = "paused", r.Unavailable.Error()
	case r.NoRoom != nil:
		st.State, st.Error, st.Recording = "crowded", r.NoRoom.Error(), false
	}
	return st
}

// page is what of it is on the front page.
func (s serverStatus) page() proxy.State {
	return proxy.State{Word: s.State, Why: s.Error, Counts: []proxy.Count{
		{Name: "responses", N: s.Responses},
		{Name: "revisits", N: s.Revisits},
		{Name: "requests without a response", N: s.Failures},
		{Name: "requests refused because of where they go", N: s.Forbidden},
		{Name: "truncated", N: s.Truncated},
		{Name: "incomplete, cut by warctee itself", N: s.Incomplete},
		{Name: "responses lost", N: s.Lost},
		{Name: "tunnels not recorded", N: s.NotRecorded},
		{Name: "TLS connections of clients that failed", N: s.TLSFailures},
	}}
}
