package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Read returns the certificate in dir as it is, expired or not. The error is
// [fs.ErrNotExist] when there is none.
func Read(dir string) (*x509.Certificate, error) {
	path := filepath.Join(dir, certFile)
	der, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

// Renew replaces the certificate in dir by one that is valid from now on, and
// returns the name of the file in which the old one is kept.
//
// Key, names, limits and key identifier stay. So a client that trusts the old
// certificate goes on to accept the leaves until that expires, and one that
// trusts the new one accepts the leaves of a process which still has the old:
// clients can be moved one by one. The key is not touched.
func Renew(dir string) (backup string, err error) {
	if _, err := Read(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no certificate to be renewed: %w", err)
	}
	if err := openDir(dir); err != nil {
		return "", err
	}
	key, err := openKey(dir)
	if err != nil {
		return "", err
	}
	old, err := openCert(dir, key)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, certFile)
	if !bytes.Equal(old.RawIssuer, old.RawSubject) {
		return "", fmt.Errorf("%s was issued by %s, who alone can renew it", path, old.Issuer)
	}
	next := *old
	next.SignatureAlgorithm = x509.UnknownSignatureAlgorithm // that of the key
	next.NotBefore, next.NotAfter = time.Now().Add(-backdate), time.Now().Add(authorityLife)
	if next.SerialNumber, err = newSerial(); err != nil {
		return "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &next, &next, key.Public(), key)
	if err != nil {
		return "", fmt.Errorf("cannot renew %s: %w", path, err)
	}
	// The name tells which certificate it is, so one that is there already is
	// the same: from a renewal that was interrupted.
	backup = filepath.Join(dir, fmt.Sprintf("old-ca-%x.pem", old.SerialNumber))
	if err := os.Link(path, backup); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cannot keep the old certificate: %w", err)
	}
	return backup, publish(path, encodePEM("CERTIFICATE", der), 0o644, os.Rename)
}
