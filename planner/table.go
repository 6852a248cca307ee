package planner

// table is a growing list in pages: growing moves nothing, which for tables of all tasks of a long run is most of what growing costs.
type table[T any] struct {
	pages [][]T
	n     int
}

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

func (t *table[T]) len() int { return t.n }

// grow appends n zero elements.
func (t *table[T]) grow(n int) {
	t.n += n
	for len(t.pages)*pageSize < t.n {
		t.pages = append(t.pages, make([]T, pageSize))
	}
}

func (t *table[T]) push(v T) {
	t.grow(1)
	t.pages[(t.n-1)>>pageBits][(t.n-1)&(pageSize-1)] = v
}

// entry returns element i, which must exist. It stays where it is.
func entry[T any, I ~int | ~int32](t *table[T], i I) *T { return &t.pages[i>>pageBits][i&(pageSize-1)] }
