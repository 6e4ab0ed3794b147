package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// parsed reads patterns.
func parsed(t *testing.T, texts ...string) (all []Destination) {
	t.Helper()
	for _, text := range texts {
		d, err := ParseDestination(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

var (
	onLoopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}
	elsewhere  = &net.TCPAddr{IP: net.IPv4zero, Port: 8000}
)

// What the defaults make of addresses, however they are written.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]kind{
		"198.51.100.7": public, "8.8.8.8": public, "172.15.255.255": public, "172.32.0.0": public, "11.0.0.0": public, "100.128.0.0": public,
		"2001:db8::1": public, "2606:4700::1": public, "64:ff9b::8.8.8.8": public, "2002:808:808::1": public, "::ffff:8.8.8.8": public,

		"127.0.0.1": private, "127.255.255.255": private, "::1": private, "::ffff:127.0.0.1": private, "::ffff:7f00:1": private,
		"10.1.2.3": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private, "198.18.0.1": private,
		"192.0.0.191": private, "fd00:c1::a9fe:a9ff": private, "240.0.0.1": private, "fd12::1": private, "fc00::1": private, "fec0::1": private,
		"64:ff9b::10.0.0.1": private, "64:ff9b::a00:1": private, "64:ff9b:1::1": private, "2002:a00:1::1": private, "2002:7f00:1::": private,
		"::10.0.0.1": private, "::ffff:0:10.0.0.1": private, "2001:0:a00:1::1": private, "2001:0:808:808::f5ff:fffe": private,
		"2001:db8::5efe:10.0.0.1": private, "2001:db8::200:5efe:10.0.0.1": private,

		"0.0.0.0": reserved, "0.1.2.3": reserved, "::": reserved, "::ffff:0.0.0.0": reserved,
		"169.254.169.254": reserved, "169.254.0.1": reserved, "::ffff:169.254.169.254": reserved, "::ffff:a9fe:a9fe": reserved,
		"64:ff9b::169.254.169.254": reserved, "64:ff9b::a9fe:a9fe": reserved, "2002:a9fe:a9fe::": reserved, "::169.254.169.254": reserved,
		"2001:0:808:808::5601:5601": reserved, "2001:db8::5efe:169.254.169.254": reserved,
		"fe80::1": reserved, "fe80::1%eth0": reserved, "febf::1": reserved,
		"fd00:ec2::254": reserved, "fd20:ce::254": reserved, "100.100.100.200": reserved, "::ffff:100.100.100.200": reserved, "168.63.129.16": reserved,
		"fd00:c1::a9fe:a9fe": reserved, "192.0.0.192": reserved, "::ffff:192.0.0.192": reserved,
		"224.0.0.1": reserved, "239.255.255.250": reserved, "ff02::1": reserved, "255.255.255.255": reserved,
	} {
		to := netip.AddrPortFrom(netip.MustParseAddr(text), 443)
		for _, listen := range []net.Addr{onLoopback, elsewhere} {
			d := &Destinations{Listen: listen}
			err := d.Control("name.example", to)
			refused := want == reserved || want == private && listen == elsewhere
			if (err != nil) != refused {
				t.Errorf("listening on %s, %s: %v, want refused to be %t", listen, text, err, refused)
			}
			if err != nil && (asRefusal(err).status != http.StatusForbidden || !strings.Contains(err.Error(), "--allow-destination")) {
				t.Errorf("%s: %d %v", text, asRefusal(err).status, err)
			}
		}
	}
	// What is on the machine of the proxy is not for others, at any address.
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		own := netip.MustParsePrefix(a.String()).Addr().WithZone("")
		if err := (&Destinations{Listen: elsewhere}).Control("name.example", netip.AddrPortFrom(own, 443)); err == nil {
			t.Errorf("%s is an address of this machine, and allowed", own)
		}
	}
}

// Deny wins over allow, allow over the defaults; what is reserved has to be
// named exactly, and the proxy itself is never allowed.
func TestAllowAndDeny(t *testing.T) {
	for _, test := range []struct {
		allow, deny, host, addr string
		ok                      bool
	}{
		{"", "", "a.example", "10.0.0.1", false},
		{"a.example", "", "a.example", "10.0.0.1", true},
		{"a.example", "", "A.Example.", "10.0.0.1", true},
		{"A.EXAMPLE.", "", "a.example", "10.0.0.1", true},
		{"a.example", "", "b.a.example", "10.0.0.1", false},
		{".a.example", "", "b.a.example", "10.0.0.1", true},
		{".a.example", "", "a.example", "10.0.0.1", true},
		{".a.example", "", "ba.example", "10.0.0.1", false},
		{"*.a.example", "", "b.a.example", "10.0.0.1", true},
		{"*.a.example", "", "c.b.a.example", "10.0.0.1", true},
		{"*.a.example", "", "a.example", "10.0.0.1", false},
		{"bücher.example", "", "xn--bcher-kva.example", "10.0.0.1", true},
		{"10.0.0.1", "", "a.example", "10.0.0.1", true},
		{"10.0.0.1", "", "a.example", "10.0.0.2", false},
		{"10.0.0.0/8", "", "a.example", "10.9.9.9", true},
		{"10.0.0.0/8", "", "a.example", "::ffff:10.9.9.9", true},
		{"::ffff:10.0.0.0/104", "", "a.example", "10.9.9.9", true},
		{"[fd12::1]", "", "a.example", "fd12::1", true},
		{"0.0.0.0/0,::/0", "", "a.example", "192.168.1.1", true},

		{"", "a.example", "a.example", "8.8.8.8", false},
		{"", "a.example", "b.example", "8.8.8.8", true},
		{"", ".example", "a.example.", "8.8.8.8", false},
		{"", "8.8.8.0/24", "a.example", "8.8.8.8", false},
		{"", "8.8.8.0/24", "a.example", "::ffff:8.8.8.8", false},
		{"", "8.8.8.0/24", "a.example", "64:ff9b::8.8.8.8", false},
		{"a.example", "10.0.0.0/8", "a.example", "10.0.0.1", false},
		{"10.0.0.1", "a.example", "a.example", "10.0.0.1", false},
		{"10.0.0.1", "10.0.0.1", "a.example", "10.0.0.1", false},

		{"169.254.0.0/16", "", "a.example", "169.254.169.254", false},
		{"0.0.0.0/0", "", "a.example", "169.254.169.254", false},
		{"a.example", "", "a.example", "169.254.169.254", false},
		{"169.254.169.254", "", "a.example", "169.254.169.254", true},
		{"169.254.169.254/32", "", "a.example", "::ffff:169.254.169.254", true},
		{"169.254.169.254", "", "a.example", "169.254.169.253", false},
		{"169.254.169.254", "169.254.0.0/16", "a.example", "169.254.169.254", false},
		{"fd00:ec2::254", "", "a.example", "fd00:ec2::254", true},
	} {
		d := &Destinations{Listen: elsewhere}
		if test.allow != "" {
			d.Allow = parsed(t, strings.Split(test.allow, ",")...)
		}
		if test.deny != "" {
			d.Deny = parsed(t, test.deny)
		}
		err := d.Control(test.host, netip.AddrPortFrom(netip.MustParseAddr(test.addr), 443))
		if (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
		if test.deny != "" && err != nil && !strings.Contains(err.Error(), "--deny-destination "+test.deny) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	d := &Destinations{Listen: onLoopback, Allow: parsed(t, "127.0.0.1", "localhost")}
	if err := d.Control("localhost", netip.MustParseAddrPort("127.0.0.1:8000")); asRefusal(err).status != http.StatusLoopDetected {
		t.Errorf("the proxy itself, though allowed: %v", err)
	}
	// Listening on a loopback address, what is denied still is.
	d = &Destinations{Listen: onLoopback, Deny: parsed(t, "192.168.0.0/16")}
	if err := d.Control("a.example", netip.MustParseAddrPort("192.168.1.1:80")); err == nil {
		t.Error("what is denied is connected to")
	}
}

// What can be said before a look-up.
func TestJudge(t *testing.T) {
	d := &Destinations{Listen: elsewhere, Allow: parsed(t, "10.0.0.1"), Deny: parsed(t, ".evil.example", "8.8.8.8")}
	for authority, sentence := range map[string]string{
		"a.example:443": "", "a.example:80": "", "a.example:1024": "", "a.example:65535": "", "a.example": "", "[2001:db8::1]": "", "[2001:db8::1]:443": "",
		"a.example:25": "port 25", "a.example:22": "port 22", "a.example:1023": "port 1023", "a.example:0": "port 0",
		"evil.example:443": "--deny-destination .evil.example", "a.Evil.Example.:443": "--deny-destination",
		"8.8.8.8:443": "--deny-destination 8.8.8.8", "10.0.0.1:443": "", "10.0.0.2:443": "10.0.0.2 is a private address",
		"[::ffff:169.254.169.254]:80": "link-local", "127.0.0.1:8001": "loopback",
		"127.0.0.1:8000": "", // for Control to say
		"localhost:443":  "", // nobody knows yet
	} {
		e := d.judge(authority)
		if (e == nil) != (sentence == "") || e != nil && (!strings.Contains(e.reason, sentence) || e.status != 403 || e.class != classPolicy) {
			t.Errorf("%s: %+v, want %q", authority, e, sentence)
		}
	}
	d.Ports = []PortRange{{25, 25}, {8000, 8999}}
	for authority, ok := range map[string]bool{"a.example:25": true, "a.example:8999": true, "a.example:9000": false, "a.example:443": false, "a.example:80": false} {
		if e := d.judge(authority); (e == nil) != ok {
			t.Errorf("%s: %v", authority, e)
		}
	}
}

func TestParseDestination(t *testing.T) {
	for _, text := range []string{"", ".", "*", "*.", "..example", "a b", "example.org:80", "http://example.org", "exa*mple.org", "127.1", "0x7f.1", "192.0.2.0/33", "a..b", "a/b", "fe80::1%eth0", strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a"} {
		if d, err := ParseDestination(text); err == nil {
			t.Errorf("%q is taken as %+v", text, d)
		}
	}
	for _, text := range []string{"example.org", ".example.org", "*.example.org", "localhost", "under_score", "192.0.2.1", "192.0.2.0/24", "::1", "[::1]", "bücher.example"} {
		if d, err := ParseDestination(text); err != nil || d.String() != text {
			t.Errorf("%q gives %v, %v", text, d, err)
		}
	}
}

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]PortRange{"1": {1, 1}, "80": {80, 80}, "1024-65535": {1024, 65535}, "5-5": {5, 5}} {
		if got, err := ParsePorts(text); err != nil || got != want {
			t.Errorf("%q gives %v, %v", text, got, err)
		}
		if got := want.String(); text != "5-5" && got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	for _, text := range []string{"", "0", "65536", "-1", "80-", "-80", "90-80", "http", "1-2-3", "1 - 2", "+1"} {
		if got, err := ParsePorts(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
