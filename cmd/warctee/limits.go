package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/mitm"
)

// limitFlags bound what clients and origins can make the proxy use. Each has a
// default that an ordinary recording never reaches.
type limitFlags struct {
	maxHead, maxURL     sizeFlag
	maxFields           int
	maxReplyHead        sizeFlag
	maxReplyFields      int
	headerTimeout       time.Duration
	idleTimeout         time.Duration
	stallTimeout        time.Duration
	maxConns            int
	maxConnsPerClient   int
	maxConnsPerOrigin   int
	maxConnsPerTunnel   int
	maxHandshakes       int
	maxLong             int
	maxUnfinished       sizeFlag
	spoolMemory         sizeFlag
	spoolDisk           sizeFlag
	leafCache, dnsCache int
}

func (f *limitFlags) register(flags *pflag.FlagSet) {
	f.maxHead, f.maxURL, f.maxReplyHead = 64<<10, 64<<10, 1<<20
	f.maxUnfinished, f.spoolMemory, f.spoolDisk = 64<<20, 256<<20, 64<<30
	flags.Var(&f.maxHead, "max-head", "size of the header fields of a request; larger: 431")
	flags.Var(&f.maxURL, "max-url", "size of a request's URL, at most 128KiB; longer: 414")
	flags.IntVar(&f.maxFields, "max-fields", 256, "number of header fields of a request; more: 431")
	flags.Var(&f.maxReplyHead, "max-reply-head", "size of the head of an origin's reply; larger: 502")
	flags.IntVar(&f.maxReplyFields, "max-reply-fields", 4096, "number of header fields of a reply; more: 502")
	flags.DurationVar(&f.headerTimeout, "header-timeout", 10*time.Second, "time that a client has for the head of a request and for a TLS handshake")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 2*time.Minute, "time that a client's connection may be idle")
	flags.DurationVar(&f.stallTimeout, "stall-timeout", 10*time.Minute, "time that a client may take no byte of a response before it counts as gone")
	flags.IntVar(&f.maxConns, "max-connections", 0, "connections of clients at once; further ones get 503 (default: 16384, or fewer where ulimit -n has no room for as many to origins)")
	flags.IntVar(&f.maxConnsPerClient, "max-connections-per-client", 0, "the same for one address of a client (default: 3/4 of that)")
	flags.IntVar(&f.maxConnsPerOrigin, "max-connections-per-origin", 512, "connections to one origin at once; further exchanges wait")
	flags.IntVar(&f.maxConnsPerTunnel, "max-connections-per-tunnel", 6, "connections to its origin at once for one tunnel of a client with HTTP/2; further requests in it wait their turn. Long exchanges and event streams do not count")
	flags.IntVar(&f.maxHandshakes, "max-handshakes", 64, "TLS handshakes with clients at once; further ones wait")
	flags.Var(&f.maxUnfinished, "max-unfinished", "memory for heads of requests and TLS handshakes that are not complete, all together; one address of a client gets a quarter of it; more: 503")
	flags.IntVar(&f.maxLong, "max-long", 4096, "exchanges at once that last longer than 10s, and WebSockets")
	flags.Var(&f.spoolMemory, "spool-memory", "memory for what is not in the archive yet, all together; what finds no room there goes to temporary files")
	flags.Var(&f.spoolDisk, "spool-disk", "disk space for the same, in DIR; bodies that find no room there either are recorded in part")
	flags.IntVar(&f.leafCache, "leaf-cache", 4096, "certificates of hosts that are kept")
	flags.IntVar(&f.dnsCache, "dns-cache", 4096, "answers of the DNS that are kept")
}

// check refuses what makes no sense.
func (f *limitFlags) check() error {
	const (
		positive    = "it must be more than 0"
		atLeastOne  = "it must be at least 1"
		atLeast1MiB = "it must be at least 1MiB"
		headSize    = "it must be from 1KiB to 16MiB"
		fieldCount  = "it must be from 1 to 65536"
		// A revisit has the URI twice, and each octet of a URL may take three
		// in it; warc.MaxHeader bounds both together.
		maxURL  = 128 << 10
		urlSize = "it must be from 1KiB to 128KiB"
	)
	isHeadSize := func(n sizeFlag) bool { return 1<<10 <= n && n <= 16<<20 }
	isFieldCount := func(n int) bool { return 1 <= n && n <= 65536 } // http1.Recorded has room for them
	if err := firstBad([]bound{
		{"max-head", &f.maxHead, isHeadSize(f.maxHead), headSize},
		{"max-url", &f.maxURL, 1<<10 <= f.maxURL && f.maxURL <= maxURL, urlSize},
		{"max-reply-head", &f.maxReplyHead, isHeadSize(f.maxReplyHead), headSize},
		{"max-unfinished", &f.maxUnfinished, f.maxUnfinished >= 1<<20, atLeast1MiB},
		{"spool-memory", &f.spoolMemory, f.spoolMemory >= 1<<20, atLeast1MiB},
		{"spool-disk", &f.spoolDisk, f.spoolDisk >= 1<<20, atLeast1MiB},
		{"header-timeout", f.headerTimeout, f.headerTimeout > 0, positive},
		{"idle-timeout", f.idleTimeout, f.idleTimeout > 0, positive},
		{"stall-timeout", f.stallTimeout, f.stallTimeout > 0, positive},
		{"max-fields", f.maxFields, isFieldCount(f.maxFields), fieldCount},
		{"max-reply-fields", f.maxReplyFields, isFieldCount(f.maxReplyFields), fieldCount},
		{"max-connections-per-origin", f.maxConnsPerOrigin, f.maxConnsPerOrigin >= 1, atLeastOne},
		{"max-connections-per-tunnel", f.maxConnsPerTunnel, f.maxConnsPerTunnel >= 1, atLeastOne},
		{"max-handshakes", f.maxHandshakes, f.maxHandshakes >= 1, atLeastOne},
		{"max-long", f.maxLong, f.maxLong >= 1, atLeastOne},
		{"leaf-cache", f.leafCache, f.leafCache >= 1, atLeastOne},
		{"dns-cache", f.dnsCache, f.dnsCache >= 1, atLeastOne},
		{"max-connections", f.maxConns, f.maxConns >= 0, "it must not be negative"},
		{"max-connections-per-client", f.maxConnsPerClient, f.maxConnsPerClient >= 0, "it must not be negative"},
	}); err != nil {
		return err
	}
	if files := openFiles(); f.maxConns > files-reservedFiles(files) {
		return usageError{fmt.Errorf("--max-connections %d: this process may open %d files (ulimit -n), which leaves room for %d connections at most", f.maxConns, files, files-reservedFiles(files))}
	}
	return nil
}

// A bound is what the value of a flag has to be, and whether it is.
type bound struct {
	flag  string
	value any
	ok    bool
	rule  string
}

// firstBad names the first value that is out of its bounds.
func firstBad(bounds []bound) error {
	for _, b := range bounds {
		if !b.ok {
			return usageError{fmt.Errorf("--%s %v: %s", b.flag, b.value, b.rule)}
		}
	}
	return nil
}

// reservedFiles is how many file descriptors clients do not get: the archive,
// temporary files and the DNS need some too.
func reservedFiles(files int) int { return files / 8 }

// aimMemory tells the garbage collector what the limits amount to: an idle
// connection takes 20 KB, and without an aim the heap grows to twice what is in
// use before anything is collected. It is no limit: what is needed is taken.
// GOMEMLIMIT, which the runtime understands, is the user's own aim.
func (f *limitFlags) aimMemory() (restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	aim := int64(f.spoolMemory) + 12<<10*int64(f.clients().MaxConns)
	before := debug.SetMemoryLimit(max(aim, 128<<20))
	return func() { debug.SetMemoryLimit(before) }
}

// clients are the limits for clients.
func (f *limitFlags) clients() mitm.Limits {
	files := openFiles()
	return mitm.Limits{
		MaxURL:        int(f.maxURL),
		MaxHead:       int(f.maxHead),
		MaxFields:     f.maxFields,
		HeaderTimeout: f.headerTimeout,
		IdleTimeout:   f.idleTimeout,
		StallTimeout:  f.stallTimeout,
		// Each may need a connection to an origin.
		MaxConns:          cmp.Or(f.maxConns, max(1, min(16_384, (files-reservedFiles(files))/2))),
		MaxConnsPerClient: f.maxConnsPerClient,
		MaxHandshakes:     f.maxHandshakes,
		MaxUnfinished:     int(f.maxUnfinished),
	}
}
