package resolve

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// lookAgain is how long a file is believed not to have changed.
const lookAgain = 5 * time.Second

// A watched is what a configuration file says, as of late.
type watched[T any] struct {
	path  string
	parse func(io.Reader) T

	mu     sync.Mutex
	value  T
	loaded bool
	looked time.Time
	as     time.Time // modification time and size when it was read
	size   int64
}

func (w *watched[T]) get(now time.Time) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loaded && now.Sub(w.looked) < lookAgain {
		return w.value
	}
	w.looked = now
	var as time.Time
	var size int64
	if stat, err := os.Stat(w.path); err == nil {
		as, size = stat.ModTime(), stat.Size()
	}
	if w.loaded && as.Equal(w.as) && size == w.size {
		return w.value
	}
	text, _ := os.ReadFile(w.path) // what cannot be read says nothing
	w.value, w.loaded, w.as, w.size = w.parse(bytes.NewReader(text)), true, as, size
	return w.value
}

func systemHosts() string {
	if runtime.GOOS == "windows" {
		return filepath.Join(os.Getenv("SystemRoot"), `System32\drivers\etc\hosts`)
	}
	return "/etc/hosts"
}

// parseHosts reads hosts(5). The names are in lower case.
func parseHosts(r io.Reader) map[string][]netip.Addr {
	text, _ := io.ReadAll(r)
	hosts := make(map[string][]netip.Addr)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.TrimSuffix(strings.ToLower(name), ".")
			hosts[name] = append(hosts[name], addr)
		}
	}
	return hosts
}

// A config is which servers to ask, and for which names.
type config struct {
	servers  []*server
	timeout  time.Duration
	attempts int
	ndots    int
	search   []string
}

// parseConfig reads resolv.conf(5).
func parseConfig(r io.Reader) *config {
	file, err := dns.ClientConfigFromReader(r)
	if err != nil { // a line that is too long
		file = &dns.ClientConfig{Ndots: 1, Timeout: 5, Attempts: 2}
	}
	c := &config{
		timeout:  min(time.Duration(file.Timeout)*time.Second, 30*time.Second),
		attempts: min(file.Attempts, 5),
		ndots:    file.Ndots,
	}
	for _, suffix := range file.Search {
		if suffix = strings.Trim(strings.ToLower(suffix), "."); suffix != "" {
			c.search = append(c.search, suffix)
		}
	}
	if len(file.Servers) == 0 {
		file.Servers = []string{"127.0.0.1", "::1"} // as the file's manual says
	}
	for _, addr := range file.Servers[:min(len(file.Servers), 3)] {
		if ip, err := netip.ParseAddr(addr); err == nil {
			c.servers = append(c.servers, &server{network: "udp", addr: net.JoinHostPort(ip.String(), "53")})
		}
	}
	return c
}

// names are what name may stand for, in the order to be tried. One with a dot
// at its end, or with enough dots in it, only stands for itself: else what does
// not exist could become an unrelated host of the search list.
func (c *config) names(name string) []string {
	if strings.HasSuffix(name, ".") || strings.Count(name, ".") >= c.ndots {
		return []string{dns.Fqdn(name)}
	}
	var names []string
	for _, suffix := range c.search {
		if whole := name + "." + suffix; isName(whole) {
			names = append(names, whole+".")
		}
	}
	return append(names, name+".")
}
