// Package heap has the binary heap of all that is taken out in some order.
package heap

import "cmp"

// Heap has the element in front that is before all others. The zero value with a Before is empty.
type Heap[T any] struct {
	Items  []T // Items[0] is in front; the rest in no order to rely on
	Before func(a, b *T) bool
	// Moved, if set, is called with each element that came to another place, or of one that left: at is then -1. So
	// elements can be found whose keys change (Fix) or that are taken out (Remove).
	Moved func(x *T, at int)
}

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.Items) }

// Push takes an element in.
func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	h.up(len(h.Items) - 1)
}

// Pop takes out the element in front. There has to be one.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove takes out the element at a place.
func (h *Heap[T]) Remove(at int) T {
	var zero T
	last := len(h.Items) - 1
	gone := h.Items[at]
	if h.Moved != nil {
		h.Moved(&h.Items[at], -1)
	}
	h.Items[at] = h.Items[last]
	h.Items[last] = zero // nothing is held that left
	h.Items = h.Items[:last]
	if at < last {
		h.Fix(at)
	}
	return gone
}

// Fix moves the element at a place to where its key belongs, after that has changed.
func (h *Heap[T]) Fix(at int) {
	if at > 0 && h.Before(&h.Items[at], &h.Items[(at-1)/2]) {
		h.up(at)
	} else {
		h.down(at)
	}
}

// Init orders what was put in Items.
func (h *Heap[T]) Init() {
	for i := len(h.Items) - 1; i >= 0; i-- {
		h.down(i)
	}
}

// Elements are compared where they lie: one that is held aside would have to be allocated, as Before might keep a
// pointer to it.

func (h *Heap[T]) up(i int) {
	for i > 0 {
		above := (i - 1) / 2
		if !h.Before(&h.Items[i], &h.Items[above]) {
			break
		}
		h.swap(i, above)
		i = above
	}
	h.settled(i)
}

func (h *Heap[T]) down(i int) {
	for {
		k := 2*i + 1
		if k+1 < len(h.Items) && h.Before(&h.Items[k+1], &h.Items[k]) {
			k++
		}
		if k >= len(h.Items) || !h.Before(&h.Items[k], &h.Items[i]) {
			break
		}
		h.swap(i, k)
		i = k
	}
	h.settled(i)
}

// swap moves the element at i on to k; the one there has its place in i.
func (h *Heap[T]) swap(i, k int) {
	h.Items[i], h.Items[k] = h.Items[k], h.Items[i]
	h.settled(i)
}

func (h *Heap[T]) settled(i int) {
	if h.Moved != nil {
		h.Moved(&h.Items[i], i)
	}
}

// Smallest returns an empty heap with the smallest element in front.
func Smallest[T cmp.Ordered]() Heap[T] { return Heap[T]{Before: func(a, b *T) bool { return *a < *b }} }
