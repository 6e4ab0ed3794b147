package rotate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrLocked is in the error of Open when another process owns the directory.
var ErrLocked = errors.New("the directory is locked")

// errHeld is what lockFile returns when another process holds the lock.
var errHeld = errors.New("held by another process")

// lockName is the file in the directory that is locked.
const lockName = ".lock"

// lockDir locks dir/.lock and writes the pid into it. The lock ends with the
// process, however it ends; the file stays, because removing it could take a
// lock away from somebody who has just opened it.
func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the directory %s: %w", dir, err)
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%w: %s is in use by %s; stop it or choose another directory (--dir)", ErrLocked, dir, owner(f))
		}
		return nil, fmt.Errorf("lock %s: %w (the file system must support locks)", name, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write the process id to %s: %w", name, err)
	}
	return f, nil
}

// owner names the process that has written its pid into a lock file.
func owner(f *os.File) string {
	b, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process" // which is about to write its pid
}
