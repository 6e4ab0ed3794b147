package warc

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// An Algorithm is a hash function for WARC-Block-Digest and
// WARC-Payload-Digest.
type Algorithm int

const (
	SHA256 Algorithm = iota
	SHA1
	SHA512 // for reading
	MD5    // for reading
)

var algorithmNames = [...]string{SHA256: "sha256", SHA1: "sha1", SHA512: "sha512", MD5: "md5"}

// ErrUnknownAlgorithm is wrapped by errors about a digest that may be right but
// cannot be computed here.
var ErrUnknownAlgorithm = errors.New("unknown digest algorithm")

// ParseAlgorithm understands the label of a digest: sha1, sha256, sha512 or md5,
// in any case, also with a hyphen as in sha-256.
func ParseAlgorithm(label string) (Algorithm, error) {
	l := strings.ToLower(label)
	if rest, ok := strings.CutPrefix(l, "sha-"); ok {
		l = "sha" + rest
	}
	for a, name := range algorithmNames {
		if l == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("warc: %w %.40q: known are sha1, sha256, sha512 and md5", ErrUnknownAlgorithm, label)
}

// String returns the label: sha256, sha1, sha512 or md5.
func (a Algorithm) String() string {
	if a < 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("Algorithm(%d)", int(a))
	}
	return algorithmNames[a]
}

// New returns a new hash of that kind.
func (a Algorithm) New() hash.Hash {
	switch a {
	case SHA1:
		return sha1.New()
	case SHA512:
		return sha512.New()
	case MD5:
		return md5.New()
	}
	return sha256.New()
}

// Format returns the value of a digest field: the label, a colon and the sum,
// for sha1 in upper-case Base32, for all others in lower-case Base16, as most
// writers do.
func (a Algorithm) Format(sum []byte) string {
	if a == SHA1 {
		return "sha1:" + base32.StdEncoding.EncodeToString(sum)
	}
	return a.String() + ":" + hex.EncodeToString(sum)
}

// A Digest is the value of a digest field.
type Digest struct {
	Algorithm Algorithm
	Sum       []byte
}

// ParseDigest understands the value of a digest field, with the sum in Base16
// or Base32 of either case, with or without padding. Its error wraps
// [ErrUnknownAlgorithm] when only the label is at fault.
func ParseDigest(s string) (Digest, error) {
	label, value, ok := strings.Cut(s, ":")
	if !ok {
		return Digest{}, fmt.Errorf("warc: the digest %.80q is not algorithm:value", s)
	}
	a, err := ParseAlgorithm(label)
	if err != nil {
		return Digest{}, err
	}
	size := a.New().Size()
	value = strings.TrimRight(value, "=")
	var sum []byte
	switch len(value) {
	case hex.EncodedLen(size):
		sum, err = hex.DecodeString(value)
	case base32.StdEncoding.WithPadding(base32.NoPadding).EncodedLen(size):
		sum, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(value))
	default:
		err = errors.New("wrong length")
	}
	if err != nil {
		return Digest{}, fmt.Errorf("warc: the digest %.160q is not a %s sum in Base16 or Base32: %w", s, a, err)
	}
	return Digest{a, sum}, nil
}

// Equal reports whether two digests are the same sum of the same algorithm.
func (d Digest) Equal(e Digest) bool {
	return d.Algorithm == e.Algorithm && bytes.Equal(d.Sum, e.Sum)
}

// String returns the digest in the form that [Algorithm.Format] gives.
func (d Digest) String() string { return d.Algorithm.Format(d.Sum) }
