//go:build !unix

package main

import "os/exec"

func inOwnSession(*exec.Cmd) {}
