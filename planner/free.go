package planner

import (
	"cmp"
	"slices"

	"gantry/planner/unit"
)

// freeIndex finds the fastest node that has room now in logarithmic time: a tree over the nodes by speed descending,
// then id, that has the component-wise maximum of the free resources below each point.
type freeIndex struct {
	order []NodeID
	place []int32 // by node: index in order
	tree  []unit.Vector
	half  int // index of the first leaf
	dirty []NodeID
	stale []bool    // by node
	last  [2]housed // the last answers of housing since a node was touched: slowest and fastest
}

type housed struct {
	need unit.Vector
	node NodeID
}

func newFreeIndex(nodes []Node) freeIndex {
	f := freeIndex{place: make([]int32, len(nodes)), stale: make([]bool, len(nodes)), half: 1}
	for i := range nodes {
		f.order = append(f.order, nodes[i].ID)
	}
	slices.SortStableFunc(f.order, func(a, b NodeID) int {
		return cmp.Compare(nodes[b].Speed, nodes[a].Speed)
	})
	for i, n := range f.order {
		f.place[n] = int32(i)
	}
	for f.half < len(nodes) {
		f.half *= 2
	}
	f.tree = make([]unit.Vector, 2*f.half)
	for i := range nodes {
		f.touch(NodeID(i))
	}
	return f
}

// touch says that the free resources of n may have changed.
func (f *freeIndex) touch(n NodeID) {
	if !f.stale[n] {
		f.stale[n] = true
		f.dirty = append(f.dirty, n)
	}
}

func (f *freeIndex) refresh(d *Draft) {
	if len(f.dirty) > 0 {
		f.last = [2]housed{}
	}
	for _, n := range f.dirty {
		f.stale[n] = false
		i := f.half + int(f.place[n])
		for most := d.Free(n); i > 0 && f.tree[i] != most; most = f.tree[2*i].Max(f.tree[2*i+1]) {
			f.tree[i] = most
			i /= 2
		}
	}
	f.dirty = f.dirty[:0]
}

// first returns the leaf below i with room for need that comes first in order, or last if end is 0; -1 if there is
// none.
func (f *freeIndex) first(i int, need *unit.Vector, end int) int {
	if !need.Fits(f.tree[i]) {
		return -1
	}
	if i >= f.half {
		return i - f.half
	}
	near, far := 2*i+1-end, 2*i+end
	if at := f.first(near, need, end); at >= 0 {
		return at
	}
	return f.first(far, need, end)
}

// AnyFree reports whether any node has CPU to give now.
func (d *Draft) AnyFree() bool {
	d.room.refresh(d)
	return d.room.tree[1][unit.CPU] > 0
}

// Fastest returns the fastest node on which need is free now, the lowest id among equals, as Free has it; None if
// there is none.
func (d *Draft) Fastest(need unit.Vector) NodeID { return d.housing(need, 1) }

// Slowest returns the slowest node on which need is free now, the highest id among equals; None if there is none.
func (d *Draft) Slowest(need unit.Vector) NodeID { return d.housing(need, 0) }

func (d *Draft) housing(need unit.Vector, end int) NodeID {
	d.room.refresh(d)
	last := &d.room.last[end]
	if last.need != need || need == (unit.Vector{}) {
		*last = housed{need, None}
		if at := d.room.first(1, &need, end); at >= 0 && at < len(d.room.order) {
			last.node = d.room.order[at]
		}
	}
	return last.node
}

// TopSpeed returns the speed of the fastest node.
func (d *Draft) TopSpeed() float64 { return d.s.platform.Nodes[d.room.order[0]].Speed }

// Short returns a dimension that need lacks: one in which it exceeds the free resources of any node, if there is one.
func (d *Draft) Short(need unit.Vector) unit.Dim {
	d.room.refresh(d)
	dim, _ := need.Misfit(d.room.tree[1])
	return dim
}
