//go:build unix

package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"
)

// This file is compiled into warctee too, when that is built to be measured: it
// must need nothing of this package. At a SIGUSR1 a proxy tells on stderr how
// much it has allocated since its start. Where BENCH_PROFILE names a file, the
// first signal also starts a CPU profile, and the second ends it.
func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	path := os.Getenv("BENCH_PROFILE")
	go func() { // ends with the process
		for n := 0; ; n++ {
			<-signals
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			switch {
			case path == "":
			case n == 0:
				f, err := os.Create(path)
				if err != nil {
					log.Fatal(err)
				}
				pprof.StartCPUProfile(f)
			case n == 1:
				pprof.StopCPUProfile()
			}
			fmt.Fprintln(os.Stderr, "allocated", m.TotalAlloc)
		}
	}()
}
