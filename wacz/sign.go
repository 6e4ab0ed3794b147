package wacz

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"

	"github.com/warctee/warctee/secret"
)

// A digestFile is the content of datapackage-digest.json.
type digestFile struct {
	Path       string     `json:"path"`
	Hash       string     `json:"hash"`
	SignedData *signature `json:"signedData,omitempty"`
}

// A signature is what WACZ Signing and Verification 0.1.0 calls signedData, of
// the anonymous form or, with a domain, of the other.
type signature struct {
	Hash      string `json:"hash"`
	Signature string `json:"signature"`
	PublicKey string `json:"publicKey,omitempty"`
	Created   string `json:"created"`
	Software  string `json:"software"`
	Domain    string `json:"domain,omitempty"`
}

// curveBytes is the length of a number of the curve P-384, the only one that
// replay programs know.
const curveBytes = 48

// sign signs a digest, as its text, with ECDSA on P-384 and SHA-256. The
// signature is two numbers one after the other, as Web Cryptography has it. The
// same key and text give the same signature (RFC 6979).
func sign(key *ecdsa.PrivateKey, hash, created, software string) (*signature, error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(hash))
	der, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return nil, err
	}
	raw := make([]byte, 2*curveBytes)
	numbers.R.FillBytes(raw[:curveBytes])
	numbers.S.FillBytes(raw[curveBytes:])
	return &signature{
		Hash:      hash,
		Signature: base64.StdEncoding.EncodeToString(raw),
		PublicKey: base64.StdEncoding.EncodeToString(public),
		Created:   created,
		Software:  software,
	}, nil
}

// check verifies a signature by the public key in it, and returns whose it is.
func (s *signature) check() (signer string, err error) {
	public, err := base64.StdEncoding.DecodeString(s.PublicKey)
	if err != nil {
		return "", errors.New("the public key is no base64")
	}
	parsed, err := x509.ParsePKIXPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("the public key cannot be read: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P384() {
		return "", errors.New("the public key is not one of ECDSA on P-384")
	}
	raw, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || len(raw) != 2*curveBytes {
		return "", fmt.Errorf("the signature is no base64 of %d octets", 2*curveBytes)
	}
	sum := sha256.Sum256([]byte(s.Hash))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(raw[:curveBytes]), new(big.Int).SetBytes(raw[curveBytes:])) {
		return "", errors.New("the signature was not made by the public key that it names, or of another digest")
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(public)), nil
}

// Signer names a key: the SHA-256 of its public half, in DER.
func Signer(key *ecdsa.PrivateKey) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return fmt.Sprintf("sha256:%x", sha256.Sum256(public)), err
}

// NewKey makes a key in a new file that only its owner can read.
func NewKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Sync(), f.Close())
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	return key, nil
}

// maxKeyFile bounds the file of a key, in octets.
const maxKeyFile = 1 << 20

// ReadKey reads a key that NewKey or openssl has made. A file that another user
// could have read or written is refused (see [secret]).
func ReadKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := secret.Read(path, maxKeyFile, "would let them sign in your name")
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("%s: no private key in PEM; make one with warctee pack --new-key FILE", path)
		}
		var parsed any
		switch block.Type {
		case "PRIVATE KEY":
			parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		default: // openssl writes EC PARAMETERS in front of it
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: the private key cannot be read", path)
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok || key.Curve != elliptic.P384() {
			return nil, fmt.Errorf("%s: the key is not one of ECDSA on P-384, which replay programs want", path)
		}
		return key, nil
	}
}
