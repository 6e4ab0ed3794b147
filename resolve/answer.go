package resolve

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// An Answer is what is known of a host. What did not come from the DNS has only
// Host and Addrs.
type Answer struct {
	Host    string         // the name that was found, in lower case without final dot; or the address
	Addrs   []netip.Addr   // in the order received, those of A before those of AAAA; not to be changed
	Records []string       // the resource records received, "name. TTL IN TYPE rdata"; none in an answer from memory
	Server  netip.AddrPort // that gave them
	When    time.Time      // when the look-up began
	TTL     time.Duration  // the least one of the records
}

// URI is the name of the answer in the dns scheme (RFC 4501).
func (a *Answer) URI() string { return "dns:" + a.Host }

// Block is the answer as text/dns (RFC 4027, RFC 2540 §3), the block of a resource
// record of the dns scheme (WARC 1.1 §6.4): the time as 14 digits, in UTC, then the
// resource records in the form of a master file (RFC 1035 §5.1):
//
//	20260930193427
//	www.example.org. 300 IN CNAME example.org.
//	example.org. 300 IN A 192.0.2.1
//
// No standard says how lines end. Heritrix, from which most such records are, ends
// each with a line feed alone, the last one too (FetchDNS.getDNSRecord in
// internetarchive/heritrix3), and so do we.
func (a *Answer) Block() []byte {
	b := a.When.UTC().AppendFormat(nil, "20060102150405\n")
	for _, record := range a.Records {
		b = append(append(b, record...), '\n')
	}
	return b
}

// A reply is a message from a server.
type reply struct {
	*dns.Msg
	server netip.AddrPort
}

// maxText bounds the resource records of one answer as text, in bytes. A message
// of 64 KiB, which is the largest, can stand for 100 times as much text.
const maxText = 256 << 10

// errLarge is why an answer with more than maxText is not used.
var errLarge = fmt.Errorf("the answer has more than %d KiB", maxText>>10)

// add takes over what the reply says of name: its addresses, at the end of its
// chain of CNAMEs, and the resource records. The error is errLarge.
func (a *Answer) add(name string, r *reply) error {
	owners := chain(name, r.Answer)
	known, size := make(map[string]bool, len(a.Records)), 0
	for _, line := range a.Records {
		known[line] = true
		size += len(line)
	}
	for _, rr := range r.Answer {
		h := rr.Header()
		if h.Class != dns.ClassINET {
			continue
		}
		switch rr := rr.(type) {
		case *dns.A:
			if addr, ok := netip.AddrFromSlice(rr.A); ok && owners[dns.CanonicalName(h.Name)] {
				a.Addrs = append(a.Addrs, addr.Unmap())
			}
		case *dns.AAAA:
			if addr, ok := netip.AddrFromSlice(rr.AAAA); ok && owners[dns.CanonicalName(h.Name)] {
				a.Addrs = append(a.Addrs, addr.Unmap())
			}
		case *dns.CNAME, *dns.DNAME:
		default:
			continue // nothing that was asked for
		}
		if ttl := seconds(h.Ttl); len(a.Records) == 0 || ttl < a.TTL {
			a.TTL = ttl
		}
		// The CNAMEs come with A and with AAAA.
		if line := text(rr); !known[line] {
			if size += len(line); size > maxText {
				return errLarge
			}
			known[line] = true
			a.Records = append(a.Records, line)
		}
	}
	if !a.Server.IsValid() {
		a.Server = r.server
	}
	return nil
}

// chain returns the names whose addresses are those of name: itself and what
// its CNAMEs lead to, in whatever order they stand.
func chain(name string, answer []dns.RR) map[string]bool {
	next := make(map[string]string)
	for _, rr := range answer {
		if c, ok := rr.(*dns.CNAME); ok {
			next[dns.CanonicalName(c.Hdr.Name)] = dns.CanonicalName(c.Target)
		}
	}
	owners := make(map[string]bool)
	for name = dns.CanonicalName(name); name != "" && !owners[name]; name = next[name] {
		owners[name] = true
	}
	return owners
}

// text is rr on one line. The names in it are escaped such that it stays one.
func text(rr dns.RR) string {
	h := rr.Header()
	data := strings.TrimPrefix(rr.String(), h.String())
	return fmt.Sprintf("%s %d %s %s %s", h.Name, h.Ttl, dns.Class(h.Class), dns.Type(h.Rrtype), data)
}

// negativeTTL is for how long the reply says that there is nothing (RFC 2308 §5).
func negativeTTL(r *reply) time.Duration {
	for _, rr := range r.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl))
		}
	}
	return 0
}

// seconds is a TTL; one with the highest bit set counts as 0 (RFC 2181 §8).
func seconds(ttl uint32) time.Duration {
	if ttl > 1<<31-1 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
