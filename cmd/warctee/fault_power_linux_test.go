package main

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// powerRoundsPerDisk bounds an archive: all of it is read in each round.
const powerRoundsPerDisk = 5

// longAgo is how long before the power fails a client must have had a response
// for it to be in the archive for certain: the sync interval of 200 ms, and time
// for a slow disk.
const longAgo = time.Second

// TestPowerLoss cuts the power while the program records: its archive is on a
// file system of its own, which is shut down such that nothing survives that
// was not synced. After each cut the program is started again, on the same
// directory and with the same index, and everything is checked. `make
// powerloss` runs it; POWERLOSS_SEED repeats the moments of an earlier run.
func TestPowerLoss(t *testing.T) {
	rounds, seed := crashNumber(t, "POWERLOSS_ROUNDS", 0), crashNumber(t, "POWERLOSS_SEED", uint64(time.Now().UnixNano()))
	if rounds == 0 {
		t.Skip("needs root, mkfs.ext4 and some minutes: make powerloss")
	}
	t.Logf("POWERLOSS_SEED=%d POWERLOSS_ROUNDS=%d", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	acknowledged, unfinished, revisits := 0, 0, 0
	for first := uint64(0); first < rounds; first += powerRoundsPerDisk {
		disk := newLoopDisk(t)
		x := &powerless{crashed: newCrashed(t, rng), disk: disk}
		x.dir = filepath.Join(disk.dir, "warcs")
		for range min(rounds-first, powerRoundsPerDisk) {
			x.round()
		}
		revisits += x.finish()
		disk.unmount()
		acknowledged += x.acknowledged
		unfinished += x.unfinished
	}
	t.Logf("the power failed %d times: %d acknowledged exchanges, 0 lost; %d revisits, 0 dangling; %d unfinished files recovered", rounds, acknowledged, revisits, unfinished)
}

// A powerless archive is crashed by failures of the power.
type powerless struct {
	*crashed
	disk                     *loopDisk
	acknowledged, unfinished int // exchanges and files, for the report
}

// round cuts the power while the program recovers from the last time, now and
// then, and then in the middle of traffic.
func (x *powerless) round() {
	x.Helper()
	if x.rng.IntN(3) == 0 {
		cmd := x.startBlindly()
		<-time.After(time.Duration(x.rng.Int64N(int64(100 * time.Millisecond))))
		x.cut(cmd.Process)
		cmd.Wait() // killed
		x.kills["starting"]++
		x.wantSurvivors(nil)
	}
	p := startProgram(x, x.dir, "--max-size", "300kB", "--log-level", "error")
	x.wantRecovered()
	clients := x.startTraffic(p, false)
	<-time.After(longAgo + time.Duration(x.rng.Int64N(int64(3*time.Second)))) // the random moment
	clients.ending.Store(true)
	at := x.cut(p.cmd.Process)
	<-p.exited
	x.kills["traffic"]++
	got := clients.wait()
	all := len(got)
	maps.DeleteFunc(got, func(_ int, done time.Time) bool { return at.Sub(done) < longAgo })
	before := len(x.must)
	x.wantSurvivors(got)
	x.acknowledged += len(got)
	x.Logf("%d exchanges complete at the clients, %d of them acknowledged; %d are in the archive", all, len(got), len(x.must)-before)
}

// cut cuts the power and mounts the disk again. It returns the moment.
func (x *powerless) cut(p *os.Process) time.Time {
	x.Helper()
	// Stopped, so that no fsync is under way when the disk goes: it might
	// report success.
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		x.Fatal(err)
	}
	at := time.Now()
	<-time.After(100 * time.Millisecond)
	x.disk.cut()
	p.Kill()
	for start := time.Now(); !x.disk.tryUnmount(); time.Sleep(10 * time.Millisecond) { // until the process is gone
		if time.Since(start) > programPatience {
			x.Fatal("the disk cannot be unmounted")
		}
	}
	x.disk.mount()
	return at
}

// wantSurvivors checks what a failure of the power has left: what was there
// before, these exchanges, and an index that is not ahead.
func (x *powerless) wantSurvivors(acknowledged map[int]time.Time) {
	x.Helper()
	there := x.captures()
	for n := range x.must {
		if !there[n] {
			x.Errorf("exchange %d was recovered after an earlier failure, and is lost", n)
		}
	}
	for n := range acknowledged {
		if !there[n] {
			x.Errorf("exchange %d was acknowledged, and is lost", n)
		}
	}
	x.must = there
	if len(there) > 0 {
		x.wantIndexNotAhead()
	}
	unfinished, _ := filepath.Glob(filepath.Join(x.dir, "*.open"))
	x.unfinished += len(unfinished)
	if x.Failed() {
		x.FailNow()
	}
}

// A loopDisk is a file system in a file.
type loopDisk struct {
	t          *testing.T
	image, dir string
	mounted    bool
}

func newLoopDisk(t *testing.T) *loopDisk {
	t.Helper()
	d := &loopDisk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 512<<20); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	t.Cleanup(func() {
		if d.mounted {
			d.unmount()
		}
	})
	return d
}

func (d *loopDisk) run(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// mount makes the file system usable; what a journal has is played back.
func (d *loopDisk) mount() {
	d.t.Helper()
	d.run("mount", "-o", "loop", d.image, d.dir)
	d.mounted = true
}

func (d *loopDisk) unmount() {
	d.t.Helper()
	d.run("umount", d.dir)
	d.mounted = false
}

func (d *loopDisk) tryUnmount() bool {
	d.mounted = exec.Command("umount", d.dir).Run() != nil
	return !d.mounted
}

// cut shuts the file system down without writing anything, not even the
// journal: EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
func (d *loopDisk) cut() {
	d.t.Helper()
	const shutdown, noLogFlush = 0x8004587d, 2
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	how := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		d.t.Fatalf("shut the file system down: %v", errno)
	}
	if err := os.WriteFile(filepath.Join(d.dir, strconv.Itoa(os.Getpid())), nil, 0o600); err == nil {
		d.t.Fatal("the file system is still there")
	}
}
