// Package timeline has the usage profile of one node over time: how much of each resource is taken from every instant on, where a
// need fits first, and where it fits last. Draft schedules are made of these profiles.
package timeline

import (
	"iter"
	"math"

	"gantry/planner/unit"
)

// Profile is a step function from time to the amount in use, zero where nothing was added. It may be overdrawn: Add does not look at
// the capacity. The zero Profile has no capacity and is ready for use.
//
// It is a treap over the breakpoints, which hold the change there rather than the amount: adding an interval then changes two
// breakpoints and not all those between, and reading changes nothing, so that any number of goroutines may read at once. What a
// subtree sums up to, and the highest and lowest running sum within, lead the searches past whatever cannot matter. A node takes
// 112 bytes; nodes lie in one slice and are linked by index.
//
// Amounts are exact up to 2^53 each (9 PB); a larger one, like [unit.Unlimited], counts as 2^53, and up to 1023 of those may overlap.
type Profile struct {
	capacity unit.Vector
	begin    unit.Time // what was before is forgotten, and reads as nothing used
	nodes    []node    // nodes[0] is the empty subtree
	root     int32
	free     int32 // head of the list of unused nodes, linked by left
	count    int
}

type node struct {
	at          unit.Time
	left, right int32
	delta       unit.Vector // change at this breakpoint, never zero
	sum         unit.Vector // of the deltas of the subtree
	hi, lo      unit.Vector // extremes of the sums that start at the subtree's first breakpoint, one or more deltas long
}

// unlimited stands for amounts that no arithmetic may be done on.
const unlimited = 1 << 53

// noLeft is an empty left subtree for pull: neutral to max and min, which nodes[0] is only on the right.
var noLeft = node{
	hi: unit.Vector{math.MinInt64, math.MinInt64, math.MinInt64},
	lo: unit.Vector{math.MaxInt64, math.MaxInt64, math.MaxInt64},
}

// New returns the profile of an idle node.
func New(capacity unit.Vector) *Profile {
	p := &Profile{}
	p.Reset(capacity)
	return p
}

// Reset makes p the profile of an idle node again, and keeps its memory for reuse.
func (p *Profile) Reset(capacity unit.Vector) {
	*p = Profile{capacity: capacity, begin: math.MinInt64, nodes: p.nodes[:0]}
}

// Capacity returns what the node has.
func (p *Profile) Capacity() unit.Vector { return p.capacity }

// Len returns the number of breakpoints: instants at which the amount in use changes.
func (p *Profile) Len() int { return p.count }

// Add takes v more during [start, end); end may be [unit.Never]. An interval that is empty, or over before what Prune keeps, changes
// nothing. It costs O(log n).
func (p *Profile) Add(start, end unit.Time, v unit.Vector) {
	for i := range v {
		v[i] = min(max(v[i], -unlimited), unlimited)
	}
	start = max(start, p.begin)
	if start >= end || v == (unit.Vector{}) {
		return
	}
	if len(p.nodes) == 0 {
		p.nodes = append(p.nodes, node{})
	}
	p.root = p.change(p.root, start, &v)
	if end < unit.Never {
		for i := range v {
			v[i] = -v[i]
		}
		p.root = p.change(p.root, end, &v)
	}
}

// Remove undoes an Add of the same arguments, in whatever order and whatever was pruned in between.
func (p *Profile) Remove(start, end unit.Time, v unit.Vector) {
	for i := range v {
		v[i] = -max(v[i], -unlimited)
	}
	p.Add(start, end, v)
}

// Prune forgets the past: the profile begins at the given instant, with what is in use there. Before it nothing counts as used, and
// Add and Remove leave it alone. It costs O(log n) and a little for every breakpoint forgotten.
func (p *Profile) Prune(before unit.Time) {
	if before <= p.begin {
		return
	}
	p.begin = before
	if p.root == 0 {
		return
	}
	past, rest := p.split(p.root, before)
	used := p.nodes[past].sum
	p.drop(past)
	p.root = rest
	if used != (unit.Vector{}) && before < unit.Never {
		p.root = p.change(rest, before, &used)
	}
}

// Used returns the amount in use at an instant; [unit.Unlimited] if that is 2^53 or more.
func (p *Profile) Used(at unit.Time) unit.Vector {
	used := p.value(at)
	for i := range used {
		if used[i] >= unlimited {
			used[i] = unit.Unlimited
		}
	}
	return used
}

// All yields the breakpoints in order of time, each with the amount in use from there on. The profile must not be changed meanwhile.
func (p *Profile) All() iter.Seq2[unit.Time, unit.Vector] {
	return func(yield func(unit.Time, unit.Vector) bool) {
		var used unit.Vector
		p.walk(p.root, &used, yield)
	}
}

func (p *Profile) walk(n int32, used *unit.Vector, yield func(unit.Time, unit.Vector) bool) bool {
	if n == 0 {
		return true
	}
	nd := &p.nodes[n]
	if !p.walk(nd.left, used, yield) {
		return false
	}
	shown := *used
	for i := range shown {
		used[i] += nd.delta[i]
		shown[i] = used[i]
		if shown[i] >= unlimited {
			shown[i] = unit.Unlimited
		}
	}
	return yield(nd.at, shown) && p.walk(nd.right, used, yield)
}

// value returns the sum of the deltas up to and including an instant.
func (p *Profile) value(at unit.Time) (used unit.Vector) {
	for n := p.root; n != 0; {
		nd := &p.nodes[n]
		if nd.at > at {
			n = nd.left
			continue
		}
		left := &p.nodes[nd.left]
		for i := range used {
			used[i] += left.sum[i] + nd.delta[i]
		}
		n = nd.right
	}
	return used
}

// change adds v to the delta at an instant in the subtree n, and returns the subtree's new root. A breakpoint appears with its first
// change and goes when the changes cancel.
func (p *Profile) change(n int32, at unit.Time, v *unit.Vector) int32 {
	if n == 0 {
		return p.alloc(at, v)
	}
	nd := &p.nodes[n]
	if nd.at == at {
		for i := range nd.delta {
			nd.delta[i] += v[i]
		}
		if nd.delta == (unit.Vector{}) {
			m := p.merge(nd.left, nd.right)
			p.release(n)
			return m
		}
		p.pull(n)
		return n
	}
	// A new breakpoint sinks as a leaf and rises by rotation, as far as its priority goes.
	if at < nd.at {
		l := p.change(nd.left, at, v)
		nd = &p.nodes[n] // the slice may have moved
		nd.left = l
		if l != 0 && priority(l) > priority(n) {
			nd.left = p.nodes[l].right
			p.nodes[l].right = n
			p.pull(n)
			n = l
		}
	} else {
		r := p.change(nd.right, at, v)
		nd = &p.nodes[n]
		nd.right = r
		if r != 0 && priority(r) > priority(n) {
			nd.right = p.nodes[r].left
			p.nodes[r].left = n
			p.pull(n)
			n = r
		}
	}
	p.pull(n)
	return n
}

// merge joins two subtrees, all of l before all of r.
func (p *Profile) merge(l, r int32) int32 {
	switch {
	case l == 0:
		return r
	case r == 0:
		return l
	case priority(l) > priority(r):
		p.nodes[l].right = p.merge(p.nodes[l].right, r)
		p.pull(l)
		return l
	default:
		p.nodes[r].left = p.merge(l, p.nodes[r].left)
		p.pull(r)
		return r
	}
}

// split parts a subtree into the breakpoints up to and including an instant, and those after it.
func (p *Profile) split(n int32, at unit.Time) (upTo, after int32) {
	if n == 0 {
		return 0, 0
	}
	nd := &p.nodes[n]
	if nd.at <= at {
		nd.right, after = p.split(nd.right, at)
		upTo = n
	} else {
		upTo, nd.left = p.split(nd.left, at)
		after = n
	}
	p.pull(n)
	return upTo, after
}

// pull makes what n says of its subtree true again after a change below.
func (p *Profile) pull(n int32) {
	nd := &p.nodes[n]
	l, r := &noLeft, &p.nodes[nd.right]
	if nd.left != 0 {
		l = &p.nodes[nd.left]
	}
	for i := range nd.delta {
		own := l.sum[i] + nd.delta[i]
		nd.sum[i] = own + r.sum[i]
		nd.hi[i] = max(l.hi[i], own, own+r.hi[i])
		nd.lo[i] = min(l.lo[i], own, own+r.lo[i])
	}
}

func (p *Profile) alloc(at unit.Time, v *unit.Vector) int32 {
	nd := node{at: at, delta: *v, sum: *v, hi: *v, lo: *v}
	p.count++
	if n := p.free; n != 0 {
		p.free = p.nodes[n].left
		p.nodes[n] = nd
		return n
	}
	p.nodes = append(p.nodes, nd)
	return int32(len(p.nodes) - 1)
}

func (p *Profile) release(n int32) {
	p.nodes[n].left = p.free
	p.free = n
	p.count--
}

// drop releases a subtree, in order of time: an order that followed the priorities would come back as a degenerate tree when the
// nodes are used again.
func (p *Profile) drop(n int32) {
	if n == 0 {
		return
	}
	right := p.nodes[n].right
	p.drop(p.nodes[n].left)
	p.release(n)
	p.drop(right)
}

// priority is a bijective hash of the index, so that it needs no room, no two are equal, and equal histories give equal trees.
func priority(n int32) uint32 {
	x := uint32(n) * 0x9e3779b1
	x = (x ^ x>>15) * 0x85ebca77
	return x ^ x>>13
}
