// Package unit has gantry's quantities: instants, bytes and resource vectors, all exact int64. Arithmetic on vectors
// saturates, so that "unlimited" stays unlimited.
package unit

import (
	"fmt"
	"math"
	"time"
)

// Time is an instant: nanoseconds since the run began, the same axis in simulation and in reality.
type Time int64

// Never is later than every instant.
const Never Time = math.MaxInt64

// Add returns the instant d after t; Never stays Never, and nothing wraps around.
func (t Time) Add(d time.Duration) Time {
	if t == Never || (d > 0 && t > Never-Time(d)) {
		return Never
	}
	return t + Time(d)
}

// Sub returns how long after u the instant t is.
func (t Time) Sub(u Time) time.Duration {
	if t == Never {
		return math.MaxInt64
	}
	return time.Duration(t - u)
}

// Seconds is for people; computing is done on integers.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}

// Bytes is an amount of data.
type Bytes int64

// BytesPerSecond is a rate of data.
type BytesPerSecond int64

// Dim names a dimension of Vector.
type Dim uint8

const (
	CPU    Dim = iota // millicores: 1000 is one CPU
	Memory            // bytes
	Disk              // block I/O, bytes per second
	GPU               // thousandths: a part of one GPU, or whole ones
	Dims
)

func (d Dim) String() string { return [...]string{"cpu", "memory", "disk", "gpu"}[d] }

// WholeGPU is one GPU.
const WholeGPU = 1000

// Unlimited is the amount that no need exceeds.
const Unlimited int64 = math.MaxInt64

// Vector is an amount of each resource: the capacity of a node, the need of a task.
type Vector [Dims]int64

// Cores is a need for n whole CPUs and nothing else.
func Cores(n int64) Vector { return Vector{CPU: 1000 * n} }

// Add returns v + w; Unlimited absorbs.
func (v Vector) Add(w Vector) Vector {
	for i := range v {
		v[i] = add(v[i], w[i])
	}
	return v
}

// Sub returns v - w; Unlimited less anything is Unlimited.
func (v Vector) Sub(w Vector) Vector {
	for i := range v {
		if v[i] != Unlimited {
			v[i] -= w[i]
		}
	}
	return v
}

// Fits reports whether every component of v is at most that of w. A component that needs nothing always fits, even
// where w is overdrawn.
func (v Vector) Fits(w Vector) bool {
	_, misfit := v.Misfit(w)
	return !misfit
}

// Into returns how many of v together a capacity holds.
func (v Vector) Into(capacity Vector) int64 {
	n := int64(1 << 30)
	for d := range v {
		if v[d] > 0 && capacity[d] != Unlimited {
			n = min(n, capacity[d]/v[d])
		}
	}
	return n
}

// Misfit returns the first dimension in which v exceeds w, and whether there is one: see Fits.
func (v Vector) Misfit(w Vector) (Dim, bool) {
	for i := range v {
		if v[i] > w[i] && v[i] > 0 {
			return Dim(i), true
		}
	}
	return 0, false
}

// Max is the component-wise maximum.
func (v Vector) Max(w Vector) Vector {
	for i := range v {
		v[i] = max(v[i], w[i])
	}
	return v
}

// Keep returns v with the dimensions outside m set to zero.
func (v Vector) Keep(m Mask) Vector {
	for i := range v {
		if m&(1<<i) == 0 {
			v[i] = 0
		}
	}
	return v
}

func (v Vector) String() string {
	f := func(x int64, unit string) string {
		if x == Unlimited {
			return "unlimited " + unit
		}
		return fmt.Sprintf("%d %s", x, unit)
	}
	text := fmt.Sprintf("<%s, %s, %s", f(v[CPU], "millicores"), f(v[Memory], "B"), f(v[Disk], "B/s"))
	if v[GPU] != 0 {
		text += fmt.Sprintf(", %g GPUs", float64(v[GPU])/WholeGPU)
	}
	return text + ">"
}

// Mask is a set of dimensions.
type Mask uint8

// Of returns the mask of the given dimensions.
func Of(dims ...Dim) Mask {
	var m Mask
	for _, d := range dims {
		m |= 1 << d
	}
	return m
}

func add(a, b int64) int64 {
	if a == Unlimited || b == Unlimited {
		return Unlimited
	}
	s := a + b
	if a > 0 && b > 0 && s < 0 {
		return Unlimited
	}
	return s
}

// Tighter is the smaller of two limits, of which 0 is none.
func Tighter(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
