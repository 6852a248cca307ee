package timeline

import (
	"math"
	"time"

	"gantry/planner/unit"
)

// Fits reports whether need fits beside the usage, all over [start, end), in every dimension that it asks for (see
// [unit.Vector.Fits]). Over an empty interval it fits iff it fits an idle node. It costs O(log n).
func (p *Profile) Fits(start, end unit.Time, need unit.Vector) bool {
	limit, ok := p.limit(need)
	if !ok || start >= end || p.tree.count == 0 {
		return ok
	}
	s := forward{tree: &p.tree, limit: limit, from: start, start: start, end: end, once: true}
	s.scan(p.tree.height, p.tree.root, unit.Vector{})
	return !s.blocked
}

// Earliest returns the first instant from the given one on at which need fits for dur, or false if there is none: need
// exceeds the capacity, or the node is taken for ever. With dur 0 (or less) it fits at once if it fits an idle node.
// Nothing is found before the beginning that Prune set, nor at [unit.Never]. It costs O(log n) for every stretch of
// time that is free but too short.
func (p *Profile) Earliest(need unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	limit, ok := p.limit(need)
	from = max(from, p.begin)
	if !ok || from == unit.Never {
		return 0, false
	}
	if dur <= 0 || p.tree.count == 0 {
		return from, true
	}
	s := forward{tree: &p.tree, limit: limit, dur: dur, from: from, start: from, end: from.Add(dur)}
	s.scan(p.tree.height, p.tree.root, unit.Vector{})
	if s.blocked {
		return 0, false
	}
	return s.start, true
}

// Latest returns the last instant from the given one on at which need fits for dur and is over by until, or false if
// there is none. With dur 0 (or less) that is until itself if need fits an idle node. Nothing is found before the
// beginning that Prune set, nor at [unit.Never]. It costs O(log n) for every stretch of time that is free but too
// short.
func (p *Profile) Latest(need unit.Vector, dur time.Duration, from, until unit.Time) (unit.Time, bool) {
	limit, ok := p.limit(need)
	from, dur = max(from, p.begin), max(dur, 0)
	if !ok || from > until || from == unit.Never || uint64(until)-uint64(from) < uint64(dur) {
		return 0, false
	}
	if dur == 0 {
		return min(until, unit.Never-1), true
	}
	s := backward{tree: &p.tree, limit: limit, dur: unit.Time(dur), first: from + unit.Time(dur), until: until,
		end: until, last: until}
	if p.tree.count > 0 && s.scan(p.tree.height, p.tree.root, p.tree.value(unit.Never)) && !s.found {
		return 0, false
	}
	if s.blocked {
		s.end = s.last // all before the first breakpoint is free
	}
	return s.end - s.dur, true
}

// limit returns the most that may be in use beside need, and whether need fits an idle node.
func (p *Profile) limit(need unit.Vector) (unit.Vector, bool) {
	limit := unit.Vector{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	for i := range need {
		if need[i] > 0 && p.capacity[i] != unit.Unlimited {
			if need[i] > p.capacity[i] {
				return limit, false
			}
			limit[i] = p.capacity[i] - need[i]
		}
	}
	return limit, true
}

// exceeds reports whether used is above limit in any dimension.
func exceeds(used, limit *unit.Vector) bool {
	for i := range used {
		if used[i] > limit[i] {
			return true
		}
	}
	return false
}

// uniform reports whether all of a span is blocked, if that is asked, or all of it free; base is the usage before it. A
// span that is blocked by several dimensions in turn is uniform, too, but that does not show.
func (e *span) uniform(blocked bool, base, limit *unit.Vector) bool {
	if blocked {
		for i := range base {
			if base[i]+e.lo[i] > limit[i] {
				return true
			}
		}
		return false
	}
	for i := range base {
		if base[i]+e.hi[i] > limit[i] {
			return false
		}
	}
	return true
}

// forward looks for the earliest start. All along, either the candidate has been free since start, or time is blocked.
type forward struct {
	tree       *tree
	limit      unit.Vector
	dur        time.Duration
	from       unit.Time // nothing before matters
	start, end unit.Time // the candidate
	blocked    bool
	once       bool // the first candidate is the only one
}

// scan passes over a block in order of time, base being the usage before it, and reports whether the search is over.
func (s *forward) scan(level int, n int32, base unit.Vector) bool {
	if level == 0 {
		return s.scanLeaf(&s.tree.leaves.blocks[n], base)
	}
	b := &s.tree.inner.blocks[n]
	k := find(b, s.from)
	for i := range k {
		plus(&base, &b.e[i].sum)
	}
	for ; k < int(b.n); k++ {
		e := &b.e[k]
		if e.first <= s.from {
			if s.scan(level-1, e.block, base) {
				return true
			}
		} else if !s.blocked && e.first >= s.end {
			return true
		} else if !e.uniform(s.blocked, &base, &s.limit) && s.scan(level-1, e.block, base) {
			return true
		}
		plus(&base, &e.sum)
	}
	return false
}

func (s *forward) scanLeaf(b *block[step], used unit.Vector) bool {
	k := 0
	for ; k < int(b.n) && b.e[k].at <= s.from; k++ {
		plus(&used, &b.e[k].delta)
	}
	if k > 0 {
		if s.blocked = exceeds(&used, &s.limit); s.blocked && s.once {
			return true
		}
	}
	for ; k < int(b.n); k++ {
		at := b.e[k].at
		if !s.blocked && at >= s.end {
			return true
		}
		plus(&used, &b.e[k].delta)
		blocked := exceeds(&used, &s.limit)
		if blocked && s.once {
			s.blocked = true
			return true
		}
		if s.blocked && !blocked {
			s.start, s.end = at, at.Add(s.dur)
		}
		s.blocked = blocked
	}
	return false
}

// backward looks for the latest start, from the end of time on. All along, either the candidate is free from last to
// end, or time is blocked from last on.
type backward struct {
	tree         *tree
	limit        unit.Vector
	dur          unit.Time
	first, until unit.Time // ends before first will not do; usage from until on does not matter
	end, last    unit.Time
	blocked      bool
	found        bool
}

// scan passes over a block against the order of time, used being the usage at its end, and reports whether the search
// is over.
func (s *backward) scan(level int, n int32, used unit.Vector) bool {
	if level == 0 {
		return s.scanLeaf(&s.tree.leaves.blocks[n], used)
	}
	b := &s.tree.inner.blocks[n]
	for k := int(b.n) - 1; k >= 0; k-- {
		e := &b.e[k]
		minus(&used, &e.sum) // the usage before the span
		if e.first >= s.until {
			continue
		}
		if e.uniform(s.blocked, &used, &s.limit) {
			if s.stretch(s.blocked, e.first) {
				return true
			}
			continue
		}
		after := used
		plus(&after, &e.sum)
		if s.scan(level-1, e.block, after) {
			return true
		}
	}
	return false
}

func (s *backward) scanLeaf(b *block[step], used unit.Vector) bool {
	for k := int(b.n) - 1; k >= 0; k-- {
		e := &b.e[k]
		if e.at < s.until && s.stretch(exceeds(&used, &s.limit), e.at) {
			return true
		}
		minus(&used, &e.delta)
	}
	return false
}

// stretch goes back to an instant from which on time is blocked or free, and reports whether that ends the search.
func (s *backward) stretch(blocked bool, at unit.Time) bool {
	if s.blocked && !blocked {
		s.end = s.last
	}
	s.blocked, s.last = blocked, at
	if blocked {
		return at < s.first
	}
	s.found = at <= s.end-s.dur
	return s.found
}
