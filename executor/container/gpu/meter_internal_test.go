package gpu

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A use is measured as a whole, or not at all. Loads count for the time before their sample, and the last one until the
// end. A sample that comes at once may be of the time before.
func TestGapsBetweenSamples(t *testing.T) {
	const s = time.Second
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		at   []time.Duration // times of samples: loads of 10 %, 20 % ..., memory of 1 MiB, 2 MiB ...
		end  time.Duration
		busy time.Duration // -1: not measured
		mib  int64
	}{
		{[]time.Duration{1 * s, 2 * s}, 3 * s, 500 * time.Millisecond, 2},
		{[]time.Duration{50 * time.Millisecond, 2 * s}, 2 * s, 400 * time.Millisecond, 2},
		{[]time.Duration{10 * s, 20 * s}, 30 * s, 5 * s, 2},
		{[]time.Duration{1 * s, 2 * s, 4 * s}, 3 * s, 600 * time.Millisecond, 3},
		{[]time.Duration{11 * s, 12 * s}, 13 * s, -1, 0},
		{[]time.Duration{1 * s, 12 * s, 13 * s}, 13 * s, -1, 0},
		{[]time.Duration{1 * s}, 12 * s, -1, 0},
		{[]time.Duration{50 * time.Millisecond}, 1 * s, -1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMeter(t.Context())
			u := m.Begin([]string{"nvidia.com/gpu=0"})
			began := time.Now()
			for i, at := range c.at {
				time.Sleep(at - time.Since(began))
				m.sample(time.Now(), strings.Split(fmt.Sprintf("GPU-a, 0, %d, %d", 10*(i+1), i+1), ","))
			}
			time.Sleep(c.end - time.Since(began))
			busy, memory := u.End(began.Add(c.end))
			if (busy == nil) != (c.busy < 0) || busy != nil && (*busy != c.busy || *memory>>20 != c.mib) {
				t.Errorf("samples at %v: %v, %v, want %v, %d MiB", c.at, busy, memory, c.busy, c.mib)
			}
		})
	}
}
