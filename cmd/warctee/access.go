package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/mitm"
	"github.com/warctee/warctee/proxy"
)

// accessFlags say who may use the proxy, and where it connects to.
type accessFlags struct {
	allowClients      listFlag[netip.Prefix]
	auth              string
	allowDestinations listFlag[proxy.Destination]
	denyDestinations  listFlag[proxy.Destination]
	ports             listFlag[proxy.PortRange]
}

func (f *accessFlags) register(flags *pflag.FlagSet) {
	f.allowClients = listFlag[netip.Prefix]{kind: "ADDRESS", parse: proxy.ParseAddresses}
	f.allowDestinations = listFlag[proxy.Destination]{kind: "HOST", parse: proxy.ParseDestination}
	f.denyDestinations = f.allowDestinations
	f.ports = listFlag[proxy.PortRange]{kind: "PORT", parse: proxy.ParsePorts}
	flags.Var(&f.allowClients, "allow-client", "address or network, such as 192.0.2.0/24, whose clients may connect, others may not; a list with commas, may be repeated")
	text(flags, &f.auth, "auth", "FILE", "file with a line NAME:PASSWORD for each user; clients have to give one of them")
	flags.Var(&f.allowDestinations, "allow-destination", "host, .DOMAIN (and all below it), *.DOMAIN, address or network to be connected to though it is private; a list with commas, may be repeated")
	flags.Var(&f.denyDestinations, "deny-destination", "the same, never to be connected to")
	flags.Var(&f.ports, "ports", "ports to be connected to, such as 80 or 8000-8999; a list with commas, may be repeated (default: 80,443,1024-65535)")
}

// check refuses to be open to everybody by accident.
func (f *accessFlags) check(listen string) error {
	if isLoopback(listen) || f.auth != "" || len(f.allowClients.values) > 0 {
		return nil
	}
	return usageError{fmt.Errorf("--listen %s: other machines could use the proxy; say which (--allow-client ADDRESS) or who (--auth FILE), or listen on a loopback address", listen)}
}

// checkRun refuses what makes no sense with run.
func (f *accessFlags) checkRun(listen string) error {
	_, _, err := net.SplitHostPort(listen)
	switch {
	case len(f.allowClients.values) > 0:
		return usageError{errors.New("run: --allow-client is for record; the proxy is for the command alone")}
	case f.auth != "":
		return usageError{errors.New("run: --auth is for record; a command that has to give a password cannot be led to the proxy by its environment")}
	case err == nil && !isLoopback(listen):
		return usageError{fmt.Errorf("run: --listen %s: the proxy is for the command alone; choose a loopback address", listen)}
	}
	return nil
}

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	addr, notAddress := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notAddress == nil && addr.IsLoopback())
}

// listenHost is the host in an address to listen on.
func listenHost(listen string) string {
	host, _, _ := net.SplitHostPort(listen)
	return host
}

// users reads the file of --auth; nil: there is none.
func (f *accessFlags) users(log *slog.Logger) (*proxy.Users, error) {
	if f.auth == "" {
		return nil, nil
	}
	users, err := proxy.ReadUsers(f.auth, log)
	if err != nil {
		return nil, fmt.Errorf("cannot use the file of --auth: %w", err)
	}
	return users, nil
}

// destinations are those of a proxy that listens there.
func (f *accessFlags) destinations(listen net.Addr) *proxy.Destinations {
	return &proxy.Destinations{Listen: listen, Allow: f.allowDestinations.values, Deny: f.denyDestinations.values, Ports: f.ports.values}
}

// badRequest is told of requests outside tunnels that made no sense. Where
// clients have to say who they are these may come from anybody, who must not be
// able to fill the disk with a failure log.
func (s *server) badRequest(f mitm.Failure) {
	if s.users == nil {
		s.failures.client(f)
		return
	}
	s.failures.badRequests.Add(1)
}

// A listFlag takes a list with commas, and may be repeated.
type listFlag[T fmt.Stringer] struct {
	values []T
	kind   string
	parse  func(string) (T, error)
}

func (l *listFlag[T]) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		v, err := l.parse(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		l.values = append(l.values, v)
	}
	return nil
}

func (l *listFlag[T]) Type() string { return l.kind }

func (l *listFlag[T]) String() string {
	words := make([]string, len(l.values))
	for i, v := range l.values {
		words[i] = v.String()
	}
	return strings.Join(words, ",")
}
