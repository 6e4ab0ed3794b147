// Package secret reads files that hold keys and passwords. It refuses those that
// another user could have read, written or replaced.
//
// What it demands is close to what OpenSSH demands of its files:
//
//	FILE       belongs to the user that runs the program, or to root; group and
//	           others can neither read nor write it
//	its DIR    belongs to one of these two; nobody else can write there, unless
//	           the directory is sticky, as /tmp is
//
// A group may write to the directory if it is the user's private group, which has
// the name of the user. Windows has neither such owners nor such modes; there
// nothing is refused.
package secret

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Read returns the content of a file. harm completes the sentence "others can
// reach FILE, which …". A file of more than limit bytes is refused. Errors name
// the file and what to do.
func Read(path string, limit int64, harm string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat() // of what was opened, whatever the name stands for by now
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(path, st, harm); err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() { // a pipe of the shell has no directory
		if err := checkDirs(path, harm); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, nil
}

// CheckDir refuses a directory that others than its owner can reach, or that
// belongs to another user. harm is as for [Read].
func CheckDir(dir, harm string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return checkPrivate(dir, st, harm)
}

func checkPrivate(path string, st fs.FileInfo, harm string) error {
	if !hasModes {
		return nil
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("others can reach %s (mode %04o), which %s; run: chmod %o %s", path, mode, harm, mode&^0o077, path)
	}
	return checkOwner(path, st, harm)
}

func checkOwner(path string, st fs.FileInfo, harm string) error {
	owner, own := ownerOf(st), os.Geteuid()
	if owner == own || owner == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to another user (%s), which %s; run warctee as that user, or: chown %d %s", path, userName(owner), harm, own, path)
}

// checkDirs looks at the directory that has the name of a file, and at that of the
// file itself where the name is a link.
func checkDirs(path, harm string) error {
	if !hasModes {
		return nil
	}
	dirs := []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := checkOwner(dir, st, harm); err != nil {
			return err
		}
		writable := st.Mode().Perm() & 0o022
		if isPrivateGroup(st) {
			writable &^= 0o020
		}
		if writable != 0 && st.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("others can replace files in %s (mode %04o), such as %s, which %s; run: chmod %s %s", dir, st.Mode().Perm(), path, harm, withoutWriting(writable), dir)
		}
	}
	return nil
}

// withoutWriting is what chmod takes to remove these bits.
func withoutWriting(bits fs.FileMode) string {
	switch bits {
	case 0o020:
		return "g-w"
	case 0o002:
		return "o-w"
	}
	return "go-w"
}
