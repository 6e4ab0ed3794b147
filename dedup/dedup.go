// Package dedup remembers the first capture of each payload, by digest, so
// that a payload which comes again is stored as a reference.
//
// # Which store
//
//   - [NewMemory]: one process, forgets at its end. Costs memory for each
//     payload, without bound: some 350 bytes, more with long URIs.
//   - [OpenBolt]: one file (bbolt), used by one process at a time, kept over
//     restarts. About 500 bytes of disk per payload; a commit costs two fsyncs.
//     Good for some 20 million payloads.
//
// # An index is a cache
//
// Losing an index costs duplicates in the archive, nothing else. A wrong entry
// would cost more: a reference to a capture that does not exist. Therefore
// entries are committed only when the captures that they name are durable, a
// damaged entry is as good as none, and whoever looks up checks that the record is
// still there.
//
// # Layout of the bbolt file
//
// One bucket, "captures 1". The key is the digest as text, as it is in the WARC
// header; with SHA-1 a space and the SHA-256 follow, so that two payloads with
// the same SHA-1, which can be made, are told from each other. The value is
//
//	+--------+---------+---------+----------+------------+-------+-------+--------+
//	| CRC-32 | offset  | length  | recordID | target URI | date  | file  | method |
//	| 4 oct. | uvarint | uvarint | string   | string     | str.  | str.  | string |
//	+--------+---------+---------+----------+------------+-------+-------+--------+
//
// where a string is its length as an uvarint and its octets, and the CRC-32
// (Castagnoli, big-endian) covers the key and everything after it: bbolt
// itself has no checksum on content. Entries of the first release have no method.
package dedup

import (
	"errors"
	"fmt"
	"strings"
)

// MaxDigest is the longest digest an index takes, in bytes.
const MaxDigest = 1024

// ErrClosed is returned by an index after Close.
var ErrClosed = errors.New("the dedup index is closed")

// A Capture tells where the original of a payload is.
type Capture struct {
	RecordID  string // WARC-Record-ID of the response, with its brackets
	TargetURI string // WARC-Target-URI of the response, verbatim
	Date      string // WARC-Date of the response, verbatim
	File      string // base name that the file has when it is finished
	Offset    int64  // of the record in File, bytes
	Length    int64  // of the record in File, bytes
	Method    string // of the request that was answered; "" in entries of the first release, which do not say
}

// An Entry is the capture of one payload.
type Entry struct {
	Digest  string // as in WARC-Payload-Digest; a sha1 one, which can be forged, with a space and the sha256 one behind it
	Capture Capture
}

// An Index maps the digests of payloads to their original captures. It is safe
// for concurrent use.
type Index interface {
	// Lookup returns the capture of a payload, false if there is none.
	Lookup(digest string) (Capture, bool, error)

	// Commit stores all entries or, when it returns an error, none. They
	// survive a power cut, in a store that outlives its process, as soon as it
	// returns. An entry replaces an older one of the same digest: who commits
	// has found that one missing or gone.
	Commit(entries []Entry) error

	// Close gives the store free. Lookup and Commit return ErrClosed after it,
	// Close again nil.
	Close() error
}

func check(entries []Entry) error {
	for _, e := range entries {
		switch {
		case e.Digest == "" || len(e.Digest) > MaxDigest:
			return fmt.Errorf("dedup: a digest of %d bytes, wanted 1 to %d", len(e.Digest), MaxDigest)
		case e.Capture.Offset < 0 || e.Capture.Length < 0:
			return fmt.Errorf("dedup: capture %s has the negative offset or length %d, %d",
				strings.ToValidUTF8(e.Capture.RecordID, "?"), e.Capture.Offset, e.Capture.Length)
		}
	}
	return nil
}
