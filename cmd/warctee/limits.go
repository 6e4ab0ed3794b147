package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
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
	maxHandshakes       int
	maxLong             int
	spoolMemory         sizeFlag
	spoolDisk           sizeFlag
	leafCache, dnsCache int
}

func (f *limitFlags) register(flags *pflag.FlagSet) {
	f.maxHead, f.maxURL, f.maxReplyHead = 64<<10, 64<<10, 1<<20
	f.spoolMemory, f.spoolDisk = 256<<20, 64<<30
	flags.Var(&f.maxHead, "max-head", "size of the header fields of a request; larger: 431")
	flags.Var(&f.maxURL, "max-url", "size of a request's URL; longer: 414")
	flags.IntVar(&f.maxFields, "max-fields", 256, "number of header fields of a request; more: 431")
	flags.Var(&f.maxReplyHead, "max-reply-head", "size of the head of an origin's reply; larger: 502")
	flags.IntVar(&f.maxReplyFields, "max-reply-fields", 4096, "number of header fields of a reply; more: 502")
	flags.DurationVar(&f.headerTimeout, "header-timeout", 10*time.Second, "time that a client has for the head of a request and for a\nTLS handshake")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 2*time.Minute, "time that a client's connection may be idle")
	flags.DurationVar(&f.stallTimeout, "stall-timeout", 10*time.Minute, "time that a client may take no byte of a response before it\ncounts as gone")
	flags.IntVar(&f.maxConns, "max-connections", 16_384, "connections of clients at once; further ones are refused")
	flags.IntVar(&f.maxConnsPerClient, "max-connections-per-client", 12_288, "the same for one address of a client")
	flags.IntVar(&f.maxConnsPerOrigin, "max-connections-per-origin", 512, "connections to one origin at once; further exchanges wait")
	flags.IntVar(&f.maxHandshakes, "max-handshakes", 64, "TLS handshakes with clients at once; further ones wait")
	flags.IntVar(&f.maxLong, "max-long", 4096, "exchanges at once that last longer than 10s, and WebSockets")
	flags.Var(&f.spoolMemory, "spool-memory", "memory for bodies that are not on disk yet, all together")
	flags.Var(&f.spoolDisk, "spool-disk", "disk space for the same, in temporary files in DIR")
	flags.IntVar(&f.leafCache, "leaf-cache", 4096, "certificates of hosts that are kept")
	flags.IntVar(&f.dnsCache, "dns-cache", 4096, "answers of the DNS that are kept")
}

// check refuses what makes no sense.
func (f *limitFlags) check() error {
	if min(f.maxHead, f.maxURL, f.maxReplyHead) < 1024 {
		return usageError{errors.New("--max-head, --max-url and --max-reply-head must be at least 1KiB")}
	}
	if min(f.headerTimeout, f.idleTimeout, f.stallTimeout) <= 0 {
		return usageError{errors.New("--header-timeout, --idle-timeout and --stall-timeout must be positive")}
	}
	if min(f.maxFields, f.maxReplyFields, f.maxConns, f.maxConnsPerClient, f.maxConnsPerOrigin, f.maxHandshakes, f.maxLong, f.leafCache, f.dnsCache) < 1 {
		return usageError{errors.New("--max-fields, --max-reply-fields, --max-connections, --max-connections-per-client, --max-connections-per-origin, --max-handshakes, --max-long, --leaf-cache and --dns-cache must be at least 1")}
	}
	return nil
}
