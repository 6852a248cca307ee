package cp

import (
	"cmp"
	"math/bits"
	"time"

	"gantry/planner/heap"
)

// energy is an amount of a dimension times a duration, exact: 128 bits.
type energy struct{ hi, lo uint64 }

// energyOf returns n for d; neither is negative.
func energyOf(n int64, d time.Duration) (e energy) {
	e.hi, e.lo = bits.Mul64(uint64(max(0, n)), uint64(max(0, d)))
	return e
}

func (e energy) plus(f energy) energy {
	lo, carry := bits.Add64(e.lo, f.lo, 0)
	return energy{e.hi + f.hi + carry, lo}
}

// minus returns e less f, at least zero.
func (e energy) minus(f energy) energy {
	if e.compare(f) < 0 {
		return energy{}
	}
	lo, borrow := bits.Sub64(e.lo, f.lo, 0)
	return energy{e.hi - f.hi - borrow, lo}
}

func (e energy) compare(f energy) int {
	return cmp.Or(cmp.Compare(e.hi, f.hi), cmp.Compare(e.lo, f.lo))
}

// largest returns an empty heap with the largest energy in front.
func largest() heap.Heap[energy] {
	return heap.Heap[energy]{Before: func(a, b *energy) bool { return a.compare(*b) > 0 }}
}
