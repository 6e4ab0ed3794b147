//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const harm = "is bad"

// write makes a directory with a file in it, both of root.
func write(t *testing.T, dirMode, fileMode os.FileMode, dirOwner, fileOwner int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dir")
	path := filepath.Join(dir, "secret")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(path, []byte("abc"), 0o600))
	must(t, os.Chmod(path, fileMode))
	if fileOwner >= 0 {
		must(t, os.Chown(path, fileOwner, -1))
	}
	if dirOwner >= 0 {
		must(t, os.Chown(dir, dirOwner, -1))
	}
	must(t, os.Chmod(dir, dirMode))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name      string
		dir, file os.FileMode
		refused   string // a part of the error; "": none
	}{
		{"private", 0o700, 0o600, ""},
		{"read-only", 0o755, 0o400, ""},
		{"readable by the group", 0o700, 0o640, "others can reach FILE (mode 0640), which is bad; run: chmod 600 FILE"},
		{"readable by others", 0o700, 0o604, "chmod 600"},
		{"writable by others", 0o700, 0o602, "chmod 600"},
		{"directory of everybody", 0o777, 0o600, "others can replace files in DIR (mode 0777), such as FILE, which is bad; run: chmod "},
		{"directory of others", 0o703, 0o600, "chmod o-w DIR"},
		{"sticky directory", 0o777 | os.ModeSticky, 0o600, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.dir, test.file, -1, -1)
			text, err := Read(path, 10, harm)
			want := strings.NewReplacer("FILE", path, "DIR", filepath.Dir(path)).Replace(test.refused)
			switch {
			case test.refused == "" && (err != nil || string(text) != "abc"):
				t.Errorf("got %q, %v", text, err)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got the error %v, want %q", err, want)
			}
		})
	}
	if _, err := Read(write(t, 0o700, 0o600, -1, -1), 2, harm); err == nil || !strings.Contains(err.Error(), "more than 2 bytes") {
		t.Errorf("a large file: %v", err)
	}
}

func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const other = 61234
	for _, test := range []struct {
		name      string
		dir, file int
		refused   string
	}{
		{"file", 0, other, "secret belongs to another user (uid 61234), which is bad; run warctee as that user, or: chown 0 "},
		{"directory", other, 0, "dir belongs to another user (uid 61234), which is bad"},
		{"none", 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(write(t, 0o755, 0o600, test.dir, test.file), 10, harm)
			if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("got the error %v, want %q", err, test.refused)
			}
		})
	}
	t.Run("group", func(t *testing.T) {
		path := write(t, 0o770, 0o600, -1, -1)
		if _, err := Read(path, 10, harm); err != nil {
			t.Errorf("the group of root: %v", err)
		}
		must(t, os.Chown(filepath.Dir(path), -1, other))
		if _, err := Read(path, 10, harm); err == nil || !strings.Contains(err.Error(), "chmod g-w") {
			t.Errorf("another group: %v", err)
		}
	})
	t.Run("link", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		must(t, os.Symlink(write(t, 0o755, 0o600, other, 0), link))
		if _, err := Read(link, 10, harm); err == nil || !strings.Contains(err.Error(), "dir belongs to another user") {
			t.Errorf("a link to a file that another user can replace: %v", err)
		}
	})
	if err := CheckDir(filepath.Dir(write(t, 0o700, 0o600, other, 0)), harm); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("CheckDir: %v", err)
	}
}

// A pipe, as a shell gives in place of a file, has no directory to look at.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	w.WriteString("abc")
	w.Close()
	path := "/dev/fd/" + strconv.Itoa(int(r.Fd()))
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	if text, err := Read(path, 10, harm); err != nil || string(text) != "abc" {
		t.Errorf("got %q, %v", text, err)
	}
}
