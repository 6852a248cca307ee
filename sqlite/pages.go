package sqlite

// pages is a list that grows without being copied: memory that is touched for the first time costs more than most of
// what is done with it.
type pages[T any] struct {
	all [][]T
	n   int
}

const pageLength = 1024

func (p *pages[T]) len() int { return p.n }

// at returns the element at i, which is below len.
func (p *pages[T]) at(i int) *T { return &p.all[i/pageLength][i%pageLength] }

func (p *pages[T]) add(v T) {
	if p.n == len(p.all)*pageLength {
		p.all = append(p.all, make([]T, pageLength))
	}
	p.n++
	*p.at(p.n - 1) = v
}

// put sets the element at i, and makes the list long enough.
func (p *pages[T]) put(i int, v T) {
	for i >= p.n {
		var none T
		p.add(none)
	}
	*p.at(i) = v
}

// spares is memory of slices that are no longer used.
type spares[T any] [][]T

// mostSpares bounds what is kept.
const mostSpares = 64

// take returns an empty slice with room for n elements.
func (s *spares[T]) take(n int) []T {
	all := *s
	for i := len(all) - 1; i >= 0; i-- {
		if cap(all[i]) >= n {
			out := all[i]
			all[i], all[len(all)-1] = all[len(all)-1], nil
			*s = all[:len(all)-1]
			return out
		}
	}
	return make([]T, 0, n)
}

// give takes memory back.
func (s *spares[T]) give(x []T) {
	if cap(x) > 0 && len(*s) < mostSpares {
		*s = append(*s, emptied(x))
	}
}
