package alloc

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// EarliestFinish places every task of the queue, in its order, where it finishes first, in the earliest gap that is
// long enough (insertion-based policy of HEFT, Topcuoglu et al. 2002, section 4.2; ties go to the lower node). A task
// whose parent has no place waits until that has ended.
//
// Known gaps rule out most nodes: a gap too short for one run stays too short for all runs that last as long, since
// reservations only fill gaps while a plan is made.
type EarliestFinish struct {
	speeds []int32          // by node: index of its speed
	speed  []planner.NodeID // by speed: a node
	runs   []time.Duration  // by speed: of the present task
	class  []int            // by speed: that of the run
	lower  []planner.Time   // by node: no earlier finish is possible
	gaps   []gaps
}

// gaps has the known gaps for one need.
type gaps struct {
	need unit.Vector
	fits []bool         // by node: it can ever hold the need
	free []planner.Time // by node: from here on it has room for ever
	used []int          // classes of durations asked for so far
	at   [][]gap        // by class and node; nil until it is used
}

// gap is an instant on a node before which there is no gap for the need and the shortest duration of a class.
type gap struct {
	from  planner.Time
	exact bool // there is one at that instant
}

// maxNeeds limits how many needs gaps are kept for: loads in which every task needs something else do without.
const maxNeeds = 8

// classOf puts durations into classes of a quarter of an octave.
func classOf(d time.Duration) int {
	k := bits.Len64(uint64(d)) - 1
	if k < 2 {
		return int(d)
	}
	return 4*k + int(d>>(k-2))&3
}

// shortestOf returns the shortest duration of a class.
func shortestOf(class int) time.Duration {
	if class < 8 {
		return time.Duration(class)
	}
	return time.Duration(4+class&3) << (class/4 - 2)
}

const classes = 4 * 64

// Allocate implements planner.Allocator.
func (e *EarliestFinish) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	e.begin(c)
	for i := 0; ; i++ {
		if i&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		best, fits := e.place(c, c.Task(t))
		switch {
		case best.Node != planner.None:
			if err := c.Draft.Keep(best); err != nil {
				return err
			}
			for i := range e.gaps {
				e.gaps[i].fill(c, &best)
			}
			q.Take(c, t)
		case fits: // a parent has no place: it comes back when it is eligible
			q.Take(c, t)
		default:
			q.Defer(c, t)
		}
	}
}

func (e *EarliestFinish) begin(c *planner.Cycle) {
	e.gaps = e.gaps[:0]
	if e.speeds != nil {
		return
	}
	nodes := c.Nodes()
	e.speeds, e.lower = make([]int32, len(nodes)), make([]planner.Time, len(nodes))
	for i := range nodes {
		k := slices.IndexFunc(e.speed, func(n planner.NodeID) bool { return nodes[n].Speed == nodes[i].Speed })
		if k < 0 {
			k = len(e.speed)
			e.speed = append(e.speed, nodes[i].ID)
		}
		e.speeds[i] = int32(k)
	}
	e.runs, e.class = make([]time.Duration, len(e.speed)), make([]int, len(e.speed))
}

// place returns where t finishes first, on no node if it has to wait, and whether any node can ever hold it.
func (e *EarliestFinish) place(c *planner.Cycle, t *planner.Task) (best planner.Segment, fits bool) {
	best = planner.Segment{Node: planner.None, End: unit.Never}
	from, placed := c.From(t)
	alike := !c.Copies(t) && c.BySpeed(t)
	if placed && alike {
		if g := e.known(c, t.Need); g != nil {
			for k, n := range e.speed {
				e.runs[k] = max(1, c.Est.Run(t, &c.Nodes()[n]).Run)
				e.class[k] = classOf(e.runs[k])
				g.use(e.class[k])
			}
			fits = e.placeAlike(c, t, g, from, &best)
			return best, fits
		}
	}
	for node := range c.NodeCount() {
		if !t.Need.Fits(c.Capacity(node)) {
			continue
		}
		fits = true
		site, ok := c.Site(t.ID, node)
		if !ok || best.Node != planner.None && site.From.Add(site.Dur) >= best.End {
			continue
		}
		start, ok := c.Draft.Earliest(node, site.More, site.Dur, site.From)
		if seg := segment(t.ID, site, start); ok && (best.Node == planner.None || seg.End < best.End) {
			best = seg
		}
	}
	return best, fits
}

// placeAlike does that for a task that becomes eligible at the same instant on all nodes and whose run depends on their
// speed alone.
func (e *EarliestFinish) placeAlike(c *planner.Cycle, t *planner.Task, g *gaps, from planner.Time,
	best *planner.Segment) (fits bool) {
	first, least := planner.NodeID(planner.None), unit.Never
	for n := range e.lower {
		if !g.fits[n] {
			e.lower[n] = unit.Never
			continue
		}
		fits = true
		k := e.speeds[n]
		e.lower[n] = max(from, g.at[e.class[k]][n].from).Add(e.runs[k])
		if e.lower[n] < least {
			first, least = planner.NodeID(n), e.lower[n]
		}
	}
	if first == planner.None {
		return fits
	}
	e.try(c, t, g, first, from, best)
	if best.Node == first && best.End == least {
		return fits // no node has an earlier one, nor a lower node the same
	}
	for n, lower := range e.lower {
		if lower > best.End || lower == unit.Never {
			continue
		}
		if node := planner.NodeID(n); node != first && (lower < best.End || node < best.Node) {
			e.try(c, t, g, node, from, best)
		}
	}
	return fits
}

// try takes node n if t finishes there earlier than at best, or as early and n is lower.
func (e *EarliestFinish) try(c *planner.Cycle, t *planner.Task, g *gaps, n planner.NodeID, from planner.Time,
	best *planner.Segment) {
	k := e.speeds[n]
	run := e.runs[k]
	better := func(end planner.Time) bool {
		return best.Node == planner.None || end < best.End || end == best.End && n < best.Node
	}
	at := &g.at[e.class[k]][n]
	if !at.exact {
		start, ok := c.Draft.Earliest(n, t.Need, shortestOf(e.class[k]), at.from)
		if !ok {
			start = unit.Never
		}
		*at = gap{start, true}
	}
	start := max(from, at.from)
	if !better(start.Add(run)) {
		return
	}
	if start < g.free[n] {
		var ok bool
		if start, ok = c.Draft.Earliest(n, t.Need, run, start); !ok {
			return
		}
	}
	if end := start.Add(run); better(end) {
		*best = planner.Segment{Task: t.ID, Node: n, Hold: t.Need, Start: start, End: end}
	}
}

// known returns the gaps for need; nil if they are not kept.
func (e *EarliestFinish) known(c *planner.Cycle, need unit.Vector) *gaps {
	for i := range e.gaps {
		if e.gaps[i].need == need {
			return &e.gaps[i]
		}
	}
	n := len(e.gaps)
	if n == maxNeeds {
		return nil
	}
	if n < cap(e.gaps) { // memory of an earlier round
		e.gaps = e.gaps[:n+1]
	} else {
		e.gaps = append(e.gaps, gaps{})
	}
	g := &e.gaps[n]
	if g.at == nil {
		g.fits, g.free, g.at = make([]bool, len(e.lower)), make([]planner.Time, len(e.lower)), make([][]gap, classes)
	}
	for _, k := range g.used {
		clear(g.at[k])
	}
	g.need, g.used = need, g.used[:0]
	for n := range g.fits {
		g.free[n], g.fits[n] = unit.Never, need.Fits(c.Capacity(planner.NodeID(n)))
		const long = 1 << 62
		if at, ok := c.Draft.Earliest(planner.NodeID(n), need, long, c.Now()); ok {
			g.free[n] = at
		}
	}
	return g
}

// use prepares a class.
func (g *gaps) use(class int) {
	if g.at[class] == nil {
		g.at[class] = make([]gap, len(g.fits))
	}
	if !slices.Contains(g.used, class) {
		g.used = append(g.used, class)
	}
}

// fill takes in a reservation.
func (g *gaps) fill(c *planner.Cycle, seg *planner.Segment) {
	n := seg.Node
	tail := seg.End >= g.free[n]
	if tail {
		g.free[n] = seg.End
	}
	alone := !g.need.Add(seg.Hold).Fits(c.Capacity(n))
	for _, k := range g.used {
		at := &g.at[k][n]
		if !at.exact || at.from >= seg.End || at.from.Add(shortestOf(k)) <= seg.Start {
			continue
		}
		at.exact = false
		if alone { // the rest of the gap before the reservation is too short
			*at = gap{seg.End, tail}
		}
	}
}
