package timeline

import (
	"slices"

	"gantry/planner/unit"
)

// ShelfNodes is the most nodes of a Shelf.
const ShelfNodes = 64

// Shelf is the usage over time of a few alike nodes, in the dimensions that can be short. One pass over the changes on
// all of them finds where a need fits first on any. That costs less than a question to each node: most of those have no
// room, and to find the place in a usage takes longer than to read on from there. Breakpoints lie in sorted blocks as
// in Count, each with the node that they are about; a block knows the usage of each node where it begins. A Shelf may
// be overdrawn. It keeps the state of searches, so that only one goroutine may ask at a time.
type Shelf struct {
	nodes    int
	capacity unit.Vector
	dims     []unit.Dim
	begin    unit.Time // the time before is forgotten, and reads as nothing used
	firsts   []unit.Time
	blocks   []*shelfBlock // each about the time from its first instant to that of the next
	full     []full        // where searches found no room, by block
	near     int           // the block that was asked for last
	unused   []*shelfBlock

	classes []class // of needs that were asked for
	state   int64   // its number: where less is in use than in the one before, full is outdated
	states  int64

	// While a state is saved, blocks of before are replaced, not changed.
	saving   bool
	epoch    int64
	saved    shelfState
	replaced []*shelfBlock

	lifted [2]unit.Time // from and until when less is in use since Lift
	pass   pass
}

type shelfState struct {
	begin  unit.Time
	firsts []unit.Time
	blocks []*shelfBlock
}

// shelfWidth is the most breakpoints of a block. Those of one instant, at most one for each node, lie in one block.
const shelfWidth = 2 * ShelfNodes

// shelfBlock has breakpoints by instant, one for each node in which something changes there. Those at which nothing
// changes any more stay until they are in the way: a removed stay often comes back.
type shelfBlock struct {
	epoch int64
	n     int
	idle  int // breakpoints at which nothing changes
	at    [shelfWidth]unit.Time
	node  [shelfWidth]uint8
	by    [unit.Dims][shelfWidth]int64 // how much more is in use from there on
	base  [unit.Dims][ShelfNodes]int64 // in use before its breakpoints, by node
}

// NewShelf returns the usage of that many idle nodes, at most ShelfNodes, of which these dimensions can be short. None
// of them is [unit.Unlimited].
func NewShelf(nodes int, capacity unit.Vector, dims []unit.Dim) *Shelf {
	s := &Shelf{nodes: nodes, capacity: capacity, dims: dims, lifted: [2]unit.Time{unit.Never, 0}}
	s.Reset()
	return s
}

// Reset makes all nodes idle again, and keeps the memory.
func (s *Shelf) Reset() {
	s.unused = append(s.unused, s.blocks...)
	s.begin, s.near, s.firsts, s.blocks = 0, 0, append(s.firsts[:0], 0), s.blocks[:0]
	s.full = append(s.full[:0], full{})
	s.turn()
	first := s.take()
	for _, d := range s.dims {
		clear(first.base[d][:])
	}
	s.blocks = append(s.blocks, first)
}

// Add takes need more on a node during [start, end); end may be [unit.Never]. A stay that ends before Prune's instant
// changes nothing.
func (s *Shelf) Add(node int, start, end unit.Time, need *unit.Vector) {
	first, last := s.add(node, start, end, need, 1)
	s.raise(first, last, node, need, 1)
}

// Remove undoes an Add of the same arguments, in any order and after any Prune in between.
func (s *Shelf) Remove(node int, start, end unit.Time, need *unit.Vector) {
	s.turn()
	first, last := s.add(node, start, end, need, -1)
	s.raise(first, last, node, need, -1)
}

// Lift is Remove where many follow each other: nothing may be asked before Land.
func (s *Shelf) Lift(node int, start, end unit.Time, need *unit.Vector) {
	s.add(node, start, end, need, -1)
	s.lifted[0], s.lifted[1] = min(s.lifted[0], start), max(s.lifted[1], end)
}

// Land ends a series of Lifts. It joins blocks with few breakpoints left.
func (s *Shelf) Land() {
	s.turn()
	k := s.block(max(s.lifted[0], s.begin))
	b := s.own(k)
	s.tidy(b)
	next := k + 1
	for ; next < len(s.blocks) && s.firsts[next] <= s.lifted[1]; next++ {
		other := s.own(next)
		s.tidy(other)
		if b.n+other.n <= shelfWidth/2 {
			copy(b.at[b.n:], other.at[:other.n])
			copy(b.node[b.n:], other.node[:other.n])
			for _, d := range s.dims {
				copy(b.by[d][b.n:], other.by[d][:other.n])
			}
			b.n += other.n
			s.unused = append(s.unused, other)
			continue
		}
		for _, d := range s.dims {
			other.base[d] = b.base[d]
			for i, n := range b.node[:b.n] {
				other.base[d][n%ShelfNodes] += b.by[d][i]
			}
		}
		k++
		s.firsts[k], s.blocks[k] = s.firsts[next], other
		b = other
	}
	s.firsts, s.blocks = slices.Delete(s.firsts, k+1, next), slices.Delete(s.blocks, k+1, next)
	s.full, s.near = s.full[:len(s.blocks)], 0
	s.lifted = [2]unit.Time{unit.Never, 0}
}

// turn says that less may be in use from now on.
func (s *Shelf) turn() {
	s.states++
	s.state = s.states
}

// add makes the breakpoints, and returns in which blocks they are.
func (s *Shelf) add(node int, start, end unit.Time, need *unit.Vector, times int64) (first, last int) {
	if start = max(start, s.begin); start >= end {
		return 0, 0
	}
	k := s.roomy(start, s.block(start))
	last = len(s.blocks) - 1
	if end < unit.Never {
		for last = k; last+1 < len(s.blocks) && s.firsts[last+1] <= end; last++ {
		}
		last = s.roomy(end, last)
		if k+1 < len(s.blocks) && s.firsts[k+1] <= start { // they were in one block
			k++
		}
		s.put(last, node, end, need, -times)
	}
	s.put(k, node, start, need, times)
	return k, last
}

// raise says that a node has that many times need more in use where the blocks behind the first begin.
func (s *Shelf) raise(first, last, node int, need *unit.Vector, times int64) {
	for k := first + 1; k <= last; k++ {
		b := s.own(k)
		for _, d := range s.dims {
			b.base[d][node] += times * need[d]
		}
	}
}

// roomy sees to it that the block k of an instant has room for two breakpoints, and returns the block that the instant
// then is in.
func (s *Shelf) roomy(at unit.Time, k int) int {
	if s.blocks[k].n <= shelfWidth-2 {
		return k
	}
	b := s.own(k)
	if s.tidy(b); b.n <= shelfWidth*3/4 {
		return k
	}
	if s.split(k); at >= s.firsts[k+1] {
		k++
	}
	return k
}

// put makes an instant a breakpoint of a node from which on that many times need more are in use, as far as its block
// reaches.
func (s *Shelf) put(k, node int, at unit.Time, need *unit.Vector, times int64) {
	b := s.own(k)
	i := b.before(at)
	for i < b.n && b.at[i] == at && b.node[i] != uint8(node) {
		i++
	}
	if i == b.n || b.at[i] != at {
		copy(b.at[i+1:b.n+1], b.at[i:b.n])
		copy(b.node[i+1:b.n+1], b.node[i:b.n])
		b.at[i], b.node[i] = at, uint8(node)
		for _, d := range s.dims {
			by := &b.by[d]
			copy(by[i+1:b.n+1], by[i:b.n])
			by[i] = 0
		}
		b.n++
		b.idle++
	}
	if s.changes(b, i) {
		b.idle++
	}
	for _, d := range s.dims {
		b.by[d][i] += times * need[d]
	}
	if s.changes(b, i) {
		b.idle--
	}
}

// changes reports whether anything changes at a breakpoint.
func (s *Shelf) changes(b *shelfBlock, i int) bool {
	for _, d := range s.dims {
		if b.by[d][i] != 0 {
			return true
		}
	}
	return false
}

// split moves the upper half of a block to a new one. There are more breakpoints than nodes, so that it can be split
// between instants.
func (s *Shelf) split(k int) {
	low, high := s.own(k), s.take()
	half := low.n / 2
	for half < low.n && low.at[half] == low.at[half-1] {
		half++
	}
	if half == low.n {
		half = low.before(low.at[low.n-1])
	}
	high.n = copy(high.at[:], low.at[half:low.n])
	copy(high.node[:], low.node[half:low.n])
	low.n = half
	for _, d := range s.dims {
		copy(high.by[d][:], low.by[d][half:half+high.n])
		high.base[d] = low.base[d]
		for i, node := range low.node[:half] {
			high.base[d][node] += low.by[d][i]
		}
	}
	s.firsts = append(s.firsts, 0)
	copy(s.firsts[k+2:], s.firsts[k+1:])
	s.blocks = append(s.blocks, nil)
	copy(s.blocks[k+2:], s.blocks[k+1:])
	s.full = append(s.full, full{})
	copy(s.full[k+2:], s.full[k+1:])
	s.firsts[k+1], s.blocks[k+1], s.full[k+1] = high.at[0], high, s.full[k]
}

// Save remembers the state, for Restore or Forget. Only one is remembered.
func (s *Shelf) Save() {
	s.saving = true
	s.epoch++
	s.saved = shelfState{s.begin, append(s.saved.firsts[:0], s.firsts...), append(s.saved.blocks[:0], s.blocks...)}
}

// Restore brings back the saved state.
func (s *Shelf) Restore() {
	for _, b := range s.blocks {
		if b.epoch == s.epoch {
			s.unused = append(s.unused, b)
		}
	}
	s.begin, s.near, s.saving, s.replaced = s.saved.begin, 0, false, s.replaced[:0]
	s.firsts, s.saved.firsts = s.saved.firsts, s.firsts
	s.blocks, s.saved.blocks = s.saved.blocks, s.blocks
	s.full = append(s.full[:0], make([]full, len(s.blocks))...)
	s.turn()
}

// Forget gives the saved state up.
func (s *Shelf) Forget() {
	s.unused = append(s.unused, s.replaced...)
	s.saving, s.replaced = false, s.replaced[:0]
}

// own returns a block to be changed.
func (s *Shelf) own(k int) *shelfBlock {
	b := s.blocks[k]
	if !s.saving || b.epoch == s.epoch {
		return b
	}
	mine := s.take()
	mine.n, mine.idle = b.n, b.idle
	copy(mine.at[:b.n], b.at[:b.n])
	copy(mine.node[:b.n], b.node[:b.n])
	for _, d := range s.dims {
		copy(mine.by[d][:b.n], b.by[d][:b.n])
		mine.base[d] = b.base[d]
	}
	s.blocks[k] = mine
	s.replaced = append(s.replaced, b)
	return mine
}

// Prune forgets the past: before that instant nothing counts as used, and Add and Remove leave it alone.
func (s *Shelf) Prune(before unit.Time) {
	if before <= s.begin {
		return
	}
	s.begin = before
	k := s.block(before)
	if k == 0 {
		return
	}
	for _, b := range s.blocks[:k] {
		if s.saving && b.epoch != s.epoch {
			s.replaced = append(s.replaced, b)
		} else {
			s.unused = append(s.unused, b)
		}
	}
	s.firsts, s.blocks, s.near = append(s.firsts[:0], s.firsts[k:]...), append(s.blocks[:0], s.blocks[k:]...), 0
	s.full = append(s.full[:0], s.full[k:]...)
}

// Used returns the usage of a node at an instant.
func (s *Shelf) Used(node int, at unit.Time) (used unit.Vector) {
	if at < s.begin {
		return used
	}
	b := s.blocks[s.block(at)]
	for _, d := range s.dims {
		used[d] = b.base[d][node]
		for i, n := range b.node[:b.before(at+1)] {
			if int(n) == node {
				used[d] += b.by[d][i]
			}
		}
	}
	return used
}

// Fits reports whether need fits on a node all over [start, end).
func (s *Shelf) Fits(node int, start, end unit.Time, need *unit.Vector) bool {
	start = max(start, s.begin)
	if start >= end {
		return true
	}
	used := s.Used(node, start)
	k := s.block(start)
	for i := s.blocks[k].before(start + 1); ; i = 0 {
		b := s.blocks[k]
		for ; ; i++ {
			for _, d := range s.dims {
				if need[d] > 0 && used[d] > s.capacity[d]-need[d] {
					return false
				}
			}
			for i < b.n && b.node[i] != uint8(node) {
				i++
			}
			if i == b.n || b.at[i] >= end {
				break
			}
			for _, d := range s.dims {
				used[d] += b.by[d][i]
			}
		}
		if k++; k == len(s.blocks) || s.firsts[k] >= end {
			return true
		}
	}
}

// end returns until when a block is.
func (s *Shelf) end(k int) unit.Time {
	if k+1 == len(s.firsts) {
		return unit.Never
	}
	return s.firsts[k+1]
}

// block returns the block that an instant is in.
func (s *Shelf) block(at unit.Time) int {
	lo, hi := 0, len(s.firsts)
	if k := s.near; s.firsts[k] <= at {
		lo = k
		if k+1 < hi && at < s.firsts[k+1] {
			return k
		}
	} else {
		hi = k
	}
	for lo+1 < hi {
		if mid := (lo + hi) / 2; s.firsts[mid] <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	s.near = lo
	return lo
}

// before returns how many breakpoints there are before an instant, without a branch on their instants.
func (b *shelfBlock) before(at unit.Time) int {
	i := 0
	for n := b.n; n > 0; {
		half := (n + 1) / 2
		i += half & int((b.at[(i+half-1)%shelfWidth]-at)>>63)
		n -= half
	}
	return i
}

// tidy drops the breakpoints at which nothing changes.
func (s *Shelf) tidy(b *shelfBlock) {
	n := 0
	for i := range b.n {
		if s.changes(b, i) {
			b.at[n], b.node[n] = b.at[i], b.node[i]
			for _, d := range s.dims {
				b.by[d][n] = b.by[d][i]
			}
			n++
		}
	}
	b.n, b.idle = n, 0
}

func (s *Shelf) take() *shelfBlock {
	if n := len(s.unused); n > 0 {
		b := s.unused[n-1]
		s.unused = s.unused[:n-1]
		b.n, b.idle, b.epoch = 0, 0, s.epoch
		return b
	}
	return &shelfBlock{epoch: s.epoch}
}
