package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T) *Authority {
	t.Helper()
	a, err := Open(filepath.Join(t.TempDir(), "ca"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOpenCreates(t *testing.T) {
	a := open(t)
	for name, want := range map[string]os.FileMode{"": 0o700, keyFile: 0o600, certFile: 0o644} {
		st, err := os.Stat(filepath.Join(a.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%q has mode %04o, want %04o", name, st.Mode().Perm(), want)
		}
	}
	if names, _ := os.ReadDir(a.dir); len(names) != 2 {
		t.Errorf("the directory has %v, want two files", names)
	}
	pub, err := os.ReadFile(a.CertPath())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pub, a.CertPEM()) || strings.Contains(string(pub), "KEY") {
		t.Errorf("ca.pem is not the certificate alone: %s", pub)
	}
	c := a.Certificate()
	if !c.IsCA || !c.MaxPathLenZero || c.MaxPathLen != 0 || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("not an authority for leaves alone: CA %v, path length %d, usage %b", c.IsCA, c.MaxPathLen, c.KeyUsage)
	}
	if n := len(c.Subject.CommonName); n > 64 || !strings.HasPrefix(c.Subject.CommonName, "warctee CA ") {
		t.Errorf("common name %q", c.Subject.CommonName)
	}
	if c.SerialNumber.BitLen() < 100 {
		t.Errorf("serial number %x is too short to be random", c.SerialNumber)
	}
	if life := c.NotAfter.Sub(c.NotBefore); life > 10*366*24*time.Hour {
		t.Errorf("valid for %v", life)
	}
}

func TestOpenAgain(t *testing.T) {
	a := open(t)
	b, err := Open(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	if !a.cert.Equal(b.cert) {
		t.Error("a second Open made another authority")
	}
	if a.leafKey.Equal(b.leafKey) {
		t.Error("the key of the leaves outlived the process")
	}
	if err := os.Remove(a.CertPath()); err != nil { // as after a crash between the two files
		t.Fatal(err)
	}
	c, err := Open(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	if !c.cert.PublicKey.(*ecdsa.PublicKey).Equal(a.cert.PublicKey) {
		t.Error("the new certificate is not for the old key")
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"directory others can list", func(dir string) error { return os.Chmod(dir, 0o750) }, "run: chmod 700 "},
		{"key others can read", func(dir string) error { return os.Chmod(filepath.Join(dir, keyFile), 0o640) }, "run: chmod 600 "},
		{"lost key", func(dir string) error { return os.Remove(filepath.Join(dir, keyFile)) }, "bring the key back"},
		{"empty key", func(dir string) error { return os.Truncate(filepath.Join(dir, keyFile), 0) }, "not one PEM block"},
		{"empty certificate", func(dir string) error { return os.Truncate(filepath.Join(dir, certFile), 0) }, "not one PEM block"},
		{"garbage in the key", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, keyFile), encodePEM("PRIVATE KEY", []byte("x")), 0o600)
		}, keyFile},
		{"another key", func(dir string) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, keyFile), encodePEM("PRIVATE KEY", der), 0o600)
		}, "not the certificate of the key"},
		{"expired", func(dir string) error {
			key, err := openKey(dir)
			if err != nil {
				return err
			}
			der, err := selfSign(key, time.Now().Add(-authorityLife-time.Hour))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, certFile), encodePEM("CERTIFICATE", der), 0o644)
		}, "expired on"},
		{"a leaf", func(dir string) error {
			a, err := Open(dir)
			if err != nil {
				return err
			}
			a.leafKey = a.key.(*ecdsa.PrivateKey)
			leaf, err := a.Leaf("example.org")
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, certFile), encodePEM("CERTIFICATE", leaf.Certificate[0]), 0o644)
		}, "not the certificate of an authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := open(t)
			if err := tt.spoil(a.dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(a.dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if !strings.Contains(err.Error(), a.dir) {
				t.Errorf("%q does not name the file", err)
			}
		})
	}
	t.Run("a file in place of the directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil {
			t.Fatal("no error")
		}
	})
}

// TestOpenTogether starts processes that open the same new directory.
func TestOpenTogether(t *testing.T) {
	if dir := os.Getenv("CERTS_TEST_DIR"); dir != "" {
		a, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("serial %x\n", a.cert.SerialNumber)
		return
	}
	dir := filepath.Join(t.TempDir(), "ca")
	serials := make([]string, 8)
	var wg sync.WaitGroup
	for i := range serials {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestOpenTogether$")
			cmd.Env = append(os.Environ(), "CERTS_TEST_DIR="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			serials[i], _, _ = strings.Cut(string(out), "\n")
		})
	}
	wg.Wait()
	for _, s := range serials {
		if s != serials[0] || !strings.HasPrefix(s, "serial ") {
			t.Fatalf("the processes ended with different authorities: %q", serials)
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 2 {
		t.Errorf("left behind: %v", names)
	}
}

func TestLeaf(t *testing.T) {
	a := open(t)
	for _, tt := range []struct{ host, name string }{
		{"example.org", "example.org"},
		{"EXAMPLE.org.", "example.org"},
		{"a_b.example", "a_b.example"},
		{"localhost", "localhost"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".org", ""},
		{"192.0.2.1", "192.0.2.1"},
		{"::1", "[::1]"},
		{"2001:DB8::0:1", "[2001:db8::1]"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
	} {
		leaf, err := a.Leaf(tt.host)
		if err != nil {
			t.Errorf("%s: %v", tt.host, err)
			continue
		}
		c := leaf.Leaf
		name := tt.name
		if name == "" {
			name = tt.host
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(a.CertPEM())
		if _, err := c.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("%s: %v", tt.host, err)
		}
		if len(leaf.Certificate) != 2 || !bytes.Equal(leaf.Certificate[1], a.cert.Raw) {
			t.Errorf("%s: the authority's certificate does not come along", tt.host)
		}
		if n := len(c.DNSNames) + len(c.IPAddresses); n != 1 {
			t.Errorf("%s: %d names", tt.host, n)
		}
		if c.Subject.String() != "" {
			t.Errorf("%s: subject %s", tt.host, c.Subject)
		}
		if life := c.NotAfter.Sub(c.NotBefore); life > 199*24*time.Hour {
			t.Errorf("%s: valid for %v", tt.host, life)
		}
		if time.Since(c.NotBefore) < 24*time.Hour {
			t.Errorf("%s: not back-dated", tt.host)
		}
		if !bytes.Equal(c.AuthorityKeyId, a.cert.SubjectKeyId) || len(c.SubjectKeyId) == 0 {
			t.Errorf("%s: key identifiers %x of %x", tt.host, c.SubjectKeyId, c.AuthorityKeyId)
		}
		if len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || c.IsCA {
			t.Errorf("%s: usage %v, CA %v", tt.host, c.ExtKeyUsage, c.IsCA)
		}
		if c.PublicKey.(*ecdsa.PublicKey).Equal(a.cert.PublicKey) {
			t.Errorf("%s: has the key of the authority", tt.host)
		}
	}
}

func TestLeafRefusesHostileNames(t *testing.T) {
	a := open(t)
	for _, host := range []string{
		"", ".", "..", "*", "*.example.org", "a..b", "../../etc/passwd", "a/b", `a\b`, "a b", "a\x00b", "a\nb",
		"bücher.example", "\xff\xfe", "example.org:443", "[::1]", "fe80::1%eth0", "a,b", "user@host", "$(id)",
		strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 130) + "org",
	} {
		if leaf, err := a.Leaf(host); err == nil {
			t.Errorf("%q got a certificate for %q", host, leaf.Leaf.DNSNames)
		} else if strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q is in the error as it is: %v", host, err)
		}
	}
	if a.leaves.Len() != 0 {
		t.Errorf("%d leaves are kept", a.leaves.Len())
	}
}

func TestLeafIsKept(t *testing.T) {
	a := open(t)
	got := make([]*tls.Certificate, 32)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			host := "example.org"
			if i%2 == 1 {
				host = "EXAMPLE.ORG"
			}
			got[i], _ = a.Leaf(host)
		})
	}
	wg.Wait()
	for _, leaf := range got {
		if leaf == nil || leaf != got[0] {
			t.Fatal("the same name was minted twice")
		}
	}
	if a.leaves.Len() != 1 {
		t.Errorf("%d leaves are kept", a.leaves.Len())
	}
}

func TestLeavesAreBounded(t *testing.T) {
	a := open(t)
	leaf, err := a.Leaf("x.example")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxLeaves + 10 {
		a.leaves.Add(fmt.Sprint(i), leaf)
	}
	if n := a.leaves.Len(); n != maxLeaves {
		t.Errorf("%d leaves are kept, want %d", n, maxLeaves)
	}
}

func TestLeafIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t)
		first, err := a.Leaf("example.org")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(leafLife/2 - time.Hour)
		if again, _ := a.Leaf("example.org"); again != first {
			t.Error("renewed before half of its life")
		}
		time.Sleep(2 * time.Hour)
		second, _ := a.Leaf("example.org")
		if second == first {
			t.Fatal("not renewed after half of its life")
		}
		time.Sleep(authorityLife - leafLife/2 - 24*time.Hour)
		last, _ := a.Leaf("example.org")
		if last.Leaf.NotAfter.After(a.cert.NotAfter) {
			t.Error("the leaf outlives the authority")
		}
		if again, _ := a.Leaf("example.org"); again != last {
			t.Error("minted again and again at the end of the life of the authority")
		}
	})
}

// A leaf that was made while the clock was ahead is of no use when it is right
// again.
func TestLeafFromTheFuture(t *testing.T) {
	a := open(t)
	early, err := a.mint("example.org", nil, time.Now().Add(7*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a.leaves.Add("example.org", early)
	leaf, err := a.Leaf("example.org")
	if err != nil || leaf == early || leaf.Leaf.NotBefore.After(time.Now()) {
		t.Errorf("got a leaf that is valid from %v, %v", leaf.Leaf.NotBefore, err)
	}
}

func TestHandshake(t *testing.T) {
	a := open(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return a.Leaf(h.ServerName)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // ends when ln is closed
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CertPEM())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		raw, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "www.example.org", MinVersion: version, MaxVersion: version})
		if err := c.Handshake(); err != nil {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		c.Close()
	}
}

// TestOpenSSL lets a program that nobody here wrote judge the certificates.
func TestOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	a := open(t)
	for _, host := range []string{"example.org", "::1"} {
		leaf, err := a.Leaf(host)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "leaf.pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}), 0o600); err != nil {
			t.Fatal(err)
		}
		check := "-verify_hostname"
		if strings.Contains(host, ":") {
			check = "-verify_ip"
		}
		out, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", a.CertPath(), check, host, path).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", host, err, out)
		}
	}
}
