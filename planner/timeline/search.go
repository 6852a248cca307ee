package timeline

import (
	"time"

	"gantry/planner/unit"
)

// query is a need, by the most that may be in use beside it in the dimensions that it asks for.
type query struct {
	dims  []unit.Dim
	limit unit.Vector
	pick  [unit.Dims]unit.Dim // memory of dims
}

// ask prepares a query; it reports whether need fits an idle node.
func (p *Profile) ask(q *query, need *unit.Vector) bool {
	if q.dims = q.pick[:0]; need[unit.GPU] > p.capacity[unit.GPU] {
		return false
	}
	for _, d := range p.dims {
		if need[d] > p.capacity[d] {
			return false
		}
		if need[d] > 0 {
			q.dims, q.limit[d] = append(q.dims, d), p.capacity[d]-need[d]
		}
	}
	return true
}

// Fits reports whether need fits beside the usage, all over [start, end), in every dimension that it asks for (see
// [unit.Vector.Fits]). Over an empty interval it fits iff it fits an idle node.
func (p *Profile) Fits(start, end unit.Time, need unit.Vector) bool {
	var q query
	ok := p.ask(&q, &need)
	if start = max(start, p.begin()); !ok || start >= end {
		return ok
	}
	k, i := p.find(start)
	_, _, over := p.over(&q, k, i, end)
	return !over
}

// Earliest returns the first instant from the given one on at which need fits for dur, or false if there is none: need
// exceeds the capacity, or the node is taken for ever. With dur 0 (or less) it fits at once if it fits an idle node.
// Nothing is found before the beginning that Prune set, nor at [unit.Never].
func (p *Profile) Earliest(need unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	return p.EarliestBefore(need, dur, from, unit.Never)
}

// EarliestBefore is Earliest where an instant will do that is before another.
func (p *Profile) EarliestBefore(need unit.Vector, dur time.Duration, from, before unit.Time) (unit.Time, bool) {
	var q query
	from = max(from, p.begin())
	if !p.ask(&q, &need) || from >= before {
		return 0, false
	}
	if dur <= 0 {
		return from, true
	}
	k, i := p.find(from)
	for start := from; ; start = p.blocks[k].at[i] {
		var found bool
		if k, i, found = p.over(&q, k, i, start.Add(dur)); !found {
			return start, true
		}
		if k, i, found = p.free(&q, k, i, before); !found {
			return 0, false
		}
	}
}

// Latest returns the last instant from the given one on at which need fits for dur and is over by until, or false if
// there is none. With dur 0 (or less) that is until itself if need fits an idle node. Nothing is found before the
// beginning that Prune set, nor at [unit.Never].
func (p *Profile) Latest(need unit.Vector, dur time.Duration, from, until unit.Time) (unit.Time, bool) {
	var q query
	from, dur = max(from, p.begin()), max(dur, 0)
	if !p.ask(&q, &need) || from > until || from == unit.Never || uint64(until)-uint64(from) < uint64(dur) {
		return 0, false
	}
	if dur == 0 {
		return min(until, unit.Never-1), true
	}
	var last unit.Time
	found := false
	for from < until {
		start, ok := p.EarliestBefore(need, dur, from, until-unit.Time(dur)+1)
		if !ok {
			break
		}
		k, i := p.find(start)
		if k, i, ok = p.over(&q, k, i, until); ok {
			from = p.blocks[k].at[i]
		} else {
			from = until
		}
		last, found = from-unit.Time(dur), true // it has room from start up to there
	}
	return last, found
}

// over returns the first breakpoint, from one on and before an instant, from which on need does not fit.
func (p *Profile) over(q *query, k, i int, before unit.Time) (int, int, bool) {
	for ; k < len(p.blocks) && (p.blocks[k].first < before || i > 0); k, i = k+1, 0 {
		b := &p.blocks[k]
		if b.below(p.dims, q) {
			continue
		}
		n := len(b.at)
		if b.at[n-1] >= before {
			n = b.upTo(before - 1)
		}
		j := n
		for _, d := range q.dims {
			used, limit := b.used[d][:j], q.limit[d]-b.base[d]
			for m := i; m < len(used); m++ {
				if used[m] > limit {
					j = m
					break
				}
			}
		}
		if j < n {
			return k, j, true
		}
	}
	return 0, 0, false
}

// free returns the first breakpoint, from one on and before an instant, from which on need fits.
func (p *Profile) free(q *query, k, i int, before unit.Time) (int, int, bool) {
	for ; k < len(p.blocks) && p.blocks[k].first < before; k, i = k+1, 0 {
		b := &p.blocks[k]
		if b.above(p.dims, q) {
			continue
		}
		for n := -1; n != i && i < len(b.at); {
			n = i
			for _, d := range q.dims {
				used, limit := b.used[d], q.limit[d]-b.base[d]
				for i < len(used) && used[i] > limit {
					i++
				}
			}
		}
		if i < len(b.at) {
			return k, i, b.at[i] < before
		}
	}
	return 0, 0, false
}

// below reports whether need fits throughout a block.
func (b *block) below(dims []unit.Dim, q *query) bool {
	for _, d := range q.dims {
		limit := q.limit[d] - b.base[d]
		if b.hi[d] > limit && b.loose {
			b.survey(dims)
		}
		if b.hi[d] > limit {
			return false
		}
	}
	return true
}

// above reports whether need fits at no time of a block, as one dimension tells.
func (b *block) above(dims []unit.Dim, q *query) bool {
	for _, d := range q.dims {
		limit := q.limit[d] - b.base[d]
		if b.lo[d] <= limit && b.loose {
			b.survey(dims)
		}
		if b.lo[d] > limit {
			return true
		}
	}
	return false
}

// survey finds the narrowest bounds of a block.
func (b *block) survey(dims []unit.Dim) {
	b.loose = false
	for _, d := range dims {
		hi, lo := b.used[d][0], b.used[d][0]
		for _, used := range b.used[d] {
			hi, lo = max(hi, used), min(lo, used)
		}
		b.hi[d], b.lo[d] = hi, lo
	}
}
