package timeline

import (
	"math"

	"gantry/planner/unit"
)

// tree is a B+ tree over the breakpoints. It holds the change at a breakpoint rather than the amount in use from there
// on: adding an interval then changes two breakpoints and none of those between, and reading changes nothing. The
// summary of each subtree (its total change, and the highest and lowest running total within) leads the searches past
// all that cannot matter.
//
// Blocks of one kind lie in one slice and are linked by index, so that a profile is a handful of allocations. A treap
// with the same sums was tried: at 200,000 breakpoints Add took more than twice as long, waiting for memory, in 1.5
// times the room.
type tree struct {
	leaves pool[step]
	inner  pool[span]
	root   int32 // in leaves if height is 0, else in inner
	height int   // levels above the leaves
	count  int   // breakpoints
}

// width is the most entries of a block. Of 8, 16, 24 and 32 it was the fastest for Add and Earliest together.
const width = 16

// step is a breakpoint: delta more is in use from there on. It is never zero.
type step struct {
	at    unit.Time
	delta unit.Vector
}

// span is the summary of a block below.
type span struct {
	first  unit.Time   // its first breakpoint
	sum    unit.Vector // of its deltas
	hi, lo unit.Vector // extremes of the running sum, from its first breakpoint on
	block  int32
}

type block[E any] struct {
	n    int32
	next int32 // in the list of unused blocks
	e    [width]E
}

func (b *block[E]) insert(i int, e E) {
	copy(b.e[i+1:b.n+1], b.e[i:b.n])
	b.e[i] = e
	b.n++
}

func (b *block[E]) remove(i, j int) {
	copy(b.e[i:], b.e[j:b.n])
	b.n -= int32(j - i)
}

// pool has the blocks of one kind; index 0 is never used.
type pool[E any] struct {
	blocks []block[E]
	free   int32
}

func (q *pool[E]) take() int32 {
	if i := q.free; i != 0 {
		q.free = q.blocks[i].next
		q.blocks[i].n = 0
		return i
	}
	if len(q.blocks) == 0 {
		q.blocks = append(q.blocks, block[E]{})
	}
	q.blocks = append(q.blocks, block[E]{})
	return int32(len(q.blocks) - 1)
}

func (q *pool[E]) give(i int32) {
	q.blocks[i].next = q.free
	q.free = i
}

func (q *pool[E]) reset() { q.blocks, q.free = q.blocks[:0], 0 }

// split moves the upper half of a full block to a new one.
func (q *pool[E]) split(i int32) int32 {
	j := q.take()
	low, high := &q.blocks[i], &q.blocks[j]
	low.n, high.n = width/2, width-width/2
	copy(high.e[:], low.e[width/2:])
	return j
}

// join moves all of j to the end of i if that leaves room, and reports whether it did.
func (q *pool[E]) join(i, j int32) bool {
	low, high := &q.blocks[i], &q.blocks[j]
	if low.n+high.n > width*3/4 {
		return false
	}
	copy(low.e[low.n:], high.e[:high.n])
	low.n += high.n
	q.give(j)
	return true
}

func (t *tree) reset() {
	t.leaves.reset()
	t.inner.reset()
	t.root, t.height, t.count = 0, 0, 0
}

// add changes the usage from an instant on. A breakpoint appears with its first change and goes when its changes
// cancel.
func (t *tree) add(at unit.Time, v *unit.Vector) {
	if t.root == 0 {
		t.root = t.leaves.take()
	}
	if t.size(t.height, t.root) == width {
		root := t.inner.take()
		t.inner.blocks[root].insert(0, t.summary(t.height, t.root))
		t.root = root
		t.height++
	}
	t.change(t.height, t.root, at, v)
	t.lower()
}

// change adds v to the delta at an instant below a block that has room.
func (t *tree) change(level int, n int32, at unit.Time, v *unit.Vector) {
	if level == 0 {
		t.changeLeaf(&t.leaves.blocks[n], at, v)
		return
	}
	b := &t.inner.blocks[n]
	k := find(b, at)
	if below := b.e[k].block; t.size(level-1, below) == width {
		var upper int32
		if level == 1 {
			upper = t.leaves.split(below)
		} else {
			upper = t.inner.split(below)
			b = &t.inner.blocks[n] // the slice may have moved
		}
		b.insert(k+1, t.summary(level-1, upper))
		if at < b.e[k+1].first {
			b.e[k+1] = t.summary(level-1, upper)
			b.e[k] = t.summary(level-1, below)
		} else {
			b.e[k] = t.summary(level-1, below)
			k++
		}
	}
	t.change(level-1, b.e[k].block, at, v)
	t.mend(level, n, k)
}

func (t *tree) changeLeaf(b *block[step], at unit.Time, v *unit.Vector) {
	i := 0
	for i < int(b.n) && b.e[i].at < at {
		i++
	}
	if i == int(b.n) || b.e[i].at != at {
		b.insert(i, step{at, *v})
		t.count++
		return
	}
	plus(&b.e[i].delta, v)
	if b.e[i].delta == (unit.Vector{}) {
		b.remove(i, i+1)
		t.count--
	}
}

// mend makes the entry k of a block true again after a change below, and joins blocks that became too small.
func (t *tree) mend(level int, n int32, k int) {
	b := &t.inner.blocks[n]
	below := b.e[k].block
	size := t.size(level-1, below)
	if size == 0 {
		t.give(level-1, below)
		b.remove(k, k+1)
		return
	}
	if size < width/4 {
		if k+1 < int(b.n) && t.join(level-1, below, b.e[k+1].block) {
			b.remove(k+1, k+2)
		} else if k > 0 && t.join(level-1, b.e[k-1].block, below) {
			b.remove(k, k+1)
			k--
		}
	}
	b.e[k] = t.summary(level-1, b.e[k].block)
}

// lower takes away roots that have one entry, or none.
func (t *tree) lower() {
	for t.height > 0 && t.inner.blocks[t.root].n <= 1 {
		root := &t.inner.blocks[t.root]
		t.inner.give(t.root)
		if root.n == 0 {
			t.root, t.height = 0, 0
			return
		}
		t.root = root.e[0].block
		t.height--
	}
}

// prune drops the breakpoints up to and including an instant.
func (t *tree) prune(upTo unit.Time) {
	if t.count > 0 {
		t.cut(t.height, t.root, upTo)
		t.lower()
	}
}

func (t *tree) cut(level int, n int32, upTo unit.Time) {
	if level == 0 {
		b := &t.leaves.blocks[n]
		i := 0
		for i < int(b.n) && b.e[i].at <= upTo {
			i++
		}
		b.remove(0, i)
		t.count -= i
		return
	}
	b := &t.inner.blocks[n]
	k := find(b, upTo)
	for i := range k {
		t.drop(level-1, b.e[i].block)
	}
	b.remove(0, k)
	t.cut(level-1, b.e[0].block, upTo)
	t.mend(level, n, 0)
}

// drop gives back a block and all below.
func (t *tree) drop(level int, n int32) {
	if level == 0 {
		t.count -= int(t.leaves.blocks[n].n)
	} else {
		b := &t.inner.blocks[n]
		for i := range b.n {
			t.drop(level-1, b.e[i].block)
		}
	}
	t.give(level, n)
}

func (t *tree) size(level int, n int32) int32 {
	if level == 0 {
		return t.leaves.blocks[n].n
	}
	return t.inner.blocks[n].n
}

func (t *tree) give(level int, n int32) {
	if level == 0 {
		t.leaves.give(n)
	} else {
		t.inner.give(n)
	}
}

func (t *tree) join(level int, i, j int32) bool {
	if level == 0 {
		return t.leaves.join(i, j)
	}
	return t.inner.join(i, j)
}

// summary computes the entry for a block that is not empty.
func (t *tree) summary(level int, n int32) span {
	s := span{block: n}
	for i := range s.hi {
		s.hi[i], s.lo[i] = math.MinInt64, math.MaxInt64
	}
	if level == 0 {
		b := &t.leaves.blocks[n]
		s.first = b.e[0].at
		for k := range b.e[:b.n] {
			delta := &b.e[k].delta
			for i := range delta {
				s.sum[i] += delta[i]
				s.hi[i] = max(s.hi[i], s.sum[i])
				s.lo[i] = min(s.lo[i], s.sum[i])
			}
		}
		return s
	}
	b := &t.inner.blocks[n]
	s.first = b.e[0].first
	for k := range b.e[:b.n] {
		e := &b.e[k]
		for i := range e.sum {
			s.hi[i] = max(s.hi[i], s.sum[i]+e.hi[i])
			s.lo[i] = min(s.lo[i], s.sum[i]+e.lo[i])
			s.sum[i] += e.sum[i]
		}
	}
	return s
}

// find returns the last entry that begins at or before an instant, or the first if none does.
func find(b *block[span], at unit.Time) int {
	k := 0
	for k+1 < int(b.n) && b.e[k+1].first <= at {
		k++
	}
	return k
}

// value returns the usage at an instant.
func (t *tree) value(at unit.Time) (used unit.Vector) {
	if t.count == 0 {
		return used
	}
	n := t.root
	for range t.height {
		b := &t.inner.blocks[n]
		k := find(b, at)
		for i := range k {
			plus(&used, &b.e[i].sum)
		}
		n = b.e[k].block
	}
	b := &t.leaves.blocks[n]
	for i := 0; i < int(b.n) && b.e[i].at <= at; i++ {
		plus(&used, &b.e[i].delta)
	}
	return used
}

// each yields the breakpoints in order of time.
func (t *tree) each(yield func(unit.Time, *unit.Vector) bool) {
	if t.count > 0 {
		t.walk(t.height, t.root, yield)
	}
}

func (t *tree) walk(level int, n int32, yield func(unit.Time, *unit.Vector) bool) bool {
	if level == 0 {
		b := &t.leaves.blocks[n]
		for i := range b.e[:b.n] {
			if !yield(b.e[i].at, &b.e[i].delta) {
				return false
			}
		}
		return true
	}
	b := &t.inner.blocks[n]
	for i := range b.e[:b.n] {
		if !t.walk(level-1, b.e[i].block, yield) {
			return false
		}
	}
	return true
}

// plus and minus do without the saturation of unit.Vector: it cannot be undone, and here amounts are bounded.
func plus(v, w *unit.Vector) {
	for i := range v {
		v[i] += w[i]
	}
}

func minus(v, w *unit.Vector) {
	for i := range v {
		v[i] -= w[i]
	}
}
