package main

import (
	"bufio"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warctee/warctee/certs"
)

// expireAt gives the authority in dir a certificate that ends at that time.
func expireAt(t *testing.T, dir string, end time.Time) {
	t.Helper()
	a, err := certs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	cert := *a.Certificate()
	cert.NotBefore, cert.NotAfter = end.Add(-24*time.Hour), end
	der, err := x509.CreateCertificate(rand.Reader, &cert, &cert, key.(crypto.Signer).Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.CertPath(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
}

// From 30 days before the certificate expires, each start says so; then there
// is none, but it can be looked at and renewed.
func TestExpiry(t *testing.T) {
	for name, tt := range map[string]struct {
		left  time.Duration
		warns bool
	}{
		"in 31 days": {31 * 24 * time.Hour, false},
		"in 29 days": {29 * 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := time.Now().Add(tt.left)
			work := t.TempDir()
			dir, ca := filepath.Join(work, "warcs"), filepath.Join(work, "ca")
			expireAt(t, ca, end)
			run := programCommand(t, "run", "--dir", dir, "--ca-dir", ca, "--", "true")
			run.Env = append(run.Env, "PATH="+os.Getenv("PATH"))
			said, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			warns := strings.Contains(string(said), "expires soon") && strings.Contains(string(said), "expires="+end.UTC().Format(time.DateOnly))
			if warns != tt.warns {
				t.Errorf("run warns: %v, want %v: %s", warns, tt.warns, said)
			}

			p := startProgram(t, dir, "--ca-dir", ca)
			p.stop()
			if warns := strings.Contains(p.log(), "expires soon"); warns != tt.warns {
				t.Errorf("record warns: %v, want %v", warns, tt.warns)
			}
		})
	}
	t.Run("over", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "ca")
		expireAt(t, dir, time.Now().Add(-time.Hour))
		ca := func(args ...string) string {
			t.Helper()
			out, err := programCommand(t, append(args, "--ca-dir", dir)...).CombinedOutput()
			if err != nil {
				return "failed: " + string(out)
			}
			return string(out)
		}
		if got := ca("record", "--dir", dir+"/x", "--listen", "127.0.0.1:0"); !strings.HasPrefix(got, "failed: warctee: "+dir) || !strings.Contains(got, "warctee ca renew") {
			t.Errorf("record says %q", got)
		}
		if got := ca("ca", "info"); !strings.Contains(got, "(expired)") {
			t.Errorf("info says %q", got)
		}
		if got := ca("ca", "renew"); strings.HasPrefix(got, "failed") {
			t.Error(got)
		}
		if got := ca("ca", "info"); !strings.Contains(got, "days left)") {
			t.Errorf("info says %q", got)
		}
	})
}

// The line that record prints starts Chromium as it is pasted into a shell.
func TestRecordPrintsChromiumFlags(t *testing.T) {
	cmd := programCommand(t, "record", "--print-chromium-flags", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "warcs"), "--ca-dir", filepath.Join(t.TempDir(), "ca"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	shell := exec.Command("sh", "-c", `chromium() { printf '%s\n' "$@"; }; chromium `+line)
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	words, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := certs.Read(filepath.Dir(p.caFile))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(chromiumFlags(p.proxy.String(), cert), "\n") + "\n--user-data-dir=" + shell.Env[1][len("TMPDIR="):] + "/"
	if !strings.HasPrefix(string(words), want) || strings.Count(string(words), "\n") != strings.Count(want, "\n")+1 {
		t.Errorf("the flags are %q, want %q and the name of a directory", words, want)
	}
}
