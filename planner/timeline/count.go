package timeline

import (
	"time"

	"gantry/planner/unit"
)

// Count is the usage over time of a set of alike slots: a step function from time to an amount, zero where nothing was
// added. Since any set of stays of which at most n overlap can be put on n slots, planning has to know only the number
// in use. It is a Profile of one dimension, several times as fast: breakpoints lie in short sorted blocks, each with
// the usage where it begins, and bounds on the usage in it. It may be overdrawn.
type Count struct {
	capacity int64
	begin    unit.Time // the time before is forgotten, and reads as nothing used
	blocks   []countBlock
	steps    []*countSteps // by block
	near     int           // the block that was asked for last: the next is seldom far
	unused   []*countSteps

	// While a state is saved, blocks of before are replaced, not changed.
	saving   bool
	epoch    int64
	saved    countState
	replaced []*countSteps
}

type countState struct {
	begin  unit.Time
	blocks []countBlock
	steps  []*countSteps
}

// countBlock is the summary of a block, without a look into it. It is about the time from its first instant to that of
// the next.
type countBlock struct {
	first  unit.Time
	base   int64 // in use before its breakpoints
	hi, lo int64 // bounds on the usage beyond base
	loose  bool  // there may be narrower ones
}

// countWidth is the most breakpoints of a block. Of 32, 64 and 128 it was the fastest for remapping.
const countWidth = 64

// countSteps are the breakpoints of a block. Those at which nothing changes any more stay until they are in the way: a
// removed stay often comes back.
type countSteps struct {
	epoch int64
	n     int
	idle  int // breakpoints at which nothing changes
	at    [countWidth]unit.Time
	by    [countWidth]int64 // how much more is in use from there on
}

// NewCount returns the usage of that many idle slots.
func NewCount(capacity int64) *Count {
	c := &Count{}
	c.Reset(capacity)
	return c
}

// Reset makes all slots idle again, and keeps the memory.
func (c *Count) Reset(capacity int64) {
	c.unused = append(c.unused, c.steps...)
	*c = Count{capacity: capacity, blocks: c.blocks[:0], steps: c.steps[:0], unused: c.unused, epoch: c.epoch}
	c.blocks, c.steps = append(c.blocks, countBlock{}), append(c.steps, c.take())
}

// Capacity returns the number of slots.
func (c *Count) Capacity() int64 { return c.capacity }

// Used returns the amount in use at an instant.
func (c *Count) Used(at unit.Time) int64 {
	if at < c.begin {
		return 0
	}
	k := c.block(at)
	_, used := c.steps[k].until(at)
	return c.blocks[k].base + used
}

// Add takes n more during [start, end); end may be [unit.Never]. Nothing changes before Prune's instant.
func (c *Count) Add(start, end unit.Time, n int64) {
	start = max(start, c.begin)
	if start >= end || n == 0 {
		return
	}
	k := c.roomy(start, c.block(start))
	if end == unit.Never {
		c.put(k, start, n)
		for k++; k < len(c.blocks); k++ {
			c.blocks[k].base += n
		}
		return
	}
	last := k
	for last+1 < len(c.blocks) && c.blocks[last+1].first <= end {
		last++
	}
	last = c.roomy(end, last)
	if k+1 < len(c.blocks) && c.blocks[k+1].first <= start { // they were in one block
		k++
	}
	c.put(last, end, -n)
	c.put(k, start, n)
	for ; last > k; last-- {
		c.blocks[last].base += n
	}
}

// Remove undoes an Add of the same arguments, in any order and after any Prune in between.
func (c *Count) Remove(start, end unit.Time, n int64) { c.Add(start, end, -n) }

// roomy sees to it that the block k of an instant has room for two breakpoints, and returns the block that the instant
// then is in.
func (c *Count) roomy(at unit.Time, k int) int {
	if c.steps[k].n <= countWidth-2 {
		return k
	}
	s := c.own(k)
	if s.tidy(); s.n <= countWidth*3/4 {
		return k
	}
	if c.split(k); at >= c.blocks[k+1].first {
		k++
	}
	return k
}

// put makes an instant a breakpoint from which on n more are in use, as far as its block reaches.
func (c *Count) put(k int, at unit.Time, n int64) {
	s, b := c.own(k), &c.blocks[k]
	i := s.find(at)
	if i == 0 || s.at[i-1] != at {
		copy(s.at[i+1:s.n+1], s.at[i:s.n])
		copy(s.by[i+1:s.n+1], s.by[i:s.n])
		s.at[i], s.by[i] = at, 0
		s.n++
		s.idle++
		i++
	}
	if s.by[i-1] == 0 {
		s.idle--
	}
	if s.by[i-1] += n; s.by[i-1] == 0 {
		s.idle++
	}
	b.hi, b.lo, b.loose = b.hi+max(n, 0), b.lo+min(n, 0), true
}

// split moves the upper half of a block to a new one.
func (c *Count) split(k int) {
	low, high, half := c.own(k), c.take(), c.steps[k].n/2 // none of them idle
	high.n = copy(high.at[:], low.at[half:low.n])
	copy(high.by[:], low.by[half:low.n])
	low.n = half
	used := int64(0)
	for _, n := range low.by[:half] {
		used += n
	}
	b := &c.blocks[k]
	b.loose = true
	next := countBlock{first: high.at[0], base: b.base + used, hi: b.hi - used, lo: b.lo - used, loose: true}
	c.steps = append(c.steps, nil)
	copy(c.steps[k+2:], c.steps[k+1:])
	c.steps[k+1] = high
	c.blocks = append(c.blocks, countBlock{})
	copy(c.blocks[k+2:], c.blocks[k+1:])
	c.blocks[k+1] = next
}

// Save remembers the state, for Restore or Forget. Only one is remembered.
func (c *Count) Save() {
	c.saving = true
	c.epoch++
	c.saved = countState{c.begin, append(c.saved.blocks[:0], c.blocks...), append(c.saved.steps[:0], c.steps...)}
}

// Restore brings back the saved state.
func (c *Count) Restore() {
	for _, s := range c.steps {
		if s.epoch == c.epoch {
			c.unused = append(c.unused, s)
		}
	}
	c.begin, c.near, c.saving, c.replaced = c.saved.begin, 0, false, c.replaced[:0]
	c.blocks, c.saved.blocks = c.saved.blocks, c.blocks
	c.steps, c.saved.steps = c.saved.steps, c.steps
}

// Forget gives the saved state up.
func (c *Count) Forget() {
	c.unused = append(c.unused, c.replaced...)
	c.saving, c.replaced = false, c.replaced[:0]
}

// own returns a block to be changed.
func (c *Count) own(k int) *countSteps {
	s := c.steps[k]
	if !c.saving || s.epoch == c.epoch {
		return s
	}
	mine := c.take()
	mine.n, mine.idle = s.n, s.idle
	copy(mine.at[:s.n], s.at[:s.n])
	copy(mine.by[:s.n], s.by[:s.n])
	c.steps[k] = mine
	c.replaced = append(c.replaced, s)
	return mine
}

// Prune forgets the past: before that instant nothing counts as used, and Add and Remove leave it alone.
func (c *Count) Prune(before unit.Time) {
	if before <= c.begin {
		return
	}
	c.begin = before
	k := c.block(before)
	if k == 0 {
		return
	}
	for _, s := range c.steps[:k] {
		if c.saving && s.epoch != c.epoch {
			c.replaced = append(c.replaced, s)
		} else {
			c.unused = append(c.unused, s)
		}
	}
	c.steps, c.blocks, c.near = append(c.steps[:0], c.steps[k:]...), append(c.blocks[:0], c.blocks[k:]...), 0
}

// Fits reports whether n more fit all over [start, end).
func (c *Count) Fits(start, end unit.Time, n int64) bool {
	limit := c.capacity - n
	start = max(start, c.begin)
	if start >= end || limit < 0 {
		return limit >= 0
	}
	k := c.block(start)
	i, used := c.steps[k].until(start)
	for {
		s := c.steps[k]
		for used += c.blocks[k].base; used <= limit && i < s.n && s.at[i] < end; i++ {
			used += s.by[i]
		}
		if used > limit {
			return false
		}
		for k++; k < len(c.blocks) && c.below(k, limit); k++ {
		}
		if k == len(c.blocks) || c.blocks[k].first >= end {
			return true
		}
		i, used = 0, 0
	}
}

// Earliest returns the first instant, from the given one on, from which n more fit for dur; false if there is none.
func (c *Count) Earliest(n int64, dur time.Duration, from unit.Time) (unit.Time, bool) {
	limit := c.capacity - n
	from = max(from, c.begin)
	if limit < 0 || from == unit.Never {
		return 0, false
	}
	if dur <= 0 {
		return from, true
	}
	k := c.block(from)
	c.scan(k)
	i, used := c.steps[k].until(from)
	used += c.blocks[k].base
	start := from // slots that are free before the breakpoint looked at are so from here on
	for {
		s := c.steps[k]
		for at, by := s.at[:s.n], s.by[:s.n]; i < len(by); i++ {
			// all of it if full until there, else nothing: a branch would be guessed wrong
			start += (at[i] - start) & unit.Time((limit-used)>>63)
			if at[i]-start >= unit.Time(dur) {
				return start, true
			}
			used += by[i]
		}
		for k++; k < len(c.blocks) && (used <= limit && c.blocks[k].first-start < unit.Time(dur) && c.below(k, limit) ||
			used > limit && c.above(k, limit)); k++ {
		}
		if k == len(c.blocks) || used <= limit && c.blocks[k].first-start >= unit.Time(dur) {
			return start, used <= limit
		}
		if used > limit {
			c.near = k // the next question will begin there
		}
		c.scan(k)
		i, used = 0, c.blocks[k].base
	}
}

// scan drops the idle breakpoints of a block if they are many.
func (c *Count) scan(k int) {
	if s := c.steps[k]; s.idle > s.n/4 && (!c.saving || s.epoch == c.epoch) {
		s.tidy()
	}
}

// Latest returns the last instant, from the given one on, from which n more fit for dur and are over by until; false if
// there is none.
func (c *Count) Latest(n int64, dur time.Duration, from, until unit.Time) (unit.Time, bool) {
	limit := c.capacity - n
	from, dur = max(from, c.begin), max(dur, 0)
	if limit < 0 || from > until || until.Sub(from) < dur {
		return 0, false
	}
	if dur == 0 {
		return until, true
	}
	d := unit.Time(dur)
	end := until // the stay may be over then: from here to there all is free
	for k := c.block(until); ; k-- {
		b := &c.blocks[k]
		switch {
		case b.first >= until:
			continue
		case c.above(k, limit):
			end = b.first
		case !c.below(k, limit):
			s := c.steps[k]
			i, used := s.until(until - 1)
			used += b.base
			for at := until; ; {
				i--
				since := b.first
				if i >= 0 {
					since = s.at[i]
				}
				if since < at {
					if used > limit {
						end = since
					}
					if end-d < from {
						return 0, false
					}
					if since <= end-d {
						return end - d, true
					}
				}
				if i < 0 {
					break
				}
				at, used = since, used-s.by[i]
			}
		}
		if end-d < from {
			return 0, false
		}
		if b.first <= end-d {
			return end - d, true
		}
	}
}

// below reports whether at most limit is in use throughout a block.
func (c *Count) below(k int, limit int64) bool {
	b := &c.blocks[k]
	if b.base+b.hi > limit && b.loose && b.base <= limit {
		b.survey(c.steps[k])
	}
	return b.base+b.hi <= limit
}

// above reports whether more than limit is in use throughout a block.
func (c *Count) above(k int, limit int64) bool {
	b := &c.blocks[k]
	if b.base+b.lo <= limit && b.loose && b.base > limit {
		b.survey(c.steps[k])
	}
	return b.base+b.lo > limit
}

// survey finds the narrowest bounds of a block.
func (b *countBlock) survey(s *countSteps) {
	hi, lo, used, by := int64(0), int64(0), int64(0), s.by[:s.n]
	if s.n > 0 && s.at[0] == b.first {
		hi, lo, used, by = by[0], by[0], by[0], by[1:]
	}
	for _, n := range by {
		used += n
		hi, lo = max(hi, used), min(lo, used)
	}
	b.hi, b.lo, b.loose = hi, lo, false
}

// block returns the block that an instant is in.
func (c *Count) block(at unit.Time) int {
	lo, hi := 0, len(c.blocks)
	if k := c.near; c.blocks[k].first <= at {
		lo = k
		if k+1 < hi && at < c.blocks[k+1].first {
			return k
		}
	} else {
		hi = k
	}
	for lo+1 < hi {
		if mid := (lo + hi) / 2; c.blocks[mid].first <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	c.near = lo
	return lo
}

// find returns how many breakpoints there are up to an instant. It does not branch on their instants, which no
// processor could foresee.
func (s *countSteps) find(at unit.Time) int {
	i := 0
	for n := s.n; n > 0; {
		half := (n + 1) / 2
		i += half & int((s.at[(i+half-1)%countWidth]-at-1)>>63) // all of half, or nothing
		n -= half
	}
	return i
}

// until returns how many breakpoints there are up to an instant, and the usage beyond base then.
func (s *countSteps) until(at unit.Time) (i int, used int64) {
	i = s.find(at)
	for _, n := range s.by[:i] {
		used += n
	}
	return i, used
}

// tidy drops the breakpoints at which nothing changes.
func (s *countSteps) tidy() {
	n := 0
	for i, by := range s.by[:s.n] {
		if by != 0 {
			s.at[n], s.by[n] = s.at[i], by
			n++
		}
	}
	s.n, s.idle = n, 0
}

func (c *Count) take() *countSteps {
	if n := len(c.unused); n > 0 {
		s := c.unused[n-1]
		c.unused = c.unused[:n-1]
		s.n, s.idle, s.epoch = 0, 0, c.epoch
		return s
	}
	return &countSteps{epoch: c.epoch}
}
