package timeline

import (
	"time"

	"gantry/planner/unit"
)

// Count is the usage over time of a set of alike slots: a step function from time to an amount, zero where nothing was added. Since any
// set of stays of which at most so many overlap can be put on so many slots, the number in use is all that planning has to know. It
// does what Profile does, in one dimension and several times as fast: breakpoints lie in short sorted blocks of which the highest and the
// lowest amount are known, and what is added to a whole block is kept beside it. It may be overdrawn.
type Count struct {
	capacity int64
	begin    unit.Time // what was before is forgotten, and reads as nothing used
	count    int       // breakpoints
	blocks   []countBlock
	steps    []*countSteps // by block
	unused   []*countSteps

	// While a state is saved, blocks of before are replaced, not changed.
	saving   bool
	epoch    int64
	saved    countState
	replaced []*countSteps
}

type countState struct {
	begin  unit.Time
	count  int
	blocks []countBlock
	steps  []*countSteps
}

// countBlock is what is known of a block without looking into it.
type countBlock struct {
	first  unit.Time
	add    int64 // to every amount of the block
	hi, lo int64 // of its amounts, add included; true unless it is unseen
	unseen bool  // it changed since it was last looked through
}

// countWidth is the most breakpoints of a block. Of 32, 64 and 128 it was the fastest for remapping.
const countWidth = 64

type countSteps struct {
	epoch int64 // made in
	n     int
	at    [countWidth]unit.Time
	used  [countWidth]int64
}

// NewCount returns the usage of that many idle slots.
func NewCount(capacity int64) *Count { return &Count{capacity: capacity} }

// Reset makes all slots idle again, and keeps the memory.
func (c *Count) Reset(capacity int64) {
	c.unused = append(c.unused, c.steps...)
	*c = Count{capacity: capacity, blocks: c.blocks[:0], steps: c.steps[:0], unused: c.unused, epoch: c.epoch}
}

// Capacity returns the number of slots.
func (c *Count) Capacity() int64 { return c.capacity }

// Len returns the number of breakpoints.
func (c *Count) Len() int { return c.count }

// Used returns the amount in use at an instant.
func (c *Count) Used(at unit.Time) int64 {
	if len(c.blocks) == 0 || at < c.blocks[0].first {
		return 0
	}
	k := c.block(at)
	s := c.steps[k]
	return s.used[s.find(at)] + c.blocks[k].add
}

// Add takes n more during [start, end); end may be [unit.Never]. What is over before Prune's instant changes nothing.
func (c *Count) Add(start, end unit.Time, n int64) {
	start = max(start, c.begin)
	if start >= end || n == 0 {
		return
	}
	k, i := c.begins(start, n)
	level := c.before(k, i)
	for k < len(c.blocks) {
		s, b := c.steps[k], &c.blocks[k]
		if i == 0 && s.at[s.n-1] < end {
			b.add, b.hi, b.lo = b.add+n, b.hi+n, b.lo+n
			level = s.used[s.n-1] + b.add
			k++
			continue
		}
		s = c.own(k)
		for ; i < s.n && s.at[i] < end; i++ {
			s.used[i] += n
			level = s.used[i] + b.add
		}
		if i < s.n {
			break
		}
		b.unseen = true
		k, i = k+1, 0
	}
	c.ends(k, i, end, level, n)
}

// begins makes an instant from which on n more are in use a breakpoint, or takes it away if nothing changes there any more, and returns the
// place of what comes after it; what is in use at a breakpoint made here is counted already.
func (c *Count) begins(at unit.Time, n int64) (k, i int) {
	if len(c.blocks) == 0 {
		c.first(at, n)
		return 0, 1
	}
	k = c.block(at)
	s := c.steps[k]
	i = s.find(at)
	if i >= 0 && s.at[i] == at {
		if c.before(k, i) != s.used[i]+c.blocks[k].add+n {
			return k, i
		}
		return c.drop(k, i)
	}
	level := c.before(k, i+1)
	if s.n == countWidth {
		k, i = c.split(k, i+1)
		i--
	}
	c.put(k, i+1, at, level+n)
	return k, i + 2
}

// ends does that for the end: k and i are the place of the first breakpoint from there on, level is in use before it.
func (c *Count) ends(k, i int, end unit.Time, level, n int64) {
	if end == unit.Never {
		return
	}
	switch {
	case len(c.blocks) == 0:
		c.first(end, level-n)
		return
	case k < len(c.blocks) && c.steps[k].at[i] == end:
		if c.steps[k].used[i]+c.blocks[k].add == level {
			if k, i = c.drop(k, i); k >= len(c.blocks) {
				return
			}
		}
	default:
		if k == len(c.blocks) || i == 0 && k > 0 && c.steps[k-1].n < countWidth {
			k--
			i = c.steps[k].n
		}
		if c.steps[k].n == countWidth {
			k, i = c.split(k, i)
		}
		c.put(k, i, end, level-n)
	}
	s := c.steps[k]
	c.blocks[k].unseen = true
	if s.n < countWidth/4 && k+1 < len(c.steps) && s.n+c.steps[k+1].n <= countWidth*3/4 {
		c.merge(k)
	}
}

// first makes the only breakpoint.
func (c *Count) first(at unit.Time, used int64) {
	c.blocks, c.steps = append(c.blocks, countBlock{first: at}), append(c.steps, c.take())
	c.put(0, 0, at, used)
}

// before returns what is in use before a place.
func (c *Count) before(k, i int) int64 {
	if i > 0 {
		return c.steps[k].used[i-1] + c.blocks[k].add
	}
	if k == 0 {
		return 0
	}
	s := c.steps[k-1]
	return s.used[s.n-1] + c.blocks[k-1].add
}

// put makes a breakpoint in a block that has room.
func (c *Count) put(k, i int, at unit.Time, used int64) {
	s := c.own(k)
	copy(s.at[i+1:s.n+1], s.at[i:s.n])
	copy(s.used[i+1:s.n+1], s.used[i:s.n])
	s.at[i], s.used[i] = at, used-c.blocks[k].add
	s.n++
	c.blocks[k].unseen = true
	c.count++
	if i == 0 {
		c.blocks[k].first = at
	}
}

// drop takes a breakpoint away and returns the place of the next.
func (c *Count) drop(k, i int) (int, int) {
	s := c.own(k)
	s.drop(i, 1)
	c.count--
	switch {
	case s.n == 0:
		c.remove(k)
		return k, 0
	case i == 0:
		c.blocks[k].first = s.at[0]
	}
	c.blocks[k].unseen = true
	if i == s.n {
		return k + 1, 0
	}
	return k, i
}

// Save remembers the state, for Restore or Forget. Only one is remembered.
func (c *Count) Save() {
	c.saving = true
	c.epoch++
	c.saved = countState{c.begin, c.count, append(c.saved.blocks[:0], c.blocks...), append(c.saved.steps[:0], c.steps...)}
}

// Restore brings back the saved state.
func (c *Count) Restore() {
	for _, s := range c.steps {
		if s.epoch == c.epoch {
			c.unused = append(c.unused, s)
		}
	}
	c.begin, c.count, c.saving, c.replaced = c.saved.begin, c.saved.count, false, c.replaced[:0]
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
	*mine = *s
	mine.epoch = c.epoch
	c.steps[k] = mine
	c.replaced = append(c.replaced, s)
	return mine
}

// Remove undoes an Add of the same arguments, in whatever order and whatever was pruned in between.
func (c *Count) Remove(start, end unit.Time, n int64) { c.Add(start, end, -n) }

// Prune forgets the past: before that instant nothing counts as used, and Add and Remove leave it alone.
func (c *Count) Prune(before unit.Time) {
	if before <= c.begin {
		return
	}
	c.begin = before
	if len(c.blocks) == 0 || c.blocks[0].first >= before {
		return
	}
	k := c.block(before)
	i := max(0, c.steps[k].find(before))
	for m := range k {
		c.count -= c.steps[m].n
		c.giveUp(c.steps[m])
	}
	c.steps = append(c.steps[:0], c.steps[k:]...)
	c.blocks = append(c.blocks[:0], c.blocks[k:]...)
	s := c.own(0)
	s.drop(0, i)
	c.count -= i
	s.at[0], c.blocks[0].first = before, before
	c.blocks[0].unseen = true
}

// Fits reports whether n more fit all over [start, end).
func (c *Count) Fits(start, end unit.Time, n int64) bool {
	limit := c.capacity - n
	if start >= end || len(c.blocks) == 0 {
		return limit >= 0
	}
	if limit < 0 {
		return false
	}
	for k := c.block(start); k < len(c.blocks) && c.blocks[k].first < end; k++ {
		b := c.known(k)
		if b.hi <= limit {
			continue
		}
		s := c.steps[k]
		for i := max(0, s.find(start)); i < s.n && s.at[i] < end; i++ {
			if s.used[i]+b.add > limit {
				return false
			}
		}
	}
	return true
}

// Earliest returns the first instant, from the given one on, from which n more fit for dur; false if there is none.
func (c *Count) Earliest(n int64, dur time.Duration, from unit.Time) (unit.Time, bool) {
	limit := c.capacity - n
	from = max(from, c.begin)
	if limit < 0 || from == unit.Never {
		return 0, false
	}
	if dur <= 0 || len(c.blocks) == 0 {
		return from, true
	}
	start, end, blocked := from, from.Add(dur), false // the candidate, or only that time is blocked up to here
	k := c.block(from)
	i := max(0, c.steps[k].find(from))
	for ; k < len(c.blocks); k, i = k+1, 0 {
		b := c.known(k)
		switch {
		case !blocked && b.first >= end:
			return start, true
		case !blocked && b.hi <= limit || blocked && b.lo > limit:
			continue
		}
		s := c.steps[k]
		limit := limit - b.add
		for ; i < s.n; i++ {
			full := s.used[i] > limit
			if full == blocked {
				continue
			}
			if at := s.at[i]; full {
				if at >= end {
					return start, true
				}
			} else {
				start, end = at, at.Add(dur)
			}
			blocked = full
		}
	}
	return start, !blocked
}

// Latest returns the last instant, from the given one on, from which n more fit for dur and are over by until; false if there is none.
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
	end := until // what comes may be over then: from here to there all is free
	if len(c.blocks) > 0 {
		for k := c.block(until); k >= 0; k-- {
			b := c.known(k)
			if b.first >= until {
				continue
			}
			switch {
			case b.hi <= limit && b.first <= end-d:
				return end - d, true
			case b.hi <= limit:
				continue
			case b.lo > limit:
				if end = b.first; end-d < from {
					return 0, false
				}
				continue
			}
			s := c.steps[k]
			for i := s.n - 1; i >= 0; i-- {
				switch at := s.at[i]; {
				case at >= until:
				case s.used[i]+b.add > limit:
					if end = at; end-d < from {
						return 0, false
					}
				case at <= end-d:
					return end - d, true
				}
			}
		}
	}
	return end - d, true
}

// block returns the block that an instant is in: the last that begins by then, or the first.
func (c *Count) block(at unit.Time) int {
	lo, hi := 0, len(c.blocks)
	for lo+1 < hi {
		if mid := (lo + hi) / 2; c.blocks[mid].first <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// find returns the last breakpoint at or before an instant; -1 if all are later.
func (s *countSteps) find(at unit.Time) int {
	lo, hi := -1, s.n
	for lo+1 < hi {
		if mid := (lo + hi) / 2; s.at[mid] <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func (s *countSteps) drop(i, n int) {
	copy(s.at[i:s.n-n], s.at[i+n:s.n])
	copy(s.used[i:s.n-n], s.used[i+n:s.n])
	s.n -= n
}

// known returns what is known of a block.
func (c *Count) known(k int) *countBlock {
	b := &c.blocks[k]
	if b.unseen {
		b.survey(c.steps[k])
	}
	return b
}

// survey brings what is known of a block up to date.
func (b *countBlock) survey(s *countSteps) {
	hi, lo := s.used[0], s.used[0]
	for _, u := range s.used[1:s.n] {
		hi, lo = max(hi, u), min(lo, u)
	}
	b.hi, b.lo, b.unseen = hi+b.add, lo+b.add, false
}

// merge moves a block to the end of the one before.
func (c *Count) merge(k int) {
	s, next, b := c.own(k), c.steps[k+1], &c.blocks[k]
	shift := c.blocks[k+1].add - b.add
	for i := range next.n {
		s.at[s.n+i], s.used[s.n+i] = next.at[i], next.used[i]+shift
	}
	s.n += next.n
	b.unseen = true
	c.remove(k + 1)
}

// giveUp makes a block's memory free, unless it belongs to the saved state.
func (c *Count) giveUp(s *countSteps) {
	if c.saving && s.epoch != c.epoch {
		c.replaced = append(c.replaced, s)
	} else {
		c.unused = append(c.unused, s)
	}
}

func (c *Count) remove(k int) {
	c.giveUp(c.steps[k])
	c.steps = append(c.steps[:k], c.steps[k+1:]...)
	c.blocks = append(c.blocks[:k], c.blocks[k+1:]...)
}

// split moves the upper half of a full block to a new one, and returns where a breakpoint now goes that belonged at place i.
func (c *Count) split(k, i int) (int, int) {
	low, high := c.own(k), c.take()
	const half = countWidth / 2
	copy(high.at[:], low.at[half:])
	copy(high.used[:], low.used[half:])
	low.n, high.n = half, countWidth-half
	c.steps = append(c.steps, nil)
	copy(c.steps[k+2:], c.steps[k+1:])
	c.steps[k+1] = high
	c.blocks = append(c.blocks, countBlock{})
	copy(c.blocks[k+2:], c.blocks[k+1:])
	c.blocks[k+1] = countBlock{first: high.at[0], add: c.blocks[k].add, unseen: true}
	c.blocks[k].unseen = true
	if i > half {
		return k + 1, i - half
	}
	return k, i
}

func (c *Count) take() *countSteps {
	if n := len(c.unused); n > 0 {
		s := c.unused[n-1]
		c.unused = c.unused[:n-1]
		s.n, s.epoch = 0, c.epoch
		return s
	}
	return &countSteps{epoch: c.epoch}
}
