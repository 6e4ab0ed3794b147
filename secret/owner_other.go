//go:build !unix

package secret

import "io/fs"

// hasModes reports whether the system has owners and modes of files.
const hasModes = false

func ownerOf(fs.FileInfo) int { return 0 }

func userName(int) string { return "" }

func isPrivateGroup(fs.FileInfo) bool { return true }
