package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// CPU time off by more than this and by more than these percents is a miss. Too much has more room: where the host
	// is very busy, clocks of threads jump by up to 50 milliseconds, and the program's own threads wake up more often
	// for the same work.
	cpuSlack, cpuPercent         = int64(5 * time.Millisecond), 2
	cpuOverSlack, cpuOverPercent = int64(100 * time.Millisecond), 5

	// a thread that does not compute all the time sleeps within slices of this length
	slice = int64(10 * time.Millisecond)

	// writeNanosPerByte is more CPU time than it takes to make up and write a byte. So much is kept back while
	// computing; what was not needed is spent after the writes, so that the sum is right.
	writeNanosPerByte = 4
)

func cpuClock(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // cannot err for the two clocks used here
	return ts.Nano()
}

func processCPU() int64 { return cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// compute spends the CPU time asked for, less what was spent already and what the outputs may need.
func (t *task) compute() {
	if t.spec.CPUNanos == 0 && t.spec.IdleNanos == 0 {
		return
	}
	var reserve int64
	for _, f := range t.spec.Outputs[t.before.Outputs:] {
		reserve += f.Bytes * writeNanosPerByte
	}
	// What the Go runtime uses meanwhile shows in the clock of the process only: it is taken off the last part.
	t.spend((t.cpu - processCPU() - reserve) / 10 * 9)
	t.spend(t.cpu - processCPU() - reserve)
	t.writes = processCPU() - t.computed.Load() + reserve
	t.idle(int64(float64(t.spec.IdleNanos) * (1 - t.before.IdleDone)))
}

// idle waits, in short sleeps: one that a frozen program slept through counts for little.
func (t *task) idle(nanos int64) {
	const nap = 5 * slice
	for left := nanos; left > 0; {
		t.mayHalt()
		asleep := time.Now()
		time.Sleep(time.Duration(min(left, nap)))
		slept := min(int64(time.Since(asleep)), 2*nap)
		left -= slept
		t.progress.idled.Add(slept)
	}
}

// topUp spends what is left of the CPU time after everything else was done.
func (t *task) topUp() {
	if len(t.report.Misses) > 0 {
		return
	}
	start := time.Now()
	if left := t.cpu - processCPU(); left > 0 {
		t.spend(left)
	}
	t.report.Phases.ComputeNanos += int64(time.Since(start))
}

// spend uses up nanos of CPU time, equal parts on each thread, by the clock of the thread itself: limits and neighbours
// stretch it as they would stretch any program.
func (t *task) spend(nanos int64) {
	if nanos <= 0 {
		return
	}
	threads := max(t.spec.Threads, 1)
	duty := t.spec.DutyPercent
	if duty == 0 {
		duty = 100
	}
	before := processCPU()
	until := before + nanos
	// A computing thread keeps its processor of the Go runtime; one more is for the rest of the program.
	if runtime.GOMAXPROCS(0) <= threads {
		runtime.GOMAXPROCS(threads + 1)
	}
	var wg sync.WaitGroup
	for i := range threads {
		part := nanos / int64(threads)
		if i == 0 {
			part += nanos % int64(threads)
		}
		wg.Go(func() {
			runtime.LockOSThread()
			burn(part, until, duty/100, &t.stopping)
		})
	}
	wg.Wait()
	t.computed.Add(processCPU() - before)
	t.mayHalt()
}

// burn computes on the calling thread for nanos of its CPU time, in the part duty of the time, or until it is to stop,
// or the process has used that CPU time: under a small quota the Go runtime's own threads, which wake by the clock on
// the wall, use up a tenth of it.
func burn(nanos, until int64, duty float64, stop *atomic.Bool) {
	const look = int64(time.Millisecond)
	start := cpuClock(unix.CLOCK_THREAD_CPUTIME_ID)
	var slept, spent, looked int64
	var x uint64 = 88172645463325252
	for next := min(nanos, slice); spent < nanos && !stop.Load(); {
		for range 4096 { // about 10 microseconds between looks at the clock
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sink(x)
		spent = cpuClock(unix.CLOCK_THREAD_CPUTIME_ID) - start
		if spent-looked > look {
			if looked = spent; processCPU() >= until {
				return
			}
		}
		if duty >= 1 || spent < next {
			continue
		}
		next = min(nanos, spent+int64(float64(slice)*duty))
		// Sleeps are longer than asked; what one took too long the next ones take less.
		if owed := int64(float64(spent)*(1/duty-1)) - slept; owed > 0 {
			asleep := time.Now()
			sleep(owed)
			slept += min(int64(time.Since(asleep)), owed+slice) // a frozen program does not sleep
		}
	}
}

// sleep makes the calling thread sleep, or less if a signal comes. The timers of the Go runtime would wake other
// threads and so cost up to a tenth of the CPU time of a task that computes little.
func sleep(nanos int64) {
	ts := unix.NsecToTimespec(nanos)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// sink keeps the compiler from dropping work whose result nobody reads.
//
//go:noinline
func sink(uint64) {}

// account compares what was asked with what was done. Reading and writing need the CPU time they need: where that alone
// is more than was asked, or writing takes more than was kept back for it, it is no miss, and own_cpu_nanos tells how
// much it was.
func (t *task) account() {
	r, asked := &t.report, t.cpu
	spent := processCPU()
	own := spent - t.computed.Load()
	r.CPU.Asked, r.CPU.Achieved = t.before.CPUNanos+asked, t.before.CPUNanos+spent
	r.OwnCPUNanos = t.before.OwnCPUNanos + own
	least := asked - max(cpuSlack, asked*cpuPercent/100)
	most := max(asked, own) + max(cpuOverSlack, asked*cpuOverPercent/100)
	if t.writes > 0 {
		most += max(0, own-t.writes)
	}
	if len(r.Misses) == 0 && (spent < least || spent > most) {
		t.missf("cpu: asked %v, spent %v", time.Duration(asked), time.Duration(spent))
	}
	t.accountMemory()
}
