package resolve

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// An address may change more often than its TTL promises, and what does
	// not exist may be set up by the person who has just tried it.
	maxTTL         = 24 * time.Hour
	maxNegativeTTL = 5 * time.Minute
)

// A cached is what is remembered of a name. It has no resource records, and no
// more addresses than are ever tried, so that CacheSize bounds memory: a server
// chooses how large its answers are.
type cached struct {
	answer  Answer
	err     error // not found
	expires time.Time
}

func (r *Resolver) remembered(name string, now time.Time) (cached, bool) {
	c, ok := r.cache.Get(name)
	return c, ok && now.Before(c.expires)
}

// remember keeps the answer to a look-up that began at now, or that there is
// none, for as long as the TTLs allow (RFC 2308 §5). Failures are not kept.
func (r *Resolver) remember(name string, answer Answer, err error, now time.Time) {
	var missing *net.DNSError
	ttl := min(answer.TTL, maxTTL)
	switch {
	case err == nil:
	case errors.As(err, &missing) && missing.IsNotFound:
		ttl = min(ttl, maxNegativeTTL)
	default:
		return
	}
	if ttl > 0 {
		answer.Records, answer.Addrs = nil, tried(answer.Addrs)
		r.cache.Add(name, cached{answer, err, now.Add(ttl)})
	}
}

// tried returns the addresses that can be tried, in a slice of their own: the
// first maxTried of each family.
func tried(addrs []netip.Addr) []netip.Addr {
	var few []netip.Addr
	count := map[bool]int{}
	for _, addr := range addrs {
		if v4 := addr.Is4(); count[v4] < maxTried {
			count[v4]++
			few = append(few, addr)
		}
	}
	return slices.Clip(slices.Clone(few))
}
