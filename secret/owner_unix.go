//go:build unix

package secret

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// hasModes reports whether the system has owners and modes of files.
const hasModes = true

func ownerOf(st fs.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }

// userName is the name of a user, or its number where it has no name.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}

// isPrivateGroup reports whether the group of a file is that of root, or the one
// that many systems make for each user, with the same name.
func isPrivateGroup(st fs.FileInfo) bool {
	gid := int(st.Sys().(*syscall.Stat_t).Gid)
	if gid == 0 {
		return true
	}
	own, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return false
	}
	group, err := user.LookupGroupId(strconv.Itoa(gid))
	return err == nil && group.Name == own.Username
}
