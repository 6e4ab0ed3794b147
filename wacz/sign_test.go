package wacz

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	key, err := NewKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return key, path
}

func TestKeyFile(t *testing.T) {
	key, path := newKey(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key has mode %v, %v", info.Mode(), err)
	}
	if again, err := ReadKey(path); err != nil || !again.Equal(key) {
		t.Errorf("read again: %v", err)
	}
	if _, err := NewKey(path); err == nil {
		t.Error("a key is replaced")
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600 ") {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestKeysOfOthers(t *testing.T) {
	for name, args := range map[string][]string{
		"genpkey": {"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"},
		"ecparam": {"ecparam", "-name", "secp384r1", "-genkey"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if out, err := exec.Command("openssl", append(args, "-out", path)...).CombinedOutput(); err != nil {
			t.Skipf("openssl: %v\n%s", err, out)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := ReadKey(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signer, err := Signer(key)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "openssl pkey -in '"+path+"' -pubout -outform der | openssl dgst -sha256 -r").Output()
		if err != nil || !strings.HasPrefix(string(out), strings.TrimPrefix(signer, "sha256:")) {
			t.Errorf("%s: openssl says %s, %v; want %s", name, out, err, signer)
		}
	}
}

func TestReadKeyRefuses(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	for says, content := range map[string][]byte{
		"no private key": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		"cannot be read": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}),
		"P-384":          pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestSignature(t *testing.T) {
	key, _ := newKey(t)
	path := writeFile(t, "x.warc.gz", htmlPage("1", "http://example.org/", "", "x"))
	opts := Options{Key: key, Software: "S", Created: time.Date(2026, 11, 21, 10, 15, 3, 0, time.UTC)}
	packed, contents := pack(t, opts, path)
	if again, _ := pack(t, opts, path); !bytes.Equal(again, packed) {
		t.Error("signed again it is another package")
	}
	signer, err := Signer(key)
	if err != nil {
		t.Fatal(err)
	}
	report := verify(t, packed, VerifyOptions{Signer: signer})
	if len(report.Faults) > 0 || report.Signer != signer || report.Signed != "2026-11-21T10:15:03Z" || report.Software != "S" {
		t.Errorf("the report is %+v", report)
	}
	var d digestFile
	if err := json.Unmarshal([]byte(contents[digestName]), &d); err != nil {
		t.Fatal(err)
	}
	good := *d.SignedData
	if _, err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *signature){
		"hash":      func(s *signature) { s.Hash = "sha256:00" },
		"key":       func(s *signature) { s.PublicKey = base64.StdEncoding.EncodeToString([]byte("key")) },
		"no base64": func(s *signature) { s.PublicKey = "!" },
		"short":     func(s *signature) { s.Signature = "AAAA" },
		"other":     func(s *signature) { s.Signature = base64.StdEncoding.EncodeToString(make([]byte, 96)) },
		"empty":     func(s *signature) { *s = signature{} },
	} {
		bad := good
		spoil(&bad)
		if signer, err := bad.check(); err == nil || signer != "" {
			t.Errorf("%s: the signature is valid", name)
		}
	}
	// Without a time of its own a signed package bears that of the signature.
	var b bytes.Buffer
	before := time.Now().Add(-time.Second)
	if _, err := Pack(context.Background(), &b, []string{path}, Options{Key: key}); err != nil {
		t.Fatal(err)
	}
	if signed, err := time.Parse(time.RFC3339, verify(t, b.Bytes(), VerifyOptions{}).Signed); err != nil || signed.Before(before.Truncate(time.Second)) {
		t.Errorf("signed at %v, %v", signed, err)
	}
}
