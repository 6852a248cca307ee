package heap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gantry/planner/heap"
	"gantry/planner/seed/seedtest"
)

// thing knows where it is.
type thing struct{ key, at int }

// A heap does what a sorted slice does, whatever is pushed, popped, changed and removed, and tells where everything is.
func TestAHeapIsASortedSlice(t *testing.T) {
	for seed := range seedtest.Seeds(t, 200) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := heap.Heap[*thing]{
			Before: func(a, b **thing) bool { return (*a).key < (*b).key },
			Moved:  func(x **thing, at int) { (*x).at = at },
		}
		var all []*thing
		first := func() *thing { return slices.MinFunc(all, func(a, b *thing) int { return a.key - b.key }) }
		for step := range 300 {
			switch {
			case len(all) == 0 || r.IntN(3) == 0:
				x := &thing{key: r.IntN(1000)*1000 + step} // no two alike
				all = append(all, x)
				if r.IntN(2) == 0 {
					h.Push(x)
				} else {
					h.Items = append(h.Items, x)
					h.Init()
				}
			case r.IntN(3) == 0:
				x := first()
				if got := h.Pop(); got != x || x.at != -1 {
					t.Fatalf("seed %d: popped %+v, want %+v", seed, got, x)
				}
				all = slices.DeleteFunc(all, func(y *thing) bool { return y == x })
			case r.IntN(2) == 0:
				x := all[r.IntN(len(all))]
				x.key = r.IntN(1000)*1000 + step
				h.Fix(x.at)
			default:
				i := r.IntN(len(all))
				if got := h.Remove(all[i].at); got != all[i] {
					t.Fatalf("seed %d: removed %+v, want %+v", seed, got, all[i])
				}
				all = slices.Delete(all, i, i+1)
			}
			if h.Len() != len(all) || len(all) > 0 && h.Items[0] != first() {
				t.Fatalf("seed %d, step %d: %d elements, %d expected, or the wrong one in front", seed, step, h.Len(),
					len(all))
			}
			few := slices.SortedFunc(slices.Values(all), func(a, b *thing) int { return a.key - b.key })
			few = few[:min(5, len(few))]
			for x := range h.Ordered() {
				if len(few) == 0 {
					break
				}
				if x != few[0] {
					t.Fatalf("seed %d, step %d: %+v comes in order, want %+v", seed, step, x, few[0])
				}
				few = few[1:]
			}
			if len(few) > 0 {
				t.Fatalf("seed %d, step %d: %+v is left out of the order", seed, step, few[0])
			}
			for i, x := range h.Items {
				if x.at != i {
					t.Fatalf("seed %d, step %d: %+v is at %d", seed, step, x, i)
				}
			}
		}
	}
}
