package executor

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the CPU time of the calling thread, for Engine.Wall: other work of the machine does not count. The
// goroutine that runs the engine has to be locked to its thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Since(loaded)
	}
	return time.Duration(t.Nano())
}

var loaded = time.Now()
