//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inOwnSession makes a command start in a session of its own.
func inOwnSession(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}
