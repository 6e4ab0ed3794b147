//go:build unix

package archive

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe is refused, and not waited for.
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path+": not a regular file") {
		t.Error(err)
	}
}
