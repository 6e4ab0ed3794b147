package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warctee/warctee/secret"
)

// maxUsersFile bounds the file of [ReadUsers], which somebody may have given
// the wrong name of.
const maxUsersFile = 1 << 20

// Users are those who may use the proxy: names and passwords. Only their hashes
// are kept.
type Users struct {
	hashes [][sha256.Size]byte // of NAME:PASSWORD
	failed *Denials
}

// ReadUsers reads a file with a line NAME:PASSWORD for each user. Empty lines
// and those that begin with # do not count. A file that another user could have
// read or written is refused (see [secret]). log gets warnings of attempts with a wrong password.
func ReadUsers(path string, log *slog.Logger) (*Users, error) {
	text, err := secret.Read(path, maxUsersFile, "would let them use the proxy, or lock others out")
	if err != nil {
		return nil, err
	}
	u := &Users{failed: NewDenials(log, "somebody gave a wrong name or password (--auth)")}
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		if name, password, ok := bytes.Cut(line, []byte{':'}); !ok || len(name) == 0 || len(password) == 0 {
			return nil, fmt.Errorf("line %d of %s is not NAME:PASSWORD", n, path) // the line itself is a secret
		}
		u.hashes = append(u.hashes, sha256.Sum256(line))
	}
	if len(u.hashes) == 0 {
		return nil, fmt.Errorf("%s has no line NAME:PASSWORD", path)
	}
	return u, nil
}

// Failed is how often somebody gave a wrong name or password.
func (u *Users) Failed() int64 { return u.failed.Total() }

// admit reports whether a request carries the name and password of a user in
// field, which is Authorization or Proxy-Authorization (RFC 7617).
func (u *Users) admit(r *http.Request, field string) bool {
	values := r.Header[field]
	if len(values) == 0 {
		return false // clients wait to be asked
	}
	if len(values) == 1 && u.know(values[0]) {
		return true
	}
	u.failed.Add("client", r.RemoteAddr)
	return false
}

// know takes the same time whether there is such a name or not, and however
// much of the password is right.
func (u *Users) know(credentials string) bool {
	scheme, token, _ := strings.Cut(credentials, " ")
	pair, err := base64.StdEncoding.DecodeString(strings.Trim(token, " "))
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return false
	}
	sum, known := sha256.Sum256(pair), 0
	for i := range u.hashes {
		known |= subtle.ConstantTimeCompare(sum[:], u.hashes[i][:])
	}
	return known == 1
}

// Clients are the addresses whose clients may use the proxy.
type Clients struct {
	allowed []netip.Prefix
	denied  *Denials
}

// AllowClients returns the clients with the allowed addresses. log gets warnings
// of others.
func AllowClients(allowed []netip.Prefix, log *slog.Logger) *Clients {
	return &Clients{allowed, NewDenials(log, "a connection from an address that may not use the proxy was closed (--allow-client)")}
}

// Denied is how many clients may not use the proxy, of those that
// [Clients.Refuse] was asked about.
func (c *Clients) Denied() int64 { return c.denied.Total() }

// Refuse says why a client that has connected may not use the proxy; "": it may.
func (c *Clients) Refuse(client net.Addr) (why string) {
	if c.allows(client) {
		return ""
	}
	c.denied.Add("client", client)
	return "clients with your address may not use this proxy (--allow-client)"
}

func (c *Clients) allows(client net.Addr) bool {
	addr, ok := addrOf(client.String())
	return ok && slices.ContainsFunc(c.allowed, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// addrOf is the address in HOST:PORT, in the form that is compared.
func addrOf(hostport string) (netip.Addr, bool) {
	a, err := netip.ParseAddrPort(hostport)
	return bare(a.Addr()), err == nil
}

// bare is an address without a zone, and one of IPv4 as such.
func bare(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// ParseAddresses reads an IP address or a network in CIDR notation.
func ParseAddresses(text string) (netip.Prefix, error) {
	no := errors.New("not an address, such as 192.0.2.1, or a network, such as 192.0.2.0/24")
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is %w", text, no)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is %w", text, no)
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// denialsEvery is how often the same kind of denial is logged.
const denialsEvery = time.Minute

// Denials counts what was denied, and warns of it now and then: whoever can
// reach the proxy must not be able to fill its log. Each is told with the level
// debug.
type Denials struct {
	log  *slog.Logger
	what string

	mu    sync.Mutex
	last  time.Time // of the last warning
	since int64     // those that it did not tell of
	all   int64
}

// NewDenials returns a counter of what happened so often.
func NewDenials(log *slog.Logger, what string) *Denials { return &Denials{log: log, what: what} }

// Add counts one more. args describe it, as in [slog.Logger.Warn].
func (d *Denials) Add(args ...any) {
	d.mu.Lock()
	d.all++
	d.since++
	n, level := d.since, slog.LevelDebug
	if d.last.IsZero() || time.Since(d.last) >= denialsEvery {
		d.last, d.since, level = time.Now(), 0, slog.LevelWarn
	}
	d.mu.Unlock()
	d.log.Log(context.Background(), level, d.what, append(args, "times", n)...)
}

// Total is how many there were.
func (d *Denials) Total() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}
