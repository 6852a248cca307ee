package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gantry/planner/timeline"
	"gantry/planner/unit"
)

var sizes = []int{1_000, 100_000, 200_000}

// saturated returns a profile of about n breakpoints whose first nine tenths are too full for need in changing ways, a
// need, and the end of it all.
func saturated(n int) (p *timeline.Profile, need unit.Vector, end unit.Time) {
	r := rand.New(rand.NewPCG(1, 2))
	p = timeline.New(unit.Vector{64_000, 256 << 30, unit.Unlimited})
	for i := range n / 2 {
		start := unit.Time(i) * s
		p.Add(start, start+unit.Time(60+r.Int64N(20))*s+unit.Time(r.Int64N(int64(s))), unit.Vector{900 + r.Int64N(100),
			r.Int64N(4 << 30), 0})
		end = start
	}
	return p, unit.Vector{16_000, 1 << 30, 0}, end
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			p, need, end := saturated(n)
			starts := make([]unit.Time, 1<<16)
			for i := range starts {
				starts[i] = unit.Time(r.Int64N(int64(end)))
			}
			for i := 0; b.Loop(); i++ { // one Add or one Remove
				start := starts[i>>1%len(starts)]
				if i&1 == 0 {
					p.Add(start, start+100*s, need)
				} else {
					p.Remove(start, start+100*s, need)
				}
			}
			if p.Len() < n*9/10 {
				b.Fatalf("%d breakpoints", p.Len())
			}
		})
	}
}

// BenchmarkEarliest starts anywhere in a region without room and has to get to its end.
func BenchmarkEarliest(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			p, need, end := saturated(n)
			for b.Loop() {
				from := 100*s + unit.Time(r.Int64N(int64(end)*9/10))
				if at, ok := p.Earliest(need, time.Minute, from); !ok || at < end*9/10 {
					b.Fatalf("earliest from %v = %v, %v", from, at, ok)
				}
			}
		})
	}
}

func BenchmarkLatest(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			p, need, end := saturated(n)
			for b.Loop() {
				until := 200*s + unit.Time(r.Int64N(int64(end)-int64(200*s)))
				if at, ok := p.Latest(need, time.Second, 0, min(until, end*9/10)); !ok || at > 100*s {
					b.Fatalf("latest until %v = %v, %v", until, at, ok)
				}
			}
		})
	}
}

func BenchmarkFits(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			p, _, end := saturated(n)
			for b.Loop() {
				start := unit.Time(r.Int64N(int64(end)))
				p.Fits(start, start+100*s, unit.Cores(1))
			}
		})
	}
}

// BenchmarkMemory builds a profile and reports bytes held per breakpoint.
func BenchmarkMemory(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				p, _, _ := saturated(n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(p.Len()), "B/breakpoint")
			}
		})
	}
}
