package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replaceCert puts a certificate of another age in place of the one in dir.
func replaceCert(t *testing.T, dir string, made time.Time, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	key, err := openKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	der, err := selfSign(key, made)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		change(cert)
		if der, err = x509.CreateCertificate(nil, cert, cert, key.Public(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, certFile), encodePEM("CERTIFICATE", der), 0o644); err != nil {
		t.Fatal(err)
	}
	cert, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verifies(t *testing.T, issuer *Authority, root *x509.Certificate) {
	t.Helper()
	leaf, err := issuer.Leaf("example.org")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: "example.org", Roots: roots}); err != nil {
		t.Errorf("a leaf issued by %x with the root %x: %v", issuer.cert.SerialNumber, root.SerialNumber, err)
	}
}

func TestRenew(t *testing.T) {
	before := open(t)
	key, err := os.ReadFile(filepath.Join(before.dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	old := replaceCert(t, before.dir, time.Now().Add(-authorityLife+time.Hour), nil)
	if before, err = Open(before.dir); err != nil {
		t.Fatal(err)
	}
	oldPEM := before.CertPEM()

	backup, err := Renew(before.dir)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Open(before.dir)
	if err != nil {
		t.Fatal(err)
	}
	c := after.Certificate()
	if left := time.Until(c.NotAfter); left < authorityLife-time.Hour {
		t.Errorf("the new certificate is valid for %v", left)
	}
	if c.SerialNumber.Cmp(old.SerialNumber) == 0 {
		t.Error("the serial number is the old one")
	}
	if !c.PublicKey.(*ecdsa.PublicKey).Equal(old.PublicKey) || !bytes.Equal(c.RawSubject, old.RawSubject) || !bytes.Equal(c.SubjectKeyId, old.SubjectKeyId) {
		t.Error("key, name or key identifier has changed")
	}
	if !c.IsCA || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("not an authority for leaves alone: CA %v, usage %b", c.IsCA, c.KeyUsage)
	}
	// Clients can be moved one by one, before and after the restart.
	verifies(t, after, old)
	verifies(t, before, c)
	verifies(t, after, c)

	if kept, err := os.ReadFile(backup); err != nil || !bytes.Equal(kept, oldPEM) {
		t.Errorf("the old certificate is not in %s: %v", backup, err)
	}
	if now, err := os.ReadFile(filepath.Join(before.dir, keyFile)); err != nil || !bytes.Equal(now, key) {
		t.Errorf("the key has been touched: %v", err)
	}
	if st, err := os.Stat(after.CertPath()); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%s: %v, %v", after.CertPath(), st.Mode(), err)
	}
	again, err := Renew(before.dir)
	if err != nil || again == backup {
		t.Errorf("renewed again: %s, %v; want another file", again, err)
	}
	if names, _ := os.ReadDir(before.dir); len(names) != 4 {
		t.Errorf("the directory has %v, want key, certificate and two old ones", names)
	}
}

func TestRenewExpired(t *testing.T) {
	a := open(t)
	replaceCert(t, a.dir, time.Now().Add(-authorityLife-time.Hour), nil)
	if _, err := Open(a.dir); err == nil || !strings.Contains(err.Error(), "warctee ca renew") {
		t.Fatalf("got %v, want an error that says what to do", err)
	}
	if _, err := Renew(a.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(a.dir); err != nil {
		t.Fatal(err)
	}
}

// What somebody has put into their own authority stays.
func TestRenewKeepsLimits(t *testing.T) {
	a := open(t)
	replaceCert(t, a.dir, time.Now(), func(c *x509.Certificate) {
		c.PermittedDNSDomainsCritical = true
		c.PermittedDNSDomains = []string{"example.org"}
	})
	if _, err := Renew(a.dir); err != nil {
		t.Fatal(err)
	}
	c, err := Read(a.dir)
	if err != nil || !c.PermittedDNSDomainsCritical || len(c.PermittedDNSDomains) != 1 {
		t.Errorf("permitted are %v, %v; want example.org alone", c.PermittedDNSDomains, err)
	}
}

// A renewal that was interrupted after the backup can be done again.
func TestRenewAgain(t *testing.T) {
	a := open(t)
	backup, err := Renew(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.CertPath(), a.CertPEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := Renew(a.dir); err != nil || again != backup {
		t.Fatalf("got %s, %v", again, err)
	}
}

func TestRenewRefuses(t *testing.T) {
	t.Run("nothing there", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "ca")
		if _, err := Renew(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %v", err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it has made the directory")
		}
	})
	t.Run("issued by somebody else", func(t *testing.T) {
		a, issuer := open(t), open(t)
		cert := *a.cert
		parent := *issuer.cert
		parent.RawSubject, parent.Subject.CommonName = nil, "somebody else"
		der, err := x509.CreateCertificate(nil, &cert, &parent, a.key.Public(), issuer.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(a.CertPath(), encodePEM("CERTIFICATE", der), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Renew(a.dir); err == nil || !strings.Contains(err.Error(), "issued by CN=somebody else") {
			t.Fatalf("got %v", err)
		}
	})
	for _, tt := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"lost key", func(dir string) error { return os.Remove(filepath.Join(dir, keyFile)) }, "bring the key back"},
		{"directory others can list", func(dir string) error { return os.Chmod(dir, 0o755) }, "run: chmod 700 "},
		{"key others can read", func(dir string) error { return os.Chmod(filepath.Join(dir, keyFile), 0o644) }, "run: chmod 600 "},
		{"empty certificate", func(dir string) error { return os.Truncate(filepath.Join(dir, certFile), 0) }, "not one PEM block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := open(t)
			if err := tt.spoil(a.dir); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(a.CertPath())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Renew(a.dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if after, err := os.ReadFile(a.CertPath()); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the certificate has changed: %v", err)
			}
		})
	}
}
