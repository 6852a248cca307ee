package planner

import (
	"fmt"
	"math/bits"
	"slices"

	"gantry/planner/unit"
)

// MostGPUs is how many GPUs a node may have.
const MostGPUs = 64

// Devices is a set of GPUs of a node: bit i is its GPU i, from 0 on. A policy plans with their sum alone. An order to
// start says which they are, so that the log keeps them: whole ones, or one of which others may hold the rest.
type Devices uint64

// Each yields the numbers of the GPUs.
func (x Devices) Each(yield func(int) bool) {
	for ; x != 0; x &= x - 1 {
		if !yield(bits.TrailingZeros64(uint64(x))) {
			return
		}
	}
}

// shares has of each GPU of a node the thousandths that attempts hold.
type shares []int64

// hold adds a hold of GPUs, or with sign -1 takes it away.
func (x shares) hold(of Devices, sum, sign int64) {
	for g := range of.Each {
		x[g] += sign * min(sum, unit.WholeGPU)
	}
}

// take gives out the first GPUs that nobody holds; for a part of a GPU the one that has least left besides. It returns
// false if there are none, as parts of several are not one.
func (x shares) take(sum int64) (taken Devices, ok bool) {
	part := min(sum, unit.WholeGPU)
	for ; sum > 0; sum -= part {
		best := -1
		for g, held := range x {
			if held+part <= unit.WholeGPU && (best < 0 || held > x[best]) {
				best = g
			}
		}
		if best < 0 {
			return 0, false
		}
		x[best] += part
		taken |= 1 << best
	}
	return taken, true
}

// freeGPUs returns GPUs of node n for a task that starts after some orders; false if there are none.
func (s *State) freeGPUs(n NodeID, sum int64, orders []Order) (Devices, bool) {
	if sum == 0 {
		return 0, true
	}
	held := slices.Clone(s.gpus[n])
	for i := range orders {
		if orders[i].Kind == OrderStart && orders[i].Node == n {
			held.hold(orders[i].GPUs, orders[i].Hold[unit.GPU], +1)
		}
	}
	return held.take(sum)
}

// scattered reports whether as much of GPUs as a task needs is free on its node, beside those that are due, but in
// parts of several.
func (d *Draft) scattered(seg *Segment) bool {
	sum := seg.Hold[unit.GPU]
	if sum == 0 || d.s.lives.at(seg.Task).phase == Suspended {
		return false
	}
	held, left := slices.Clone(d.s.gpus[seg.Node]), int64(0)
	for due := range d.Due() {
		if due.Node == seg.Node && d.s.lives.at(due.Task).phase != Suspended {
			held.take(due.Hold[unit.GPU])
		}
	}
	for _, x := range held {
		left += unit.WholeGPU - x
	}
	if sum > left {
		return false
	}
	_, ok := held.take(sum)
	return !ok
}

// onlyParts reports whether a task that has a reason to wait now would have room, but for GPUs of which parts are free.
func (d *Draft) onlyParts(t TaskID, r *Reason) bool {
	seg := Segment{Task: t, Node: r.Node, Hold: d.s.tasks.of(t).Need}
	if seg.Hold[unit.GPU] == 0 || r.Code == PlannedLater && r.At > d.now {
		return false
	}
	if seg.Node == None {
		seg.Node = d.Fastest(seg.Hold)
	}
	return seg.Node != None && d.scattered(&seg)
}

// checkGPUs reports that a task is to hold GPUs that others hold, that its node does not have, or another number of
// them than it is to hold.
func (s *State) checkGPUs(o *Order) error {
	held, left := s.gpus[o.Node], o.Hold[unit.GPU]
	part := min(left, unit.WholeGPU)
	for g := range o.GPUs.Each {
		if left -= part; part == 0 || g >= len(held) || held[g]+part > unit.WholeGPU {
			left = -1
			break
		}
	}
	if left != 0 {
		return fmt.Errorf("it is to hold %v, the set %b of GPUs, of which others hold %v", o.Hold, o.GPUs, held)
	}
	return nil
}
