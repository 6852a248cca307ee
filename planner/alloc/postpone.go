package alloc

import (
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// BusyFinishesFirst is the postponement rule of Online Workflow Management (Hsu, Huang and Wang 2011, as Ilyushkin and
// Epema, CCGrid 2018, section III-E, give it): where all nodes with room for the task have one speed, the task waits if
// it is estimated to finish earlier on the busy node that becomes idle first (the fastest, then the lowest id among
// equals). On nodes of several tasks, busy is a node without room, and idle one with room for this task.
type BusyFinishesFirst struct {
	// Waiters is how many tasks may wait for one busy node in a round; 0: any number.
	Waiters int
	// Ignore lets nobody wait for a task that outlasts its estimate; without it such a task counts as ending now.
	Ignore  bool
	waiting map[planner.NodeID]int
	full    bool // the chosen node has as many since it was chosen

	planned  room                         // by the ends that were planned
	starting map[planner.NodeID][]release // tasks that are about to start, by node
	// The busy node that becomes idle first is the same for all tasks of one need, until one starts.
	now   planner.Time
	round int64
	due   int
	need  unit.Vector
	busy  planner.NodeID
	from  planner.Time
}

type release struct {
	at   planner.Time
	hold unit.Vector
}

// waits reports whether t, for which a node is idle, is estimated to finish earlier on the busy node.
func (b *BusyFinishesFirst) waits(c *planner.Cycle, t *planner.Task, idle planner.NodeID) bool {
	nodes := c.Nodes()
	speed := nodes[idle].Speed
	alike := c.BySpeed(t) && !c.Copies(t) // nodes of one speed are
	if slowest(c, t) != speed || alike && speed >= c.Draft.TopSpeed() {
		return false // speeds differ, or no node is faster
	}
	busy, from := b.first(c, t.Need)
	if busy == planner.None {
		return false
	}
	if alike {
		run := func(n planner.NodeID) time.Duration { return max(c.Est.Run(t, &nodes[n]).Run, 1) }
		return from.Add(run(busy)) < c.Now().Add(run(idle))
	}
	there, ok := c.Site(t.ID, busy)
	here, ok2 := c.Site(t.ID, idle)
	return ok && ok2 && max(there.From, from).Add(there.Dur) < here.From.Add(here.Dur)
}

// first returns the node without room for need that is estimated to have it first, and when; None if all have room.
func (b *BusyFinishesFirst) first(c *planner.Cycle, need unit.Vector) (planner.NodeID, planner.Time) {
	again := b.starting != nil && b.now == c.Now() && b.round == c.Round()
	if again && b.need == need && !b.full && b.due == c.Draft.Dues() {
		return b.busy, b.from
	}
	if b.starting == nil {
		b.starting, b.waiting = map[planner.NodeID][]release{}, map[planner.NodeID]int{}
	}
	if !again {
		clear(b.waiting)
	}
	b.now, b.round, b.need, b.due, b.full = c.Now(), c.Round(), need, c.Draft.Dues(), false
	clear(b.starting)
	for seg := range c.Draft.Due() {
		b.starting[seg.Node] = append(b.starting[seg.Node], release{seg.End, seg.Hold})
	}
	b.busy, b.from = planner.None, unit.Never
	for n := range c.NodeCount() {
		soonest := unit.Never // no room before
		for _, a := range c.Active(n) {
			soonest = min(soonest, b.end(c, a))
		}
		b.consider(c, n, soonest)
	}
	for seg := range c.Draft.Due() { // tasks that are about to start make nodes busy
		b.consider(c, seg.Node, c.Now())
	}
	return b.busy, b.from
}

// wait says that a task waits for the chosen node.
func (b *BusyFinishesFirst) wait() {
	b.waiting[b.busy]++
	b.full = b.waiting[b.busy] == b.Waiters
}

// consider takes node n if it is without room and has it earlier than the present choice, or as early and is faster, or
// no slower and of a lower id.
func (b *BusyFinishesFirst) consider(c *planner.Cycle, n planner.NodeID, soonest planner.Time) {
	better := func(at planner.Time) bool {
		if at != b.from || b.busy == planner.None {
			return at < b.from
		}
		speed, other := c.Nodes()[n].Speed, c.Nodes()[b.busy].Speed
		return speed > other || speed == other && n < b.busy
	}
	if b.Waiters > 0 && b.waiting[n] >= b.Waiters {
		return
	}
	if !better(soonest) || !b.need.Fits(c.Capacity(n)) || b.need.Fits(c.Draft.Free(n)) {
		return
	}
	if at := b.room(c, n, b.need); better(at) {
		b.busy, b.from = n, at
	}
}

// end returns when an attempt is estimated to end: when it was planned to, or, if that is past, now or never.
func (b *BusyFinishesFirst) end(c *planner.Cycle, a planner.AttemptID) planner.Time {
	until := c.Attempt(a).Until
	if b.Ignore && until < c.Now() {
		return unit.Never
	}
	return max(until, c.Now())
}

// room returns when n is estimated to have room for need, as its tasks end.
func (b *BusyFinishesFirst) room(c *planner.Cycle, n planner.NodeID, need unit.Vector) planner.Time {
	r := &b.planned
	r.ends = r.ends[:0]
	for _, a := range c.Active(n) {
		r.ends = append(r.ends, release{b.end(c, a), c.Attempt(a).Hold})
	}
	r.ends = append(r.ends, b.starting[n]...)
	slices.SortFunc(r.ends, byEnd)
	return r.freed(c.Draft.Free(n), need)
}
