package calibrate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// cores measures how fast a core computes while others are idle and while they are busy: cores share caches, clock
// rates and, as two threads of one core, everything.
func (s *surveyor) cores(ctx context.Context) error {
	n := max(1, s.Host.Cores)
	idle := 0.0
	for _, others := range slices.Compact([]int{0, (n - 1) / 2, n - 1}) {
		took, err := computing(ctx, others)
		if err != nil {
			return fmt.Errorf("with %d other cores busy: %w", others, err)
		}
		if others == 0 {
			idle = float64(took)
		}
		s.m.CoreSpeed.X = append(s.m.CoreSpeed.X, float64(others))
		s.m.CoreSpeed.Y = append(s.m.CoreSpeed.Y, idle/float64(took))
	}
	return nil
}

// computing returns the CPU time of some fixed work while other threads compute: the median of several times.
func computing(ctx context.Context, others int) (time.Duration, error) {
	var stop atomic.Bool
	defer stop.Store(true)
	for range others {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for cells := make([]uint64, cached); !stop.Load(); {
				compute(cells)
			}
		}()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []float64
	cells := make([]uint64, cached)
	for range 9 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		begun, err := threadCPU()
		if err != nil {
			return 0, err
		}
		for range 40 {
			compute(cells)
		}
		ended, err := threadCPU()
		if err != nil {
			return 0, err
		}
		all = append(all, float64(ended-begun))
	}
	return time.Duration(median(all)), nil
}

const cached = 16 << 10 // words: 128 kB, which the caches of one core hold

// compute is a piece of work: arithmetic on memory in the cache.
func compute(cells []uint64) {
	x := cells[0] | 1
	for i := range cells {
		for range 8 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		cells[i] += x
	}
}

func threadCPU() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
