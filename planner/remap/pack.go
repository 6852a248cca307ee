package remap

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/seed"
	"gantry/planner/unit"
)

// Search for room in a packed pool by moving planned stays to other nodes, at their times. Whether stays fit that many
// nodes is bin packing over time. The search is complete while it has steps left, and gives up when they are used up.
// Steps are counted, never timed, so that the same plan is always made. They come back with every stay that is added,
// which keeps the cost of planning in proportion to the tasks.
const (
	budgetPerStay = 4       // steps that a stay brings
	budgetCap     = 200_000 // steps that are kept for later
	mostMovable   = 48      // stays that one search moves at most
)

// search is the scratch memory of searches.
type search struct {
	starts []planner.Time
	pieces []piece
	holds  [][]int32 // by node: the pieces that are placed on it
	pinned []bool    // by node: pieces yet to be placed can only be there
	failed map[uint64]struct{}
}

// piece is a stay in a search.
type piece struct {
	*stay
	id     int32 // of the stay; wanted: the one that room is searched for
	pinned bool  // it stays on its node
	on     int32 // where it is placed
}

const wanted int32 = -1

// squeeze returns the first instant in [from, before) from which need is free for dur, and on which node, if others
// move.
func (u *usage) squeeze(need *unit.Vector, dur time.Duration, from, before planner.Time) (planner.Time, int32, bool) {
	if u.budget -= len(u.stays) / 16; u.budget <= 0 {
		return 0, 0, false
	}
	s := &u.search
	s.starts = append(s.starts[:0], from)
	for i := range u.stays { // room can begin only where a stay ends
		if x := &u.stays[i]; x.live && x.end > from && x.end < before {
			s.starts = append(s.starts, x.end)
		}
	}
	slices.Sort(s.starts)
	return u.tryAll(need, dur)
}

// squeezeLate returns the last instant in [from, until-dur] from which need is free for dur, and on which node, if
// others move.
func (u *usage) squeezeLate(need *unit.Vector, dur time.Duration, from, until planner.Time) (planner.Time, int32,
	bool) {
	s := &u.search
	last := until - planner.Time(dur)
	if last < from {
		return 0, 0, false
	}
	if u.budget -= len(u.stays) / 16; u.budget <= 0 {
		return 0, 0, false
	}
	s.starts = append(s.starts[:0], last)
	for i := range u.stays { // room can end only where a stay begins
		if x := &u.stays[i]; x.live && x.start-planner.Time(dur) >= from && x.start-planner.Time(dur) < last {
			s.starts = append(s.starts, x.start-planner.Time(dur))
		}
	}
	slices.SortFunc(s.starts, func(a, b planner.Time) int { return cmp.Compare(b, a) })
	return u.tryAll(need, dur)
}

// tryAll tries the starts that were gathered, in their order.
func (u *usage) tryAll(need *unit.Vector, dur time.Duration) (planner.Time, int32, bool) {
	for i, at := range u.search.starts {
		if u.budget <= 0 {
			break
		}
		if i > 0 && at == u.search.starts[i-1] {
			continue
		}
		u.budget--
		if u.all.Fits(at, at.Add(dur), *need) { // necessary; not enough
			if node, ok := u.rearrangeFor(&stay{start: at, end: at.Add(dur), need: *need, node: -1, live: true}); ok {
				return at, node, true
			}
		}
	}
	return 0, 0, false
}

// rearrangeFor moves planned stays so that a new one has room on a node, and returns that.
func (u *usage) rearrangeFor(new *stay) (int32, bool) {
	if !u.gather(new, true) && !u.gather(new, false) {
		return 0, false
	}
	s := &u.search
	slices.SortFunc(s.pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.need[unit.CPU], a.need[unit.CPU]),
			cmp.Compare(a.id, b.id))
	})
	s.holds, s.pinned = planner.Extend(s.holds, u.nodes), planner.Extend(s.pinned, u.nodes)
	for n := range s.holds {
		s.holds[n] = s.holds[n][:0]
	}
	if s.failed == nil {
		s.failed = map[uint64]struct{}{}
	}
	clear(s.failed)
	if !u.place(0) {
		return 0, false
	}
	node := int32(0)
	for i := range s.pieces {
		switch p := &s.pieces[i]; {
		case p.id == wanted:
			node = p.on
		case p.on != p.node:
			u.move(p.id, p.on)
		}
	}
	return node, true
}

// gather lists the pieces of a search for room for a new stay: those that overlap it and, if whole, all that overlap
// stays that may move for it, and so on; else only stays that overlap it may move. It returns false if too many may.
func (u *usage) gather(new *stay, whole bool) bool {
	s := &u.search
	from, until := new.start, new.end
	for {
		s.pieces = append(s.pieces[:0], piece{stay: new, id: wanted})
		if u.budget -= 1 + len(u.stays)/16; u.budget <= 0 {
			return false
		}
		low, high, movable := from, until, 0
		for i := range u.stays {
			x := &u.stays[i]
			if !x.live || x.start >= until || x.end <= from {
				continue
			}
			moves := !x.fixed && (whole || x.start < new.end && x.end > new.start)
			s.pieces = append(s.pieces, piece{stay: x, id: int32(i), pinned: !moves})
			if moves {
				movable++
				low, high = min(low, x.start), max(high, x.end)
			}
		}
		switch {
		case movable > mostMovable:
			return false
		case low == from && high == until:
			return true
		}
		from, until = low, high
	}
}

// place puts the pieces from position k on, by start, on nodes; true if all have one.
func (u *usage) place(k int) bool {
	s := &u.search
	if k == len(s.pieces) {
		return true
	}
	p := &s.pieces[k]
	if p.pinned {
		return u.try(k, p.node)
	}
	state := u.state(k)
	if _, ok := s.failed[state]; ok {
		return false
	}
	if p.node >= 0 && u.try(k, p.node) {
		return true
	}
	for n := int32(0); int(n) < u.nodes; n++ {
		if u.budget <= 0 {
			return false // given up: nothing is known of this state
		}
		if n != p.node && u.try(k, n) {
			return true
		}
	}
	if u.budget > 0 {
		s.failed[state] = struct{}{}
	}
	return false
}

// try puts a piece on a node, and those after it wherever they fit.
func (u *usage) try(k int, n int32) bool {
	s, p := &u.search, &u.search.pieces[k]
	u.budget--
	used := p.need
	for _, q := range s.holds[n] {
		if x := &s.pieces[q]; x.end > p.start {
			for _, d := range u.dims {
				used[d] += x.need[d]
			}
		}
	}
	for _, d := range u.dims {
		if p.need[d] > 0 && used[d] > u.capacity[d] {
			return false
		}
	}
	p.on = n
	s.holds[n] = append(s.holds[n], int32(k))
	if u.place(k + 1) {
		return true
	}
	s.holds[n] = s.holds[n][:len(s.holds[n])-1]
	return false
}

// state identifies the holds of the nodes when piece k is to be placed (64 bits). Nodes are alike, unless a later piece
// is pinned to one.
func (u *usage) state(k int) uint64 {
	s := &u.search
	clear(s.pinned)
	for i := k; i < len(s.pieces); i++ {
		if s.pieces[i].pinned {
			s.pinned[s.pieces[i].node] = true
		}
	}
	h := seed.Mix(uint64(k))
	for n, holds := range s.holds[:u.nodes] {
		node := uint64(0)
		for _, q := range holds {
			if x := &s.pieces[q]; x.end > s.pieces[k].start {
				piece := uint64(x.end)
				for _, d := range u.dims {
					piece = seed.Mix(piece) + uint64(x.need[d])
				}
				node += seed.Mix(piece)
			}
		}
		if s.pinned[n] {
			node += seed.Mix(uint64(n) + 1)
		}
		h += seed.Mix(node)
	}
	return h
}
