//go:build linux

package thread

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// owned are the threads of Go, by their numbers.
var (
	mu    sync.Mutex
	owned = map[int]bool{}
)

// own notes that this thread belongs to its work, until the returned function is called.
func own() func() {
	tid := unix.Gettid()
	mu.Lock()
	defer mu.Unlock()
	owned[tid] = true
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(owned, tid)
	}
}

// Others calls f for the threads of this process that belong to no work. None begins to meanwhile.
func Others(f func(tid int)) {
	mu.Lock()
	defer mu.Unlock()
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && !owned[tid] {
			f(tid)
		}
	}
}
