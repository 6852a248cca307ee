package cgroup

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sample is a reading of a group that lives.
type Sample struct {
	Key int64
	At  time.Time
	Counters
}

// Final is the last reading of a group.
type Final struct {
	Counters
	Limits Limits    // as the kernel applied them
	Exact  Set       // which counters were read when no process lived any more; the others are a sample, or nothing
	Ended  time.Time // of the last process; zero if it was not seen
	// Status is how the last process ended, as its parent was told. Kernels before Linux 6.15 do not tell: then Told is
	// false.
	Status unix.WaitStatus
	Told   bool
}
