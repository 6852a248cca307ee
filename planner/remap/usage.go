package remap

import (
	"math/bits"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// layout says how a pool of alike nodes counts what is in use.
//
// As long as the needs of all tasks are one, or can fill a node side by side (such as those of map and of reduce
// tasks), the pool has a number of slots of each kind: stays of which at most n overlap can be put on n
// slots, and one count of each kind is exact. Needs of different sizes are packed: every stay has its node, from which
// it may be moved to another as long as it has not started.
type layout struct {
	nodes    int
	capacity unit.Vector // of a node
	dims     []unit.Dim  // that can be short: CPU, and what a task has needed a larger part of than of the CPU
	kinds    []kind      // in slots
	packed   bool
}

// kind is a need, by what of it can be short.
type kind struct {
	need unit.Vector // of the first task
	pure bool        // of all tasks, also by what cannot be short
	each int64       // slots of a node
}

// learn takes in the need of a task, which fits a node. It reports whether what is in use has to be counted in another
// way from now on.
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
		l.kinds = append(l.kinds, kind{need, true, l.each(need)})
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
	ahi, alo := bits.Mul64(uint64(need[d]), uint64(l.capacity[unit.CPU]))
	bhi, blo := bits.Mul64(uint64(need[unit.CPU]), uint64(l.capacity[d]))
	return ahi > bhi || ahi == bhi && alo > blo
}

// each returns how many of a need a node holds.
func (l *layout) each(need unit.Vector) int64 {
	n := int64(1 << 30)
	for _, d := range l.dims {
		if need[d] > 0 && l.capacity[d] != unit.Unlimited {
			n = min(n, l.capacity[d]/need[d])
		}
	}
	return n
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

// usage is what a pool has in use over time: the plan, or a sample schedule.
type usage struct {
	*layout
	slots []*timeline.Count // by kind, unless packed

	bins   []bin  // by node
	all    bin    // of all nodes together
	stays  []stay // those that are over are used again
	unused []int32
	pruned int // the bin that was pruned last
	budget int // steps that searches may take; see search
	search search

	saving bool
	saved  struct {
		stays  []stay
		unused []int32
		bins   []int // whose counts are saved
	}
}

// bin is what a node has in use over time, by dimension that can be short.
type bin struct {
	of    [unit.Dims]*timeline.Count
	saved bool

	// What was refused last: at an instant there is less free than that. It holds until something is removed.
	full     planner.Time
	fullNeed unit.Vector // of one dimension; of none: nothing is known
}

// stay is a task in a packed pool.
type stay struct {
	start, end planner.Time
	need       unit.Vector
	node       int32
	fixed      bool // it runs there, or is bound to
	live       bool
}

func newUsage(l *layout) *usage { return &usage{layout: l, budget: budgetCap} }

// rearrange drops everything, to be added again after the layout has changed.
func (u *usage) rearrange(now planner.Time) {
	u.slots, u.stays, u.unused, u.bins = nil, nil, nil, nil
	if !u.packed {
		return
	}
	u.bins = make([]bin, u.nodes)
	for n := range u.bins {
		u.bins[n] = u.newBin(1, now)
	}
	u.all = u.newBin(int64(u.nodes), now)
}

func (u *usage) newBin(nodes int64, now planner.Time) (b bin) {
	for _, d := range u.dims {
		b.of[d] = timeline.NewCount(u.capacity[d] * nodes)
		b.of[d].Prune(now)
	}
	return b
}

// count returns the count of the slots for a need.
func (u *usage) count(need *unit.Vector) *timeline.Count {
	if len(u.kinds) == 1 && len(u.slots) == 1 {
		return u.slots[0]
	}
	k := u.kind(need)
	for len(u.slots) <= k {
		u.slots = append(u.slots, timeline.NewCount(u.kinds[len(u.slots)].each*int64(u.nodes)))
		if u.saving {
			u.slots[len(u.slots)-1].Save()
		}
	}
	return u.slots[k]
}

// Slots say where in a packed pool a stay is, or is to be: the number of a stay, which may just have been removed, or
// onNode, or anywhere. Pools that are not packed ignore them.
const anywhere int32 = -1

// onNode is the slot on a node, by its number in the pool.
func onNode(n int32) int32 { return -2 - n }

// add takes need during [start, end), and returns the slot that the stay has got.
func (u *usage) add(start, end planner.Time, need *unit.Vector, slot int32, fixed bool) int32 {
	if !u.packed {
		u.count(need).Add(start, end, 1)
		return 0
	}
	var node int32
	switch {
	case slot >= 0:
		node = u.stays[slot].node
	case slot == anywhere:
		node = u.somewhere(start, end, need)
	default:
		node = -2 - slot
	}
	id := int32(len(u.stays))
	if n := len(u.unused); n > 0 {
		id, u.unused = u.unused[n-1], u.unused[:n-1]
	} else {
		u.stays = append(u.stays, stay{})
	}
	u.stays[id] = stay{start, end, *need, node, fixed, true}
	u.book(&u.stays[id], +1)
	u.sum(&u.stays[id], +1)
	u.budget = min(u.budget+budgetPerStay, budgetCap)
	return id
}

// remove undoes an add.
func (u *usage) remove(slot int32, start, end planner.Time, need *unit.Vector) {
	if !u.packed {
		u.count(need).Add(start, end, -1)
		return
	}
	s := &u.stays[slot]
	u.book(s, -1)
	u.sum(s, -1)
	s.live = false
	u.unused = append(u.unused, slot)
}

func (u *usage) book(s *stay, sign int64) {
	b := &u.bins[s.node]
	if u.saving && !b.saved {
		b.saved = true
		u.saved.bins = append(u.saved.bins, int(s.node))
		for _, d := range u.dims {
			b.of[d].Save()
		}
	}
	if sign < 0 {
		b.fullNeed = unit.Vector{}
	}
	for _, d := range u.dims {
		b.of[d].Add(s.start, s.end, sign*s.need[d])
	}
}

func (u *usage) sum(s *stay, sign int64) {
	u.all.fullNeed = unit.Vector{}
	for _, d := range u.dims {
		u.all.of[d].Add(s.start, s.end, sign*s.need[d])
	}
}

// somewhere returns the node on which a stay fits or, if there is none, on which it fits soonest.
func (u *usage) somewhere(start, end planner.Time, need *unit.Vector) int32 {
	best, soonest := int32(0), unit.Never
	for n := range u.bins {
		if u.bins[n].fits(u.dims, start, end, need) {
			return int32(n)
		}
		if at, ok := u.bins[n].earliest(u.dims, need, 1, start, soonest); ok {
			best, soonest = int32(n), at
		}
	}
	return best
}

// prune forgets what was before an instant; of packed nodes one at a time, as nobody asks for the past.
func (u *usage) prune(before planner.Time) {
	for _, c := range u.slots {
		c.Prune(before)
	}
	if len(u.bins) == 0 {
		return
	}
	u.pruned = (u.pruned + 1) % len(u.bins)
	for _, d := range u.dims {
		u.bins[u.pruned].of[d].Prune(before)
		u.all.of[d].Prune(before)
	}
}

// reset takes everything out.
func (u *usage) reset() {
	for _, c := range u.slots {
		c.Reset(c.Capacity())
	}
	if len(u.stays) == 0 {
		return
	}
	for i := range u.stays {
		if s := &u.stays[i]; s.live || len(u.unused) == 0 {
			u.bins[s.node].reset(u.dims)
		}
	}
	u.all.reset(u.dims)
	u.stays, u.unused = u.stays[:0], u.unused[:0]
}

func (b *bin) reset(dims []unit.Dim) {
	b.fullNeed = unit.Vector{}
	for _, d := range dims {
		b.of[d].Reset(b.of[d].Capacity())
	}
}

// save remembers what is in use, for restore or forget.
func (u *usage) save() {
	u.saving = true
	for _, c := range u.slots {
		c.Save()
	}
	if u.packed {
		u.saved.stays, u.saved.unused = append(u.saved.stays[:0], u.stays...), append(u.saved.unused[:0], u.unused...)
		for _, d := range u.dims {
			u.all.of[d].Save()
		}
	}
}

func (u *usage) forget() { u.close((*timeline.Count).Forget) }

// restore comes back to what was saved.
func (u *usage) restore() {
	u.close((*timeline.Count).Restore)
	if u.packed {
		u.stays, u.saved.stays = u.saved.stays, u.stays
		u.unused, u.saved.unused = u.saved.unused, u.unused
	}
}

func (u *usage) close(end func(*timeline.Count)) {
	u.saving = false
	for _, c := range u.slots {
		end(c)
	}
	if !u.packed {
		return
	}
	for _, d := range u.dims {
		end(u.all.of[d])
		for _, n := range u.saved.bins {
			end(u.bins[n].of[d])
		}
	}
	for _, n := range u.saved.bins {
		u.bins[n].saved, u.bins[n].fullNeed = false, unit.Vector{}
	}
	u.saved.bins = u.saved.bins[:0]
}

// fits reports whether need is free on a node all over [start, end).
func (b *bin) fits(dims []unit.Dim, start, end planner.Time, need *unit.Vector) bool {
	if start <= b.full && b.full < end {
		for _, d := range dims {
			if b.fullNeed[d] > 0 && need[d] >= b.fullNeed[d] {
				return false
			}
		}
	}
	for _, d := range dims {
		if need[d] <= 0 {
			continue
		}
		if at, blocked := b.of[d].Blocked(start, end, need[d]); blocked {
			b.full, b.fullNeed = at, unit.Vector{}
			b.fullNeed[d] = need[d]
			return false
		}
	}
	return true
}

// earliest returns the first instant in [from, before) from which need is free for dur.
func (b *bin) earliest(dims []unit.Dim, need *unit.Vector, dur time.Duration, from, before planner.Time) (planner.Time,
	bool) {
	for agreed := 0; agreed < len(dims); {
		for _, d := range dims {
			at := from
			if need[d] > 0 {
				var ok bool
				if at, ok = b.of[d].EarliestBefore(need[d], dur, from, before); !ok {
					return 0, false
				}
			}
			if agreed++; at != from {
				from, agreed = at, 1
			}
			if agreed == len(dims) {
				break
			}
		}
	}
	return from, true
}

// soonest returns the first instant at which a packed node has need free for dur.
func (u *usage) soonest(need *unit.Vector, dur time.Duration, from planner.Time) (at planner.Time, slot int32) {
	at, slot = unit.Never, anywhere
	for n := range u.bins { // most often one has room at once, which is cheaper to ask
		if u.bins[n].fits(u.dims, from, from.Add(dur), need) {
			return from, onNode(int32(n))
		}
	}
	for n := range u.bins {
		b := &u.bins[n]
		if b.full >= at { // it begins later than there, where fits found no room
			continue
		}
		if start, fits := b.earliest(u.dims, need, dur, b.full, at); fits {
			at, slot = start, onNode(int32(n))
		}
	}
	return at, slot
}

// latest returns the last instant, from the given one on, from which need is free for dur and over by until.
func (b *bin) latest(dims []unit.Dim, need *unit.Vector, dur time.Duration, from, until planner.Time) (planner.Time,
	bool) {
	start := until - planner.Time(dur)
	if start < from {
		return 0, false
	}
	for agreed := 0; agreed < len(dims); {
		for _, d := range dims {
			at := start
			if need[d] > 0 {
				var ok bool
				if at, ok = b.of[d].Latest(need[d], dur, from, start.Add(dur)); !ok {
					return 0, false
				}
			}
			if agreed++; at != start {
				start, agreed = at, 1
			}
			if agreed == len(dims) {
				break
			}
		}
	}
	return start, true
}

// overdrawn reports whether more is in use at an instant than there is, of what is needed, where the stay of a slot is.
func (u *usage) overdrawn(at planner.Time, need *unit.Vector, slot int32) bool {
	if !u.packed {
		c := u.count(need)
		return c.Used(at) > c.Capacity()
	}
	for _, d := range u.dims {
		if c := u.bins[u.stays[slot].node].of[d]; need[d] > 0 && c.Used(at) > c.Capacity() {
			return true
		}
	}
	return false
}

// earliest returns the first instant, from the given one on, from which need is free for dur, and the slot to add it
// with. In a packed pool others that are planned may move to other nodes for that.
func (u *usage) earliest(need *unit.Vector, dur time.Duration, from planner.Time) (at planner.Time, slot int32,
	ok bool) {
	if !u.packed {
		at, ok = u.count(need).Earliest(1, dur, from)
		return at, 0, ok
	}
	// On no node before: nodes together hold no less than one. What a node has too much of, where a plan bent, counts
	// against all: it takes the first room that comes, on whatever node.
	from, ok = u.all.earliest(u.dims, need, dur, from, unit.Never)
	if !ok {
		return 0, anywhere, false
	}
	if at, slot = u.soonest(need, dur, from); at > from && len(u.bins) > 1 && u.budget > 0 {
		if start, n, found := u.squeeze(need, dur, from, at); found {
			return start, onNode(n), true
		}
	}
	return at, slot, slot != anywhere
}

// latest returns the last instant, from the given one on, from which need is free for dur and over by until, and the
// slot to add it with. In a packed pool others that are planned may move to other nodes for that.
func (u *usage) latest(need *unit.Vector, dur time.Duration, from, until planner.Time) (at planner.Time, slot int32,
	ok bool) {
	if !u.packed {
		at, ok = u.count(need).Latest(1, dur, from, until)
		return at, 0, ok
	}
	last, ok := u.all.latest(u.dims, need, dur, from, until)
	if !ok {
		return 0, anywhere, false
	}
	until = last.Add(dur)
	at, slot = -1, anywhere
	for n := range u.bins {
		if u.bins[n].fits(u.dims, last, until, need) {
			return last, onNode(int32(n)), true
		}
	}
	for n := range u.bins {
		if start, fits := u.bins[n].latest(u.dims, need, dur, max(from, at+1), until); fits {
			at, slot = start, onNode(int32(n))
		}
	}
	if len(u.bins) > 1 && u.budget > 0 {
		if start, n, found := u.squeezeLate(need, dur, max(from, at+1), until); found {
			return start, onNode(n), true
		}
	}
	return at, slot, slot != anywhere
}

// sometime returns when a stay that has lost its place has the first claim on room, if only for an instant: from then
// on it waits for no other. In a packed pool it moves to another node if that has room for all of it.
func (u *usage) sometime(need *unit.Vector, dur time.Duration, from planner.Time) (at planner.Time, slot int32,
	ok bool) {
	if !u.packed {
		return u.earliest(need, 1, from)
	}
	for n := range u.bins {
		if u.bins[n].fits(u.dims, from, from.Add(dur), need) {
			return from, onNode(int32(n)), true
		}
	}
	at, slot = u.soonest(need, 1, from)
	return at, slot, slot != anywhere
}
