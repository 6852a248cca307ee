package remap

import (
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// layout says how a pool of alike nodes counts its usage.
//
// As long as the needs of all tasks are one, or can fill a node side by side (such as those of map and of reduce
// tasks), the pool has a number of slots of each kind: stays of which at most n overlap can be put on n
// slots, and one count of each kind is exact. Needs of different sizes are packed: every stay has its node.
type layout struct {
	nodes    int
	capacity unit.Vector // of a node
	dims     []unit.Dim  // that can be short: CPU, and those of which a task has needed a larger part than of the CPU
	kinds    []kind      // in slots
	packed   bool
}

// kind is a need, by the dimensions that can be short.
type kind struct {
	need unit.Vector // of the first task
	pure bool        // of all tasks, also in dimensions that cannot be short
	each int64       // slots of a node
}

// learn takes in the need of a task, which fits a node. It reports whether the usage has to be counted in another way
// from now on.
func (l *layout) learn(need unit.Vector) (changed bool) {
	for d := unit.CPU + 1; d < unit.Dims; d++ {
		if !slices.Contains(l.dims, d) && l.scarce(need, d) {
			l.dims, changed = append(l.dims, d), true
		}
	}
	if l.packed {
		return changed
	}
	if k := l.kind(&need); k >= 0 {
		l.kinds[k].pure = l.kinds[k].pure && l.kinds[k].need == need
	} else {
		l.kinds = append(l.kinds, kind{need, true, need.Into(l.scarcely(1))})
	}
	mixed := changed && slices.ContainsFunc(l.kinds, func(k kind) bool { return !k.pure })
	l.packed = mixed || len(l.kinds) > maxKinds || !l.sideBySide()
	return l.packed
}

// maxKinds bounds the kinds of slots: with more, tasks are packed.
const maxKinds = 3

// scarce reports whether a need is a larger part of a node in some dimension than it is of its CPU.
func (l *layout) scarce(need unit.Vector, d unit.Dim) bool {
	if l.capacity[d] == unit.Unlimited || need[d] <= 0 {
		return false
	}
	part := func(d unit.Dim) exact.Number { return exact.Int(uint64(need[d])) }
	return part(d).Times(uint64(l.capacity[unit.CPU])).Compare(part(unit.CPU).Times(uint64(l.capacity[d]))) > 0
}

// kind returns which kind a need is of; -1 if it is a new one.
func (l *layout) kind(need *unit.Vector) int {
search:
	for k := range l.kinds {
		for _, d := range l.dims {
			if l.kinds[k].need[d] != need[d] {
				continue search
			}
		}
		return k
	}
	return -1
}

// sideBySide reports whether a node has room for as many tasks of every kind as it has for those of one kind alone.
func (l *layout) sideBySide() bool {
	if len(l.kinds) == 1 {
		return true
	}
	for _, d := range l.dims {
		sum := int64(0)
		for _, k := range l.kinds {
			sum += k.each * k.need[d]
		}
		if sum > l.capacity[d] {
			return false
		}
	}
	return true
}

// usage is the usage of a pool over time: the plan, or a sample schedule.
type usage struct {
	*layout
	slots []timeline.Profile // by kind, unless packed
	each  []timeline.Profile // by node, if packed
	all   timeline.Profile   // of the nodes together, if packed

	saving bool
	saved  saved

	// Of stays, whatever they need; only of plans whose searches are counted: the instants at which they begin, and how
	// many there are.
	begins begins
	past   planner.Time // the first span of begins that is not forgotten
	stays  timeline.Profile
}

// saved is what save remembers of a usage.
type saved struct {
	slots, each []timeline.Profile
	all, stays  timeline.Profile
	begun       []planner.Time // begins that were added since, and, as their complements, that were removed
}

// rearrange drops everything, to be added again after the layout has changed.
func (u *usage) rearrange(now planner.Time) {
	u.slots, u.each = nil, nil
	if u.begins != nil {
		u.countStays()
	}
	if !u.packed {
		return
	}
	u.each = make([]timeline.Profile, u.nodes)
	for n := range u.each {
		u.each[n].Reset(u.scarcely(1))
		u.each[n].Prune(now)
	}
	u.all.Reset(u.scarcely(int64(u.nodes)))
	u.all.Prune(now)
}

// countStays begins to count stays.
func (u *usage) countStays() {
	u.begins = begins{}
	u.stays.Reset(unit.Vector{math.MaxInt32, unit.Unlimited, unit.Unlimited})
}

// scarcely returns the capacity of so many nodes in the dimensions that can be short.
func (l *layout) scarcely(nodes int64) unit.Vector {
	v := unit.Vector{unit.Unlimited, unit.Unlimited, unit.Unlimited, unit.Unlimited}
	for _, d := range l.dims {
		v[d] = l.capacity[d] * nodes
	}
	return v
}

// slot is the need of a task where slots are counted.
var slot = unit.Vector{unit.CPU: 1}

// count returns the usage of the slots for a need.
func (u *usage) count(need *unit.Vector) *timeline.Profile {
	k := 0
	if len(u.kinds) > 1 {
		k = u.kind(need)
	}
	for len(u.slots) <= k {
		n := u.kinds[len(u.slots)].each * int64(u.nodes)
		u.slots = append(u.slots, *timeline.New(unit.Vector{n, unit.Unlimited, unit.Unlimited}))
	}
	return &u.slots[k]
}

// anywhere is the node of a stay in a packed pool that is to get one. Pools that are not packed ignore nodes.
const anywhere int32 = -1

// add takes need during [start, end), and returns the node on which the stay is.
func (u *usage) add(start, end planner.Time, need *unit.Vector, node int32) int32 {
	u.begun(start, end, false)
	if !u.packed {
		u.count(need).Add(start, end, slot)
		return 0
	}
	if node == anywhere {
		_, node = u.claim(start, end.Sub(start), need)
		node = max(0, node) // more may be in use than there is, for ever
	}
	u.each[node].Add(start, end, *need)
	u.all.Add(start, end, *need)
	return node
}

// remove undoes an add.
func (u *usage) remove(start, end planner.Time, need *unit.Vector, node int32) {
	u.begun(start, end, true)
	if !u.packed {
		u.count(need).Remove(start, end, slot)
		return
	}
	u.each[node].Remove(start, end, *need)
	u.all.Remove(start, end, *need)
}

// claim returns where and when a stay has room at once or, if it has none, has it first if only for an instant; -1 if
// never.
func (u *usage) claim(start planner.Time, dur time.Duration, need *unit.Vector) (at planner.Time, node int32) {
	if at, node = u.soonest(need, dur, start, start+1); node < 0 {
		at, node = u.soonest(need, 1, start, unit.Never)
	}
	return at, node
}

// prune forgets the usage before an instant.
func (u *usage) prune(before planner.Time) {
	for k := range u.slots {
		u.slots[k].Prune(before)
	}
	for n := range u.each {
		u.each[n].Prune(before)
	}
	if u.packed {
		u.all.Prune(before)
	}
	if u.begins != nil {
		u.stays.Prune(before)
		for ; u.past < before>>spanBits; u.past++ {
			delete(u.begins, u.past)
		}
	}
}

// reset takes everything out.
func (u *usage) reset() {
	for k := range u.slots {
		u.slots[k].Reset(u.slots[k].Capacity())
	}
	for n := range u.each {
		u.each[n].Reset(u.each[n].Capacity())
	}
	if u.packed {
		u.all.Reset(u.all.Capacity())
	}
}

// save remembers the usage, for restore or forget.
func (u *usage) save() {
	u.saving = true
	s := &u.saved
	s.slots, s.each = copied(s.slots, u.slots), copied(s.each, u.each)
	s.all.Copy(&u.all)
	s.stays.Copy(&u.stays)
	s.begun = s.begun[:0]
}

// copied copies profiles into the memory of others.
func copied(to, from []timeline.Profile) []timeline.Profile {
	to = planner.Extend(to, len(from))
	for k := range from {
		to[k].Copy(&from[k])
	}
	return to[:len(from)]
}

func (u *usage) forget() { u.saving = false }

// restore comes back to the saved usage.
func (u *usage) restore() {
	u.saving = false
	s := &u.saved
	u.slots, s.slots, u.each, s.each, u.all, s.all = s.slots, u.slots, s.each, u.each, s.all, u.all
	u.stays, s.stays = s.stays, u.stays
	for _, at := range slices.Backward(s.begun) {
		u.begins.change(^at)
	}
}

// begins has the instants at which stays begin, by spans of time.
type begins map[planner.Time][]planner.Time

// spanBits makes spans of 137 s: a few hundred stays begin in one.
const spanBits = 37

// change adds an instant or, given its complement, removes it.
func (b begins) change(at planner.Time) {
	if at >= 0 {
		b[at>>spanBits] = append(b[at>>spanBits], at)
		return
	}
	all := b[^at>>spanBits]
	if i := slices.Index(all, ^at); i >= 0 {
		all[i] = all[len(all)-1]
		b[^at>>spanBits] = all[:len(all)-1]
	}
}

// begun counts a stay or, if it goes, does not any more.
func (u *usage) begun(start, end planner.Time, goes bool) {
	if u.begins == nil || start >= end {
		return
	}
	at := start
	if goes {
		at = ^start
		u.stays.Remove(start, end, slot)
	} else {
		u.stays.Add(start, end, slot)
	}
	if start>>spanBits < u.past { // no search begins before now
		return
	}
	u.begins.change(at)
	if u.saving {
		u.saved.begun = append(u.saved.begun, at)
	}
}

// overlapping is how many stays overlap [from, until): a search that goes from resource to resource looks at them.
func (u *usage) overlapping(from, until planner.Time) int64 {
	n := u.stays.Used(from)[unit.CPU]
	for span := from >> spanBits; span <= (until-1)>>spanBits; span++ {
		for _, at := range u.begins[span] {
			if at > from && at < until {
				n++
			}
		}
	}
	return n
}

// soonest returns the first instant in [from, before) at which a packed node has need free for dur, and the first of
// those nodes; -1 if there is none.
func (u *usage) soonest(need *unit.Vector, dur time.Duration, from, before planner.Time) (at planner.Time, node int32) {
	at, node = before, -1
	for n := range u.each {
		if start, ok := u.each[n].EarliestBefore(*need, dur, from, at); ok {
			at, node = start, int32(n)
		}
		if at == from {
			break
		}
	}
	return at, node
}

// overdrawn reports whether usage exceeds capacity at an instant, in a dimension of need, where a stay is.
func (u *usage) overdrawn(at planner.Time, need *unit.Vector, node int32) bool {
	if !u.packed {
		c := u.count(need)
		return c.Used(at)[unit.CPU] > c.Capacity()[unit.CPU]
	}
	used := u.each[node].Used(at)
	return slices.ContainsFunc(u.dims, func(d unit.Dim) bool { return need[d] > 0 && used[d] > u.capacity[d] })
}

// earliest returns the first instant, from the given one on, from which need is free for dur, and the node to add it
// on. The excess of a packed node, where a plan bent, counts against all: it takes the first room that comes, on any.
func (u *usage) earliest(need *unit.Vector, dur time.Duration, from planner.Time) (at planner.Time, node int32,
	ok bool) {
	if !u.packed {
		at, ok = u.count(need).Earliest(slot, dur, from)
		return at, 0, ok
	}
	if from, ok = u.all.Earliest(*need, dur, from); !ok {
		return 0, anywhere, false
	}
	at, node = u.soonest(need, dur, from, unit.Never)
	return at, node, node >= 0
}

// latest returns the last instant, from the given one on, from which need is free for dur and over by until, and the
// node to add it on.
func (u *usage) latest(need *unit.Vector, dur time.Duration, from, until planner.Time) (at planner.Time, node int32,
	ok bool) {
	if !u.packed {
		at, ok = u.count(need).Latest(slot, dur, from, until)
		return at, 0, ok
	}
	last, ok := u.all.Latest(*need, dur, from, until) // see earliest
	if !ok {
		return 0, anywhere, false
	}
	at, node = -1, anywhere
	for n := range u.each {
		if start, fits := u.each[n].Latest(*need, dur, max(from, at+1), last.Add(dur)); fits {
			at, node = start, int32(n)
		}
	}
	return at, node, node >= 0
}

// sometime returns when a stay that has lost its place has the first claim on room, if only for an instant: from then
// on it waits for no other. In a packed pool it moves to another node if that has room for all of it.
func (u *usage) sometime(need *unit.Vector, dur time.Duration, from planner.Time) (at planner.Time, node int32,
	ok bool) {
	if !u.packed {
		return u.earliest(need, 1, from)
	}
	at, node = u.claim(from, dur, need)
	return at, node, node >= 0
}
