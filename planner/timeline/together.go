package timeline

import (
	"time"

	"gantry/planner/unit"
)

// EarliestOfAll returns the first instant, from the given one on, from which need is free for dur, which is positive,
// on the nodes of all shelves together, which are alike; false if there is none. On one node there is no room before.
func EarliestOfAll(shelves []*Shelf, need *unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	since, found := unit.Never, false
	together(shelves, need, from, func(at, until unit.Time, free bool) bool {
		switch {
		case !free:
			since = unit.Never
			return true
		case since == unit.Never:
			since = at
		}
		found = until == unit.Never || until-since >= unit.Time(dur)
		return !found
	})
	return since, found
}

// LatestOfAll returns the last instant, from the given one on, from which need is free for dur, which is positive, on
// the nodes of all shelves together, and over by until; false if there is none.
func LatestOfAll(shelves []*Shelf, need *unit.Vector, dur time.Duration, from, until unit.Time) (last unit.Time,
	found bool) {
	since := unit.Never
	together(shelves, need, from, func(at, end unit.Time, free bool) bool {
		switch {
		case !free:
			since = unit.Never
		case since == unit.Never:
			since = at
			fallthrough
		default:
			if end = min(end, until); end-since >= unit.Time(dur) {
				last, found = end-unit.Time(dur), true
			}
		}
		return end < until
	})
	return last, found
}

// FitsAll reports whether need is free all over [start, end) on the nodes of all shelves together.
func FitsAll(shelves []*Shelf, start, end unit.Time, need *unit.Vector) bool {
	fits := true
	together(shelves, need, start, func(at, until unit.Time, free bool) bool {
		fits = at >= end || free
		return fits && until < end
	})
	return fits
}

// together calls visit with stretches of time, from an instant on until it returns false, and with whether need is free
// in them on all nodes together. The last one ends at [unit.Never].
func together(shelves []*Shelf, need *unit.Vector, from unit.Time, visit func(at, until unit.Time, free bool) bool) {
	var limit, used unit.Vector
	var room [8]cursor
	cursors := room[:0]
	dims := shelves[0].dims
	for _, s := range shelves {
		from = max(from, s.begin)
	}
	for _, s := range shelves {
		k := s.block(from)
		b := s.blocks[k]
		c := cursor{s, b, k, b.before(from + 1)}
		for _, d := range dims {
			limit[d] += s.capacity[d] * int64(s.nodes)
			for _, n := range b.base[d][:s.nodes] {
				used[d] += n
			}
			for _, n := range b.by[d][:c.i] {
				used[d] += n
			}
		}
		c.skip()
		cursors = append(cursors, c)
	}
	for at := from; ; {
		free, until := true, unit.Never
		for _, d := range dims {
			free = free && (need[d] <= 0 || used[d] <= limit[d]-need[d])
		}
		for i := range cursors {
			until = min(until, cursors[i].at())
		}
		if !visit(at, until, free) || until == unit.Never {
			return
		}
		at = until
		for i := range cursors {
			for c := &cursors[i]; c.at() == at; c.skip() {
				for _, d := range dims {
					used[d] += c.b.by[d][c.i]
				}
				c.i++
			}
		}
	}
}

// cursor is at a breakpoint of a shelf, or behind the last.
type cursor struct {
	s    *Shelf
	b    *shelfBlock
	k, i int
}

func (c *cursor) at() unit.Time {
	if c.i == c.b.n {
		return unit.Never
	}
	return c.b.at[c.i]
}

// skip leaves blocks that are over.
func (c *cursor) skip() {
	for c.i == c.b.n && c.k+1 < len(c.s.blocks) {
		c.k++
		c.b, c.i = c.s.blocks[c.k], 0
	}
}
