package readertest

import (
	"runtime/metrics"
	"syscall"
	"testing"
	"time"
)

// Bounded fails the test if f, which reads that many bytes, allocates more or takes more CPU time than a multiple of
// them. It is for tests that run nothing beside.
func Bounded(t *testing.T, bytes int, f func()) {
	t.Helper()
	allocated, cpu := allocations(), cpuTime()
	f()
	allocated, cpu = allocations()-allocated, cpuTime()-cpu
	if most := uint64(64<<20 + 1000*bytes); allocated > most {
		t.Errorf("%d bytes are allocated to read %d, wanted at most %d", allocated, bytes, most)
	}
	if most := time.Second + time.Duration(bytes)*20*time.Microsecond; cpu > most {
		t.Errorf("%v of CPU time to read %d bytes, wanted at most %v", cpu, bytes, most)
	}
}

func allocations() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
