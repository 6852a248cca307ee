package order

import "gantry/planner/heap"

// numbered is a heap of numbered things that knows where each is, as their keys change while they are in it.
type numbered struct {
	heap.Heap[int32]
	pos []int32 // by thing: its place in Items; -1 if it is not there
}

// newNumbered returns an empty heap in the order of less; where that is nil, a set.
func newNumbered(less func(x, y int32) bool) *numbered {
	h := &numbered{}
	h.Before = func(*int32, *int32) bool { return false }
	if less != nil {
		h.Before = func(x, y *int32) bool { return less(*x, *y) }
	}
	h.Moved = func(x *int32, at int) { h.pos[*x] = int32(at) }
	return h
}

// grow makes room for things up to n.
func (h *numbered) grow(n int) {
	for len(h.pos) < n {
		h.pos = append(h.pos, -1)
	}
}

// fix moves a thing to where its key belongs, and takes it in if it is not there.
func (h *numbered) fix(x int32) {
	if at := h.pos[x]; at >= 0 {
		h.Fix(int(at))
	} else {
		h.Push(x)
	}
}

// remove takes a thing out if it is there.
func (h *numbered) remove(x int32) {
	if at := h.pos[x]; at >= 0 {
		h.Remove(int(at))
	}
}
