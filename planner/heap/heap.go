// Package heap has the binary heap of all that is taken out in some order.
package heap

import (
	"cmp"
	"iter"
)

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
	last := len(h.Items) - 1
	gone := h.Items[at]
	if h.Moved != nil {
		h.Moved(&h.Items[at], -1)
	}
	h.Items[at] = h.Items[last]
	clear(h.Items[last:]) // nothing is held that left
	if h.Items = h.Items[:last]; at < last {
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

// Ordered yields the elements in their order, and takes none out. The next one costs the logarithm of the number of
// those before it.
func (h *Heap[T]) Ordered() iter.Seq[T] {
	return func(yield func(T) bool) {
		next := Heap[int]{Before: func(a, b *int) bool { return h.Before(&h.Items[*a], &h.Items[*b]) }}
		for at := 0; at < len(h.Items); {
			if !yield(h.Items[at]) {
				return
			}
			for child := 2*at + 1; child <= 2*at+2 && child < len(h.Items); child++ {
				next.Push(child)
			}
			if next.Len() == 0 {
				return
			}
			at = next.Pop()
		}
	}
}

// Init orders the elements put in Items.
func (h *Heap[T]) Init() {
	for i := len(h.Items) - 1; i >= 0; i-- {
		h.down(i)
	}
}

// Elements are compared where they lie: one that is held aside would have to be allocated, as Before might keep a
// pointer to it.

func (h *Heap[T]) up(i int) {
	for above := (i - 1) / 2; i > 0 && h.Before(&h.Items[i], &h.Items[above]); i, above = above, (above-1)/2 {
		h.Items[i], h.Items[above] = h.Items[above], h.Items[i]
		h.settled(i)
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
		h.Items[i], h.Items[k] = h.Items[k], h.Items[i]
		h.settled(i)
		i = k
	}
	h.settled(i)
}

func (h *Heap[T]) settled(i int) {
	if h.Moved != nil {
		h.Moved(&h.Items[i], i)
	}
}

// Smallest returns an empty heap with the smallest element in front.
func Smallest[T cmp.Ordered]() Heap[T] { return Heap[T]{Before: func(a, b *T) bool { return *a < *b }} }
