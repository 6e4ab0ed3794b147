//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is a running proxy.
type process struct {
	cmd    *exec.Cmd
	host   string        // host:port that it listens on
	probed chan float64  // what it answers to probe
	ended  chan struct{} // closed when it says no more

	mu   sync.Mutex
	said strings.Builder // on stderr
}

var listening = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// startProcess starts a proxy, which tells its URL on stderr.
func startProcess(env []string, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	p := &process{cmd: cmd, probed: make(chan float64, 1), ended: make(chan struct{})}
	found := make(chan string, 1)
	go func() { // ends with the process
		defer close(p.ended)
		defer r.Close()
		defer close(found)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			p.hear(lines.Text())
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
	}()
	if p.host = <-found; p.host == "" {
		p.kill()
		return nil, fmt.Errorf("%s does not start:\n%s", program, p.heard())
	}
	return p, nil
}

func (p *process) hear(line string) {
	if n, err := strconv.ParseFloat(strings.TrimPrefix(line, "allocated "), 64); err == nil {
		p.probed <- n
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.WriteString(line + "\n")
}

func (p *process) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// stop ends the process and waits until it has. It returns how much memory the
// process has had at most, as rss does.
func (p *process) stop() (rss float64, err error) {
	rss = p.rss()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return rss, err
	}
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() { // ends with over
		defer close(watched)
		for {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
				rss = max(rss, p.rss())
			}
		}
	}()
	err = p.cmd.Wait()
	close(over)
	<-watched
	<-p.ended
	if err != nil {
		return rss, fmt.Errorf("%s: %w; it said:\n%s", p.cmd.Path, err, p.heard())
	}
	return rss, nil
}

// kill ends a process that was not stopped.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
	<-p.ended
}

// cpu is the processor time that the process has used so far, in seconds. Of
// one that runs it is 0 where there is no /proc.
func (p *process) cpu() float64 {
	if state := p.cmd.ProcessState; state != nil {
		return (state.UserTime() + state.SystemTime()).Seconds()
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	_, text, _ := strings.Cut(string(stat), ") ") // behind the name
	fields := strings.Fields(text)
	if len(fields) < 13 {
		return 0
	}
	const tick = 0.01 // seconds; the same on all architectures
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) * tick
}

// ownCPU is that of this process.
func ownCPU() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// rss is the most memory that the process has had so far, in MB; 0 where there
// is no /proc. (What getrusage tells is no less than what this process had when
// it started that one.)
func (p *process) rss() float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	fmt.Sscanf(text, "%f kB", &kib)
	return kib * 1024 / 1e6
}

// probe asks the process how much it has allocated since its start, in octets,
// and starts or ends its profile; see probe.go.
func (p *process) probe() (allocated float64, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return 0, err
	}
	select {
	case allocated = <-p.probed:
		return allocated, nil
	case <-p.ended:
		return 0, fmt.Errorf("%s has ended; it said:\n%s", p.cmd.Path, p.heard())
	}
}

// awaitRecorded waits until warctee has appended records of n responses to its
// files.
func (p *process) awaitRecorded(n int) error {
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		got, err := p.recorded()
		if err != nil {
			return err
		}
		if got >= n {
			return nil
		}
		if time.Since(start) > patience {
			return fmt.Errorf("warctee has recorded %d responses of %d, and no more for %s", got, n, patience)
		}
	}
}

// recorded asks warctee how many responses it has recorded, revisits included.
func (p *process) recorded() (n int, err error) {
	resp, err := http.Get("http://" + p.host + "/status")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var status struct{ Responses, Revisits int }
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("%s/status: %w", p.host, err)
	}
	return status.Responses + status.Revisits, nil
}
