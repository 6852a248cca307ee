package timeline

import (
	"math"
	"time"

	"gantry/planner/unit"
)

// Fits reports whether need fits beside what is in use, all over [start, end), in every dimension that it asks for (see
// [unit.Vector.Fits]). Over an empty interval it fits iff it fits an idle node. It costs O(log n).
func (p *Profile) Fits(start, end unit.Time, need unit.Vector) bool {
	limit, ok := p.limit(need)
	if !ok || start >= end || p.root == 0 {
		return ok
	}
	if used := p.value(start); exceeds(&used, &limit) {
		return false
	}
	return p.clear(p.root, unit.Vector{}, start, end, &limit)
}

// Earliest returns the first instant from the given one on at which need fits for dur, or false if there is none: need exceeds the
// capacity, or the node is taken for ever. With dur 0 (or less) it fits at once if it fits an idle node. Nothing is found before the
// beginning that Prune set, nor at [unit.Never]. It costs O(log n) for every stretch of time that is free but too short.
func (p *Profile) Earliest(need unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	limit, ok := p.limit(need)
	from = max(from, p.begin)
	if !ok || from == unit.Never {
		return 0, false
	}
	if dur <= 0 || p.root == 0 {
		return from, true
	}
	used := p.value(from)
	s := forward{nodes: p.nodes, limit: limit, dur: dur, from: from, start: from, end: from.Add(dur), blocked: exceeds(&used, &limit)}
	if !s.scan(p.root, unit.Vector{}) && s.blocked {
		return 0, false
	}
	return s.start, true
}

// Latest returns the last instant from the given one on at which need fits for dur and is over by until, or false if there is none.
// With dur 0 (or less) that is until itself if need fits an idle node. Nothing is found before the beginning that Prune set, nor at
// [unit.Never]. It costs O(log n) for every stretch of time that is free but too short.
func (p *Profile) Latest(need unit.Vector, dur time.Duration, from, until unit.Time) (unit.Time, bool) {
	limit, ok := p.limit(need)
	from, dur = max(from, p.begin), max(dur, 0)
	if !ok || from > until || from == unit.Never || uint64(until)-uint64(from) < uint64(dur) {
		return 0, false
	}
	if dur == 0 {
		return min(until, unit.Never-1), true
	}
	s := backward{nodes: p.nodes, limit: limit, dur: unit.Time(dur), first: from + unit.Time(dur), until: until, end: until}
	if p.root == 0 || !s.scan(p.root, unit.Vector{}) {
		s.settle()
		s.ok = s.end >= s.first // all before the first breakpoint is free
	}
	if !s.ok {
		return 0, false
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

// above reports whether base + rel is above limit in any dimension. With the highest sums of a subtree as rel, false says that all of
// it is free; with the lowest, true says that all of it is blocked. (Between the two, dimensions may take turns in blocking.)
func above(base, rel, limit *unit.Vector) bool {
	for i := range base {
		if base[i]+rel[i] > limit[i] {
			return true
		}
	}
	return false
}

// clear reports whether no breakpoint within (start, end) of the subtree n blocks; base is what is in use before the subtree.
func (p *Profile) clear(n int32, base unit.Vector, start, end unit.Time, limit *unit.Vector) bool {
	for n != 0 {
		nd := &p.nodes[n]
		if !above(&base, &nd.hi, limit) {
			return true
		}
		if nd.at > start && !p.clear(nd.left, base, start, end, limit) {
			return false
		}
		if nd.at >= end {
			return true
		}
		step(&base, p.nodes, nd)
		if nd.at > start && exceeds(&base, limit) {
			return false
		}
		n = nd.right
	}
	return true
}

// step takes base from what is in use before the subtree of nd to what is in use from nd on.
func step(base *unit.Vector, nodes []node, nd *node) {
	left := &nodes[nd.left]
	for i := range base {
		base[i] += left.sum[i] + nd.delta[i]
	}
}

// forward looks for the earliest start. At every point of the scan the candidate is free from start on, or time is blocked.
type forward struct {
	nodes      []node
	limit      unit.Vector
	dur        time.Duration
	from       unit.Time // breakpoints up to here are behind the scan
	start, end unit.Time // the candidate
	blocked    bool
}

// scan passes over a subtree in order of time and reports whether the candidate stands.
func (s *forward) scan(n int32, base unit.Vector) bool {
	for n != 0 {
		nd := &s.nodes[n]
		if s.blocked {
			if above(&base, &nd.lo, &s.limit) {
				return false
			}
		} else if !above(&base, &nd.hi, &s.limit) {
			return false
		}
		if nd.at > s.from && s.scan(nd.left, base) {
			return true
		}
		step(&base, s.nodes, nd)
		if nd.at > s.from {
			if !s.blocked && nd.at >= s.end {
				return true
			}
			if exceeds(&base, &s.limit) {
				s.blocked = true
			} else if s.blocked {
				s.blocked, s.start, s.end = false, nd.at, nd.at.Add(s.dur)
			}
		}
		n = nd.right
	}
	return false
}

// backward looks for the latest start, as the end from which time is free backwards.
type backward struct {
	nodes        []node
	limit        unit.Vector
	dur          unit.Time
	first, until unit.Time // no end before first will do; breakpoints from until on do not matter
	end          unit.Time // the candidate, unless ahead is set
	blocked      bool
	ahead        int32 // a subtree that is blocked throughout: the candidate is its first breakpoint
	ok           bool
}

// scan passes over a subtree against the order of time and reports whether the search is over, with its outcome in ok.
func (s *backward) scan(n int32, base unit.Vector) bool {
	for n != 0 {
		nd := &s.nodes[n]
		if s.blocked {
			if above(&base, &nd.lo, &s.limit) {
				s.ahead = n
				return false
			}
		} else if !above(&base, &nd.hi, &s.limit) {
			return false
		}
		if nd.at < s.until {
			own := base
			step(&own, s.nodes, nd)
			if s.scan(nd.right, own) {
				return true
			}
			if exceeds(&own, &s.limit) {
				s.blocked, s.end, s.ahead = true, nd.at, 0
				if s.end < s.first {
					return true
				}
			} else {
				s.settle()
				if s.ok = s.end >= s.first && nd.at <= s.end-s.dur; s.ok || s.end < s.first {
					return true
				}
			}
		}
		n = nd.left
	}
	return false
}

// settle ends a blocked stretch: the candidate is where it began.
func (s *backward) settle() {
	s.blocked = false
	if s.ahead != 0 {
		for n := s.ahead; n != 0; n = s.nodes[n].left {
			s.end = s.nodes[n].at
		}
		s.ahead = 0
	}
}
