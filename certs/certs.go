// Package certs is a certificate authority for one installation, and the
// server certificates that it mints on demand.
//
// A recording proxy has to stand between a browser and an https origin. It
// can only do so with a certificate for the origin's name, issued by an
// authority that the browser was told to trust. [Open] loads that authority
// from a directory, or creates it; [Authority.Leaf] mints:
//
//	DIR/                   0700
//	DIR/ca.pem             0644  the certificate, for people to install
//	DIR/old-ca-SERIAL.pem  0644  one that was renewed
//	DIR/ca-key.pem         0600  its key; whoever reads it can impersonate every site
//	(memory)                     the key shared by all leaves, and the newest 4096 leaves
//
// The key comes first: a certificate that is missing is made from the key, so
// that a crash between the two files does no harm, and the file that is there
// first wins, so that two processes that start at once end with one pair.
package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/warctee/warctee/secret"
	"golang.org/x/sync/singleflight"
)

const (
	certFile = "ca.pem"
	keyFile  = "ca-key.pem"

	authorityLife = 5 * 365 * 24 * time.Hour
	backdate      = 48 * time.Hour // for clients whose clock is behind
)

// An Authority issues certificates. It is safe for concurrent use.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer

	leafKey *ecdsa.PrivateKey                    // of all leaves; never on disk
	leaves  *lru.Cache[string, *tls.Certificate] // by the name that is in them
	minting singleflight.Group
}

// Open loads the authority in dir, or creates one. It refuses a directory or a
// key that others than its owner can reach or that belongs to another user (see
// [secret]), a key and a certificate that do not belong together, and a
// certificate that has expired.
func Open(dir string) (*Authority, error) {
	if err := openDir(dir); err != nil {
		return nil, err
	}
	key, err := openKey(dir)
	if err != nil {
		return nil, err
	}
	cert, err := openCert(dir, key)
	if err != nil {
		return nil, err
	}
	if time.Now().After(cert.NotAfter) {
		return nil, fmt.Errorf("%s expired on %s; run: warctee ca renew --ca-dir %s", filepath.Join(dir, certFile), cert.NotAfter.Format(time.DateOnly), dir)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make the key for leaf certificates: %w", err)
	}
	leaves, err := lru.New[string, *tls.Certificate](maxLeaves)
	if err != nil {
		return nil, err
	}
	return &Authority{dir: dir, cert: cert, key: key, leafKey: leafKey, leaves: leaves}, nil
}

// CertPath returns the name of the file with the certificate, which is what
// clients have to trust.
func (a *Authority) CertPath() string { return filepath.Join(a.dir, certFile) }

// Certificate returns the certificate of the authority. Its NotAfter is worth
// a look: a client trusts no leaf from then on, and Open fails.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertPEM returns the certificate of the authority in PEM form.
func (a *Authority) CertPEM() []byte { return encodePEM("CERTIFICATE", a.cert.Raw) }

func openDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory of the certificate authority (--ca-dir): %w", err)
	}
	if err := secret.CheckDir(dir, harm); err != nil {
		return fmt.Errorf("cannot use the certificate authority (--ca-dir): %w", err)
	}
	return nil
}

// harm is what a key in the hands of others does.
const harm = "would let them impersonate every site"

// maxPEM bounds the files of an authority, in bytes.
const maxPEM = 1 << 20

// openKey loads the key, or creates it where there is neither key nor certificate.
func openKey(dir string) (crypto.Signer, error) {
	path := filepath.Join(dir, keyFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createKey(dir, path); err != nil {
			return nil, err
		}
	}
	text, err := secret.Read(path, maxPEM, harm)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authority (--ca-dir): %w", err)
	}
	der, err := decodePEM(path, text, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a %T cannot sign", path, key)
	}
	return signer, nil
}

func createKey(dir, path string) error {
	cert := filepath.Join(dir, certFile)
	_, err := os.Lstat(cert)
	if err == nil {
		// A process that starts at the same time makes the key first, so
		// look again before saying that the key is lost.
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		return fmt.Errorf("there is %s but not its key %s; bring the key back, or remove the certificate to get a new authority", cert, path)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("cannot encode the key: %w", err)
	}
	return create(path, encodePEM("PRIVATE KEY", der), 0o600)
}

// openCert loads the certificate of key, expired or not, or creates it.
func openCert(dir string, key crypto.Signer) (*x509.Certificate, error) {
	path := filepath.Join(dir, certFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		der, err := selfSign(key, time.Now())
		if err != nil {
			return nil, err
		}
		if err := create(path, encodePEM("CERTIFICATE", der), 0o644); err != nil {
			return nil, err
		}
	}
	cert, err := Read(dir)
	if err != nil {
		return nil, err
	}
	again := fmt.Sprintf("remove %s and %s to get a new authority", path, filepath.Join(dir, keyFile))
	if pub, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(key.Public()) {
		return nil, fmt.Errorf("%s is not the certificate of the key beside it; bring the right one back, or %s", path, again)
	}
	if !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("%s is not the certificate of an authority; %s", path, again)
	}
	return cert, nil
}

// selfSign makes the certificate of an authority that issues nothing but leaves.
func selfSign(key crypto.Signer, now time.Time) ([]byte, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	// A common name has at most 64 characters (RFC 5280, appendix A.1).
	name := fmt.Sprintf("warctee CA %.40s %s", host, now.UTC().Format(time.DateOnly))
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	id, err := keyID(key.Public())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		SubjectKeyId:          id,
		AuthorityKeyId:        id,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make the certificate of the authority: %w", err)
	}
	return der, nil
}

// newSerial returns a random serial number of 128 bits (RFC 5280 §4.1.2.2: positive).
func newSerial() (*big.Int, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	n := new(big.Int).SetBytes(b)
	return n.Add(n, big.NewInt(1)), nil
}

// keyID returns the identifier of a public key (RFC 7093 §2, method 1).
func keyID(pub crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a public key: %w", err)
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, fmt.Errorf("cannot encode a public key: %w", err)
	}
	sum := sha256.Sum256(info.Key.Bytes)
	return sum[:20], nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func readPEM(path, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authority (--ca-dir): %w", err)
	}
	return decodePEM(path, b, kind)
}

func decodePEM(path string, b []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s is not one PEM block of type %s", path, kind)
	}
	return block.Bytes, nil
}

// create writes a new file, whole and on disk, or leaves the one that another
// process created meanwhile.
func create(path string, b []byte, mode fs.FileMode) error {
	return publish(path, b, mode, func(from, to string) error {
		if err := os.Link(from, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// publish writes a file of which nobody ever sees a part. Move is os.Link or
// os.Rename, according to what becomes of a file that is there:
//
//	open(.tmp, O_EXCL), write, fsync, move(.tmp, path), unlink(.tmp), fsync(dir)
func publish(path string, b []byte, mode fs.FileMode, move func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot create %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // O_EXCL, mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
