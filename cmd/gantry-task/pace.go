package main

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gantry/executor/emulate"
)

const (
	// slice is the length of the pieces in which work and pauses alternate.
	slice = 10 * time.Millisecond
	// nap is the longest sleep: after it a thread looks whether the task is to stop, and a program that is frozen
	// meanwhile loses little of its time.
	nap = 5 * slice
	// gap is the longest time between two looks at the clock that counts: longer ones were spent frozen. A quota stops
	// a program for up to its period, 100 ms.
	gap = 4 * nap
)

// pace is the clock of a task. It is the wall clock, less the time that the program was frozen.
type pace struct {
	run    time.Duration // how long the task lasts if nothing limits it
	work   time.Duration // how long its work is spread over; the rest is for delays
	mu     sync.Mutex
	passed time.Duration
	looked time.Time
}

func newPace(begun time.Time, run time.Duration) *pace {
	return &pace{run: run, work: emulate.Spread(run), looked: begun}
}

// now returns the time since the begin.
func (p *pace) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wall := time.Now()
	p.passed += min(wall.Sub(p.looked), gap)
	p.looked = wall
	return p.passed
}

// due returns when a part of the work is due, as a time since the begin.
func (p *pace) due(part float64) time.Duration { return time.Duration(part * float64(p.work)) }

// pause sleeps until a time since the begin, or for a nap, or until a signal comes.
func (p *pace) pause(until time.Duration) {
	if left := until - p.now(); left > 0 {
		sleep(min(left, nap))
	}
}

// sleep makes the calling thread sleep. The timers of the Go runtime would wake other threads and so cost up to a tenth
// of the CPU time of a task that computes little.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
