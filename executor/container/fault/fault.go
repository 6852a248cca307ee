// Package fault lets a test end gantry at a chosen moment. Binaries that are linked with
// -X gantry/executor/container/fault.points=on read the environment variable GANTRY_FAULT; in all others the package
// does nothing. A number N ends the process with SIGKILL at moment N, where effect E, counted from 0, has the moments
// 2E, before it, and 2E+1, after it. GANTRY_FAULT_TRACE names a file to which every moment is appended, "N NAME".
// The tests in scripts/crashtest try every moment.
package fault

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

var (
	points string // the linker sets it

	mu    sync.Mutex
	next  int
	at    = -1
	trace *os.File
)

func init() {
	if points == "" {
		return
	}
	if n, err := strconv.Atoi(os.Getenv("GANTRY_FAULT")); err == nil {
		at = n
	}
	if path := os.Getenv("GANTRY_FAULT_TRACE"); path != "" {
		trace, _ = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	}
}

// Do performs an effect: a change that outlives this process.
func Do(name string, effect func() error) error {
	if points == "" {
		return effect()
	}
	mu.Lock()
	moment := next
	next += 2
	mu.Unlock()
	pass(moment, name+" before")
	err := effect()
	pass(moment+1, name+" after")
	return err
}

func pass(moment int, name string) {
	if trace != nil {
		fmt.Fprintf(trace, "%d %s\n", moment, name)
	}
	if moment == at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
