package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/warctee/warctee/proxy"
)

const inNamespace = "WARCTEE_TEST_NAMESPACE"

// Addresses that lead to the own machine by a route alone, as agents of clouds set
// them up, are the machine's own: refused where private ones are, and 508 at the
// port of the proxy. The test runs itself again in a network namespace.
func TestLocalRoutes(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLocalRoutes$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if id := os.Geteuid(); id != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		switch {
		case len(out) == 0:
			t.Skip("no network namespace can be made: ", err)
		case err != nil:
			t.Errorf("%v\n%s", err, out)
		case strings.Contains(string(out), "--- SKIP"):
			t.Skipf("%s", out)
		}
		return
	}
	for _, command := range []string{
		"link set lo up",
		"link add v0 type veth peer name v1", "link set v0 up", "link set v1 up",
		"addr add 203.0.113.9/24 dev v0", "addr add 203.0.113.10/24 dev v0", "addr add 2001:db8:1::9/64 dev v0 nodad",
		"route add default via 203.0.113.1", "-6 route add default dev v0",
		"route add local 192.0.2.0/24 dev lo", "route add local 198.51.100.0/25 dev lo src 203.0.113.9", "-6 route add local 2001:db8::/64 dev lo",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s (of iproute2): %v: %s", command, err, out)
		}
	}
	own := []string{"192.0.2.7", "198.51.100.7", "203.0.113.9", "203.0.113.10", "2001:db8::7", "2001:db8:1::9", "::ffff:192.0.2.7", "64:ff9b::192.0.2.7"}
	d := proxy.Destinations{Listen: &net.TCPAddr{IP: net.IPv4zero, Port: 8000}}
	for _, text := range own {
		addr := netip.MustParseAddr(text)
		if err := d.Control("own.example", netip.AddrPortFrom(addr, 80)); err == nil || !strings.Contains(err.Error(), "own machine") {
			t.Errorf("of %s the proxy says %v", text, err)
		}
		if err := d.Control("own.example", netip.AddrPortFrom(addr, 8000)); err == nil || !strings.Contains(err.Error(), "proxy itself") {
			t.Errorf("of the proxy's port at %s it says %v", text, err)
		}
	}
	for _, text := range []string{"203.0.113.1", "198.51.100.200", "192.0.3.1", "2001:db8:1::1", "2001:db8:2::1"} {
		for _, port := range []uint16{80, 8000} {
			if err := d.Control("other.example", netip.AddrPortFrom(netip.MustParseAddr(text), port)); err != nil {
				t.Errorf("of %s port %d the proxy says %v", text, port, err)
			}
		}
	}
	// And as clients see it, by a name that leads there.
	server := startMovingDNS(t)
	x := newScene(t, false, func(f *recordFlags) { forOthers(f); f.resolver, f.noDNS = "udp://"+server.address, true })
	_, port, _ := net.SplitHostPort(x.proxy.listener.Addr().String())
	for _, addr := range []string{"192.0.2.7", "2001:db8::7"} {
		server.moves(addr)
		for target, status := range map[string]int{"moving.test:" + port: 508, "moving.test:1234": 403} {
			c := x.client()
			c.send(fmt.Sprintf("GET http://%s/status HTTP/1.1\r\nHost: %s\r\n\r\n", target, target))
			if r := c.reply("GET"); r.status != status {
				t.Errorf("%s at %s is answered with %d, want %d: %q", target, addr, r.status, status, r.body)
			}
		}
	}
	x.finish()
}
