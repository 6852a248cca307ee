package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// CPU time off by more than this and by more than these percents is a miss. Too much has more room: where the host
	// is very busy, clocks of threads jump by up to 50 milliseconds, and the program's own threads wake up more often
	// for the same work.
	cpuSlack, cpuPercent         = int64(5 * time.Millisecond), 2
	cpuOverSlack, cpuOverPercent = int64(100 * time.Millisecond), 5

	// writeNanosPerByte is more CPU time than it takes to make up and write a byte. It is kept back for the bytes that
	// are still to be written, so that the sum is right.
	writeNanosPerByte = 4
)

func cpuClock(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // cannot err for the two clocks used here
	return ts.Nano()
}

func processCPU() int64 { return cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// meter counts the CPU time of the process. Its clock lags behind threads that run, so their own clocks count too.
type meter struct {
	base   int64 // of the process, when the threads began to compute
	burned atomic.Int64
}

// compute spends the CPU time asked for, spread over the run, equal parts on each thread. Other work of the process
// counts as it comes: a task that computes little may have spent all by starting.
func (t *task) compute() {
	if t.cpu == 0 {
		return
	}
	begun := time.Now()
	m := &meter{base: processCPU()}
	var wg sync.WaitGroup
	for range max(t.spec.Threads, 1) {
		wg.Go(func() {
			runtime.LockOSThread()
			t.burn(m)
		})
	}
	wg.Wait()
	t.computed.Add(m.burned.Load())
	t.ownThen = processCPU() - m.burned.Load()
	t.report.Phases.ComputeNanos += int64(time.Since(begun))
}

// burn computes on the calling thread until the process has spent its CPU time. While it has spent more than the part
// of the run that is over allows, the thread sleeps.
func (t *task) burn(m *meter) {
	threads := int64(max(t.spec.Threads, 1))
	const least, most = int64(50 * time.Microsecond), int64(time.Millisecond)
	for !t.halts() {
		spent := max(processCPU(), m.base+m.burned.Load())
		left := t.cpu - t.toWrite.Load()*writeNanosPerByte - spent
		now, due := t.pace.now(), t.pace.due(float64(spent)/float64(t.cpu))
		// A thread that sleeps longer is not ready at the end of the run, as when starting took most of the CPU time.
		wake := min(due+slice, t.pace.run-time.Duration(left/threads)*51/50-time.Millisecond)
		switch {
		case spent >= t.cpu:
			return
		case left <= 0: // more is left when outputs are written
			t.pace.pause(now + slice)
		case due > now && wake > now:
			t.pace.pause(wake)
		default:
			m.burned.Add(burn(min(max(left/threads/2, least), most)))
		}
	}
}

// burn computes for nanos of the thread's CPU time, and returns how much it was.
func burn(nanos int64) (spent int64) {
	var x uint64 = 88172645463325252
	for start := cpuClock(unix.CLOCK_THREAD_CPUTIME_ID); spent < nanos; {
		for range 4096 { // about 10 microseconds between looks at the clock
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sink(x)
		spent = cpuClock(unix.CLOCK_THREAD_CPUTIME_ID) - start
	}
	return spent
}

// sink keeps the compiler from dropping work whose result nobody reads.
//
//go:noinline
func sink(uint64) {}

// account compares the CPU time spent with the time asked for. If starting, reading and writing alone need more than
// was asked for, that is no miss, and own_cpu_nanos has their time.
func (t *task) account() {
	r, asked := &t.report, t.cpu
	spent := processCPU()
	own := spent - t.computed.Load()
	r.CPU.Asked, r.CPU.Achieved = t.before.CPUNanos+asked, t.before.CPUNanos+spent
	r.OwnCPUNanos = t.before.OwnCPUNanos + own
	least := asked - max(cpuSlack, asked*cpuPercent/100)
	most := max(asked, own) + max(cpuOverSlack, asked*cpuOverPercent/100)
	if t.ownThen > 0 {
		most += max(0, own-t.ownThen) // the time for writing beyond its reserve
	}
	if len(r.Misses) == 0 && (spent < least || spent > most) {
		t.missf("cpu: asked %v, spent %v", time.Duration(asked), time.Duration(spent))
	}
	t.accountMemory()
}
