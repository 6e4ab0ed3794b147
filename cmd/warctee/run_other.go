//go:build !unix

package main

import "os"

// passedOn are the signals that we must not die of: the console sends them to
// the command as well.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

func hasTerminal() bool { return false }
