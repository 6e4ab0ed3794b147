//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/certs"
)

// Files with secrets that belong to another user, or that another user can
// replace, are refused before anything is recorded; the message says what to do.
func TestSecretsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const other = 61234
	for _, test := range []struct {
		name   string
		spoil  func(dir string) error
		refuse string // a part of the message
	}{
		{"--ca-dir of another user", func(dir string) error { return os.Chown(filepath.Join(dir, "ca"), other, -1) }, "ca belongs to another user (uid 61234), which would let them impersonate every site; run warctee as that user, or: chown 0 "},
		{"key of another user", func(dir string) error { return os.Chown(filepath.Join(dir, "ca", "ca-key.pem"), other, -1) }, "ca-key.pem belongs to another user"},
		{"--auth of another user", func(dir string) error { return os.Chown(filepath.Join(dir, "users"), other, -1) }, "users belongs to another user (uid 61234), which would let them use the proxy"},
		{"--auth in a directory of everybody", func(dir string) error { return os.Chmod(dir, 0o777) }, "others can replace files in "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := certs.Open(filepath.Join(dir, "ca")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "users"), []byte("ann:"+password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := test.spoil(dir); err != nil {
				t.Fatal(err)
			}
			out, err := programCommand(t, "record", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "warcs"),
				"--ca-dir", filepath.Join(dir, "ca"), "--auth", filepath.Join(dir, "users")).CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.refuse) || strings.Contains(string(out), password) {
				t.Errorf("the program says %q, %v, want %q", out, err, test.refuse)
			}
			if _, err := os.Stat(filepath.Join(dir, "warcs")); err == nil {
				t.Error("the archive was opened")
			}
		})
	}
}
