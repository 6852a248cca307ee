package timeline

import (
	"math"
	"slices"
	"time"

	"gantry/planner/unit"
)

// A search for room goes over the breakpoints of a shelf in their order. The next one need not look again at blocks in
// which it found no room: as long as nothing is removed, there can only be less room.

// full says where searches found no room: of each class of needs, how long a stay has none that begins in a block.
type full struct {
	state int64
	dur   [maxClasses]unit.Time
}

// class is a need, and which others need no less.
type class struct {
	need  unit.Vector
	above [maxClasses]bool
}

// maxClasses bounds the classes of a shelf: the first needs that are asked for.
const maxClasses = 8

// pass is the state of a search that goes over the breakpoints: the usage of each node, and since when (or until when)
// the need fits there.
type pass struct {
	dims  []unit.Dim // that are needed
	limit unit.Vector
	at    unit.Time // where it begins
	used  [unit.Dims][ShelfNodes]int64
	free  [unit.Dims][ShelfNodes]unit.Time
	all   [ShelfNodes]unit.Time // since (or until) when all of it is free, if it is several

	longest unit.Time // of the stretches of free time that ended since the last passed block
	passed  []passed
}

// passed is a block that a search went over and found no room in.
type passed struct {
	block   int
	longest unit.Time // bounds the stretches of free time that ended in it
	open    bool      // a stretch goes on behind it
	partly  bool      // a stretch that began in it was not followed to its end
}

// Earliest returns the first instant in [from, before) from which need fits on one node for dur, which is positive, and
// the first of those nodes; false if there is none.
func (s *Shelf) Earliest(need *unit.Vector, dur time.Duration, from, before unit.Time) (unit.Time, int, bool) {
	from = max(from, s.begin)
	lower, upper := s.class(need)
	length := unit.Time(dur)
	k := s.block(from)
	if lower >= 0 {
		if q := s.roomAfter(k, lower, length); q == len(s.blocks) {
			return 0, 0, false
		} else if q > k {
			k, from = q, s.firsts[q]
		}
	}
	if from >= before {
		return 0, 0, false
	}
	at, node, ok := s.earliest(need, dur, from, before, k, lower)
	if upper >= 0 {
		until := before
		if ok {
			until = at
		}
		s.remember(upper, length, from, until)
	}
	return at, node, ok
}

// remember notes that the last search found no room for a class and length in the blocks it passed of [from, until).
func (s *Shelf) remember(c int, length, from, until unit.Time) {
	longest := s.pass.longest // of the free time that ended in the block where the search did
	for i := range slices.Backward(s.pass.passed) {
		x := &s.pass.passed[i]
		if !x.open {
			longest = 0
		}
		longest = max(longest, x.longest)
		if !x.partly && s.firsts[x.block] >= from && s.end(x.block) <= until {
			s.fill(x.block, c, min(length, longest+1))
		}
	}
}

// class returns the class of a need, twice; of a need that has none a class that needs no more, and one that needs no
// less, or -1. Where there is no room for the first there is none for the need, and where there is none for the need
// there is none for the second.
func (s *Shelf) class(need *unit.Vector) (lower, upper int) {
	lower, upper = -1, -1
	for c := range s.classes {
		above, below := s.covers(&s.classes[c].need, need), s.covers(need, &s.classes[c].need)
		if above && below {
			return c, c
		}
		if below && (lower < 0 || s.classes[lower].above[c]) {
			lower = c
		}
		if above && (upper < 0 || s.classes[c].above[upper]) {
			upper = c
		}
	}
	n := len(s.classes)
	if n == maxClasses {
		return lower, upper
	}
	s.classes = append(s.classes, class{need: *need})
	for a := range s.classes {
		for b := range s.classes {
			s.classes[a].above[b] = s.covers(&s.classes[b].need, &s.classes[a].need)
		}
	}
	return n, n
}

// covers reports whether a is no less than b in the dimensions that can be short.
func (s *Shelf) covers(a, b *unit.Vector) bool {
	for _, d := range s.dims {
		if a[d] < b[d] {
			return false
		}
	}
	return true
}

// fill says that no stay of a class and a length has room that begins in block k.
func (s *Shelf) fill(k, c int, length unit.Time) {
	f := &s.full[k]
	if f.state != s.state {
		f.state = s.state
		for i := range f.dur {
			f.dur[i] = unit.Never
		}
	}
	for i := range s.classes {
		if s.classes[c].above[i] && length < f.dur[i] {
			f.dur[i] = length
		}
	}
}

// roomAfter returns the first block from k on in which a stay may begin, as far as is known.
func (s *Shelf) roomAfter(k, c int, length unit.Time) int {
	for k < len(s.full) && s.full[k].state == s.state && s.full[k].dur[c] <= length {
		k++
	}
	return k
}

// earliest is Earliest from an instant of block k on.
func (s *Shelf) earliest(need *unit.Vector, dur time.Duration, from, before unit.Time, k, c int) (unit.Time, int,
	bool) {
	b := s.scan(k)
	i := b.before(from + 1)
	p := &s.pass
	p.start(s, need, b, i, from, unit.Never)
	p.passed = p.passed[:0]
	at, node := p.first(s.nodes)
	begun, next := k, 0 // where a stay may begin that does not in the block begun
	if c >= 0 {
		next = s.roomAfter(k+1, c, unit.Time(dur))
	}
	for {
		last, j := k+1 == len(s.blocks), b.n
		until := at.Add(dur)
		found := at < unit.Never && (last || s.firsts[k+1] >= until)
		if found { // all breakpoints that matter to it are in this block
			j = b.before(until)
		}
		known := at < unit.Never
		if known {
			p.forward(b, i, j)
			i = max(i, j)
		}
		for ; at == unit.Never && i < j; i++ {
			p.forward(b, i, i+1)
			at = p.since(int(b.node[i]))
		}
		again := found || !known || p.since(node) != at // of equals the first is wanted
		if at == from {                                 // all that are free since then were so at first
			for node < s.nodes && p.since(node) != at {
				node++
			}
			if found && node < s.nodes {
				return at, node, true
			}
			again = node == s.nodes
		}
		if again {
			was := at
			if at, node = p.first(s.nodes); at < unit.Never && at >= before {
				return 0, 0, false
			}
			if found && at == was {
				return at, node, true
			}
		}
		if c >= 0 && next <= k && at >= s.firsts[k] { // stretches that began before are over
			begun, next = k, s.roomAfter(k+1, c, unit.Time(dur))
		}
		if next > k && at >= s.end(begun) && (at < unit.Never || i == b.n) {
			p.pass(k, false)
			for i := len(p.passed) - 1; i >= 0 && at < unit.Never && s.end(p.passed[i].block) > at; i-- {
				p.passed[i].partly = true
			}
			if next == len(s.blocks) || s.firsts[next] >= before {
				return 0, 0, false
			}
			k, from = next, s.firsts[next]
			b = s.scan(k)
			i = b.before(from + 1)
			p.start(s, need, b, i, from, unit.Never)
			at, node = p.first(s.nodes)
			begun, next = k, s.roomAfter(k+1, c, unit.Time(dur))
			continue
		}
		if i < b.n || last && at < unit.Never {
			continue
		}
		p.pass(k, !last && at < s.firsts[k+1])
		if k++; last || at == unit.Never && s.firsts[k] >= before {
			return 0, 0, false
		}
		b, i = s.scan(k), 0
	}
}

// scan returns a block to be looked through. It drops the idle breakpoints if they are many.
func (s *Shelf) scan(k int) *shelfBlock {
	b := s.blocks[k]
	if b.idle > b.n/4 && (!s.saving || b.epoch == s.epoch) {
		s.tidy(b)
	}
	return b
}

// Latest returns the last instant, from the given one on, from which need fits on one node for dur, which is positive,
// and is over by until, and the first of those nodes; false if there is none.
func (s *Shelf) Latest(need *unit.Vector, dur time.Duration, from, until unit.Time) (unit.Time, int, bool) {
	from = max(from, s.begin)
	length := unit.Time(dur)
	if from > until || until-from < length {
		return 0, 0, false
	}
	k := s.block(until)
	b := s.blocks[k]
	i := b.before(until)
	p := &s.pass
	p.start(s, need, b, i, until, never)
	end, node := p.last(s.nodes)
	for {
		j := 0
		found := end != never && s.firsts[k] <= end-length
		if found {
			j = b.before(end - length + 1)
		}
		known := end != never
		if known {
			p.backward(b, j, i)
			i = min(i, j)
		}
		for ; end == never && i > 0; i-- {
			p.backward(b, i-1, i)
			end = p.until(int(b.node[i-1]))
		}
		if found || !known || p.until(node) != end {
			was := end
			if end, node = p.last(s.nodes); end != never && end-length < from {
				return 0, 0, false
			}
			if found && end == was {
				return end - length, node, true
			}
		}
		if i > 0 || s.firsts[k] <= from && end != never {
			continue
		}
		if s.firsts[k] <= from {
			return 0, 0, false
		}
		k--
		b = s.blocks[k]
		i = b.n
	}
}

// never is the end of a stretch of time in which nothing is free.
const never unit.Time = -1

// start begins a search behind the first n breakpoints of a block: where need fits it does so from or until an instant,
// elsewhere never.
func (p *pass) start(s *Shelf, need *unit.Vector, b *shelfBlock, n int, at, never unit.Time) {
	p.dims, p.at, p.longest = p.dims[:0], at, 0
	for _, d := range s.dims {
		if need[d] <= 0 {
			continue
		}
		p.dims, p.limit[d] = append(p.dims, d), s.capacity[d]-need[d]
		used, free := &p.used[d], &p.free[d]
		copy(used[:s.nodes], b.base[d][:s.nodes])
		for i, node := range b.node[:n] {
			used[node%ShelfNodes] += b.by[d][i]
		}
		for node, u := range used[:s.nodes] {
			full := unit.Time((p.limit[d] - u) >> 63)
			free[node%ShelfNodes] = at&^full | never&full
		}
	}
}

// forward goes over the breakpoints i to j of a block: a node is free from when enough is until it is not. It does not
// branch on conditions that no processor could foresee.
func (p *pass) forward(b *shelfBlock, i, j int) {
	for _, d := range p.dims {
		used, free, limit := &p.used[d], &p.free[d], p.limit[d]
		by, at, nodes, longest := b.by[d][:j], b.at[:j], b.node[:j], p.longest
		for k := i; k < len(by); k++ {
			node := nodes[k] % ShelfNodes
			u := used[node] + by[k]
			used[node] = u
			full := unit.Time((limit - u) >> 63)
			longest = max(longest, (at[k]-free[node])&full)
			free[node] = min(free[node], at[k]) | full&math.MaxInt64
		}
		p.longest = longest
	}
}

// pass says that a search leaves a block.
func (p *pass) pass(k int, open bool) {
	p.passed = append(p.passed, passed{k, p.longest, open, false})
	p.longest = 0
}

// backward goes over the breakpoints j to i of a block from the last to the first.
func (p *pass) backward(b *shelfBlock, i, j int) {
	for _, d := range p.dims {
		used, free, limit := &p.used[d], &p.free[d], p.limit[d]
		for k := j - 1; k >= i; k-- {
			node := b.node[k] % ShelfNodes
			u := used[node] - b.by[d][k]
			used[node] = u
			free[node] = max(free[node], b.at[k]) | unit.Time((limit-u)>>63)
		}
	}
}

// since returns since when all that is needed is free on a node.
func (p *pass) since(node int) unit.Time {
	at := p.at
	for _, d := range p.dims {
		at = max(at, p.free[d][node])
	}
	return at
}

// until returns until when all that is needed is free on a node.
func (p *pass) until(node int) unit.Time {
	at := p.at
	for _, d := range p.dims {
		at = min(at, p.free[d][node])
	}
	return at
}

// first returns which node is free for longest, and since when.
func (p *pass) first(nodes int) (unit.Time, int) {
	all, at := p.together(nodes, func(a, b unit.Time) unit.Time { return max(a, b) }), unit.Never
	for _, since := range all {
		at = min(at, since)
	}
	return at, slices.Index(all, at)
}

// last returns which node is free until the latest instant, and until when.
func (p *pass) last(nodes int) (unit.Time, int) {
	all, at := p.together(nodes, func(a, b unit.Time) unit.Time { return min(a, b) }), never
	for _, until := range all {
		at = max(at, until)
	}
	return at, slices.Index(all, at)
}

// together returns by node since or until when all that is needed is free.
func (p *pass) together(nodes int, narrower func(a, b unit.Time) unit.Time) []unit.Time {
	if len(p.dims) == 1 {
		return p.free[p.dims[0]][:nodes]
	}
	all := p.all[:nodes]
	for n := range all {
		all[n] = p.at
		for _, d := range p.dims {
			all[n] = narrower(all[n], p.free[d][n])
		}
	}
	return all
}
