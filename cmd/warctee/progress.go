package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A progress shows on a terminal how far a long job has come, how fast it is and
// when it will end. Elsewhere it shows nothing. It is safe for concurrent use.
type progress struct {
	bar  *progressbar.ProgressBar // nil: no terminal
	over sync.Once
}

// newProgress starts to show how many of total bytes are done. What says in a
// word what is done to them, as in "checking".
func newProgress(stderr io.Writer, total int64, what string) *progress {
	if !isTerminal(stderr) {
		return &progress{}
	}
	return &progress{bar: newBar(rawWriter(stderr), total, what)}
}

func newBar(w io.Writer, total int64, what string) *progressbar.ProgressBar {
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(),
	)
	bar.RenderBlank() // starts its clock: else the first rate would be that of no time
	return bar
}

// A quietFlag keeps a command from printing anything but results and errors.
type quietFlag bool

func (q *quietFlag) register(flags *pflag.FlagSet) {
	flags.BoolVarP((*bool)(q), "quiet", "q", false, "no progress and no summary; what is found and what fails is still printed")
}

// notes returns where progress and summaries go.
func (q quietFlag) notes(stderr io.Writer) io.Writer {
	if q {
		return io.Discard
	}
	return stderr
}

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := rawWriter(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// add tells that n more bytes are done.
func (p *progress) add(n int64) {
	if p.bar != nil {
		p.bar.Add64(n) // an error of the terminal is not the job's
	}
}

// clear takes the bar away, so that a line can be printed. The next add shows it
// again.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

// done takes the bar away for good. Called again it does nothing, so that it takes
// nothing away that was written since.
func (p *progress) done() {
	p.over.Do(func() {
		if p.bar != nil {
			p.bar.Exit()
			p.bar.Clear()
		}
	})
}

// rate says how much was done in which time: "1.2 GB in 3.4s, 353 MB/s".
func rate(bytes int64, took time.Duration) string {
	perSecond := float64(bytes) / max(took.Seconds(), 0.001)
	return fmt.Sprintf("%s in %v, %s/s", humanize.Bytes(uint64(bytes)), took.Round(100*time.Millisecond), humanize.Bytes(uint64(perSecond)))
}
