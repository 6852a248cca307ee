// Package timeline has the usage profile of one node over time: how much of each resource is taken from every instant
// on, where a need fits first, and where it fits last. Draft schedules are made of these profiles.
package timeline

import (
	"iter"
	"math"

	"gantry/planner/unit"
)

// Profile is a step function from time to the amount in use, zero where nothing was added. It may be overdrawn: Add
// does not look at the capacity. The zero Profile has no capacity and is ready for use. Any number of goroutines may
// read it at once.
//
// Amounts are exact up to 2^53 each (9 PB); a larger one, like [unit.Unlimited], counts as 2^53, and up to 1023 of
// those may overlap.
type Profile struct {
	capacity unit.Vector
	begin    unit.Time // the time before is forgotten, and reads as nothing used
	tree     tree
}

// unlimited stands for amounts that no arithmetic may be done on.
const unlimited = 1 << 53

// New returns the profile of an idle node.
func New(capacity unit.Vector) *Profile {
	p := &Profile{}
	p.Reset(capacity)
	return p
}

// Reset makes p the profile of an idle node again, and keeps its memory for reuse.
func (p *Profile) Reset(capacity unit.Vector) {
	p.capacity, p.begin = capacity, math.MinInt64
	p.tree.reset()
}

// Capacity returns the capacity of the node.
func (p *Profile) Capacity() unit.Vector { return p.capacity }

// Len returns the number of breakpoints: instants at which the amount in use changes.
func (p *Profile) Len() int { return p.tree.count }

// Add takes v more during [start, end); end may be [unit.Never]. An interval that is empty, or over before the
// beginning that Prune set, changes nothing. It costs O(log n).
func (p *Profile) Add(start, end unit.Time, v unit.Vector) {
	for i := range v {
		v[i] = min(max(v[i], -unlimited), unlimited)
	}
	start = max(start, p.begin)
	if start >= end || v == (unit.Vector{}) {
		return
	}
	p.tree.add(start, &v)
	if end < unit.Never {
		for i := range v {
			v[i] = -v[i]
		}
		p.tree.add(end, &v)
	}
}

// Remove undoes an Add of the same arguments, in any order and after any Prune in between.
func (p *Profile) Remove(start, end unit.Time, v unit.Vector) {
	for i := range v {
		v[i] = -max(v[i], -unlimited) // the least int64 has no negative
	}
	p.Add(start, end, v)
}

// Prune forgets the past: the profile begins at the given instant, with the usage there. Before it nothing counts as
// used, and Add and Remove leave it alone. It costs O(log n) and a little for the forgotten breakpoints.
func (p *Profile) Prune(before unit.Time) {
	if before <= p.begin {
		return
	}
	p.begin = before
	used := p.tree.value(before)
	p.tree.prune(before)
	if used != (unit.Vector{}) && before < unit.Never {
		p.tree.add(before, &used)
	}
}

// Used returns the amount in use at an instant; [unit.Unlimited] if that is 2^53 or more.
func (p *Profile) Used(at unit.Time) unit.Vector { return shown(p.tree.value(at)) }

// All yields the breakpoints in order of time, each with the amount in use from there on. The profile must not be
// changed meanwhile.
func (p *Profile) All() iter.Seq2[unit.Time, unit.Vector] {
	return func(yield func(unit.Time, unit.Vector) bool) {
		var used unit.Vector
		p.tree.each(func(at unit.Time, delta *unit.Vector) bool {
			plus(&used, delta)
			return yield(at, shown(used))
		})
	}
}

func shown(used unit.Vector) unit.Vector {
	for i := range used {
		if used[i] >= unlimited {
			used[i] = unit.Unlimited
		}
	}
	return used
}
